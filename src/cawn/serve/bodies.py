"""Bodies of requests: read within limits, and parsed and checked in one pass, large ones in another thread (H13)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, NoReturn

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from cawn.errors import brief
from cawn.serve.problems import Problem
from cawn.serve.requests import Body

MAX_BODY = 8 << 20  # bytes
MAX_IN_TRANSIT = 64 << 20  # bytes of all bodies that are arriving or being parsed
LARGE = 64 << 10
BODY_SECONDS = 30.0  # for a body to arrive
COMPLETE = "cawn.complete"  # in the scope of a request all of which has arrived

in_thread = partial(to_thread.run_sync, limiter=CapacityLimiter(2))  # calls what takes long


class Bodies:
    """Reads the bodies of concurrent requests."""

    def __init__(self, most: int = MAX_BODY, in_transit: int = MAX_IN_TRANSIT) -> None:
        self._most, self._room, self._in_transit = most, max(in_transit, most), 0

    async def read(self, request: Request, forms: Sequence[type[Body]]) -> Any:
        """What the body asks; its type, size and content are checked (400, 408, 413, 415, 422, 429)."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Problem("media-type", "send the body as JSON, with the header 'Content-Type: application/json'")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem("media-type", "send the body without compression")
        length = request.headers.get("content-length", "")
        self._check_size(int(length[:20]) if length.isascii() and length.isdigit() else 0)
        body = bytearray()
        try:
            async with asyncio.timeout(None if COMPLETE in request.scope else BODY_SECONDS):
                async for part in request.stream():
                    body += part
                    self._in_transit += len(part)
                    self._check_size(len(body))
            return parse(body, forms) if len(body) <= LARGE else await in_thread(parse, body, forms)
        except TimeoutError:
            raise Problem("timeout", f"the body did not arrive within {BODY_SECONDS:.0f} seconds") from None
        finally:
            self._in_transit -= len(body)

    def _check_size(self, size: int) -> None:
        close = {"Connection": "close"}  # the rest is not read
        if size > self._most:
            raise Problem("too-large", f"the body has more than {self._most:,} bytes; send it in parts", close)
        if size > LARGE and self._in_transit > self._room:
            found = f"bodies of {self._in_transit:,} bytes are being read"
            raise Problem("overloaded", f"{found}; send at most {LARGE:,} bytes, or try again later", close)


def parse(body: bytes | bytearray, forms: Sequence[type[Body]]) -> Any:
    """What a body of one of these forms asks; `Problem` for any other (400, 422)."""
    for form in forms:
        try:
            found = msgspec.json.decode(body, type=form)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return found.to_query()
    given = _parse_slowly(body)
    form = next((form for form in forms if _is_meant(form, given)), forms[-1])
    try:
        msgspec.json.decode(body, type=form)
    except msgspec.ValidationError as error:
        raise refusal(error, given, form) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("malformed", f"the body is not JSON in UTF-8: {error}") from None


def _is_meant(form: type[Body], given: Any) -> bool:
    name, kind = form.sign
    return isinstance(given, dict) and name in given and isinstance(given[name], kind)


def _parse_slowly(body: bytes | bytearray) -> Any:
    """Any JSON value; the errors say what is wrong with the text."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise Problem("malformed", "the body is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Problem("malformed", f"the body is not JSON: {error}") from None
    except ValueError:  # an integer of thousands of digits
        raise Problem("invalid", "the body has a number that is too long: integers have 64 bits") from None


def _refuse_constant(name: str) -> NoReturn:
    raise Problem("invalid", f"the body has {name}: every number must be finite")


def refusal(error: msgspec.ValidationError, given: Any, form: type[Body]) -> Problem:
    """What is wrong in `given` where it does not fit the form, and what to give."""
    what, _, path = f" {error}".rpartition(" - at `$")
    where, value, schemas = _at(given, path if what else "", form)
    what, fields = what or path, ", ".join(next((each["properties"] for each in schemas if "properties" in each), ()))
    if found := re.search("missing required field `(.*)`", what):
        return Problem("invalid", f"{where} has no {found[1]}")
    if found := re.search("unknown field `(.*)`", what, re.DOTALL):
        return Problem("invalid", f"{where} has the unknown field {brief(found[1])}; known fields: {fields}")
    if found := re.search(r"length (<=|>=) (\d+)", what):
        most = f"{'at most' if found[1] == '<=' else 'at least'} {int(found[2]):,}"
        return Problem("invalid", f"{where} has a length of {len(value):,}: give {most}")
    shown = json.dumps(value) if value is None or isinstance(value, bool) else brief(value)
    wanted = {"Expected `array`": "give a list", "Expected `object`": f"give an object with {fields}"}
    description = next((each["description"] for each in schemas if "description" in each), "")
    hints = wanted.get(what.partition(",")[0].strip()), description
    return Problem("invalid", f"{where} is {shown}: {'; '.join(filter(None, hints)) or what.strip()}")


def _at(given: Any, path: str, form: type[Body]) -> tuple[str, Any, list[dict[str, Any]]]:
    """The place in a body as its client would write it, what is there, and the schemas of what may be there."""
    where, structs = "", _structs(form)
    schemas = [*_alternatives(structs[form.__name__], structs)]
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        try:
            given = given[int(index) if index else name]
        except (LookupError, TypeError):  # the body has a field twice
            break
        parts = [each["items"] if index else each["properties"][name] for each in schemas if _has(each, name)]
        where += f"[{index}]" if index else f".{name}"
        schemas = [found for part in parts for found in _alternatives(part, structs)]
    return where.lstrip(".") or "the body", given, schemas


@cache
def _structs(form: type[Body]) -> dict[str, Any]:
    return msgspec.json.schema_components([form], ref_template="{name}")[1]


def _has(schema: dict[str, Any], name: str) -> bool:
    return name in schema.get("properties", ()) if name else "items" in schema


def _alternatives(schema: dict[str, Any], structs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    schema = structs.get(schema.get("$ref", ""), schema)
    yield schema
    for each in schema.get("anyOf", ()):
        yield from _alternatives(each, structs)
