"""Runs models that cuda_pack.py packed, on a machine with a GPU, and compares. Needs NumPy and `tutti`, no PyTorch.

    cuda_check.py PACK --tutti BINARY [--seconds N] [--json docs/zoo_cuda.json]

Each model: fp32 on CUDA and on CPU ranks, bf16 on both, then fp32 on 2, 4 and 8 ranks that share the card, on other
meshes and at other sizes, and bf16 on 2. Ends with the time given: what is left is `not run`. With --json, rows of models
that are not in the pack stay as they are, and the table beside it is written anew.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cuda_report import PAST, add, verdict
from cuda_weights import write_weights

SAMPLE = 1 << 16  # elements of an answer of PyTorch, at most about


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """max |got - want| / max |want|; infinite for other shapes and for what is not finite."""
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf")
    if want.size == 0:
        return 0.0
    got, want = got.astype(np.float64), want.astype(np.float64)
    largest = np.abs(want).max()
    return float(np.abs(got - want).max() / (largest if largest > 0 else 1))


def rms_error(got: np.ndarray, want: np.ndarray) -> float:
    """The same of root mean squares: less at the mercy of a single element."""
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf")
    got, want = got.astype(np.float64), want.astype(np.float64)
    scale = np.sqrt(np.square(want).mean()) if want.size else 1.0
    return float(np.sqrt(np.square(got - want).mean()) / (scale or 1)) if want.size else 0.0


def sample(array: np.ndarray) -> np.ndarray:
    """Of a large array, elements at a stride that visits every place of every dimension; our outputs are compared there."""
    stride = -(-array.size // SAMPLE)
    if stride <= 1:
        return array
    while np.gcd(stride, array.size) > 1:
        stride += 1
    return array.reshape(-1)[::stride].copy()


def as_bf16(array: np.ndarray) -> np.ndarray:
    """fp32 numbers rounded to the nearest that bf16 has, ties to even; others as they are."""
    if array.dtype != np.float32:
        return array
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(array), rounded.view(np.float32), array).reshape(array.shape)


@dataclass(frozen=True)
class Run:
    """One call of `tutti run`."""

    model: str
    backend: str
    precision: str  # fp32 or bf16
    mesh: str
    case: int = 0

    @property
    def key(self) -> str:
        sizes = f" sizes.{self.case}" if self.case else ""
        return f"{self.backend} {self.precision} {self.mesh}{sizes}"


def runs_of(described: dict[str, Any]) -> list[list[Run]]:
    """By worth: first what most depends on, for all models, then the next."""
    name, (one, *several) = described["name"], described["meshes"]
    both = [[Run(name, backend, p, one) for backend in ("cpu", "cuda")] for p in ("fp32", "bf16")]
    ranks = [[Run(name, "cuda", "fp32", mesh) for mesh in several[i : i + 1]] for i in range(4)]
    others = [Run(name, "cuda", "fp32", mesh) for mesh in several[4:]]
    others += [Run(name, "cuda", "fp32", one, case) for case in range(1, described["cases"])]
    return [*both, *ranks, others, [Run(name, "cuda", "bf16", mesh) for mesh in several[:1]]]


class Checker:
    def __init__(self, pack: Path, tutti: list[str], out: Path, limit: float) -> None:
        self.pack, self.tutti, self.out, self.limit = pack, tutti, out, limit
        files = sorted(pack.glob("*/model.json"))
        self.models = {d["name"]: d for d in (json.loads(file.read_text()) for file in files)}
        self.results: dict[Run, dict[str, Any]] = {}
        for described in self.models.values():
            write_weights(pack / described["name"], described)

    def check(self, at_once: int, seconds: float) -> list[dict[str, Any]]:
        """The rows, in order of name."""
        waves = zip(*(runs_of(described) for described in self.models.values()), strict=True)
        runs = [run for wave in waves for of_model in wave for run in of_model]
        end = time.monotonic() + seconds
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            for run, result in zip(runs, pool.map(lambda r: self.run(r, end), runs), strict=True):
                self.results[run] = result
        return [self.row(described) for described in self.models.values()]

    def feed(self, run: Run) -> list[str]:
        place = self.pack / run.model
        case = place / f"sizes.{run.case}" if run.case else place
        feeds = []
        for name in self.models[run.model]["inputs"]:
            file = case / f"in.{name}.npy"
            if run.precision == "bf16":
                rounded = self.folder(run) / file.name
                np.save(rounded, as_bf16(np.load(file)))
                file = rounded
            feeds += ["--input", f"{name}={file}"]
        return feeds

    def folder(self, run: Run) -> Path:
        place = self.out / run.model / run.key.replace(" ", "_")
        place.mkdir(parents=True, exist_ok=True)
        return place

    def run(self, run: Run, end: float = float("inf")) -> dict[str, Any]:
        if time.monotonic() > end:
            return {"error": "not run"}
        place = str(self.pack / run.model)
        options = [text.replace("{}", place) for text in self.models[run.model]["options"]]
        command = [*self.tutti, "run", f"{place}/model.onnx", "--mesh", run.mesh, *options]
        command += ["--precision", "bf16"] if run.precision == "bf16" else []
        command += ["--backend", run.backend, "--output-dir", str(self.folder(run))]
        command += ["--threads", "2", *self.feed(run)]
        started = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.limit)
        except subprocess.TimeoutExpired:
            return {"error": f"longer than {self.limit:g} s"}
        result: dict[str, Any] = {"seconds": round(time.monotonic() - started, 2)}
        if done.returncode != 0:
            said = done.stderr.strip() or "no message"
            result["error"] = f"{said[-600:]} (exit {done.returncode})"
            print(f"{run.model} {run.key}: {result['error']}", flush=True)
        return result

    def outputs(self, run: Run) -> list[np.ndarray] | None:
        if "error" in self.results.get(run, {"error": "no such run"}):
            return None
        count = len(self.models[run.model]["outputs"])
        return [np.load(self.folder(run) / f"{i}.npy") for i in range(count)]

    def expected(self, run: Run, kind: str) -> list[np.ndarray] | None:
        place = self.pack / run.model
        case = place / f"sizes.{run.case}" if run.case else place
        files = [case / f"{kind}.{i}.npy" for i in range(len(self.models[run.model]["outputs"]))]
        return [np.load(file) for file in files] if all(file.exists() for file in files) else None

    def row(self, described: dict[str, Any]) -> dict[str, Any]:
        row = {key: described[key] for key in ("name", "kind", "missing")} | {"runs": {}}
        for run in (run for wave in runs_of(described) for run in wave):
            result = self.results[run]
            got = self.outputs(run)
            if got is not None:
                result |= self.compare(run, got)
            row["runs"][run.key] = result | {"verdict": verdict(run.precision, result)}
        return row

    def compare(self, run: Run, got: list[np.ndarray]) -> dict[str, float]:
        """Errors of a run, each the worst of the outputs."""
        kind = "pytorch" if run.precision == "fp32" else "fp64"
        exact = self.expected(run, "out" if run.precision == "fp32" else "float64")
        sampled = [sample(output) for output in got]
        found = {f"to_{kind}": worst(relative_error, sampled, exact)} if exact else {}
        if run.backend == "cuda" and not run.case:
            one = self.models[run.model]["meshes"][0]
            on_cpu = self.outputs(Run(run.model, "cpu", run.precision, one))
            found |= {"to_cpu": worst(relative_error, got, on_cpu)} if on_cpu else {}
        peers = self.expected(run, "bfloat16") if run.precision == "bf16" else None
        if peers:
            found |= {"pytorch_to_fp64": worst(relative_error, peers, exact)}
            found |= {"rms_to_fp64": worst(rms_error, sampled, exact)}
            found |= {"pytorch_rms_to_fp64": worst(rms_error, peers, exact)}
        return found


def worst(measure, got: list[np.ndarray], want: list[np.ndarray]) -> float:
    errors = (measure(mine, theirs) for mine, theirs in zip(got, want, strict=True))
    return float(f"{max(errors):.3g}")


def card() -> dict[str, str]:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {"card": "no GPU", "driver": ""}
    name, driver = said.splitlines()[0].split(", ")
    return {"card": name, "driver": driver}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("pack", type=Path)
    parser.add_argument("--tutti", default="build/release/bin/tutti", help="the program")
    parser.add_argument("--seconds", type=float, default=3600, help="start nothing after these")
    parser.add_argument("--each", type=float, default=60, help="seconds that one run may take")
    parser.add_argument("--at-once", type=int, default=8, help="runs side by side")
    parser.add_argument("--json", type=Path, help="where results are kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        checker = Checker(arguments.pack, [arguments.tutti], Path(out), arguments.each)
        rows = checker.check(arguments.at_once, arguments.seconds)
    seen = {"date": datetime.date.today().isoformat()} | card()
    bad = [
        f"{row['name']} {key}: {result['verdict']} {result}"
        for row in rows
        for key, result in row["runs"].items()
        if result["verdict"] not in ("ok", PAST)
    ]
    print("\n".join(bad))
    print(f"{len(rows)} models, {len(bad)} runs that are not within the bars")
    if arguments.json:
        add(arguments.json, [row | seen for row in rows])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
