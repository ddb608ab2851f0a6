"""HTTP itself: paths, methods, framing, codings, limits. After every bad request the server is as well
as before."""

import gzip
import json
import threading
import zlib

import numpy as np
import pytest
from raw_http import Connection, ask
from serving import assert_well

X = np.arange(8, dtype=np.float32).reshape(2, 4)
GOOD = {
    "inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": X.flatten().tolist()}]
}
INFER = "/v2/models/affine/infer"


@pytest.fixture
def url(served):
    """Its server must be well after each test."""
    yield served.http_url
    assert_well(served.client)
    assert_good(served.http_url)


def assert_good(url):
    response = ask(url, "POST", INFER, GOOD)
    assert response.status == 200, response.body
    (output,) = response.json()["outputs"]
    assert output["data"] == (2 * X + 1).flatten().tolist()
    assert output["shape"] == [2, 4]
    assert ask(url, "GET", "/v2/health/live").status == 200
    assert ask(url, "GET", "/v2/health/ready").status == 200


def refused(response, status, *parts):
    assert response.status == status, (response.status, response.body)
    message = response.json()["error"]
    for part in parts:
        assert part in message
    return message


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2", 200),
        ("GET", "/v2/", 404),
        ("GET", "/", 404),
        ("GET", "/v2/health/live", 200),
        ("GET", "/v2/health/live/", 404),
        ("POST", "/v2/health/live", 405),
        ("GET", "/v2/health/nope", 404),
        ("GET", "/v2/models/affine", 200),
        ("GET", "/v2/models/affine?x=1", 200),
        ("GET", "/v2/models/%61ffine", 200),
        ("GET", "/v2/models/%6", 404),
        ("GET", "/v2/models/affine/", 404),
        ("GET", "/v2/models/affine/versions/1", 200),
        ("GET", "/v2/models/affine/versions/v1", 404),
        ("GET", "/v2/models/affine/versions/-1", 404),
        ("GET", "/v2/models/affine/versions/9", 404),
        ("GET", "/v2/models/affine/ready", 200),
        ("GET", "/v2/models/affine/versions/1/ready", 200),
        ("GET", "/v2/models/nope/ready", 400),
        ("GET", "/v2/models/affine/config", 200),
        ("GET", "/v2/models/affine/stats", 200),
        ("GET", "/v2/models/stats", 200),
        ("GET", INFER, 405),
        ("PUT", INFER, 405),
        ("HEAD", "/v2/health/live", 405),
        ("GET", "/v2/repository/index", 405),
        ("POST", "/v2/repository/index", 200),
        ("GET", "/v2/systemsharedmemory/status", 200),
        ("POST", "/v2/systemsharedmemory/status", 405),
        ("GET", "/v2/models/..", 400),
        ("GET", "/v2/models/...", 404),
        ("GET", "/v2/models/%2e%2e%2fetc", 400),
        ("GET", "/v2/models/../etc", 404),
        ("GET", "/v2/models//ready", 404),
        ("OPTIONS", "/v2", 405),
    ],
)
def test_paths_and_methods(url, method, path, status):
    response = ask(url, method, path)
    assert response.status == status, response.body
    if status == 405:
        assert "allow" in response.headers


def test_connections_are_kept(url):
    with Connection(url) as connection:
        for _ in range(3):
            assert connection.request("GET", "/v2/health/live").status == 200
            assert connection.request("POST", INFER, json.dumps(GOOD).encode()).status == 200
        assert connection.request("GET", "/nope").status == 404
        # Two at once: answered in their order.
        connection.send("GET /v2/health/live HTTP/1.1\r\n\r\nGET /v2 HTTP/1.1\r\n\r\n")
        assert connection.response().body == b""
        assert connection.response().json()["name"] == "tutti"
        last = connection.request("GET", "/v2", headers={"Connection": "close"})
        assert last.headers["connection"] == "close"
        assert connection.response() is None


