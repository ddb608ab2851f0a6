"""One model through everything: PyTorch's answer, export, and for each number of ranks compile, run, compare.

Exports are kept in build/zoo by a hash of all that made them, results by that and the binary's hash.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from attention_calls import AttentionCall
from models.registry import Tiny, at_sizes, changes_between_steps, own_sizes
from plan_exchanges import exchanges_of
from position_calls import PositionCalls

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build/zoo"
BINARY = Path(os.environ.get("TUTTI_BINARY", ROOT / "build/release/bin/tutti"))
RANKS = (1, 2, 3, 4)
AXES = {"transformer": "cp", "vae": "sp", "text": "cp"}  # that the ranks of the table are on
TENSOR_MESHES = ("tp=3", "tp=2,cp=2")  # weights split, too; three divide few numbers of heads
TOLERANCE = 1e-4
HERE = Path(__file__).parent
CALL_SOURCES = [HERE / "attention_calls.py", HERE / "models/registry.py"]
POSITION_SOURCES = [*CALL_SOURCES, HERE / "position_calls.py", HERE / "pair_calls.py"]
RESULT_SOURCES = [HERE / "one_model.py", HERE / "plan_exchanges.py", HERE / "models/registry.py"]
COMMAND_SECONDS = 240


def file_hash(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def export_folder(tiny: Tiny) -> Path:
    """Where the export of this configuration by this exporter lies."""
    import torch
    from build_model import describe

    exporter = ROOT / "python/tutti/export"
    names = ("arguments", "wrapper", "exporter", "known_elements", "rewrite")
    names += ("complex_pairs", "flex_attention", "translations")
    sources = [exporter / f"{name}.py" for name in names]
    sources += [ROOT / "python/requirements-zoo.txt", HERE / "build_model.py"]
    digest = hashlib.sha256(file_hash(*sources).encode())
    config, inputs = describe(tiny)
    leaves, structure = torch.utils._pytree.tree_flatten((config, inputs))
    digest.update(repr((structure, tiny.method, tiny.constants)).encode())
    if tiny.sizes:
        digest.update(repr((tiny.dynamic_axes, tiny.sizes)).encode())
    for leaf in leaves:
        is_tensor = isinstance(leaf, torch.Tensor)
        is_plain = leaf is None or isinstance(leaf, bool | int | float | str)
        digest.update(
            leaf.numpy().tobytes() if is_tensor else repr(leaf).encode() if is_plain else b"?"
        )
    return CACHE / tiny.name / digest.hexdigest()[:16]


def measure(tiny: Tiny) -> dict[str, Any]:
    """The row of the table for one model."""
    folder = export_folder(tiny)
    row = {"name": tiny.name, "kind": tiny.kind, "class": tiny.class_name}
    exported = exported_model(tiny, folder)
    row["export"] = {k: v for k, v in exported.items() if k != "outputs"}
    row["meshes"] = {}
    if not exported["ok"]:
        return row
    if tiny.sizes:
        row["sizes"] = [exported["sizes"], *(exported["sizes"] | sizes for sizes in tiny.sizes)]
    if tiny.kind != "vae":
        recorded_calls(tiny)
        recorded_positions(tiny)
    for mesh in meshes_of(tiny):
        row["meshes"][mesh] = on_mesh(tiny, folder, exported, mesh)
    return row


def meshes_of(tiny: Tiny) -> list[str]:
    tensor = () if tiny.kind == "vae" else TENSOR_MESHES
    return [*(f"{AXES[tiny.kind]}={ranks}" for ranks in RANKS), *tensor, *tiny.meshes]


def exported_model(tiny: Tiny, folder: Path) -> dict[str, Any]:
    report = folder / "export.json"
    if report.exists():
        return json.loads(report.read_text())
    made = _export(tiny, folder)
    report.write_text(json.dumps(made, indent=1))
    return made


def _export(tiny: Tiny, folder: Path) -> dict[str, Any]:
    import torch
    from build_model import build
    from tutti.export import ExportError, export_module
    from tutti.export.arguments import join_tensors, named_outputs, split_tensors

    torch.set_num_threads(1)
    started = time.monotonic()
    module, inputs = build(tiny)
    structure, tensors = split_tensors(inputs)
    for i, sizes in enumerate(({}, *tiny.sizes)):
        given = at_sizes(tiny, tensors, sizes) if sizes else tensors
        with torch.no_grad():
            arguments = join_tensors(structure, given)
            outputs = named_outputs(getattr(module, tiny.method)(**arguments))
        save_case(case_folder(folder, i), given, list(outputs.values()))
    made = {"ok": True, "inputs": list(tensors), "outputs": list(outputs)}
    made |= {"sizes": own_sizes(tiny, tensors)} if tiny.sizes else {}
    options = {"method": tiny.method, "constants": tiny.constants}
    options |= {"dynamic_axes": tiny.dynamic_axes} if tiny.sizes else {}
    try:
        report = export_module(module, inputs, folder / "model.onnx", **options)
    except ExportError as error:
        return made | {"ok": False, "error": str(error)[:600]}
    made |= {"exporter": report.exporter, "opset": report.opset, "notes": report.notes}
    return made | {"seconds": round(time.monotonic() - started, 1)}


def case_folder(folder: Path, case: int) -> Path:
    """Inputs and PyTorch's answer at the description's sizes, or at one of the others."""
    return folder / f"sizes.{case}" if case else folder


def save_case(folder: Path, inputs: dict[str, Any], outputs: list[Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, tensor in inputs.items():
        np.save(folder / f"in.{name}.npy", tensor.numpy())
    for i, tensor in enumerate(outputs):
        np.save(folder / f"out.{i}.npy", tensor.numpy())


def recorded_calls(tiny: Tiny) -> list[AttentionCall]:
    """The attentions of a forward, kept beside the export."""
    path = export_folder(tiny) / f"calls-{file_hash(*CALL_SOURCES)}.json"
    if not path.exists():
        from attention_calls import calls_of

        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([dataclasses.asdict(call) for call in calls_of(tiny)]))
    return [AttentionCall.from_json(fields) for fields in json.loads(path.read_text())]


def recorded_positions(tiny: Tiny) -> PositionCalls:
    """What else of a forward reaches across positions, kept beside the export."""
    path = export_folder(tiny) / f"positions-{file_hash(*POSITION_SOURCES)}.json"
    if not path.exists():
        from position_calls import positions_of

        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(positions_of(tiny))))
    return PositionCalls.from_json(json.loads(path.read_text()))


def output_bytes(tiny: Tiny) -> int:
    return sum(np.load(file).nbytes for file in export_folder(tiny).glob("out.*.npy"))


def tutti(*arguments: Any) -> str:
    """Runs a sub-command; raises with the last line that it printed."""
    done = subprocess.run(
        [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=COMMAND_SECONDS
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = next(
            (line for line in lines if line.startswith("tutti")), lines[-1] if lines else ""
        )
        raise RuntimeError(f"{said or 'no message'} (exit {done.returncode})")
    return done.stdout


def on_mesh(tiny: Tiny, folder: Path, exported: dict[str, Any], mesh: str) -> dict[str, Any]:
    """Compiles, runs and compares; a `no` has its reason in `error`."""
    place = folder / re.sub(r"\W+", "_", mesh)
    result: dict[str, Any] = {"compiled": False, "equal": False}
    try:
        started = time.monotonic()
        options = ["--output", place, "--mesh", mesh, "--quiet", *premises(tiny, folder, exported)]
        tutti("compile", folder / "model.onnx", *options)
        result |= {"compiled": True, "compile_seconds": round(time.monotonic() - started, 2)}
        plan = place / "1/model.plan"
        report = json.loads(tutti("inspect", "plan", plan, "--json"))
        result |= of_plan(report, tutti("inspect", "plan", plan, "--text"))
        cases = range(len(tiny.sizes) + 1)
        result |= worst(
            [run_case(plan, case_folder(folder, i), report, exported["outputs"]) for i in cases]
        )
    except subprocess.TimeoutExpired as error:
        result["error"] = f"{error.cmd[1]}: longer than {COMMAND_SECONDS} s"
    except RuntimeError as error:
        result["error"] = str(error)[:600]
    finally:
        for file in place.glob("1/model.plan.data"):
            file.unlink()  # weights, once a rank count and model
    return result


def run_case(plan: Path, case: Path, report: dict[str, Any], outputs: list[str]) -> dict[str, Any]:
    """Runs a plan on saved inputs and compares."""
    feeds = []
    for tensor in report["inputs"]:
        feeds += ["--input", f"{tensor['name']}={case}/in.{tensor['name']}.npy"]
    out = plan.parent.parent / "out"
    tutti("run", plan, "--output-dir", out, "--threads", 2, *feeds)
    return compare(case, out, outputs)


def worst(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The first that is wrong, or the least exact."""
    wrong = [result for result in results if not result.get("equal")]
    return wrong[0] if wrong else max(results, key=lambda result: result["relative_error"])


