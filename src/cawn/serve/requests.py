"""Bodies of requests: JSON -> checked columns. Errors are a `Problem` that names the field."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

from pydantic_core import from_json

from cawn.data.names import Name
from cawn.errors import brief
from cawn.learn.calibration import FITTED_PRIOR
from cawn.serve.links import Attributes, Links
from cawn.serve.problems import Problem
from cawn.walks.candidates import KINDS

Time = int | float | str

MAX_NAME = 1_000  # characters of a node name or link id
MAX_TIME = 64  # characters of a date
MAX_PAIRS = 10_000  # in one request
MAX_LINKS = 100_000
MAX_CANDIDATES = 10_000
MAX_RANKED = 1_000

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_LINK_FIELDS = {"src", "dst", "t", "id", "attributes"}
_LINK_COLUMNS = {"src", "dst", "t", "ids", "attributes"}
_PAIR_FIELDS = {"src", "dst", "t"}


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs to score: columns of one length. Without `t`: at the time just after the newest link."""

    src: list[Name]
    dst: list[Name]
    t: list[Time] | None
    prior: float = FITTED_PRIOR

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True, slots=True)
class RankQuery:
    src: Name
    t: Time | None
    k: int
    candidates: list[Name] | str | None
    kinds: tuple[str, ...]
    prior: float


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    src: Name
    dst: Name
    t: Time | None
    prior: float


def parse_json(body: bytes) -> Any:
    """The value of a JSON text; 400 for anything else, 422 for numbers that JSON does not have."""
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        return _parse_slowly(body)


