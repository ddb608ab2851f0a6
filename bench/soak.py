"""Whether a server that runs for long keeps its memory: a mix of all kinds of requests at a low rate.

    python bench/soak.py --minutes 60 [--rate 25] [--record soak.json]

Starts `tutti serve` with tiny models and asks it, in turn, over gRPC and HTTP: plain requests of ever other sizes, streams,
shared memory that is registered, used and given back, requests that are cancelled, bad ones, control calls, reloads and
clients that just leave. Resident memory is read after each minute (each turn in the short form of tests/system); the
growth is the largest difference between two readings after the warm-up, a sixth of the run.

Report: build/reports/soak.json. `--record` writes the same for `bench/measurements/records.py --add`.
"""

import argparse
import json
import re
import sys
import tempfile
import time
import uuid
from datetime import date
from pathlib import Path

import numpy as np
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/protocol"))
import tiny_models
from raw_http import Connection, ask
from serving import ROOT, Server, compile_model, tensor

LARGEST = 4096
DEEP_ROWS = 256
WARM_UP = 1 / 6


def make_repository(folder):
    """identity_FP32 (any size), affine (rows of 4), deep (slow enough to be cancelled)."""
    models = folder / "models"
    onnx = tiny_models.identity(folder / "identity.onnx", "FP32")
    compile_model(onnx, models / "identity_FP32")
    compile_model(tiny_models.affine(folder / "affine.onnx"), models / "affine")
    compile_model(tiny_models.deep(folder / "deep.onnx"), models / "deep")
    return models


def resident_bytes(process):
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) * 1024


def processor_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Mix:
    """One turn is one request of each kind; `steps()` are they, to be called one by one."""

    def __init__(self, server):
        self.server = server
        self.grpc = tritonclient.grpc.InferenceServerClient(server.url)
        self.http = tritonclient.http.InferenceServerClient(server.http_url)
        self.random = np.random.default_rng(0)
        self.requests = 0
        self.turns = 0

    def close(self):
        self.grpc.close()
        self.http.close()

    def values(self):
        return self.random.standard_normal(self.random.integers(1, LARGEST), dtype=np.float32)

    def infer(self, module, client, **options):
        x = self.values()
        given = module.InferInput("x", [x.size], "FP32")
        given.set_data_from_numpy(x)
        result = client.infer("identity_FP32", [given], **options)
        np.testing.assert_array_equal(result.as_numpy("y"), x)

    def over_grpc(self):
        self.infer(tritonclient.grpc, self.grpc)

    def over_grpc_compressed(self):
        self.infer(tritonclient.grpc, self.grpc, compression_algorithm="gzip")

    def over_http(self):
        self.infer(tritonclient.http, self.http)

    def over_http_compressed(self):
        options = {
            "request_compression_algorithm": "gzip",
            "response_compression_algorithm": "deflate",
        }
        self.infer(tritonclient.http, self.http, **options)

    def as_json(self):
        body = {"x": [float(i) for i in range(4 * int(self.random.integers(1, 64)))]}
        response = ask(self.server.http_url, "POST", "/v2/models/affine/generate", body)
        assert response.json()["y"] == [2 * x + 1 for x in body["x"]]

    def events(self):
        body = {"x": [1, 2, 3, 4]}
        response = ask(self.server.http_url, "POST", "/v2/models/affine/generate_stream", body)
        assert response.body.startswith(b"data: ")

    def stream(self):
        answers = []
        with tritonclient.grpc.InferenceServerClient(self.server.url) as client:
            client.start_stream(lambda result, error: answers.append(result or error))
            for i in range(8):
                name = "identity_FP32" if i % 4 else "nope"
                client.async_stream_infer(name, [tensor("x", self.values(), "FP32")])
            client.stop_stream()
        errors = [a for a in answers if isinstance(a, InferenceServerException)]
        assert (len(answers), len(errors)) == (8, 2)

    def shared_memory(self):
        module, client = (
            (tritonclient.grpc, self.grpc) if self.turns % 2 else (tritonclient.http, self.http)
        )
        x = self.values()
        key = f"/tutti_soak_{uuid.uuid4().hex}"
        handle = shm.create_shared_memory_region("soak", key, 2 * x.nbytes)
        try:
            shm.set_shared_memory_region(handle, [x])
            client.register_system_shared_memory("soak", key, 2 * x.nbytes)
            given = module.InferInput("x", [x.size], "FP32")
            given.set_shared_memory("soak", x.nbytes)
            output = module.InferRequestedOutput("y")
            output.set_shared_memory("soak", x.nbytes, x.nbytes)
            client.infer("identity_FP32", [given], outputs=[output])
            there = shm.get_contents_as_numpy(handle, np.float32, [x.size], x.nbytes)
            np.testing.assert_array_equal(there, x)
            client.unregister_system_shared_memory("soak")
        finally:
            shm.destroy_shared_memory_region(handle)

    def cancelled(self):
        answers = []
        x = np.zeros((DEEP_ROWS, 4), np.float32)
        call = self.grpc.async_infer(
            "deep", [tensor("x", x, "FP32")], lambda result, error: answers.append(error)
        )
        call.cancel()
        while not answers:
            time.sleep(0.001)

    def bad(self):
        x = self.values()
        given = tensor("x", x, "FP32")
        for name, inputs in (
            ("affine", [given]),
            ("nope", [given]),
            ("identity_FP32", [given] * 2),
        ):
            try:
                self.grpc.infer(name, inputs)
            except InferenceServerException:
                continue
            raise AssertionError(f"a bad request of {name} was answered")
        for path, body in (("affine/infer", "{"), ("affine/infer", '{"inputs": []}'), ("..", "")):
            response = ask(self.server.http_url, "POST", f"/v2/models/{path}", body)
            assert response.status >= 400

    def leaving(self):
        with Connection(self.server.http_url) as connection:
            connection.send(
                "POST /v2/models/affine/infer HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{"
            )
        with tritonclient.grpc.InferenceServerClient(self.server.url) as client:
            client.start_stream(lambda result, error: None)
            client.async_stream_infer("identity_FP32", [tensor("x", self.values(), "FP32")])
            client.stop_stream(cancel_requests=True)

    def control(self):
        assert self.grpc.is_server_ready() and self.http.is_model_ready("affine")
        self.grpc.get_inference_statistics()
        self.http.get_model_repository_index()
        self.http.get_model_config("affine")
        assert ask(self.server.metrics_url, "GET", "/metrics").status == 200

    def reload(self):
        self.grpc.load_model("affine")
        self.infer(tritonclient.grpc, self.grpc)

    def steps(self):
        plain = [self.over_grpc, self.over_http]
        kinds = [
            self.over_grpc_compressed, self.over_http_compressed, self.as_json, self.events, self.stream,
            self.shared_memory, self.cancelled, self.bad, self.leaving, self.control,
        ]  # fmt: skip
        for kind in kinds:
            yield from [*plain, *plain, kind]
        if self.turns % 10 == 0:
            yield self.reload

    def turn(self, wait=lambda: None):
        for step in self.steps():
            wait()
            step()
            self.requests += 1
        self.turns += 1


