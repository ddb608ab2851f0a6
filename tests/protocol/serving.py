"""The real binary: compile, serve, ask."""

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton
from raw_http import ask

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TUTTI_BUILD", ROOT / "build" / "release"))
TUTTI = Path(os.environ.get("TUTTI_BINARY", BUILD / "bin" / "tutti"))
START_SECONDS = 120
SETTLE_SECONDS = 60
RANKS = (1, 2, 3, 4, 8)
# Tests run beside other servers.
FREE_PORTS = [
    *("--grpc-address", "127.0.0.1", "--grpc-port", "0"),
    *("--http-address", "127.0.0.1", "--http-port", "0"),
    *("--metrics-port", "0"),
]


def compile_model(onnx_file, folder, *options, version=1):
    command = [TUTTI, "compile", onnx_file, "--output", folder, "--version", str(version)]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, f"tutti compile failed:\n{done.stdout}{done.stderr}"


class Server:
    """`tutti serve` on a free port."""

    def __init__(self, *repositories, options=(), log, log_in=None):
        port_file = log.with_suffix(".port")
        port_file.unlink(missing_ok=True)
        command = [TUTTI, "serve", *FREE_PORTS, "--port-file", port_file, *options]
        for repository in repositories:
            command += ["--model-repository", repository]
        self.log = log_in or log
        self.output = log
        with open(log, "w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the server did not start:\n{log.read_text()}")
            time.sleep(0.02)
        self.url = f"127.0.0.1:{port_file.read_text().strip()}"
        self.client = triton.InferenceServerClient(self.url)
        self.http_url = self.endpoint("HTTPService")
        self.metrics_url = self.endpoint("Metrics Service")

    def endpoint(self, service):
        """host:port of a front end as the log names it; None when it was not started."""
        found = re.search(rf"Started {service} at ([\w.]+:\d+)", self.log.read_text())
        return found and found.group(1)

    def pending(self, model):
        """How many requests wait in the model's queue."""
        text = ask(self.metrics_url, "GET", "/metrics").body.decode()
        gauge = rf'nv_inference_pending_request_count\{{model="{model}",.*\}} (\d+)'
        return int(re.search(gauge, text)[1])

    def stop(self, number=signal.SIGTERM, timeout=60):
        """The exit code."""
        if hasattr(self, "client"):
            self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        # A server that was built with sanitizers reports here, leaks at its exit.
        output = self.output.read_text(errors="replace")
        assert "Sanitizer:" not in output and "runtime error:" not in output, output
        return code


def tensor(name, array, datatype):
    tensor = triton.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return tensor


class Answers:
    """Requests that are on their way together, and the order in which they were answered."""

    def __init__(self, server, model):
        self.server = server
        self.model = model
        self.order = []
        self.results = {}
        self.sent = 0
        self.changed = threading.Condition()

    def send(self, name, inputs, **options):
        def answered(result, error):
            with self.changed:
                self.order.append(name)
                self.results[name] = (result, error)
                self.changed.notify_all()

        self.sent += 1
        return self.server.client.async_infer(self.model, inputs, callback=answered, **options)

    def send_to_idle(self, name, inputs):
        """Returns when the model is at it: those that follow wait."""
        self.send(name, inputs)
        # Calls on one connection arrive in order; how long they take inside is not known.
        self.server.client.is_server_live()
        time.sleep(0.1)

    def send_to_queue(self, name, inputs, **options):
        """Returns when the request waits in the queue, or was answered: the next one comes after it."""
        waiting = self.server.pending(self.model)
        call = self.send(name, inputs, **options)
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.server.pending(self.model) <= waiting and name not in self.results:
            assert time.monotonic() < deadline, (
                f"'{name}' is not in the queue: {self.order} answered"
            )
            time.sleep(0.001)
        return call

    def wait(self, timeout=120):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.results) == self.sent, timeout)

    def status(self, name):
        error = self.results[name][1]
        return error and error.status()

    def message(self, name):
        return self.results[name][1].message()

    def y(self, name):
        result, error = self.results[name]
        assert error is None, error
        return result.as_numpy("y")


def infer_affine(client, model="affine", x=None):
    """y of the affine model."""
    x = np.arange(8, dtype=np.float32).reshape(2, 4) if x is None else x
    return client.infer(model, [tensor("x", x, "FP32")]).as_numpy("y")


def assert_well(client):
    """Live, ready, and a good request gets the right answer."""
    assert client.is_server_live()
    assert client.is_server_ready()
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(infer_affine(client, x=x), 2 * x + 1)
