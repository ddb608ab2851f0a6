"""The largest tensors that the front ends take, there and back, and what memory the server takes for them.

They take minutes and gigabytes: `make test-large` runs them, TUTTI_LARGE=1 lets them run. The clients send blocks again
and again, so that most of the memory is the server's.
"""

import json
import os
import re
import subprocess
import uuid
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from raw_http import Connection
from serving import BUILD, Server, compile_model

GIB = 1 << 30
OVER_GRPC = 1_900_000_000
OVER_HTTP = IN_SHARED_MEMORY = 3_000_000_000
BLOCK = 1 << 24

pytestmark = pytest.mark.skipif(
    os.environ.get("TUTTI_LARGE") != "1", reason="takes gigabytes: make test-large runs it"
)


def available_bytes():
    text = Path("/proc/meminfo").read_text()
    return int(re.search(r"MemAvailable:\s+(\d+) kB", text).group(1)) * 1024


def memory(server):
    """Bytes by name, from the kernel; VmHWM is the largest resident memory so far."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return {name: int(kib) * 1024 for name, kib in re.findall(r"(\w+):\s+(\d+) kB", text)}


@pytest.fixture
def server(tmp_path):
    compile_model(
        tiny_models.identity(tmp_path / "identity.onnx", "INT8"), tmp_path / "models/identity_INT8"
    )
    options = ("--allow-client-shm", "true", "--http-max-input-size", str(4 * GIB))
    server = Server(tmp_path / "models", options=options, log=tmp_path / "serve.log")
    yield server
    assert server.client.is_server_ready()
    x = np.arange(100, dtype=np.int8)
    given = tritonclient.grpc.InferInput("x", [100], "INT8")
    given.set_data_from_numpy(x)
    np.testing.assert_array_equal(server.client.infer("identity_INT8", [given]).as_numpy("y"), x)
    assert server.stop() == 0, server.log.read_text()


def needs(size):
    if available_bytes() < size:
        pytest.skip(f"less than {size / GIB:.0f} GiB of memory are free")


def tell(what, server, idle, size):
    taken = (memory(server)["VmHWM"] - idle["VmRSS"]) / size
    now = memory(server)["VmRSS"] / 1e6
    print(f"{what}: peak of {taken:.2f} times the tensor above idle, {now:.0f} MB afterwards")
    return taken


def test_over_grpc(server):
    needs(4 * OVER_GRPC)
    idle = memory(server)
    client = BUILD / "bench" / "grpc_huge"
    for _ in range(2):
        done = subprocess.run(
            [client, server.url.split(":")[1], "identity_INT8", str(OVER_GRPC)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and done.stdout.startswith("right"), done.stdout
        print(done.stdout.strip())
    assert tell("gRPC, 1.9 GB", server, idle, OVER_GRPC) <= 2.5


def test_over_http(server):
    needs(3 * OVER_HTTP)
    idle = memory(server)
    block = np.random.default_rng(0).integers(-128, 127, BLOCK, np.int8).tobytes()
    blocks = [block[: min(BLOCK, OVER_HTTP - at)] for at in range(0, OVER_HTTP, BLOCK)]
    tensor = {"name": "x", "shape": [OVER_HTTP], "datatype": "INT8"}
    tensor["parameters"] = {"binary_data_size": OVER_HTTP}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    with Connection(server.http_url, timeout=600) as connection:
        connection.send(
            "POST /v2/models/identity_INT8/infer HTTP/1.1\r\n",
            f"Inference-Header-Content-Length: {len(head)}\r\n",
            f"Content-Length: {len(head) + OVER_HTTP}\r\n\r\n",
            head,
            *blocks,
        )
        response = connection.response(has_body=False)
        assert response.status == 200, connection.stream.read(1000)
        connection.stream.read(int(response.headers["inference-header-content-length"]))
        for expected in blocks:
            assert connection.stream.read(len(expected)) == expected
    assert tell("HTTP, 3 GB", server, idle, OVER_HTTP) <= 2.5


@pytest.mark.parametrize("front", ["grpc", "http"])
def test_in_shared_memory(server, front):
    """The client's own pages count too, once the server has touched them: input and output are in one region."""
    size = IN_SHARED_MEMORY
    needs(3 * size)
    idle = memory(server)
    module = {"grpc": tritonclient.grpc, "http": tritonclient.http}[front]
    url = server.url if front == "grpc" else server.http_url
    key = f"/tutti_{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region("huge", key, 2 * size)
    try:
        block = np.random.default_rng(0).integers(-128, 127, BLOCK, np.int8)
        blocks = [(at, block[: min(BLOCK, size - at)]) for at in range(0, size, BLOCK)]
        for at, part in blocks:
            shm.set_shared_memory_region(handle, [part], offset=at)
        options = {} if front == "grpc" else {"network_timeout": 600}
        with module.InferenceServerClient(url, **options) as client:
            client.register_system_shared_memory("huge", key, 2 * size)
            given = module.InferInput("x", [size], "INT8")
            given.set_shared_memory("huge", size)
            output = module.InferRequestedOutput("y")
            output.set_shared_memory("huge", size, size)
            client.infer("identity_INT8", [given], outputs=[output])
            for at, part in blocks:
                there = shm.get_contents_as_numpy(handle, np.int8, [part.size], size + at)
                np.testing.assert_array_equal(there, part)
            at_end = memory(server)
            client.unregister_system_shared_memory("huge")
    finally:
        shm.destroy_shared_memory_region(handle)
    own = (at_end["RssAnon"] - idle["RssAnon"]) / size
    print(f"{front}: {own:.3f} times the tensor of memory of its own")
    assert own <= 0.2
    # Of the input and the output together, which the client's region has.
    assert tell(f"shared memory over {front}, 3 GB each way", server, idle, 2 * size) <= 1.2