def start_server(folder):
    options = (
        "--allow-client-shm",
        "true",
        "--model-control-mode",
        "explicit",
        "--load-model",
        "*",
    )
    return Server(make_repository(folder), options=options, log=folder / "serve.log")


def growth(readings):
    """Largest difference of two readings after the warm-up, in bytes."""
    steady = readings[int(len(readings) * WARM_UP) :]
    return max(steady) - min(steady)


class Pace:
    """Waits so that calls come at a steady rate; what is late is not made up for in a burst."""

    def __init__(self, rate):
        self.period = 1 / rate
        self.next = time.monotonic()

    def __call__(self):
        now = time.monotonic()
        time.sleep(max(0, self.next - now))
        self.next = max(self.next, now - 1) + self.period


def soak(server, minutes, rate):
    """Resident bytes once a minute (at the start, too), the requests made."""
    mix = Mix(server)
    pace = Pace(rate)
    start = time.monotonic()
    mix.turn(pace)
    readings = [resident_bytes(server.process)]
    while len(readings) <= minutes:
        mix.turn(pace)
        if time.monotonic() - start >= 60 * len(readings):
            readings.append(resident_bytes(server.process))
            print(f"{len(readings) - 1} min: {readings[-1] / 1e6:.1f} MB, {mix.requests} requests")
            sys.stdout.flush()
    mix.close()
    return readings, mix.requests


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=1)
    parser.add_argument("--rate", type=float, default=25, help="requests a second")
    parser.add_argument("--record", type=Path, help="file for records.py --add")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder))
        readings, requests = soak(server, options.minutes, options.rate)
        spent = processor_seconds(server.process)
        assert server.stop() == 0, server.log.read_text()
    report = {
        "name": "soak", "minutes": options.minutes, "requests": requests,
        "resident_bytes": readings, "growth_bytes": growth(readings), "server_cpu_s": spent,
        "command": f"python bench/soak.py --minutes {options.minutes} --rate {options.rate:g}",
        "date": date.today().isoformat(),
    }  # fmt: skip
    reports = ROOT / "build/reports"
    reports.mkdir(parents=True, exist_ok=True)
    (reports / "soak.json").write_text(json.dumps(report, indent=1) + "\n")
    if options.record:
        options.record.write_text(json.dumps({"soaks": [report]}, indent=1) + "\n")
    print(
        f"{requests} requests in {options.minutes} min, grown by {report['growth_bytes'] / 1e6:.1f} MB after "
        f"the warm-up, {spent:.1f} s of CPU time"
    )


if __name__ == "__main__":
    main()
