"""Requests a second and p99 of `tutti serve` for a tiny identity model over gRPC, against a bare gRPC server in C++.

    python bench/grpc_load.py [--seconds 4] [--turns 5] [--connections 256] [--rate 10000] [--record load.json]

In turns, on the same machine: `tutti serve` and bench/load/grpc_echo.cpp answer the same client (bench/load/grpc_load.cpp)
over 256 connections, first each connection with a request under way at any time (throughput), then at a fixed rate
(latency). Client and server share the machine's cores. Medians over the turns; the ratio (bar: at least 0.7) is taken of
each turn, so that a neighbour's load meets both sides.

Report: build/reports/grpc_load.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/protocol"))
import tiny_models
from serving import BUILD, ROOT, Server, compile_model


def build():
    programs = ["grpc_echo", "grpc_load"]
    if "TUTTI_BUILD" not in os.environ:
        subprocess.run([ROOT / "scripts/build", "release", *programs], check=True)
    return [BUILD / "bench" / name for name in programs]


class Echo:
    def __init__(self, program):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = self.process.stdout.readline().strip()

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(client, server, port, connections, seconds, rate):
    """What the client reports, and what the server took of the processor for each request."""
    before = cpu_seconds(server.process)
    done = subprocess.run(
        [client, port, str(connections), str(seconds), str(rate)],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    # The warm-up of a second is in the server's time, too.
    sent = max(report["rate"], 1) * (report["seconds"] + 1)
    return report | {"cpu_us": 1e6 * (cpu_seconds(server.process) - before) / sent}


def median(turns, key):
    return statistics.median(turn[key] for turn in turns)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--rate", type=float, default=10000)
    parser.add_argument("--record", type=Path, help="file for records.py --add")
    options = parser.parse_args()
    echo_program, client = build()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx = tiny_models.identity(folder / "identity.onnx", "FP32")
        compile_model(onnx, folder / "models" / "identity_FP32")
        tutti = Server(folder / "models", log=folder / "serve.log")
        echo = Echo(echo_program)
        servers = {"ours": (tutti, tutti.url.rsplit(":", 1)[1]), "echo": (echo, echo.port)}
        results = {}
        for kind, rate in (("full", 0), ("paced", options.rate)):
            turns = results[kind] = {"ours": [], "echo": []}
            for _ in range(options.turns):
                for side, (server, port) in servers.items():
                    run = load(client, server, port, options.connections, options.seconds, rate)
                    turns[side].append(run)
            for side, runs in turns.items():
                print(
                    f"{kind}: {side}: {median(runs, 'rate'):,.0f} requests/s, p50 {median(runs, 'p50_us'):,.0f} us, "
                    f"p99 {median(runs, 'p99_us'):,.0f} us, {median(runs, 'cpu_us'):.1f} us of server CPU a request, "
                    f"{sum(run['failures'] for run in runs)} failures"
                )
                sys.stdout.flush()
        assert tutti.stop() == 0, tutti.log.read_text()
        echo.stop()
    full = results["full"]
    ratios = [a["rate"] / b["rate"] for a, b in zip(full["ours"], full["echo"], strict=True)]
    ratio = statistics.median(ratios)
    print(f"throughput: {ratio:.3f} of the bare server's ({min(ratios):.3f} to {max(ratios):.3f})")
    report = {
        "name": "gRPC load", "connections": options.connections, "ratio": ratio, "ratios": ratios,
        "paced_rate": options.rate, "command": "python bench/grpc_load.py", "date": date.today().isoformat(),
    }  # fmt: skip
    for kind, turns in results.items():
        for side, runs in turns.items():
            keys = ("rate", "p50_us", "p99_us", "cpu_us", "failures")
            report[f"{kind}_{side}"] = {key: round(median(runs, key), 1) for key in keys}
    reports = ROOT / "build/reports"
    reports.mkdir(parents=True, exist_ok=True)
    (reports / "grpc_load.json").write_text(json.dumps(report, indent=1) + "\n")
    if options.record:
        options.record.write_text(json.dumps({"loads": [report]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
