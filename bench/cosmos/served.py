"""Times calls of the served reference workload from this host: over gRPC, and with tensors in system shared memory.

    python served.py TUTTI REPOSITORY MODEL RANKS [--backend cuda ...]

Starts `tutti serve` on the repository, sends requests of the true size one after the other, and prints one JSON object.
Requests are prepared before the clock starts; it stops when the answer's bytes are there.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from multiprocessing import shared_memory

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

LIMIT = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
HEIGHT, COLUMNS, WORD_BYTES = 23, 40, 2


class Service:
    """The calls by name; messages are the protocol's."""

    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=LIMIT)

    def __getattr__(self, call):
        answer = getattr(service_pb2, f"{call}Response")
        return self.channel.unary_unary(
            f"/inference.GRPCInferenceService/{call}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tensors(options):
    """Name -> (type, shape, bytes)."""
    rng = np.random.default_rng(0)
    grid = [1, options.frames, HEIGHT, COLUMNS, options.features]
    words = rng.standard_normal(grid, dtype=np.float32).view(np.uint32) >> 16
    return {
        "patches": ("BF16", grid, words.astype(np.uint16).tobytes()),
        "timestep": ("FP32", [1], np.float32([500]).tobytes()),
        "ids": ("INT64", [1, options.text], rng.integers(0, 32, (1, options.text)).tobytes()),
    }


def request_of(model, given):
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, (dtype, shape, _) in given.items():
        request.inputs.add(name=name, datatype=dtype, shape=shape)
    request.outputs.add(name="velocity")
    return request


def grpc_call(stub, model, given):
    request = request_of(model, given)
    request.raw_input_contents.extend(content for _, _, content in given.values())

    def call():
        answer = stub.ModelInfer(request)
        assert len(answer.raw_output_contents[0]) == len(given["patches"][2])

    return call


def region_bytes(given):
    """Room for all inputs and the result."""
    return sum(len(content) for _, _, content in given.values()) + len(given["patches"][2])


def shared_call(stub, model, given, region):
    """All tensors in one region, which the server maps."""
    result = len(given["patches"][2])
    stub.SystemSharedMemoryRegister(
        service_pb2.SystemSharedMemoryRegisterRequest(
            name="all", key="/" + region.name.lstrip("/"), offset=0, byte_size=region_bytes(given)
        )
    )
    request = request_of(model, given)
    offset = 0

    def place(tensor, length):
        tensor.parameters["shared_memory_region"].string_param = "all"
        tensor.parameters["shared_memory_offset"].int64_param = offset
        tensor.parameters["shared_memory_byte_size"].int64_param = length

    for tensor, (_, _, content) in zip(request.inputs, given.values(), strict=True):
        place(tensor, len(content))
        region.buf[offset : offset + len(content)] = content
        offset += len(content)
    place(request.outputs[0], result)
    return lambda: stub.ModelInfer(request)


def timed(call, runs):
    call()
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return seconds


def wait_until_ready(stub, server, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            if stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=5).ready:
                return
        except grpc.RpcError:
            time.sleep(0.2)
    raise RuntimeError(f"the server is not ready (exit code {server.poll()})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tutti")
    parser.add_argument("repository")
    parser.add_argument("model")
    parser.add_argument("ranks", type=int)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--text", type=int, default=2992)
    parser.add_argument("--features", type=int, default=192)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--start-seconds", type=float, default=120)
    options, serve = parser.parse_known_args()
    port = free_port()
    command = [
        options.tutti,
        "serve",
        "--model-repository",
        options.repository,
        "--grpc-port",
        str(port),
        "--allow-client-shm",
        "true",
        "--allow-http",
        "false",
        "--allow-metrics",
        "false",
    ]
    server = subprocess.Popen([*command, *serve], stdout=sys.stderr, stderr=sys.stderr)
    given = tensors(options)
    region = shared_memory.SharedMemory(create=True, size=region_bytes(given))
    try:
        stub = Service(port)
        wait_until_ready(stub, server, options.start_seconds)
        seconds = {"gRPC": timed(grpc_call(stub, options.model, given), options.runs)}
        try:
            call = shared_call(stub, options.model, given, region)
            seconds["gRPC and shared memory"] = timed(call, options.runs)
        except grpc.RpcError as error:
            print(f"shared memory: {error}", file=sys.stderr)
        median = {way: statistics.median(s) for way, s in seconds.items()}
        print(json.dumps({"ranks": options.ranks, "median_s": median, "all_s": seconds}))
    finally:
        server.terminate()
        server.wait(30)
        region.close()
        region.unlink()


if __name__ == "__main__":
    main()
