"""Schemas and examples of the HTTP API, for OpenAPI. The checks are in `requests.py`, by hand for speed."""

from __future__ import annotations

from typing import Any

from cawn.serve import requests
from cawn.serve.problems import KINDS, MEDIA_TYPE
from cawn.walks.candidates import KINDS as CANDIDATE_KINDS

Schema = dict[str, Any]

JSON = "application/json"


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _answer(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(items: Schema, most: int | None = None, **more: Any) -> Schema:
    return {"type": "array", "items": items} | ({} if most is None else {"maxItems": most}) | more


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


INTEGER: Schema = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
NAME: Schema = {
    "description": "Name of a node. An integer and its text are the same name.",
    "anyOf": [{"type": "string", "maxLength": requests.MAX_NAME}, INTEGER],
}
TIME: Schema = {
    "description": "A number in the unit of the data or, if the data has dates, an ISO date.",
    "anyOf": [{"type": "number"}, {"type": "string", "maxLength": requests.MAX_TIME}],
}
PAST: Schema = {"description": "A time in the unit of the data.", "type": "number"}
PRIOR: Schema = {
    "description": "Assumed share of positives among the pairs.",
    "type": "number",
    "exclusiveMinimum": 0,
    "exclusiveMaximum": 1,
    "default": 0.5,
}
PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}
VERSION: Schema = {"description": "Version of the history; increases with every change.", "type": "integer"}
ATTRIBUTES: Schema = _list({"anyOf": [{"type": "number"}, {"type": "string", "maxLength": requests.MAX_TIME}]})

LINK = _object(["src", "dst", "t"], src=NAME, dst=NAME, t=TIME, id=NAME, attributes=ATTRIBUTES)
PAIR = _object(["src", "dst"], src=NAME, dst=NAME, t=TIME)

LINKS: Schema = {
    "oneOf": [
        _object(["links"], links=_list(LINK, requests.MAX_LINKS)),
        _object(
            ["src", "dst", "t"],
            src=_list(NAME, requests.MAX_LINKS),
            dst=_list(NAME, requests.MAX_LINKS),
            t=_list(TIME, requests.MAX_LINKS),
            ids=_list(_or_null(NAME), requests.MAX_LINKS),
            attributes=_list(ATTRIBUTES, requests.MAX_LINKS),
        ),
        LINK,
    ]
}
PAIRS: Schema = {
    "oneOf": [
        _object(["pairs"], pairs=_list(PAIR, requests.MAX_PAIRS), prior=PRIOR),
        _object(
            ["src", "dst"],
            src={"anyOf": [NAME, _list(NAME, requests.MAX_PAIRS)]},
            dst={"anyOf": [NAME, _list(NAME, requests.MAX_PAIRS)]},
            t={"anyOf": [TIME, _list(TIME, requests.MAX_PAIRS)]},
            prior=PRIOR,
        ),
    ]
}
RANK = _object(
    ["src"],
    src=NAME,
    t=TIME,
    k={"type": "integer", "minimum": 1, "maximum": requests.MAX_RANKED, "default": 10},
    candidates={"anyOf": [{"const": "all"}, _list(NAME, requests.MAX_CANDIDATES, minItems=1)]},
    kinds=_list({"enum": list(CANDIDATE_KINDS)}, minItems=1),
    prior=PRIOR,
)
EXPLAIN = _object(["src", "dst"], src=NAME, dst=NAME, t=TIME, prior=PRIOR)

RECEIPT = _answer(
    added={"description": "Links added.", **COUNT},
    duplicates={"description": "Links skipped because their id was known.", **COUNT},
    nodes_added=COUNT,
    version=VERSION,
    watermark=_or_null(PAST),
)
SCORES = _answer(
    probability=_list(PROBABILITY), version=VERSION, model={"description": "Version of the model.", "type": "string"}
)
RANKING = _answer(
    src=NAME,
    t=TIME,
    ranking=_list(_answer(name=NAME, probability=PROBABILITY, found={"type": "string"})),
    version=VERSION,
)
EXPLANATION: Schema = {
    "description": "As `Explanation.to_dict()` in Python.",
    "type": "object",
    "required": ["src", "dst", "t", "probability", "walks"],
}
PAST_LINK = _answer(src=NAME, dst=NAME, t=PAST)
NODE = _answer(
    name=NAME,
    known={"type": "boolean"},
    links=COUNT,
    first=_or_null(PAST),
    last=_or_null(PAST),
    recent=_list(PAST_LINK),
)
NEWEST = _answer(links=_list(_answer(src=NAME, dst=NAME, t=TIME, probability=PROBABILITY)))
STATUS: Schema = {"type": "object", "required": ["ready", "links", "nodes", "version", "watermark", "model", "queue"]}
SERIES: Schema = {"type": "object"}
PROBLEM = _answer(
    type={"type": "string"},
    title={"type": "string"},
    status={"type": "integer"},
    detail={"description": "What is wrong, where, and what to do.", "type": "string"},
    error={"description": "The same, under the name that the Open Inference Protocol uses.", "type": "string"},
)

EXAMPLES: dict[str, Any] = {
    "links": {"links": [{"src": "alice", "dst": "bob", "t": 1082040961.0, "id": "e1"}]},
    "columns": {"src": ["alice", "carol"], "dst": ["bob", "dave"], "t": [1082040961.0, 1082040975.0]},
    "one": {"src": "alice", "dst": "bob", "t": 1082040961.0},
    "receipt": {"added": 1, "duplicates": 0, "nodes_added": 0, "version": 4, "watermark": 1082040961.0},
    "pairs": {"pairs": [{"src": "alice", "dst": "bob", "t": 1082050000.0}]},
    "now": {"src": "alice", "dst": ["bob", "carol"]},
    "scores": {"probability": [0.913], "version": 4, "model": "3f9a01c2d4e5"},
    "rank": {"src": "alice", "k": 3},
    "ranking": {
        "src": "alice",
        "t": 1082040962.0,
        "ranking": [{"name": "bob", "probability": 0.913, "found": "recent"}],
        "version": 4,
    },
    "explain": {"src": "alice", "dst": "bob"},
    "node": {
        "name": "alice",
        "known": True,
        "links": 1,
        "first": 1082040961.0,
        "last": 1082040961.0,
        "recent": [{"src": "alice", "dst": "bob", "t": 1082040961.0}],
    },
}


def body(schema: Schema, *examples: str) -> Schema:
    """The description of a JSON body."""
    shown = {name: {"value": EXAMPLES[name]} for name in examples}
    return {"required": True, "content": {JSON: {"schema": schema} | ({"examples": shown} if shown else {})}}


def answer(description: str, schema: Schema, example: str | None = None, media_type: str = JSON) -> Schema:
    """The description of a successful answer."""
    content = {"schema": schema} | ({} if example is None else {"example": EXAMPLES[example]})
    return {"description": description, "content": {media_type: content}}


def problems(*kinds: str) -> dict[int | str, Schema]:
    """The descriptions of the errors of a route."""
    return {
        KINDS[kind].status: {
            "description": KINDS[kind].title,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for kind in kinds
    }
