"""ModelStreamInfer, generate and generate_stream."""

import json
import queue

import numpy as np
import pytest
import tritonclient.grpc as triton
from raw_http import Connection, ask
from serving import assert_well, tensor


@pytest.fixture
def stream(served):
    """A client with an open stream and the queue of its (result, error) pairs."""
    answers = queue.Queue()
    with triton.InferenceServerClient(served.url) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        yield client, answers
        client.stop_stream()
    assert_well(served.client)


def test_every_request_is_answered(stream):
    client, answers = stream
    expected = {}
    for i in range(200):
        x = np.full((1 + i % 7, 4), i, np.float32)
        expected[f"r{i}"] = 2 * x + 1
        client.async_stream_infer("affine", [tensor("x", x, "FP32")], request_id=f"r{i}")
    for _ in range(200):
        result, error = answers.get(timeout=60)
        assert error is None
        response = result.get_response()
        np.testing.assert_array_equal(result.as_numpy("y"), expected.pop(response.id))
        assert response.parameters["triton_final_response"].bool_param
    assert not expected


def test_the_one_answer_is_the_final_one(stream):
    """No plan is decoupled: who asks for an empty last response gets the one there is."""
    client, answers = stream
    x = np.ones((1, 4), np.float32)
    for wants_empty in (True, False):
        client.async_stream_infer(
            "affine",
            [tensor("x", x, "FP32")],
            request_id="r",
            enable_empty_final_response=wants_empty,
        )
        result, error = answers.get(timeout=60)
        assert error is None
        assert result.get_response().parameters["triton_final_response"].bool_param
        np.testing.assert_array_equal(result.as_numpy("y"), 2 * x + 1)
    client.is_server_live()
    assert answers.empty(), "one answer a request"


def test_decoupled_models_are_refused_by_name(repository, start):
    repository.add("affine", config=False)
    config = repository.path / "affine" / "config.pbtxt"
    config.write_text("model_transaction_policy { decoupled: true }")
    with pytest.raises(RuntimeError, match="model_transaction_policy.decoupled"):
        start(repository.path)
    config.write_text("model_transaction_policy { decoupled: false }")
    assert_well(start(repository.path).client)


def test_a_bad_request_leaves_the_stream_open(stream):
    client, answers = stream
    good = tensor("x", np.zeros((1, 4), np.float32), "FP32")
    bad = tensor("x", np.zeros((1, 3), np.float32), "FP32")
    for model, inputs, part in (
        ("affine", [bad], "dimension 1"),
        ("nope", [good], "'nope' is not found"),
        ("affine", [tensor("z", np.zeros((1, 4), np.float32), "FP32")], "input 'z'"),
        ("affine", [good, good], "twice"),
    ):
        client.async_stream_infer(model, inputs, request_id="bad")
        _, error = answers.get(timeout=60)
        assert part in str(error)
        client.async_stream_infer("affine", [good], request_id="good")
        result, error = answers.get(timeout=60)
        assert error is None
        assert result.get_response().id == "good"


def test_a_client_that_leaves_its_stream(served):
    for _ in range(5):
        client = triton.InferenceServerClient(served.url)
        client.start_stream(lambda result, error: None)
        for _ in range(50):
            inputs = [tensor("x", np.zeros((1000, 4), np.float32), "FP32")]
            client.async_stream_infer("affine", inputs)
        client.stop_stream(cancel_requests=True)
        client.close()
    assert_well(served.client)


def test_generate_takes_members_by_name(served):
    url = served.http_url
    body = {"x": [1, 2, 3, 4], "id": "5", "parameters": {"note": "n"}, "temperature": 0.5}
    response = ask(url, "POST", "/v2/models/affine/generate", body)
    assert response.status == 200, response.body
    assert response.json() == {
        "id": "5",
        "model_name": "affine",
        "model_version": "1",
        "y": [3, 5, 7, 9],
    }
    # Sizes: what is fixed takes its part, the open one the rest.
    more = ask(url, "POST", "/v2/models/affine/generate", {"x": [[1, 2, 3, 4], [5, 6, 7, 8]]})
    assert more.json()["y"] == [3, 5, 7, 9, 11, 13, 15, 17]
    one = ask(url, "POST", "/v2/models/identity_INT32/versions/1/generate", {"x": 7})
    assert one.json()["y"] == 7
    assert_well(served.client)


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({"x": [1, 2, 3]}, 400, "input 'x'"),
        ({"x": "text"}, 400, "input 'x'"),
        ({}, 400, "input 'x' is missing"),
        ({"x": [1, 2, 3, 4], "other": {"a": 1}}, 400, "member 'other'"),
        ([], 400, "JSON at byte"),
    ],
)
@pytest.mark.parametrize("call", ["generate", "generate_stream"])
def test_bad_bodies_of_generate(served, call, body, status, part):
    response = ask(served.http_url, "POST", f"/v2/models/affine/{call}", body)
    assert response.status == status, response.body
    assert part in response.json()["error"]
    assert ask(served.http_url, "POST", f"/v2/models/nope/{call}", {}).status == 404
    assert_well(served.client)


def test_generate_stream_sends_events(served):
    with Connection(served.http_url) as connection:
        for _ in range(2):  # the connection stays
            body = json.dumps({"x": [1, 2, 3, 4]}).encode()
            response = connection.request("POST", "/v2/models/affine/generate_stream", body)
            assert response.status == 200
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            (event, rest) = response.body.split(b"\n\n")
            assert rest == b""
            assert json.loads(event.removeprefix(b"data: "))["y"] == [3, 5, 7, 9]
    assert_well(served.client)
