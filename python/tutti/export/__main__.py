"""The command `tutti-export` (or `python -m tutti.export`).

    tutti-export ./pipeline --subfolder transformer --example inputs.json --output model.onnx --check
    tutti-export FluxTransformer2DModel --config '{"num_layers": 2}' --example inputs.json -o model.onnx

`inputs.json` holds the arguments of the forward by name. A tensor is an object: a shape and a dtype with random content,
    {"hidden_states": {"shape": [1, 77, 4]}, "timestep": {"shape": [1], "dtype": "int64", "high": 1000}}
or values `{"data": [1, 2]}`, or an array `{"file": "x.npy"}`; anything else is a constant. Options:
`--dynamic hidden_states:1=tokens` makes an axis symbolic, `--constant attention_mask` bakes in a tensor whose elements
decide sizes; once for each.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tutti.export import ExportError, check_export, export_module
from tutti.export.arguments import split_tensors
from tutti.export.exporter import check_arguments, root_cause
from tutti.export.load import load_module

TOLERANCE = 1e-4


def read_example(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ExportError(f"--example {path}: {error}") from None
    if not isinstance(values, dict):
        raise ExportError(f"--example {path}: expected an object of arguments by name")
    return {name: example_value(value, name, path.parent) for name, value in values.items()}


def example_value(value: Any, name: str, folder: Path) -> Any:
    """A tensor where the description is of one; lists and objects are searched."""
    if isinstance(value, list):
        return [example_value(part, f"{name}.{i}", folder) for i, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if not {"shape", "data", "file"} & set(value):
        return {key: example_value(part, f"{name}.{key}", folder) for key, part in value.items()}
    try:
        return example_tensor(value, folder)
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        raise ExportError(f"example '{name}': {error}") from None


def example_tensor(value: dict[str, Any], folder: Path) -> torch.Tensor:
    if "file" in value:
        return torch.from_numpy(np.load(folder / value["file"]))
    dtype = getattr(torch, value.get("dtype", "float32"), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"no dtype '{value['dtype']}'")
    if "data" in value:
        return torch.tensor(value["data"], dtype=dtype)
    if dtype == torch.bool:
        return torch.ones(value["shape"], dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(value["shape"]).to(dtype)
    return torch.randint(value.get("low", 0), value.get("high", 2), value["shape"]).to(dtype)


def read_axes(texts: list[str]) -> dict[str, dict[int, str]]:
    """`NAME:AXIS=SYMBOL`, such as `latents:2=frames`."""
    axes: dict[str, dict[int, str]] = {}
    for text in texts:
        place, equals, symbol = text.partition("=")
        name, colon, axis = place.rpartition(":")
        if not (equals and colon and axis.isdigit() and symbol.isidentifier()):
            raise ExportError(f"--dynamic '{text}': expected NAME:AXIS=SYMBOL")
        axes.setdefault(name, {})[int(axis)] = symbol
    return axes


def try_call(module: torch.nn.Module, method: str, example: dict[str, Any]) -> None:
    """Shapes that do not fit the module are found here, not within an exporter."""
    check_arguments(module, example, method)
    try:
        with torch.no_grad():
            getattr(module, method)(**example)
    except Exception as error:  # whatever the module's code raises
        tensors = split_tensors(example)[1].items()
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors)
        raise ExportError(
            f"{type(module).__name__}.{method} cannot be called with {shapes}: {root_cause(error)}"
        ) from None


def export(options: argparse.Namespace) -> int:
    torch.manual_seed(options.seed)
    example = read_example(options.example)
    module = load_module(options.model, options.config, options.subfolder).eval().float()
    try_call(module, options.method, example)
    report = export_module(
        module,
        example,
        options.output,
        dynamic_axes=read_axes(options.dynamic),
        constants=options.constant,
        method=options.method,
        opset=options.opset,
    )
    print(f"wrote {report.path} (opset {report.opset}, {report.exporter})")
    print(f"  inputs   {', '.join(report.inputs)}\n  outputs  {', '.join(report.outputs)}")
    for note in report.notes:
        print(f"  note: {note}")
    if not options.check:
        return 0
    errors = check_export(module, example, options.output, method=options.method)
    for name, error in errors.items():
        print(f"  onnxruntime, '{name}': relative error {error:.3g}")
    if max(errors.values()) > TOLERANCE:
        raise ExportError(f"onnxruntime's answer differs by more than {TOLERANCE:g}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tutti-export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="folder in Diffusers format, or a class")
    parser.add_argument("-o", "--output", required=True, type=Path, help="the ONNX file to write")
    parser.add_argument("--example", required=True, type=Path, help="JSON of the arguments")
    parser.add_argument("--config", help="JSON, or a file of it, for a class")
    parser.add_argument("--subfolder", help="the part of a pipeline's folder")
    parser.add_argument("--method", default="forward", help="such as decode (default: forward)")
    parser.add_argument("--dynamic", action="append", default=[], metavar="NAME:AXIS=SYMBOL")
    parser.add_argument(
        "--constant", action="append", default=[], metavar="NAME", help="a tensor to bake in"
    )
    parser.add_argument("--opset", type=int, default=23)
    parser.add_argument("--seed", type=int, default=0, help="of random weights and inputs")
    parser.add_argument("--check", action="store_true", help="compare with onnxruntime")
    try:
        return export(parser.parse_args())
    except ExportError as error:
        print(f"tutti-export: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
