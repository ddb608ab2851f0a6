"""Good requests with bits flipped, parts cut out or doubled, over both front ends: whatever comes of
them, the server stays live, ready and right.

TUTTI_FUZZ_SECONDS is for how long (3), TUTTI_FUZZ_SEED which changes.
"""

import json
import os
import random
import socket
import time

import grpc
import numpy as np
import pytest
from raw_http import ask
from serving import assert_well
from tritonclient.grpc import service_pb2

SECONDS = float(os.environ.get("TUTTI_FUZZ_SECONDS", 3))
SEED = int(os.environ.get("TUTTI_FUZZ_SEED", 1))
HASTY = 0.2  # seconds: a request that was cut off gets no answer
CHECK_EVERY = 50
CALLS = (
    "ModelInfer",
    "ModelMetadata",
    "ModelStatistics",
    "RepositoryIndex",
    "SystemSharedMemoryRegister",
    "LogSettings",
    "TraceSetting",
)


@pytest.fixture
def served(repository, start):
    """A server of its own: some of the requests change settings."""
    repository.add("affine")
    return start(repository.path)


def changed(data, generator):
    data = bytearray(data)
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(data) + 1)
        kind = generator.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + generator.randint(1, 8)]
        elif kind == 3:
            data[at:at] = data[at : at + generator.randint(1, 32)]
        else:
            data[at:at] = generator.choice(
                (b"0", b"-1", b"\xff", b"\r\n", b"}", b"18446744073709551616")
            )
    return bytes(data)


def http_request(method, path, body=b"", headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def http_requests():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    tensor = {"name": "x", "datatype": "FP32", "shape": [2, 4]}
    plain = json.dumps({"inputs": [tensor | {"data": x.tolist()}]}).encode()
    binary = json.dumps(
        {"inputs": [tensor | {"parameters": {"binary_data_size": 32}}], "outputs": [{"name": "y"}]}
    ).encode()
    region = json.dumps({"key": "/none", "offset": 0, "byte_size": 64}).encode()
    length = f"Inference-Header-Content-Length: {len(binary)}"
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(plain), plain)
    infer = "/v2/models/affine/infer"
    return [
        http_request("POST", infer, plain),
        http_request("POST", infer, binary + x.tobytes(), [length]),
        http_request("POST", infer, headers=["Transfer-Encoding: chunked"]) + chunks,
        http_request("POST", "/v2/models/affine/generate", b'{"x": [1, 2, 3, 4]}'),
        http_request("GET", "/v2/models/affine/versions/1/config"),
        http_request("POST", "/v2/systemsharedmemory/region/r/register", region),
        http_request("POST", "/v2/logging", b'{"log_verbose_level": 0}'),
        http_request("POST", "/v2/repository/index", b'{"ready": true}'),
        http_request("GET", "/v2/health/ready", headers=["Expect: 100-continue"]),
    ]


def send_http(url, data):
    """What came back within a short time, parsed no further."""
    host, port = url.rsplit(":", 1)
    answer = b""
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.settimeout(HASTY)
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        except OSError:
            pass
    return answer


def test_http(served):
    generator = random.Random(SEED)
    seeds = http_requests()
    for seed in seeds:
        assert b"HTTP/1.1 " in send_http(served.http_url, seed), seed
    end = time.monotonic() + SECONDS
    sent = 0
    while time.monotonic() < end:
        answer = send_http(served.http_url, changed(generator.choice(seeds), generator))
        # Our faults are 500s: bad requests are none.
        assert not answer.startswith(b"HTTP/1.1 500"), (answer, SEED)
        sent += 1
        if sent % CHECK_EVERY == 0:
            assert_well(served.client)
    assert ask(served.http_url, "GET", "/v2/health/ready").status == 200, f"seed {SEED}"
    assert_well(served.client)


def grpc_requests():
    infer = service_pb2.ModelInferRequest(model_name="affine", id="7")
    infer.inputs.add(name="x", datatype="FP32", shape=(2, 4))
    infer.raw_input_contents.append(np.arange(8, dtype=np.float32).tobytes())
    infer.outputs.add(name="y").parameters["classification"].int64_param = 2
    region = service_pb2.SystemSharedMemoryRegisterRequest(
        name="r", key="/none", offset=0, byte_size=64
    )
    settings = service_pb2.LogSettingsRequest()
    settings.settings["log_verbose_level"].uint32_param = 0
    trace = service_pb2.TraceSettingRequest(model_name="affine")
    trace.settings["trace_rate"].value.append("1000")
    messages = (
        infer,
        service_pb2.ModelMetadataRequest(name="affine", version="1"),
        service_pb2.ModelStatisticsRequest(name="affine"),
        service_pb2.RepositoryIndexRequest(ready=True),
        region,
        settings,
        trace,
    )
    return [message.SerializeToString() for message in messages]


def test_grpc(served):
    generator = random.Random(SEED)
    seeds = list(zip(CALLS, grpc_requests(), strict=True))
    end = time.monotonic() + SECONDS
    sent = 0
    with grpc.insecure_channel(served.url) as channel:
        while time.monotonic() < end:
            name, seed = generator.choice(seeds)
            call = channel.unary_unary(f"/inference.GRPCInferenceService/{name}")
            try:
                call(changed(seed, generator), timeout=60)
            except grpc.RpcError as error:
                expected = error.code() not in (
                    grpc.StatusCode.UNKNOWN,
                    grpc.StatusCode.UNAVAILABLE,
                )
                assert expected, (name, error.code(), error.details(), SEED)
            sent += 1
            if sent % CHECK_EVERY == 0:
                assert_well(served.client)
    assert sent > 0
    assert_well(served.client)
