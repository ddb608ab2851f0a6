"""Times calls of the served reference workload from this host: over gRPC, and with tensors in shared memory.

    python served.py TUTTI REPOSITORY MODEL RANKS [--backend cuda ...]

Starts `tutti serve` on the repository, sends requests of the true size, and prints one JSON object: seconds of a call
with tensors in the message, in system shared memory and in CUDA shared memory, one after the other; then seconds a call
with two in flight. Requests are prepared before the clock starts; it stops when the answer's bytes are there. All ways
must give the same bytes.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from multiprocessing import shared_memory
from pathlib import Path

import grpc
from tritonclient.grpc import service_pb2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cosmos import inputs
from cosmos.cuda_region import CudaRegion, runtime
from cosmos.sizes import Sizes

LIMIT = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


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
    sizes = Sizes(frames=options.frames, text=options.text, features=options.features)
    return {
        name: (kind, list(numbers.shape), numbers.tobytes())
        for name, (kind, numbers) in inputs.tensors(sizes).items()
    }


def request_of(model, given):
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, (dtype, shape, _) in given.items():
        request.inputs.add(name=name, datatype=dtype, shape=shape)
    request.outputs.add(name="velocity")
    return request


def grpc_call(stub, model, given):
    """() -> the answer as it comes, from a request that is ready to be sent."""
    request = request_of(model, given)
    request.raw_input_contents.extend(content for _, _, content in given.values())
    message = request.SerializeToString()
    send = stub.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    return lambda: send(message)


def result_of(answer):
    return service_pb2.ModelInferResponse.FromString(answer).raw_output_contents[0]


def region_bytes(given):
    """Room for all inputs and the result."""
    return sum(len(content) for _, _, content in given.values()) + len(given["patches"][2])


def placed_request(model, given, name, write):
    """All tensors in the region `name`, one after the other, the result last: the request and where that begins."""
    request = request_of(model, given)
    offset = 0

    def place(tensor, length):
        tensor.parameters["shared_memory_region"].string_param = name
        tensor.parameters["shared_memory_offset"].int64_param = offset
        tensor.parameters["shared_memory_byte_size"].int64_param = length

    for tensor, (_, _, content) in zip(request.inputs, given.values(), strict=True):
        place(tensor, len(content))
        write(content, offset)
        offset += len(content)
    place(request.outputs[0], len(given["patches"][2]))
    return request, offset


def system_call(stub, model, given, region, name="all"):
    """All tensors in one region, which the server maps."""
    register = service_pb2.SystemSharedMemoryRegisterRequest(
        name=name, key="/" + region.name.lstrip("/"), offset=0, byte_size=region_bytes(given)
    )
    stub.SystemSharedMemoryRegister(register)

    def write(content, offset):
        region.buf[offset : offset + len(content)] = content

    request, result = placed_request(model, given, name, write)

    def call():
        stub.ModelInfer(request)
        return region.buf[result : result + len(given["patches"][2])]

    return call


def cuda_call(stub, model, given, region, name="cuda"):
    """All tensors in one region of a GPU. What comes back is fetched by read(), outside of the clock."""
    register = service_pb2.CudaSharedMemoryRegisterRequest(
        name=name, raw_handle=region.handle, device_id=region.device, byte_size=region.byte_size
    )
    stub.CudaSharedMemoryRegister(register)
    request, result = placed_request(model, given, name, region.write)
    return lambda: stub.ModelInfer(request), lambda: region.read(len(given["patches"][2]), result)


def timed(call, runs):
    """Seconds of each, and what the last one gave."""
    seconds, result = [], None
    for _ in range(runs):
        begin = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begin)
    return seconds, result


def in_flight(calls, runs):
    """Seconds a call when each of `calls` is made again and again, all at the same time."""
    threads = [
        threading.Thread(target=lambda call=call: [call() for _ in range(runs)]) for call in calls
    ]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - begin) / (runs * len(calls))


def executed(stub, model):
    """How many forwards the ranks ran so far, and in how many seconds, as the server says."""
    answer = stub.ModelStatistics(service_pb2.ModelStatisticsRequest(name=model))
    infer = answer.model_stats[0].inference_stats.compute_infer
    return infer.count, infer.ns / 1e9


class Report:
    """Seconds of a call, and of the forward in it as the server says, by way."""

    def __init__(self, stub, model, runs):
        self.stub, self.model, self.runs = stub, model, runs
        self.seconds, self.forward, self.two, self.two_forward, self.failures = {}, {}, {}, {}, {}

    def with_forward(self, run, forwards, way):
        count, seconds = executed(self.stub, self.model)
        result = run()
        later, more = executed(self.stub, self.model)
        forwards[way] = (more - seconds) / max(later - count, 1)
        return result

    def alone(self, way, call):
        """One after the other; what the last one gave."""
        run = lambda: timed(call, self.runs)
        self.seconds[way], result = self.with_forward(run, self.forward, way)
        return result

    def together(self, way, calls, runs):
        if runs > 0:
            run = lambda: in_flight(calls, runs)
            self.two[way] = self.with_forward(run, self.two_forward, way)

    def as_json(self):
        return {
            "median_s": {way: statistics.median(s) for way, s in self.seconds.items()},
            "all_s": self.seconds,
            "forward_s": self.forward,
            "two_in_flight_s": self.two,
            "two_in_flight_forward_s": self.two_forward,
            "failures": self.failures,
        }


def measure(stub, model, given, region, runs, together):
    report = Report(stub, model, runs)
    call = grpc_call(stub, model, given)
    right = result_of(call())
    call()  # the second one of a size is recorded
    assert len(right) == len(given["patches"][2])
    assert result_of(report.alone("gRPC", call)) == right
    try:
        result = report.alone("gRPC and shared memory", system_call(stub, model, given, region))
        assert bytes(result) == right, "the result in shared memory is another one"
        result.release()
    except grpc.RpcError as error:
        report.failures["shared memory"] = error.details()
    library = runtime()
    regions = [CudaRegion(library, region_bytes(given)) for _ in range(2)] if library else []
    way = "gRPC and CUDA shared memory"
    try:
        pairs = [cuda_call(stub, model, given, r, f"cuda{i}") for i, r in enumerate(regions)]
        if pairs:
            report.alone(way, pairs[0][0])
            assert pairs[0][1]() == right, "the result in CUDA shared memory is another one"
            report.together(way, [call for call, _ in pairs], together)
            if together > 0:
                assert pairs[1][1]() == right, "one of two results at a time is another one"
    except grpc.RpcError as error:
        report.failures["CUDA shared memory"] = error.details()
    report.together("gRPC", [call, grpc_call(stub, model, given)], together)
    for one in regions:
        one.close()
    return report.as_json()


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
    parser.add_argument(
        "--together", type=int, default=2, help="calls of each of two clients at the same time"
    )
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
        report = measure(stub, options.model, given, region, options.runs, options.together)
        print(json.dumps({"ranks": options.ranks} | report))
    finally:
        server.terminate()
        server.wait(30)
        region.close()
        region.unlink()


if __name__ == "__main__":
    main()
