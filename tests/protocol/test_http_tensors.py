"""Tensors over HTTP: JSON and binary, every datatype, both ways."""

import json
import math

import numpy as np
import pytest
import tritonclient.http as triton
from raw_http import ask
from serving import assert_well
from tiny_models import IDENTITY_TYPES
from tritonclient.utils import InferenceServerException

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.fixture
def url(served):
    yield served.http_url
    assert_well(served.client)


@pytest.fixture
def http(served):
    with triton.InferenceServerClient(served.http_url) as client:
        yield client


def values_of(datatype):
    if datatype == "BOOL":
        return [True, False, True]
    if datatype.startswith(("INT", "UINT")):
        limits = np.iinfo(datatype.lower())
        return [int(limits.min), 1, int(limits.max)]
    return [0.5, -2.0, 1.0]


def infer(url, model, tensor, outputs=None, **members):
    request = {"inputs": [tensor], **members}
    if outputs:
        request["outputs"] = outputs
    return ask(url, "POST", f"/v2/models/{model}/infer", request)


@pytest.mark.parametrize("datatype", sorted(IDENTITY_TYPES))
def test_every_datatype_as_json(url, datatype):
    values = values_of(datatype)
    tensor = {"name": "x", "shape": [3], "datatype": datatype, "data": values}
    response = infer(url, f"identity_{datatype}", tensor, id="7")
    assert response.status == 200, response.body
    answer = response.json()
    assert answer["id"] == "7"
    assert answer["model_version"] == "1"
    assert answer["outputs"] == [{"name": "y", "datatype": datatype, "shape": [3], "data": values}]


@pytest.mark.parametrize("datatype", sorted(IDENTITY_TYPES))
@pytest.mark.parametrize("binary", [True, False])
def test_every_datatype_through_the_client(http, datatype, binary):
    if not binary and datatype in ("FP16", "BF16"):
        pytest.skip("the client sends these as binary data only")
    dtype = ml_dtypes.bfloat16 if datatype == "BF16" else IDENTITY_TYPES[datatype][0]
    x = np.array(values_of(datatype)).astype(dtype)
    tensor = triton.InferInput("x", [3], datatype)
    tensor.set_data_from_numpy(x, binary_data=binary)
    wanted = [triton.InferRequestedOutput("y", binary_data=binary)]
    answer = http.infer(f"identity_{datatype}", [tensor], outputs=wanted).as_numpy("y")
    np.testing.assert_array_equal(np.asarray(answer).astype(dtype), x)


def test_nan_and_infinity_in_json(url):
    text = '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[NaN,Infinity,-Infinity,-0.0]}]}'
    response = ask(url, "POST", "/v2/models/identity_FP32/infer", text)
    assert response.status == 200, response.body
    assert b'"data":[NaN,Infinity,-Infinity,-0.0]' in response.body
    values = response.json()["outputs"][0]["data"]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, 0.0]


def test_numbers_keep_their_last_bit(url):
    for datatype, dtype in (("FP32", np.float32), ("FP64", np.float64)):
        x = np.random.default_rng(3).standard_normal(500).astype(dtype)
        x[:3] = np.finfo(dtype).max, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal
        tensor = {"name": "x", "shape": [500], "datatype": datatype, "data": x.tolist()}
        answer = infer(url, f"identity_{datatype}", tensor).json()["outputs"][0]["data"]
        np.testing.assert_array_equal(np.array(answer, dtype), x)


def test_nested_data_and_flat_answers(url):
    tensor = {
        "name": "x",
        "shape": [2, 4],
        "datatype": "FP32",
        "data": [[1, 2, 3, 4], [5, 6, 7, 8]],
    }
    (output,) = infer(url, "affine", tensor).json()["outputs"]
    assert output["shape"] == [2, 4]
    assert output["data"] == [3, 5, 7, 9, 11, 13, 15, 17]


def test_members_in_any_order(url):
    text = (
        '{"outputs":[{"parameters":{"binary_data":false},"name":"y"}],"inputs":[{"data":[1,2,3],'
        '"shape":[3],"extra":{"a":[1,{}]},"datatype":"FP32","name":"x"}],"unknown":null}'
    )
    response = ask(url, "POST", "/v2/models/identity_FP32/infer", text)
    assert response.json()["outputs"][0]["data"] == [1, 2, 3]


def test_binary_tensors_behind_json_of_any_length(url):
    for padding in range(9):
        first = np.arange(16, dtype=np.int32)
        second = np.full(16, padding, np.int32)
        size = {"binary_data_size": 64}
        header = " " * padding + json.dumps(
            {
                "inputs": [
                    {"name": n, "shape": [1, 16], "datatype": "INT32", "parameters": size}
                    for n in ("INPUT0", "INPUT1")
                ],
                "outputs": [
                    {"name": "OUTPUT1", "parameters": {"binary_data": True}},
                    {"name": "OUTPUT0"},
                ],
            }
        )
        body = header.encode() + first.tobytes() + second.tobytes()
        headers = {"Inference-Header-Content-Length": len(header)}
        response = ask(url, "POST", "/v2/models/add_sub/infer", body, headers)
        assert response.status == 200, response.body
        length = int(response.headers["inference-header-content-length"])
        outputs = json.loads(response.body[:length])["outputs"]
        assert outputs[0]["parameters"] == {"binary_data_size": 64}
        assert "data" not in outputs[0]
        assert outputs[1]["data"] == (first + second).tolist()
        np.testing.assert_array_equal(
            np.frombuffer(response.body[length:], np.int32), first - second
        )


