"""Requests drawn from the OpenAPI schema, valid and invalid, and valid ones with damaged bytes.

`CAWN_FUZZ_CASES` sets how many requests there are in all: half of each. The same ones are drawn every time.
"""

import json
import os
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import cawn
from asgi_client import AsgiClient
from cawn.data import laws
from cawn.serve.app import create_app
from cawn.serve.service import Service, ServiceSettings
from fuzz.mutations import mutate

CASES = int(os.environ.get("CAWN_FUZZ_CASES", "300"))
SMALL = cawn.Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)
LEAKS = ("Traceback", "site-packages", "src/cawn", ".py")
JSON = {"Content-Type": "application/json"}
pytestmark = pytest.mark.filterwarnings("ignore:t is ")  # about times far from the data


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[AsgiClient]:
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    events = laws.triadic_closure(30, 400, seed=0).events
    cawn.train(
        events, SMALL, out=folder, quiet=True, task=cawn.Task(negatives=("random",), baselines=False), device="cpu"
    )
    service, nothing = Service(ServiceSettings(folder, device="cpu", threads=1, max_ahead=2.0**62)), Future()
    nothing.set_result(0)
    service.forget = service.remove = lambda _: nothing  # so that the network stays
    service.start()
    with AsgiClient(create_app(service)) as client:
        yield client
    service.stop()


def check(answer: httpx.Response, what: object) -> None:
    """No error of the server, nothing about its inside, and every error in the same form."""
    assert answer.status_code < 500 or answer.status_code == 503, what
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json", what
        found = answer.json()
        assert found["status"] == answer.status_code, what
        assert found["detail"], what
        assert not any(leak in answer.text for leak in LEAKS), (what, answer.text)


def test_requests_drawn_from_the_schema(client) -> None:
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations = [result.ok() for result in schema.get_all_operations()]
    with_input = [each for each in operations if list(each.iter_parameters()) or list(each.body)]
    for operation in operations:
        send_cases(client, operation, GenerationMode.POSITIVE, max(CASES // 4 // len(operations), 1))
    for operation in with_input:
        send_cases(client, operation, GenerationMode.NEGATIVE, max(CASES // 4 // len(with_input), 1))


def send_cases(client: AsgiClient, operation: Any, mode: GenerationMode, cases: int) -> None:
    @given(operation.as_strategy(mode))
    @settings(max_examples=cases, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    def send(case: Any) -> None:
        options = case.as_transport_kwargs(base_url="http://localhost")
        content = json.dumps(options["json"]).encode() if options.get("json") is not None else options.get("data")
        content = content if isinstance(content, bytes | str) else None
        headers = {name: value for name, value in (options.get("headers") or {}).items() if value.isascii()}
        path = str(options["url"])
        sent = (options["method"], path, options.get("params"), headers, content)
        answer = client.request(sent[0], path, params=sent[2], headers=headers, content=content)
        check(answer, sent)
        case.validate_response(
            answer, checks=[status_code_conformance, content_type_conformance, response_schema_conformance]
        )

    send()


def test_damaged_bodies(client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    posts = {path: methods["post"]["requestBody"]["content"] for path, methods in paths.items() if "post" in methods}
    bodies = [
        (path.replace("{model}", "run"), json.dumps(example["value"]).encode())
        for path, content in posts.items()
        for example in content["application/json"]["examples"].values()
    ]
    for seed in range(CASES // 2):
        path, body = bodies[seed % len(bodies)]
        content = mutate(body, np.random.default_rng(seed))
        check(client.post(path, content=content, headers=JSON), (seed, path, content))
    assert client.post("/v1/score", json={"src": 1, "dst": 2}).status_code == 200  # it still works
