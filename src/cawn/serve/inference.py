"""The Open Inference Protocol (version 2): the same scores, with requests as tensors."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote

import msgspec
from msgspec import Meta, Struct, field
from starlette.requests import Request

from cawn import __version__
from cawn.errors import brief
from cawn.serve.bodies import refusal
from cawn.serve.problems import Problem
from cawn.serve.requests import Body, PairColumns, Pairs, Prior, Strict, Value
from cawn.serve.routes import Route

INPUTS = {"src": ("BYTES", "INT64"), "dst": ("BYTES", "INT64"), "t": ("FP64", "INT64", "BYTES")}
OUTPUT = "probability"
_TYPES = {"BYTES": (str,), "INT64": (int,), "FP64": (int, float)}


class Tensor(Struct):
    name: Annotated[Literal["src", "dst", "t"], Meta(description="inputs are src, dst and, optionally, t")]
    shape: Annotated[list[int], Meta(description="a shape is [B] or [B, 1]")]
    datatype: Annotated[Literal["BYTES", "FP64", "INT64"], Meta(description="datatypes are BYTES, FP64 and INT64")]
    data: list[Value | list[Value]]

    def values(self) -> list[Any]:
        """The values of a tensor of shape [B] or [B, 1]."""
        if self.datatype not in INPUTS[self.name]:
            allowed = " or ".join(INPUTS[self.name])
            raise Problem("invalid", f"{self.name} has the datatype {brief(self.datatype)}: give {allowed}")
        values = [row[0] if isinstance(row, list) and len(row) == 1 else row for row in self.data]
        if self.shape not in ([len(values)], [len(values), 1]):
            found = f"{self.name} has the shape {brief(self.shape)} and {len(values):,} values"
            raise Problem("invalid", f"{found}: give [B] or [B, 1]")
        for i, value in enumerate(values):
            if not isinstance(value, _TYPES[self.datatype]):
                raise Problem("invalid", f"{self.name}[{i}] is {brief(value)}, but the datatype is {self.datatype}")
        return values


class Parameters(Struct):
    prior: Prior = 0.5
    strict: Strict = False


class Output(Struct):
    name: Annotated[Literal["probability"], Meta(description="the only output is 'probability'")]


class InferRequest(Body):
    example: ClassVar[dict[str, Any]] = {
        "inputs": [
            {"name": "src", "shape": [2], "datatype": "BYTES", "data": ["alice", "alice"]},
            {"name": "dst", "shape": [2], "datatype": "BYTES", "data": ["bob", "carol"]},
            {"name": "t", "shape": [2], "datatype": "FP64", "data": [1082050000.0, 1082050000.0]},
        ]
    }
    inputs: Annotated[list[Tensor], Meta(min_length=2, max_length=3)]
    id: Annotated[str | None, Meta(description="id is a string")] = None
    parameters: Parameters = field(default_factory=Parameters)
    outputs: tuple[Output, ...] = ()

    def to_query(self) -> tuple[Pairs, str | None]:
        columns = {tensor.name: tensor.values() for tensor in self.inputs}
        if len(columns) < len(self.inputs):
            raise Problem("invalid", f"inputs: give one tensor each of {', '.join(INPUTS)}")
        given = columns | msgspec.to_builtins(self.parameters)
        try:
            return msgspec.convert(given, PairColumns).to_query(), self.id
        except msgspec.ValidationError as error:
            raise refusal(error, given, PairColumns) from None


class Inference:
    """What the routes of the protocol answer."""

    def __init__(self, api: Any) -> None:
        self._api, self._service = api, api.service

    def routes(self) -> list[Route]:
        missing = ("not-found",)
        return [
            Route("GET", "/v2/health/live", self._api.health, None, always=True),
            Route("GET", "/v2/health/ready", self._api.ready, None, problems=("unavailable",)),
            Route("GET", "/v2", self.server, always=True),
            Route("GET", "/v2/models/{model}", self.model, problems=missing),
            Route("GET", "/v2/models/{model}/ready", self.model_ready, problems=missing),
            Route("POST", "/v2/models/{model}/infer", self.infer, body=(InferRequest,), problems=missing),
        ]

    async def server(self, _request: Request) -> dict[str, Any]:
        """The server's name and version."""
        return {"name": "cawn", "version": __version__, "extensions": []}

    async def model(self, request: Request) -> dict[str, Any]:
        """The model's inputs and outputs."""
        inputs = [{"name": name, "datatype": kinds[0], "shape": [-1]} for name, kinds in INPUTS.items()]
        outputs = [{"name": OUTPUT, "datatype": "FP64", "shape": [-1]}]
        name = self._checked(request)
        versions = [self._service.model_version]
        return {"name": name, "versions": versions, "platform": "cawn", "inputs": inputs, "outputs": outputs}

    async def model_ready(self, request: Request) -> dict[str, Any]:
        """Whether the model answers."""
        return {"name": self._checked(request), "ready": True}

    async def infer(self, request: Request) -> dict[str, Any]:
        """The probability of each pair."""
        name = self._checked(request)
        pairs, identifier = await self._api.body(request)
        scored, doubts = await self._api.scored(pairs)
        output = {"name": OUTPUT, "shape": [len(pairs)], "datatype": "FP64", "data": scored.probability.tolist()}
        found = {"model_name": name, "model_version": self._service.model_version, "parameters": doubts}
        return found | {"outputs": [output]} | ({} if identifier is None else {"id": identifier})

    def _checked(self, request: Request) -> str:
        """The name of the model, which is the only one."""
        name: str = self._service.name
        if (given := unquote(request.path_params["model"])) != name:
            raise Problem("not-found", f"there is no model {brief(given)}; this server has {name!r}")
        return name
