"""Models of the zoo at their true depth and numbers of heads, narrow: what two layers and four heads may hide.

    PYTHONPATH=python:tests/zoo .venv-zoo/bin/python bench/zoo_depth.py [NAME...] [--binary build/release/bin/tutti]

Each is exported once with random weights (to build/zoo_depth; some minutes), compiled for one rank and for some meshes, run on CPU ranks and compared with one rank. A line a
mesh: seconds to compile, exchanges by kind, attentions, bytes against the least (tests/zoo/exchange_minimum.py), work of the busiest
rank against an even share, weights of the busiest rank against all, and the largest relative difference to one rank.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import one_model
import torch
from attention_calls import calls_of
from build_model import build
from exchange_check import check_exchanges
from models.registry import Tiny
from tutti.export import export_module
from tutti.export.arguments import split_tensors
from tutti.export.check import relative_error

from models import MODELS

# Depth and heads of the published models; head sizes are the smallest that keep the structure.
MODELS_AT_DEPTH: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "Cosmos3OmniTransformer": (
        {
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "hidden_size": 384,
            "intermediate_size": 512,
        },
        ("cp=4", "cp=8", "tp=8", "tp=2,cp=4"),
    ),
    "WanTransformer3DModel": (
        {"num_layers": 40, "num_attention_heads": 40, "ffn_dim": 640},
        ("cp=8", "tp=8", "cfg=2,cp=4"),
    ),
    "FluxTransformer2DModel": (
        {"num_layers": 19, "num_single_layers": 38, "num_attention_heads": 24},
        ("cp=8", "tp=8", "tp=2,cp=4"),
    ),
}


def at_depth(name: str) -> Tiny:
    tiny, (changes, _) = MODELS[name], MODELS_AT_DEPTH[name]

    def describe() -> tuple[dict[str, Any], dict[str, Any]]:
        config, inputs = tiny.describe()
        unknown = changes.keys() - config.keys()
        if unknown:
            raise ValueError(f"{name}: no {', '.join(sorted(unknown))} in its configuration")
        return config | changes, inputs

    return dataclasses.replace(tiny, describe=describe)


def tutti(binary: str, *arguments: object) -> str:
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"tutti {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def exported(tiny: Tiny, folder: Path) -> dict[str, Any]:
    report = folder / "export.json"
    if report.exists():
        return json.loads(report.read_text())
    torch.set_num_threads(1)
    module, inputs = build(tiny)
    _, tensors = split_tensors(inputs)
    one_model.save_case(folder, tensors, [])
    export_module(
        module, inputs, folder / "model.onnx", method=tiny.method, constants=tiny.constants
    )
    report.write_text(json.dumps({"inputs": list(tensors)}))
    return json.loads(report.read_text())


def on_mesh(binary: str, tiny: Tiny, folder: Path, export: dict[str, Any], mesh: str) -> dict:
    place = folder / re.sub(r"\W+", "_", mesh)
    started = time.monotonic()
    options = ["--output", place, "--mesh", mesh, "--quiet"]
    options += one_model.premises(tiny, folder, export)
    tutti(binary, "compile", folder / "model.onnx", *options)
    seconds = time.monotonic() - started
    plan = place / "1/model.plan"
    report = json.loads(tutti(binary, "inspect", "plan", plan, "--json"))
    result = one_model.of_plan(report, tutti(binary, "inspect", "plan", plan, "--text"))
    feeds = [f"{t['name']}={folder}/in.{t['name']}.npy" for t in report["inputs"]]
    out = place / "out"
    named = [part for feed in feeds for part in ("--input", feed)]
    tutti(binary, "run", plan, "--output-dir", out, "--threads", 1, *named)
    (place / "1/model.plan.data").unlink()
    result |= {"seconds": seconds, "outputs": [np.load(f) for f in sorted(out.glob("*.npy"))]}
    return result | {"weights": max(rank["weight_bytes"] for rank in report["by_rank"])}


def line(tiny: Tiny, mesh: str, result: dict, whole: dict, calls: list) -> str:
    ranks = int(np.prod([int(n) for n in re.findall(r"=(\d+)", mesh)]))
    kinds = collections.Counter(e["kind"] for e in result["exchanges"])
    difference = max(map(relative_error, result["outputs"], whole["outputs"]))
    parts = [f"{result['seconds']:.1f} s", ", ".join(f"{n} {kind}" for kind, n in kinds.items())]
    if re.fullmatch(r"cp=\d+", mesh):
        outputs = sum(x.nbytes for x in whole["outputs"])
        check = check_exchanges(calls, tiny.tokens, ranks, result, outputs)
        parts.append(
            f"{check['attentions']} attentions, bytes {check.get('bytes_to_least')} of the least"
        )
        parts += check["reasons"]
    parts.append(f"work {result['flops'] * ranks / whole['flops']:.2f}")
    parts.append(f"weights {result['weights'] / whole['weights']:.3f}")
    return f"{tiny.name} {mesh}: {'; '.join(parts)}; differs by {difference:.1e}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--binary", default=str(one_model.BINARY))
    arguments = parser.parse_args()
    one_model.BINARY = Path(arguments.binary)
    worst = 0.0
    for name in arguments.names or MODELS_AT_DEPTH:
        tiny = at_depth(name)
        folder = one_model.ROOT / "build/zoo_depth" / name
        started = time.monotonic()
        export = exported(tiny, folder)
        calls = calls_of(tiny)
        print(f"{name}: exported in {time.monotonic() - started:.0f} s", flush=True)
        whole = on_mesh(arguments.binary, tiny, folder, export, "")
        for mesh in MODELS_AT_DEPTH[name][1]:
            result = on_mesh(arguments.binary, tiny, folder, export, mesh)
            print(line(tiny, mesh, result, whole, calls), flush=True)
            worst = max([worst, *map(relative_error, result["outputs"], whole["outputs"])])
    return 0 if worst <= one_model.TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