def _parse_slowly(body: bytes) -> Any:
    """Python's own parser, which accepts lone surrogates and describes any other error."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise Problem("malformed", "the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Problem("malformed", f"the body is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise Problem("malformed", "the body is not JSON: it is not encoded as UTF-8") from None
    except ValueError:  # an integer of thousands of digits
        raise Problem("invalid", "the body has a number that is too long; integers are of 64 bits") from None


def _refuse_constant(name: str) -> NoReturn:
    raise Problem("invalid", f"the body has {name}: every number must be finite")


def parse_links(body: Any) -> Links:
    """The links of a request: a list of objects, columns, or one link."""
    if isinstance(body, dict) and "links" in body:
        _check_fields(body, {"links"}, "the body")
        return _links_of_rows(_rows(body["links"], "links", _LINK_FIELDS, ("src", "dst", "t"), MAX_LINKS), "links")
    if isinstance(body, dict) and not isinstance(body.get("src"), list):
        return _links_of_rows(_rows([body], "the body", _LINK_FIELDS, ("src", "dst", "t"), MAX_LINKS), "the body")
    given = _check_fields(body, _LINK_COLUMNS, "the body", ("src", "dst", "t"))
    columns = {
        name: _list(column, name, MAX_LINKS)
        for name, column in given.items()
        if column is not None or name in ("src", "dst", "t")
    }
    _check_lengths(columns)
    _check_names(columns["src"], "src")
    _check_names(columns["dst"], "dst")
    _check_times(columns["t"], "t")
    ids = _ids(columns["ids"], "ids") if "ids" in columns else None
    attributes = _attributes(columns["attributes"], "attributes") if "attributes" in columns else None
    return Links(columns["src"], columns["dst"], columns["t"], attributes, ids)


def _links_of_rows(rows: list[dict[str, Any]], what: str) -> Links:
    src, dst, t = ([row[name] for row in rows] for name in ("src", "dst", "t"))
    _check_names(src, what, ".src")
    _check_names(dst, what, ".dst")
    _check_times(t, what, ".t")
    ids = [row.get("id") for row in rows]
    attributes = _optional(rows, "attributes", what)
    return Links(
        src,
        dst,
        t,
        None if attributes is None else _attributes(attributes, what, ".attributes"),
        _ids(ids, what, ".id"),
    )


def parse_pairs(body: Any) -> Pairs:
    """The pairs of a request: a list of objects, or columns, of which a single value is used for all pairs."""
    if isinstance(body, dict) and "pairs" in body:
        given = _check_fields(body, {"pairs", "prior"}, "the body")
        rows = _rows(given["pairs"], "pairs", _PAIR_FIELDS, ("src", "dst"), MAX_PAIRS)
        src, dst, t = [row["src"] for row in rows], [row["dst"] for row in rows], _optional(rows, "t", "pairs")
        names = ("pairs", ".src"), ("pairs", ".dst"), ("pairs", ".t")
    else:
        given = _check_fields(body, _PAIR_FIELDS | {"prior"}, "the body", ("src", "dst"))
        src, dst, t = _broadcast({name: given[name] for name in ("src", "dst", "t") if given.get(name) is not None})
        names = ("src", ""), ("dst", ""), ("t", "")
    _check_names(src, *names[0])
    _check_names(dst, *names[1])
    if t is not None:
        _check_times(t, *names[2])
    return Pairs(src, dst, t, _prior(given))


def _broadcast(given: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any] | None]:
    """Columns of one length."""
    columns = {name: _list(value, name, MAX_PAIRS) for name, value in given.items() if isinstance(value, list)}
    size = _check_lengths(columns) if columns else 1
    columns |= {name: [value] * size for name, value in given.items() if name not in columns}
    if not {"src", "dst"} <= columns.keys():
        _refuse("the body: src and dst must not be null")
    return columns["src"], columns["dst"], columns.get("t")


def parse_rank(body: Any) -> RankQuery:
    given = _check_fields(body, {"src", "t", "k", "candidates", "kinds", "prior"}, "the body", ("src",))
    k = given.get("k", 10)
    if type(k) is not int or not 1 <= k <= MAX_RANKED:
        _refuse(f"k is {brief(k)}: give an integer from 1 to {MAX_RANKED:,}")
    return RankQuery(
        _name(given["src"], "src"),
        _time(given.get("t")),
        k,
        _candidates(given.get("candidates")),
        _kinds(given.get("kinds")),
        _prior(given),
    )


def _candidates(given: Any) -> list[Name] | str | None:
    if given is None or (isinstance(given, str) and given == "all"):
        return given
    if not isinstance(given, list):
        _refuse(f'candidates is {brief(given)}: give a list of names, or "all"')
    if not given:
        _refuse("candidates is empty: give some names, or leave it out")
    _check_names(_list(given, "candidates", MAX_CANDIDATES), "candidates")
    return given


def _kinds(given: Any) -> tuple[str, ...]:
    if given is None:
        return KINDS
    if not isinstance(given, list) or not given or any(kind not in KINDS for kind in given if isinstance(kind, str)):
        _refuse(f"kinds is {brief(given)}: give a list of some of {', '.join(KINDS)}")
    if not all(isinstance(kind, str) for kind in given):
        _refuse(f"kinds is {brief(given)}: give a list of some of {', '.join(KINDS)}")
    return tuple(given)


def parse_explain(body: Any) -> ExplainQuery:
    given = _check_fields(body, {"src", "dst", "t", "prior"}, "the body", ("src", "dst"))
    return ExplainQuery(_name(given["src"], "src"), _name(given["dst"], "dst"), _time(given.get("t")), _prior(given))


def check_name(name: str) -> None:
    """Refuse a name that is too long."""
    _name(name, "name")


# Fields.


def _check_fields(body: Any, allowed: Collection[str], what: str, required: Iterable[str] = ()) -> dict[str, Any]:
    if not isinstance(body, dict):
        _refuse(f"{what} is {brief(body)}: give an object with {', '.join(sorted(allowed))}")
    for name in body:
        if name not in allowed:
            _refuse(f"{what} has the unknown field {brief(name)}; known fields: {', '.join(sorted(allowed))}")
    for name in required:
        if name not in body:
            _refuse(f"{what} has no {name}")
    return body


def _rows(given: Any, what: str, allowed: set[str], required: tuple[str, ...], most: int) -> list[dict[str, Any]]:
    """A list of objects with these fields."""
    rows = _list(given, what, most)
    kinds = set(map(type, rows))
    known = kinds <= {dict} and allowed.issuperset(chain.from_iterable(rows))
    if known and all(name in row for row in rows for name in required):
        return rows
    for i, row in enumerate(rows):
        _check_fields(row, allowed, f"{what}[{i}]" if rows is given and what != "the body" else what, required)
    return rows


def _list(given: Any, what: str, most: int) -> list[Any]:
    if not isinstance(given, list):
        _refuse(f"{what} is {brief(given)}: give a list")
    if len(given) > most:
        _refuse(f"{what} has {len(given):,} entries: send at most {most:,} in one request")
    return given


def _check_lengths(columns: dict[str, list[Any]]) -> int:
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        _refuse(f"{', '.join(f'{size:,} {name}' for name, size in sizes.items())}: columns must have one length")
    return next(iter(sizes.values()))


def _optional(rows: list[dict[str, Any]], name: str, what: str) -> list[Any] | None:
    """A column that all rows have, or none."""
    values = [row.get(name) for row in rows]
    missing = values.count(None)
    if missing == len(values):
        return None
    if missing:
        _refuse(f"{what}[{values.index(None)}] has no {name}, but others have; give it for all or for none")
    return values


# Values.


def _check_names(values: list[Any], what: str, field: str = "") -> None:
    if set(map(type, values)) == {str} and max(map(len, values)) <= MAX_NAME:
        return
    for i, value in enumerate(values):
        if type(value) not in (int, str):
            _refuse(f"{_where(what, i, field)} is {brief(value)}: names are integers or strings")
        _check_size(value, _where(what, i, field))


def _name(value: Any, what: str) -> Name:
    if type(value) not in (int, str):
        _refuse(f"{what} is {brief(value)}: a name is an integer or a string")
    _check_size(value, what)
    return value  # type: ignore[no-any-return]


def _check_size(value: int | str, where: str) -> None:
    if isinstance(value, str):
        if len(value) > MAX_NAME:
            _refuse(f"{where} has {len(value):,} characters: names have at most {MAX_NAME:,}")
    elif not _LOWEST <= value <= _HIGHEST:
        _refuse(f"{where} is {brief(value)}: integers are of 64 bits; give a string")


def _ids(values: list[Any], what: str, field: str = "") -> list[str | int | None] | None:
    """Ids of links; some may be missing."""
    if values.count(None) == len(values):
        return None
    for i, value in enumerate(values):
        if value is not None and type(value) not in (int, str):
            _refuse(f"{_where(what, i, field)} is {brief(value)}: ids are integers or strings")
        if value is not None:
            _check_size(value, _where(what, i, field))
    return values


def _check_times(values: list[Any], what: str, field: str = "") -> None:
    if set(map(type, values)) == {float} and -math.inf < min(values) and max(values) < math.inf:
        return
    for i, value in enumerate(values):
        if not _is_time(value):
            _refuse_time(value, _where(what, i, field))


def _is_time(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(_LOWEST <= value <= _HIGHEST)
    return math.isfinite(value) if kind is float else kind is str and len(value) <= MAX_TIME


def _refuse_time(value: Any, where: str) -> NoReturn:
    _refuse(f"{where} is {brief(value)}: give a finite number in the data's unit, or an ISO date such as 2016-01-23")


def _time(value: Any) -> Time | None:
    if value is not None and not _is_time(value):
        _refuse_time(value, "t")
    return value  # type: ignore[no-any-return]


def _prior(given: dict[str, Any]) -> float:
    prior = given.get("prior", FITTED_PRIOR)
    if type(prior) not in (int, float) or not 0 < prior < 1:
        _refuse(f"prior is {brief(prior)}: give a number between 0 and 1")
    return float(prior)


def _attributes(rows: list[Any], what: str, field: str = "") -> list[Attributes]:
    """One list of numbers or strings for each link, all of one length."""
    for i, row in enumerate(rows):
        where = _where(what, i, field)
        if not isinstance(row, list) or len(row) != len(rows[0]):
            _refuse(f"{where} is {brief(row)}: give a list of values, as many for each link")
        for value in row:
            if not _is_time(value):
                _refuse(f"{where} has {brief(value)}: attributes are finite numbers or short strings")
    return rows


def _where(what: str, i: int, field: str) -> str:
    return f"{what}{field}" if what == "the body" else f"{what}[{i}]{field}"


def _refuse(detail: str) -> NoReturn:
    raise Problem("invalid", detail)
