"""Packs exported models of the zoo with inputs and PyTorch's answers, for cuda_check.py where the GPUs are.

    cuda_pack.py FOLDER [NAME...] [--megabytes N]

Without names: the models that fit into N MB (compressed), small ones first. PyTorch computes here, on CPU ranks:
in fp32 (kept beside the export), and for bf16, on inputs that bf16 has exactly, in fp64 and with the module cast to
bf16. A class that cannot run in double is held to fp32; one that cannot run in bf16 has only the absolute bar.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from build_model import build
from cuda_check import as_bf16
from models.registry import Tiny, changes_between_steps
from one_model import AXES, case_folder, export_folder, exported_model
from tutti.export.arguments import join_tensors, named_outputs, split_tensors

import onnx
from models import MODELS


def single_file(model: Path) -> bytes:
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
    return proto.SerializeToString()


def options(tiny: Tiny, exported: dict[str, Any]) -> list[str]:
    """What `tutti` is told of the inputs; `{}` stands for the folder of the pack."""
    told = [part for name in tiny.bind for part in ("--bind", f"{name}={{}}/in.{name}.npy")]
    given = [n for n in exported["inputs"] if n not in tiny.bind and n not in tiny.constants]
    steady = [name for name in given if not changes_between_steps(tiny, name)]
    for name, size in exported.get("sizes", {}).items():
        tried = [size, *(sizes.get(name, size) for sizes in tiny.sizes)]
        told += ["--profile", f"{name}={min(tried)}:{size}:{max(tried)}"]
    return told + (["--invariant", *steady] if steady else [])


def answers(tiny: Tiny) -> tuple[dict[str, list[np.ndarray]], dict[str, str]]:
    """PyTorch's outputs of the bf16 comparison by the type they are computed in, and why one is missing."""
    found, missing = {}, {}
    for dtype in (torch.float64, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        try:
            found[name] = answer(tiny, dtype)
        except Exception as error:  # whatever a class of Diffusers raises
            missing[name] = f"{type(error).__name__}: {error}"[:200]
            if dtype == torch.float64:
                found[name] = answer(tiny, torch.float32)
    return found, missing


def answer(tiny: Tiny, dtype: torch.dtype) -> list[np.ndarray]:
    torch.manual_seed(0)
    module, inputs = build(tiny)
    structure, tensors = split_tensors(inputs)
    module._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)
    cast = {
        name: tensor.bfloat16().to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    with torch.no_grad():
        result = getattr(module, tiny.method)(**join_tensors(structure, cast))
    return [output.to(torch.float32).numpy() for output in named_outputs(result).values()]


def pack(tiny: Tiny, folder: Path) -> int:
    """Writes FOLDER/NAME; its size, compressed."""
    source = export_folder(tiny)
    exported = exported_model(tiny, source)
    if not exported["ok"]:
        return 0
    place = folder / tiny.name
    place.mkdir(parents=True, exist_ok=True)
    model = single_file(source / "model.onnx")
    (place / "model.onnx").write_bytes(model)
    kept = {info.name for info in onnx.load_from_string(model).graph.input} - set(tiny.bind)
    for case in range(len(tiny.sizes) + 1):
        target = case_folder(place, case)
        target.mkdir(exist_ok=True)
        for file in case_folder(source, case).glob("*.npy"):
            np.save(target / file.name, np.load(file))
    found, missing = answers(tiny)
    for name, outputs in found.items():
        for i, output in enumerate(outputs):
            exact = as_bf16(output) if name == "bfloat16" else output
            np.save(place / f"{name}.{i}.npy", exact)
    described = {
        "name": tiny.name,
        "kind": tiny.kind,
        "inputs": [name for name in exported["inputs"] if name in kept],
        "outputs": exported["outputs"],
        "options": options(tiny, exported),
        "meshes": meshes(tiny),
        "cases": len(tiny.sizes) + 1,
        "missing": missing,
    }
    (place / "model.json").write_text(json.dumps(described, indent=1))
    return sum(len(zlib.compress(f.read_bytes(), 1)) for f in place.rglob("*") if f.is_file())


def meshes(tiny: Tiny) -> list[str]:
    """One rank; several on the axis of the zoo's table; its other meshes; weights split in two."""
    axis = AXES[tiny.kind]
    others = list(tiny.meshes) + ([] if tiny.kind == "vae" else ["tp=2"])
    return [f"{axis}=1", f"{axis}=2", *others, f"{axis}=4", f"{axis}=8"]


def estimate(tiny: Tiny) -> int:
    """About what a model takes, compressed: its weights hardly get smaller, its graph does."""
    source = export_folder(tiny)
    if not (source / "model.onnx").exists():
        return sys.maxsize
    sizes = {file.suffix: file.stat().st_size for file in source.glob("model.onnx*")}
    arrays = sum(file.stat().st_size for file in source.glob("*.npy"))
    return sizes.get(".data", 0) * 9 // 10 + sizes[".onnx"] // 6 + 2 * arrays


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
