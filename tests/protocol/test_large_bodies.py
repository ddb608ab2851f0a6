"""Requests and answers of more than 2 GB over HTTP, and what memory they take."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from raw_http import Connection
from serving import assert_well

SIZE = (1 << 31) + 4096
STEP = 1 << 24


def available_bytes():
    text = Path("/proc/meminfo").read_text()
    return int(re.search(r"MemAvailable:\s+(\d+) kB", text).group(1)) * 1024


def peak_bytes(process):
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text).group(1)) * 1024


@pytest.mark.skipif(available_bytes() < 4 * SIZE, reason="less than 8 GiB of memory are free")
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_more_than_2_gib_there_and_back(repository, start, framing):
    for plan in ("identity_INT8", "affine"):
        repository.add(plan)
    server = start(repository.path, options=("--http-max-input-size", str(SIZE + (1 << 20))))
    idle = peak_bytes(server.process)
    tensor = {"name": "x", "shape": [SIZE], "datatype": "INT8"}
    tensor["parameters"] = {"binary_data_size": SIZE}
    header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    piece = np.random.default_rng(0).integers(-128, 127, STEP, np.int8).tobytes()
    pieces = [piece[: min(STEP, SIZE - at)] for at in range(0, SIZE, STEP)]
    with Connection(server.http_url, timeout=600) as connection:
        length = "Transfer-Encoding: chunked"
        if framing == "length":
            length = f"Content-Length: {len(header) + SIZE}"
        connection.send(
            "POST /v2/models/identity_INT8/infer HTTP/1.1\r\n",
            f"Inference-Header-Content-Length: {len(header)}\r\n{length}\r\n\r\n",
        )
        for part in (header, *pieces):
            framed = (b"%x\r\n" % len(part), part, b"\r\n") if framing == "chunked" else (part,)
            connection.send(*framed)
        if framing == "chunked":
            connection.send("0\r\n\r\n")
        response = connection.response(has_body=False)
        assert response.status == 200, connection.stream.read(1000)
        assert int(response.headers["content-length"]) > SIZE
        connection.stream.read(int(response.headers["inference-header-content-length"]))
        for expected in pieces:
            assert connection.stream.read(len(expected)) == expected
    taken = (peak_bytes(server.process) - idle) / SIZE
    print(f"{framing}: peak of {taken:.2f} times the payload above idle")
    assert taken <= 2.5
    assert_well(server.client)