def test_a_body_that_is_one_raw_tensor(url):
    x = np.arange(12, dtype=np.float32)
    headers = {"Inference-Header-Content-Length": 0}
    response = ask(url, "POST", "/v2/models/identity_FP32/infer", x.tobytes(), headers)
    assert response.status == 200, response.body
    length = int(response.headers["inference-header-content-length"])
    assert json.loads(response.body[:length])["outputs"][0]["shape"] == [12]
    np.testing.assert_array_equal(np.frombuffer(response.body[length:], np.float32), x)
    refused = ask(url, "POST", "/v2/models/add_sub/infer", x.tobytes(), headers)
    assert refused.status == 400
    assert "one input" in refused.json()["error"]


GOOD = {"name": "x", "shape": [3], "datatype": "INT8", "data": [1, 2, 3]}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"data": [1, 2, 300]}, ("element 2 is 300", "INT8")),
        ({"data": [1, 2, 3.5]}, ("element 2 is 3.5", "INT8")),
        ({"data": [1, 2, "3"]}, ("element 2", "number")),
        ({"data": [1, 2]}, ("2 bytes", "expected 3")),
        ({"data": [1, 2, 3, 4]}, ("4 bytes", "expected 3")),
        ({"data": [1, None, 3]}, ("element 1",)),
        ({"data": None}, ("element 0",)),
        ({"shape": [-1]}, ("negative",)),
        ({"shape": [3.5]}, ("'shape'",)),
        ({"shape": [16, 2**60 + 2], "datatype": "FP32"}, (str(2**60 + 2),)),
        ({"shape": [2**70]}, ("'shape'",)),
        ({"shape": "3"}, ("JSON at byte",)),
        ({"datatype": "INT9"}, ("'INT9'", "INT8")),
        ({"datatype": 8}, ("JSON at byte",)),
        ({"name": "z"}, ("input 'z'", "'x'")),
        ({"name": "\x1b[31m"}, ("\\x1b[31m",)),
        ({"parameters": {"binary_data_size": 3}}, ("exactly one of", "got 2")),
        ({"parameters": {"shared_memory_region": "r"}}, ("shared_memory_byte_size",)),
        ({"parameters": {"binary_data_size": -1}}, ("binary_data_size",)),
        ({"parameters": []}, ("JSON at byte",)),
    ],
)
def test_bad_tensors(url, change, parts):
    response = infer(url, "identity_INT8", {**GOOD, **change})
    assert response.status == 400, response.body
    for part in parts:
        assert part in response.json()["error"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"inputs":{}}',
        '{"inputs":[1]}',
        '{"inputs":[{}]}',
        '{"inputs":[],"inputs":[]}',
        '{"inputs":[]} x',
        '{"inputs":[],"id":7}',
        '{"inputs":[01]}',
        '{"inputs":["\\ud800"]}',
        '{"inputs":["\x01"]}',
        '{"inputs":[],"parameters":{"a":[]}}',
    ],
)
def test_bodies_that_are_no_request(url, text):
    response = ask(url, "POST", "/v2/models/affine/infer", text)
    assert response.status == 400, response.body
    assert response.json()["error"]


def test_binary_sizes_that_are_not_the_body(url):
    for size, extra in ((32, 4), (36, 0), (2**63, 0)):
        tensor = {"name": "x", "shape": [2, 4], "datatype": "FP32"}
        tensor["parameters"] = {"binary_data_size": size}
        header = json.dumps({"inputs": [tensor]}).encode()
        headers = {"Inference-Header-Content-Length": len(header)}
        body = header + bytes(32 + extra)
        response = ask(url, "POST", "/v2/models/affine/infer", body, headers)
        assert response.status == 400, response.body


def test_names_versions_and_duplicates(url):
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    assert infer(url, "nope", tensor).status == 404
    assert "'nope' is not found" in infer(url, "nope", tensor).json()["error"]
    assert infer(url, "affine/versions/1", tensor).status == 200
    assert infer(url, "affine/versions/9", tensor).status == 404
    twice = ask(url, "POST", "/v2/models/affine/infer", {"inputs": [tensor, tensor]})
    assert twice.status == 400
    assert "twice" in twice.json()["error"]
    outputs = [{"name": "y"}, {"name": "y"}]
    assert "twice" in infer(url, "affine", tensor, outputs).json()["error"]


def test_sequences_are_not_there(url):
    response = infer(url, "identity_INT8", GOOD, parameters={"sequence_id": 5})
    assert response.status == 501
    assert "sequence_id" in response.json()["error"]


@pytest.mark.parametrize("binary", [True, False])
def test_classification(http, binary):
    x = np.array([[0.25, 4, -1, 3], [1, 1, 7, 0]], np.float32)
    tensor = triton.InferInput("x", [2, 4], "FP32")
    tensor.set_data_from_numpy(x)
    wanted = [triton.InferRequestedOutput("y", binary_data=binary, class_count=2)]
    result = http.infer("affine", [tensor], outputs=wanted)
    assert result.get_output("y")["datatype"] == "BYTES"
    classes = [c.decode() if isinstance(c, bytes) else c for c in result.as_numpy("y").flatten()]
    # The model does not batch, so all eight are one set: 2 x + 1 is 15 at 6, 9 at 1.
    assert classes == ["15.000000:6", "9.000000:1"]


def test_client_reports_errors_as_tritons_do(http):
    tensor = triton.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 4), np.float32))
    with pytest.raises(
        InferenceServerException, match="Request for unknown model: 'nope'"
    ) as error:
        http.infer("nope", [tensor])
    assert error.value.status() == "404"
