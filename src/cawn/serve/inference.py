"""The Open Inference Protocol (version 2): the same scores, with requests as tensors."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cawn import __version__
from cawn.errors import brief
from cawn.serve import schemas
from cawn.serve.problems import Problem
from cawn.serve.requests import Pairs, parse_pairs
from cawn.serve.routes import Endpoint, json_response, read_json
from cawn.serve.service import Service

INPUTS = {"src": ("BYTES", "INT64"), "dst": ("BYTES", "INT64"), "t": ("FP64", "INT64", "BYTES")}
OUTPUT = "probability"
_TENSOR = {
    "type": "object",
    "required": ["name", "shape", "datatype", "data"],
    "properties": {
        "name": {"enum": list(INPUTS)},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2},
        "datatype": {"enum": ["BYTES", "FP64", "INT64"]},
        "parameters": {"type": "object"},
        "data": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "array"}]}},
    },
    "additionalProperties": False,
}
_REQUEST = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "parameters": {"type": "object", "properties": {"prior": schemas.PRIOR}},
        "inputs": {"type": "array", "items": _TENSOR, "minItems": 2, "maxItems": 3},
        "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
    "additionalProperties": False,
}
_EXAMPLE = {
    "inputs": [
        {"name": "src", "shape": [2], "datatype": "BYTES", "data": ["alice", "alice"]},
        {"name": "dst", "shape": [2], "datatype": "BYTES", "data": ["bob", "carol"]},
        {"name": "t", "shape": [2], "datatype": "FP64", "data": [1082050000.0, 1082050000.0]},
    ]
}
_MODEL_PARAMETER = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}


def inference_routes(service: Service) -> list[Endpoint]:
    """The routes of the protocol."""
    api, model = _Inference(service), [_MODEL_PARAMETER]
    found = schemas.answer("As it is now.", {"type": "object"})
    body = {"required": True, "content": {schemas.JSON: {"schema": _REQUEST, "example": _EXAMPLE}}}
    return [
        Endpoint("GET", "/v2/health/live", api.live, "Whether the process runs.", found, None),
        Endpoint(
            "GET", "/v2/health/ready", api.ready, "Whether requests are answered.", found, None, None, ("unavailable",)
        ),
        Endpoint("GET", "/v2", api.server, "The server's name and version.", found),
        Endpoint(
            "GET",
            "/v2/models/{model}",
            api.model,
            "The model's inputs and outputs.",
            found,
            problems=("not-found", "unavailable"),
            parameters=model,
        ),
        Endpoint(
            "GET",
            "/v2/models/{model}/ready",
            api.model_ready,
            "Whether the model answers.",
            found,
            problems=("not-found", "unavailable"),
            parameters=model,
        ),
        Endpoint(
            "POST",
            "/v2/models/{model}/infer",
            api.infer,
            "The probability of each pair.",
            found,
            body=body,
            problems=("not-found", "overloaded", "unavailable"),
            parameters=model,
        ),
    ]


class _Inference:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def live(self, _request: Request) -> Response:
        return json_response({"live": True})

    async def ready(self, _request: Request) -> Response:
        self._service.require_ready()
        return json_response({"ready": True})

    async def server(self, _request: Request) -> Response:
        return json_response({"name": "cawn", "version": __version__, "extensions": []})

    async def model(self, request: Request) -> Response:
        self._check_model(request)
        self._service.require_ready()
        inputs = [{"name": name, "datatype": kinds[0], "shape": [-1]} for name, kinds in INPUTS.items()]
        return json_response(
            {
                "name": self._service.name,
                "versions": [self._service.model_version],
                "platform": "cawn",
                "inputs": inputs,
                "outputs": [{"name": OUTPUT, "datatype": "FP64", "shape": [-1]}],
            }
        )

    async def model_ready(self, request: Request) -> Response:
        self._check_model(request)
        self._service.require_ready()
        return json_response({"name": self._service.name, "ready": True})

    async def infer(self, request: Request) -> Response:
        self._check_model(request)
        self._service.require_ready()
        body = await read_json(request)
        pairs, identifier = _parse(body)
        scored = await asyncio.wrap_future(self._service.score(pairs))
        output = {"name": OUTPUT, "shape": [len(pairs)], "datatype": "FP64", "data": scored.probability.tolist()}
        found = {"model_name": self._service.name, "model_version": self._service.model_version, "outputs": [output]}
        return json_response(found | ({} if identifier is None else {"id": identifier}))

    def _check_model(self, request: Request) -> None:
        given = request.path_params["model"]
        if given != self._service.name:
            raise Problem("not-found", f"there is no model {brief(given)}; this server has {self._service.name!r}")


def _parse(body: Any) -> tuple[Pairs, str | None]:
    """The pairs of a request, and its id."""
    if not isinstance(body, dict) or not isinstance(body.get("inputs"), list):
        raise Problem("invalid", "give an object with the list 'inputs'")
    identifier, parameters = body.get("id"), body.get("parameters", {})
    if identifier is not None and not isinstance(identifier, str):
        raise Problem("invalid", f"id is {brief(identifier)}: give a string")
    if not isinstance(parameters, dict):
        raise Problem("invalid", f"parameters is {brief(parameters)}: give an object")
    _check_outputs(body.get("outputs", []))
    columns: dict[str, Any] = {}
    for i, tensor in enumerate(body["inputs"]):
        name = tensor.get("name") if isinstance(tensor, dict) else None
        if not isinstance(name, str) or name not in INPUTS or name in columns:
            raise Problem("invalid", f"inputs[{i}]: give one tensor each of {', '.join(INPUTS)}")
        columns[name] = _data(tensor, name)
    if "prior" in parameters:
        columns["prior"] = parameters["prior"]
    return parse_pairs(columns), identifier


def _data(tensor: dict[str, Any], name: str) -> list[Any]:
    """The values of a tensor of shape [B] or [B, 1]."""
    kind, shape, data = tensor.get("datatype"), tensor.get("shape"), tensor.get("data")
    if kind not in INPUTS[name]:
        raise Problem("invalid", f"{name} has the datatype {brief(kind)}: give {' or '.join(INPUTS[name])}")
    if not isinstance(data, list):
        raise Problem("invalid", f"{name} has the data {brief(data)}: give a list")
    values = [row[0] if isinstance(row, list) and len(row) == 1 else row for row in data]
    if shape not in ([len(values)], [len(values), 1]):
        raise Problem("invalid", f"{name} has the shape {brief(shape)} and {len(values):,} values: give [B] or [B, 1]")
    wanted = {"BYTES": (str,), "INT64": (int,), "FP64": (int, float)}[kind]
    for i, value in enumerate(values):
        if type(value) not in wanted:
            raise Problem("invalid", f"{name}[{i}] is {brief(value)}, but the datatype is {kind}")
    return values


def _check_outputs(outputs: Any) -> None:
    names = (
        [each.get("name") if isinstance(each, dict) else each for each in outputs]
        if isinstance(outputs, list)
        else [None]
    )
    if any(name != OUTPUT for name in names):
        raise Problem("invalid", f"outputs: the only output is {OUTPUT!r}")