def test_http_1_0(url):
    with Connection(url) as connection:
        connection.send("GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert connection.response().status == 200
        assert connection.response() is None


def chunked(data, size):
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [1, 7, 100000])
def test_chunked_bodies(url, size):
    with Connection(url) as connection:
        for _ in range(2):
            connection.send(f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            connection.send(chunked(json.dumps(GOOD).encode(), size))
            assert connection.response().status == 200


def test_too_many_chunks(url):
    with Connection(url) as connection:
        connection.send(f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send(b"1\r\n \r\n" * 65537)
        refused(connection.response(), 400, "65536", "chunks")
        assert connection.response() is None
    body = b" " * (65536 - len(json.dumps(GOOD))) + json.dumps(GOOD).encode()
    with Connection(url) as connection:
        connection.send(f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send(chunked(body, 1))
        assert connection.response().status == 200


def test_expect_100_continue_with_a_large_body(url):
    x = np.random.default_rng(0).standard_normal((14 << 16, 4)).astype(np.float32)
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "shape": list(x.shape),
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": x.nbytes},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    assert x.nbytes >= 14_000_000
    with Connection(url) as connection:
        connection.send(
            f"POST {INFER} HTTP/1.1\r\nExpect: 100-continue\r\n",
            f"Inference-Header-Content-Length: {len(header)}\r\n",
            f"Content-Length: {len(header) + x.nbytes}\r\n\r\n",
        )
        assert connection.response().status == 100
        connection.send(header, x.tobytes())
        response = connection.response()
    assert response.status == 200
    size = int(response.headers["inference-header-content-length"])
    y = np.frombuffer(response.body[size:], np.float32).reshape(x.shape)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_unknown_expectation(url):
    refused(ask(url, "GET", "/v2", headers={"Expect": "tea"}), 417, "tea")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_requests_and_responses(url, coding):
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}[coding]
    unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress}[coding]
    headers = {"Content-Encoding": coding, "Accept-Encoding": f"br, {coding};q=0.5"}
    response = ask(url, "POST", INFER, pack(json.dumps(GOOD).encode()), headers)
    assert response.status == 200
    assert response.headers["content-encoding"] == coding
    (output,) = json.loads(unpack(response.body))["outputs"]
    assert output["data"] == (2 * X + 1).flatten().tolist()


def test_broken_compression(url):
    body = gzip.compress(json.dumps(GOOD).encode())
    for data in (body[:-5], body + b"more", b"no gzip at all", b"\x1f\x8b"):
        refused(ask(url, "POST", INFER, data, {"Content-Encoding": "gzip"}), 400, "gzip")
    for coding in ("br", "gzip, deflate", "zstd"):
        refused(ask(url, "POST", INFER, body, {"Content-Encoding": coding}), 415, coding)


def test_limits_count_before_and_after_decompression(url):
    limit = 64 << 20
    with Connection(url) as connection:
        connection.send(f"POST {INFER} HTTP/1.1\r\nContent-Length: {limit + 1}\r\n\r\n")
        refused(connection.response(), 400, str(limit), "--http-max-input-size")
    with Connection(url) as connection:
        connection.send(f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.send(b"%x\r\n" % (limit + 1))
        refused(connection.response(), 400, str(limit))
    bomb = zlib.compress(bytes(limit + 1))
    assert len(bomb) < 1 << 20
    refused(ask(url, "POST", INFER, bomb, {"Content-Encoding": "deflate"}), 400, str(limit))


@pytest.mark.parametrize("length", ["99999999999", "-1", "abc", "1.5", "0x10", "9" * 40])
def test_header_length_that_is_none(url, length):
    response = ask(url, "POST", INFER, GOOD, {"Inference-Header-Content-Length": length})
    refused(response, 400, "Inference-Header-Content-Length", length[:20])


def test_deep_json(url):
    for text in ("[" * 250000, '{"a":' * 250000, '{"inputs":' + "[" * 250000 + "]" * 250000 + "}"):
        refused(ask(url, "POST", INFER, text), 400, "JSON at byte")
    nested = json.dumps(GOOD)[:-1] + ', "extra": ' + "[" * 99 + "]" * 99 + "}"
    assert ask(url, "POST", INFER, nested).status == 200
    deeper = json.dumps(GOOD)[:-1] + ', "extra": ' + "[" * 100 + "]" * 100 + "}"
    refused(ask(url, "POST", INFER, deeper), 400, "nested more than 100 deep")


@pytest.mark.parametrize(
    "text",
    [
        "GET /v2\r\n\r\n",
        "GET /v2 HTTP/3.0\r\n\r\n",
        "GET  /v2 HTTP/1.1\r\n\r\n",
        "\x00\x01\x02\r\n\r\n",
        f"POST {INFER} HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
        f"POST {INFER} HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        f"POST {INFER} HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "GET /v2 HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
def test_malformed_http(url, text):
    with Connection(url) as connection:
        connection.send(text)
        refused(connection.response(), 400, "malformed HTTP")
        assert connection.response() is None


def test_endless_head(url):
    with Connection(url) as connection:
        connection.send("GET /v2 HTTP/1.1\r\n", "a: " + "b" * 70000 + "\r\n\r\n")
        assert connection.response().status == 431


def test_clients_that_go_away(url):
    body = json.dumps(GOOD)
    for text in (
        "",
        "GET /v",
        f"POST {INFER} HTTP/1.1\r\nContent-Length: 500\r\n\r\n{body[:20]}",
        f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        f"POST {INFER} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}",
    ):
        with Connection(url) as connection:
            connection.send(text)


def test_slow_clients_lose_their_connection(repository, start):
    repository.add("affine")
    options = ("--http-read-timeout-secs", "1", "--http-idle-timeout-secs", "1")
    server = start(repository.path, options=options)
    for text in ("", "GET /v2 HT", f"POST {INFER} HTTP/1.1\r\nContent-Length: 500\r\n\r\n{{"):
        with Connection(server.http_url) as connection:
            connection.send(text)
            assert connection.response() is None
    assert_good(server.http_url)


def test_256_connections_at_once(url):
    connections = [Connection(url) for _ in range(256)]
    body = json.dumps(GOOD).encode()
    for connection in connections:
        connection.send(f"POST {INFER} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n", body)
    for connection in connections:
        response = connection.response()
        assert response.status == 200
        assert response.json()["outputs"][0]["data"] == (2 * X + 1).flatten().tolist()
        connection.stream.close()
        connection.socket.close()


def test_batches_of_10_2_10(url):
    for rows in (10, 2, 10):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        tensor = {"name": "x", "shape": [rows, 4], "datatype": "FP32", "data": x.tolist()}
        answer = ask(url, "POST", INFER, {"inputs": [tensor]}).json()["outputs"][0]
        expected = (x * np.float32(2) + np.float32(1)).flatten()
        np.testing.assert_array_equal(np.array(answer["data"], np.float32), expected)


def test_answers_in_flight_survive_a_stop(repository, start):
    repository.add("affine")
    server = start(repository.path)
    x = np.zeros((1 << 20, 4), np.float32)
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "shape": list(x.shape),
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": x.nbytes},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    answers = []
    with Connection(server.http_url) as connection:
        connection.send(
            f"POST {INFER} HTTP/1.1\r\nInference-Header-Content-Length: {len(header)}\r\n"
            f"Content-Length: {len(header) + x.nbytes}\r\n\r\n",
            header,
            x.tobytes()[:-4],
        )
        stopping = threading.Thread(target=lambda: answers.append(server.stop()))
        stopping.start()
        connection.send(x.tobytes()[-4:])
        response = connection.response()
        # Either it was in time, or it hears that the server stops; it never hears nothing.
        assert response.status in (200, 503), response.body
        # One that was answered before the signal arrived was not told so.
        assert response.headers.get("connection", "close") == "close"
        assert connection.stream.read(1) == b""
        stopping.join()
    assert answers == [0]
