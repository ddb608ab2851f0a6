"""Packs exported models of the zoo with inputs and PyTorch's answers, for cuda_check.py where the GPUs are.

    cuda_pack.py FOLDER [NAME...] [--megabytes N]

Without names: all models that are exported, small graphs first, until N MB (compressed) are full. PyTorch computes
here: in fp32, and for bf16, on inputs that bf16 has exactly, in fp64 and with the module cast to bf16. A class that
cannot run in double is held to fp32; one that cannot run in bf16 has only the absolute bar. Many parameters are drawn
anew, and again where the pack is used (cuda_weights.py), and of large answers a sample is kept, so that little is carried.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from build_model import build
from cuda_check import Checker, Run, as_bf16, sample
from cuda_redraw import LEAST_BYTES, Parameters, put_in, redraw
from cuda_report import FP32_BAR
from cuda_weights import FILE as WEIGHTS_FILE
from cuda_weights import checksum
from models.registry import Tiny, changes_between_steps
from one_model import AXES, BINARY, case_folder, export_folder, exported_model
from tutti.export.arguments import join_tensors, named_outputs, split_tensors

import onnx
from models import MODELS


def bare_model(model: Path) -> onnx.ModelProto:
    """The model with its weights inside, without what only says where a node came from."""
    proto = onnx.load(model)
    graphs = [proto.graph]
    for graph in graphs:
        for part in [*graph.node, *graph.input, *graph.output, *graph.value_info]:
            del part.metadata_props[:]
            part.doc_string = ""
        del graph.metadata_props[:]
        subgraphs = (a for node in graph.node for a in node.attribute if a.HasField("g"))
        graphs.extend(attribute.g for attribute in subgraphs)
    del proto.metadata_props[:]
    return proto


def options(tiny: Tiny, exported: dict[str, Any]) -> list[str]:
    """What `tutti` is told of the inputs; `{}` stands for the folder of the pack."""
    told = [part for name in tiny.bind for part in ("--bind", f"{name}={{}}/in.{name}.npy")]
    given = [n for n in exported["inputs"] if n not in tiny.bind and n not in tiny.constants]
    steady = [name for name in given if not changes_between_steps(tiny, name)]
    for name, size in exported.get("sizes", {}).items():
        tried = [size, *(sizes.get(name, size) for sizes in tiny.sizes)]
        told += ["--profile", f"{name}={min(tried)}:{size}:{max(tried)}"]
    return told + (["--invariant", *steady] if steady else [])


def answers(tiny: Tiny, new: Parameters) -> tuple[dict[str, list[np.ndarray]], dict[str, str]]:
    """PyTorch's outputs of the bf16 comparison by the type they are computed in, and why one is missing."""
    found, missing = {}, {}
    for dtype in (torch.float64, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        try:
            found[name] = answer(tiny, new, dtype)
        except Exception as error:  # whatever a class of Diffusers raises
            missing[name] = f"{type(error).__name__}: {error}"[:200]
            if dtype == torch.float64:
                found[name] = answer(tiny, new, torch.float32)
    return found, missing


def answer(tiny: Tiny, new: Parameters, dtype: torch.dtype) -> list[np.ndarray]:
    """Of inputs that bf16 has exactly."""
    module, (structure, tensors) = module_with(tiny, new)
    module._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)
    cast = {
        name: tensor.bfloat16().to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    return forward(tiny, module, join_tensors(structure, cast))


def module_with(tiny: Tiny, new: Parameters) -> tuple[torch.nn.Module, Any]:
    torch.manual_seed(0)
    module, inputs = build(tiny)
    put_in(module, new)
    return module, split_tensors(inputs)


def forward(tiny: Tiny, module: torch.nn.Module, arguments: dict[str, Any]) -> list[np.ndarray]:
    with torch.no_grad():
        result = getattr(module, tiny.method)(**arguments)
    return [output.to(torch.float32).numpy() for output in named_outputs(result).values()]


def write_cases(tiny: Tiny, new: Parameters, source: Path, place: Path) -> None:
    """Inputs at each of the sizes, and PyTorch's answers in fp32."""
    module, (structure, tensors) = module_with(tiny, new)
    for case in range(len(tiny.sizes) + 1):
        target = case_folder(place, case)
        target.mkdir(exist_ok=True)
        given = {}
        for name in tensors:
            array = np.load(case_folder(source, case) / f"in.{name}.npy")
            np.save(target / f"in.{name}.npy", array)
            given[name] = torch.from_numpy(array)
        for i, output in enumerate(forward(tiny, module, join_tensors(structure, given))):
            np.save(target / f"out.{i}.npy", sample(output))


def write(tiny: Tiny, exported: dict[str, Any], place: Path, least_bytes: int) -> None:
    source = export_folder(tiny)
    model = bare_model(source / "model.onnx")
    new, weights = redraw(tiny.name, build(tiny)[0], model, least_bytes)
    (place / "model.onnx").write_bytes(model.SerializeToString())
    kept = {info.name for info in model.graph.input} - set(tiny.bind)
    write_cases(tiny, new, source, place)
    found, missing = answers(tiny, new)
    for name, outputs in found.items():
        for i, output in enumerate(outputs):
            exact = as_bf16(output) if name == "bfloat16" else output
            np.save(place / f"{name}.{i}.npy", sample(exact))
    described = {
        "name": tiny.name,
        "kind": tiny.kind,
        "inputs": [name for name in exported["inputs"] if name in kept],
        "outputs": exported["outputs"],
        "options": options(tiny, exported),
        "meshes": meshes(tiny),
        "cases": len(tiny.sizes) + 1,
        "missing": missing,
        "weights": [asdict(drawn) for drawn in weights],
        "weights_crc32": checksum(weights),
    }
    (place / "model.json").write_text(json.dumps(described))


def error_on_cpu_ranks(tiny: Tiny, folder: Path) -> float:
    """Of the one packed model in FOLDER, in fp32 on one rank against PyTorch."""
    with tempfile.TemporaryDirectory() as out:
        checker = Checker(folder, [str(BINARY)], Path(out), 100)
        run = Run(tiny.name, "cpu", "fp32", meshes(tiny)[0])
        result = checker.results[run] = checker.run(run)
        if "error" in result:
            raise RuntimeError(f"{tiny.name}: {result['error']}")
        return checker.compare(run, checker.outputs(run))["to_pytorch"]


def pack(tiny: Tiny, folder: Path) -> int:
    """Writes FOLDER/NAME; its size, compressed. Weights stay in the model where other constants were made of them."""
    exported = exported_model(tiny, export_folder(tiny))
    if not exported["ok"]:
        return 0
    place = folder / tiny.name
    for least_bytes in (LEAST_BYTES, sys.maxsize):
        with tempfile.TemporaryDirectory() as staging:
            made = Path(staging) / tiny.name
            made.mkdir()
            write(tiny, exported, made, least_bytes)
            error = error_on_cpu_ranks(tiny, Path(staging))
            (made / WEIGHTS_FILE).unlink(missing_ok=True)
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(made, place)
        if error <= FP32_BAR:
            break
    return sum(len(zlib.compress(f.read_bytes(), 1)) for f in place.rglob("*") if f.is_file())


def meshes(tiny: Tiny) -> list[str]:
    """One rank, and several on the axis of the zoo's table; weights split, alone and beside that; its other meshes."""
    axis = AXES[tiny.kind]
    tensor = [] if tiny.kind == "vae" else ["tp=2", "tp=3", f"tp=2,{axis}=2"]
    return [f"{axis}=1", f"{axis}=2", f"{axis}=4", f"{axis}=8", *tensor, *tiny.meshes]


def estimate(tiny: Tiny) -> int:
    """About what a model takes, compressed."""
    source = export_folder(tiny)
    if not (source / "model.onnx").exists():
        return sys.maxsize
    arrays = sum(file.stat().st_size for file in source.glob("in.*.npy"))
    return (source / "model.onnx").stat().st_size // 6 + 2 * arrays


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="models; as many as fit when none is named")
    parser.add_argument("--megabytes", type=float, default=1000, help="how much fits, compressed")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(MODELS)
    if unknown:
        parser.error(f"no model {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    chosen = [m for m in MODELS.values() if not arguments.names or m.name in arguments.names]
    chosen.sort(key=lambda tiny: (estimate(tiny), tiny.name))
    used = packed = 0
    for tiny in chosen:
        if (used + estimate(tiny)) / 1e6 > arguments.megabytes:
            continue
        size = pack(tiny, arguments.folder)
        used, packed = used + size, packed + (size > 0)
        print(f"{tiny.name}: {size / 1e3:.0f} kB, {used / 1e6:.1f} MB in all", flush=True)
    print(f"{packed} models in {arguments.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
