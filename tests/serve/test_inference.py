"""The Open Inference Protocol, as its clients use it."""

from collections.abc import Iterator
from typing import Any

import pytest

from asgi_client import AsgiClient
from cawn.serve.app import create_app


@pytest.fixture(scope="module")
def client(shared_service) -> Iterator[AsgiClient]:
    with AsgiClient(create_app(shared_service)) as client:
        yield client


def tensor(name: str, datatype: str, data: list[Any], shape: list[int] | None = None) -> dict[str, Any]:
    return {"name": name, "shape": [len(data)] if shape is None else shape, "datatype": datatype, "data": data}


SRC, DST = tensor("src", "BYTES", ["n1", "n1"]), tensor("dst", "BYTES", ["n2", "n3"])
T = tensor("t", "INT64", [20_000, 20_000])


def infer(client, **body: Any):
    return client.post("/v2/models/run/infer", json={"inputs": [SRC, DST, T]} | body)


def test_metadata(client) -> None:
    assert client.get("/v2").json()["name"] == "cawn"
    assert client.get("/v2/health/live").json()["live"]
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/run/ready").json() == {"name": "run", "ready": True}
    found = client.get("/v2/models/run").json()
    assert found["name"] == "run"
    assert len(found["versions"]) == 1
    assert [each["name"] for each in found["inputs"]] == ["src", "dst", "t"]
    assert found["outputs"] == [{"name": "probability", "datatype": "FP64", "shape": [-1]}]


@pytest.mark.parametrize("path", ["", "/ready", "/infer"])
def test_other_models_are_unknown(client, path: str) -> None:
    answer = client.request("POST" if path == "/infer" else "GET", f"/v2/models/other{path}", json={})
    assert answer.status_code == 404
    assert "'other'" in answer.json()["error"]


def test_the_same_scores(client) -> None:
    scores = client.post("/v1/score", json={"src": "n1", "dst": ["n2", "n3"], "t": 20_000}).json()
    parameters = {"prior": 0.5, "strict": True}
    answer = infer(client, id="7", parameters=parameters, outputs=[{"name": "probability"}]).json()
    assert answer == {
        "model_name": "run",
        "model_version": scores["model"],
        "id": "7",
        "parameters": {"unknown": [], "warnings": []},
        "outputs": [tensor("probability", "FP64", scores["probability"])],
    }
    column = {**SRC, "shape": [2, 1], "data": [["n1"], ["n1"]]}
    assert infer(client, inputs=[column, DST, T]).json()["outputs"] == answer["outputs"]
    floats = tensor("t", "FP64", [20_000, 20_000.0])
    assert infer(client, inputs=[SRC, DST, floats]).json()["outputs"] == answer["outputs"]
    assert infer(client, inputs=[SRC, tensor("dst", "BYTES", ["n2", "x" * 1_000])]).status_code == 200


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"inputs": 1}, "inputs is 1: give a list"),
        ({"inputs": [1, 2]}, "inputs[0] is 1: give an object with name"),
        ({"inputs": [SRC]}, "inputs has a length of 1"),
        ({"inputs": [SRC, SRC]}, "inputs: give one tensor each of src, dst, t"),
        ({"inputs": [SRC, T]}, "the body has no dst"),
        ({"inputs": [SRC, {**DST, "name": "x"}]}, "inputs[1].name is 'x': inputs"),
        ({"inputs": [SRC, {**DST, "datatype": "FP32"}]}, "inputs[1].datatype is 'FP32': datatypes"),
        ({"inputs": [SRC, {**DST, "datatype": "FP64"}]}, "dst has the datatype 'FP64': give BYTES or INT64"),
        ({"inputs": [SRC, {**DST, "shape": [3]}]}, "dst has the shape [3] and 2 values"),
        ({"inputs": [SRC, {**DST, "data": "n2"}]}, "inputs[1].data is 'n2': give a list"),
        ({"inputs": [SRC, {**DST, "data": ["n2", 3]}]}, "dst[1] is 3"),
        ({"inputs": [SRC, {**DST, "data": [["n2", "n3"], "n1"]}]}, "dst[0] is ['n2', 'n3']"),
        ({"inputs": [SRC, DST, tensor("t", "FP64", [10**400, 1])]}, "inputs[2].data[0] is"),
        ({"inputs": [SRC, DST, tensor("t", "BYTES", ["x" * 65, "1"])]}, "t[0] has a length of 65"),
        ({"inputs": [SRC, DST, tensor("t", "INT64", [1])]}, "2 src, 2 dst, 1 t"),
        ({"id": 7}, "id is 7"),
        ({"parameters": 7}, "parameters is 7: give an object with prior"),
        ({"parameters": {"prior": 2}}, "parameters.prior is 2"),
        ({"outputs": [{"name": "logit"}]}, "outputs[0].name is 'logit'"),
    ],
)
def test_bad_requests(client, body: dict[str, Any], where: str) -> None:
    answer = infer(client, **body)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(where)