def premises(tiny: Tiny, folder: Path, exported: dict[str, Any]) -> list[str]:
    """What a profile says of the inputs: the content of some, ranges of sizes, and which a denoising loop keeps."""
    options = [part for name in tiny.bind for part in ("--bind", f"{name}={folder}/in.{name}.npy")]
    given = [n for n in exported["inputs"] if n not in tiny.bind and n not in tiny.constants]
    steady = [name for name in given if not changes_between_steps(tiny, name)]
    for name, size in exported.get("sizes", {}).items():
        tried = [size, *(sizes.get(name, size) for sizes in tiny.sizes)]
        options += ["--profile", f"{name}={min(tried)}:{size}:{max(tried)}"]
    return options + (["--invariant", *steady] if steady else [])


def of_plan(report: dict[str, Any], text: str) -> dict[str, Any]:
    """What the plan moves and computes in each call."""
    exchanges = exchanges_of(report, text, exchange_kinds())
    prologue = [exchange for exchange in exchanges if exchange.pop("in_prologue")]
    main = [exchange for exchange in exchanges if exchange not in prologue]
    return {
        "exchanges": main,
        "prologue_exchanges": len(prologue),
        "flops": max(rank["main"]["flops"] for rank in report["by_rank"]),
        "weights": max(rank["weight_bytes"] for rank in report["by_rank"]),
    }


@functools.cache
def exchange_kinds() -> frozenset[str]:
    operators = json.loads(tutti("inspect", "operators", "--json"))["core"]
    return frozenset(operator["type"] for operator in operators if operator["exchange"])


def compare(folder: Path, out: Path, names: list[str]) -> dict[str, Any]:
    from tutti.export.check import relative_error

    errors = {}
    for i, name in enumerate(names):
        got, want = np.load(out / f"{i}.npy"), np.load(folder / f"out.{i}.npy")
        if got.shape != want.shape:
            return {"error": f"output '{name}': shape {got.shape}, expected {want.shape}"}
        errors[name] = relative_error(got, want)
    worst = max(errors, key=errors.get)
    result = {"relative_error": float(f"{errors[worst]:.3g}")}
    if errors[worst] <= TOLERANCE:
        return result | {"equal": True}
    return result | {"error": f"output '{worst}' differs by {errors[worst]:.3g}"}
