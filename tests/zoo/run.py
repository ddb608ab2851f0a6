"""Runs the model zoo and writes docs/zoo.json and docs/zoo.md. scripts/zoo calls this in .venv-zoo.

    run.py                     every model; writes the documents
    run.py --subset ci         a fixed, varied third, held to what docs/zoo.json promises
    run.py NAME...             some models, printed only
    run.py --update NAME...    some models, whose rows replace those of the documents

Each model runs in a process of its own (forked, so that PyTorch is imported once) with limits on time
and memory, two at a time. What is done is kept in build/zoo; --again runs it anew.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from one_model import (
    BINARY,
    CACHE,
    RESULT_SOURCES,
    ROOT,
    export_folder,
    file_hash,
    measure,
    output_bytes,
    recorded_calls,
    recorded_positions,
)
from report import add_minimum, is_good, table, third

DOCUMENT = ROOT / "docs/zoo.json"
MODEL_SECONDS = 900
MEMORY_BYTES = 12 << 30
AT_ONCE = 2


def result_file(tiny) -> Path:
    return export_folder(tiny) / f"result-{file_hash(BINARY, *RESULT_SOURCES)}.json"


def work(tiny, path: Path) -> None:
    """In a child: measures and writes the row, or the error of our own code."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    log = os.open(path.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        row = measure(tiny)
    except Exception as error:
        traceback.print_exc()
        row = failed(tiny, f"{type(error).__name__}: {error}"[:600])
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(row, indent=1))
    temporary.replace(path)


def failed(tiny, error: str) -> dict:
    return {
        "name": tiny.name,
        "kind": tiny.kind,
        "class": tiny.class_name,
        "export": {"ok": False, "error": error, "harness": True},
        "meshes": {},
    }


class Runner:
    """Starts models, at most AT_ONCE at a time, and collects their rows."""

    def __init__(self, models: list, again: bool) -> None:
        self.waiting = list(models)
        self.running: dict = {}
        self.rows: dict[str, dict] = {}
        self.again = again
        self.total = len(models)

    def run(self) -> list[dict]:
        while self.waiting or self.running:
            while self.waiting and len(self.running) < AT_ONCE:
                self.start(self.waiting.pop(0))
            for name in list(self.running):
                self.collect(name)
            time.sleep(0.05)
        return list(self.rows.values())

    def start(self, tiny) -> None:
        path = result_file(tiny)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not self.again:
            self.done(tiny, json.loads(path.read_text()), 0.0)
            return
        path.unlink(missing_ok=True)
        process = multiprocessing.get_context("fork").Process(target=work, args=(tiny, path))
        process.start()
        self.running[tiny.name] = (tiny, process, path, time.monotonic())

    def collect(self, name: str) -> None:
        tiny, process, path, started = self.running[name]
        seconds = time.monotonic() - started
        if process.is_alive() and seconds < MODEL_SECONDS:
            return
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
        del self.running[name]
        if path.exists():
            row = json.loads(path.read_text())
        elif seconds >= MODEL_SECONDS:
            row = failed(tiny, f"longer than {MODEL_SECONDS} s")
        else:
            row = failed(tiny, f"the process ended with {process.exitcode}")
        self.done(tiny, row, seconds)

    def done(self, tiny, row: dict, seconds: float) -> None:
        hold_to_minimum(tiny, row)
        self.rows[tiny.name] = row
        state = "ok" if is_good(row) else "not exported" if not row["export"]["ok"] else "FAILED"
        print(f"[{len(self.rows)}/{self.total}] {tiny.name}: {state} ({seconds:.0f} s)", flush=True)
        errors = [row["export"].get("error", "")]
        errors += [f"{mesh}: {r['error']}" for mesh, r in row["meshes"].items() if "error" in r]
        for error in [e for e in errors if e][:2]:
            print(f"    {error[:300]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="models; all when none is named")
    parser.add_argument("--subset", choices=["ci"], help="a third")
    parser.add_argument(
        "--update", action="store_true", help="put the named models in the documents"
    )
    parser.add_argument("--again", action="store_true", help="forget results of this binary")
    arguments = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    import diffusers.models.transformers  # noqa: F401  imported once, before the forks
    import torch.onnx  # noqa: F401
    import transformers  # noqa: F401

    from models import MODELS

    started = time.monotonic()
    unknown = set(arguments.names) - set(MODELS)
    if unknown:
        parser.error(f"no model {', '.join(sorted(unknown))}")
    chosen = [m for m in MODELS.values() if not arguments.names or m.name in arguments.names]
    if arguments.subset == "ci":
        chosen = third(chosen)
    if any(not (export_folder(tiny) / "export.json").exists() for tiny in chosen):
        warm_up()
    rows = sorted(Runner(chosen, arguments.again).run(), key=lambda row: row["name"])
    if arguments.update:
        rows = sorted(rows + other_rows(MODELS, rows), key=lambda row: row["name"])
    if arguments.update or not (arguments.names or arguments.subset):
        DOCUMENT.write_text(json.dumps(rows, indent=1) + "\n")
        DOCUMENT.with_suffix(".md").write_text(table(rows))
        print(f"wrote {DOCUMENT.relative_to(ROOT)} and zoo.md")
    print(f"{len(rows)} models in {(time.monotonic() - started) / 60:.1f} min")
    return verdict(rows)


def hold_to_minimum(tiny, row: dict) -> None:
    calls, positions = (lambda: recorded_calls(tiny)), (lambda: recorded_positions(tiny))
    add_minimum(tiny, row, calls, positions, output_bytes(tiny))


def other_rows(models: dict, rows: list[dict]) -> list[dict]:
    """Those that docs/zoo.json has of other models, held to the minimum once more where their exports are here."""
    new = {row["name"] for row in rows}
    others = [row for row in json.loads(DOCUMENT.read_text()) if row["name"] not in new]
    for row in others:
        tiny = models[row["name"]]
        if (export_folder(tiny) / "export.json").exists():
            hold_to_minimum(tiny, row)
    return others


def warm_up() -> None:
    """Exports a small module before the forks: what PyTorch loads and keeps for a first export is then there for all."""
    import torch
    from tutti.export import export_module

    torch.set_num_threads(1)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    inputs = {name: torch.ones(1, 4, 8) for name in ("query", "key", "value")}
    with tempfile.TemporaryDirectory() as folder:
        export_module(module, inputs, Path(folder) / "small.onnx")


def verdict(rows: list[dict]) -> int:
    """Prints the closing line: a row fails that is worse than docs/zoo.json promises."""
    promised = json.loads(DOCUMENT.read_text()) if DOCUMENT.exists() else []
    good_before = {row["name"] for row in promised if is_good(row)}
    passed = sum(is_good(row) for row in rows)
    lost = [row["name"] for row in rows if not is_good(row) and row["name"] in good_before]
    for name in lost:
        print(f"FAILED {name}: docs/zoo.json says that it compiles and is equal")
    skipped = len(rows) - passed - len(lost)
    print(f"{passed} passed, {len(lost)} failed, {skipped} skipped")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
