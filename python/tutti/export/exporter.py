"""Exports a PyTorch module to an ONNX file that `tutti compile` reads."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tutti.export.arguments import split_tensors
from tutti.export.wrapper import TensorFunction

OPSET = 23  # the first with Attention and RMSNormalization
AxisNames = Mapping[str, Mapping[int, str]]

# What the exporters say of torchvision, which no model needs, on every call.
logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)


class ExportError(Exception):
    """Names the module, the argument where there is one, and what was expected."""


@dataclass
class ExportReport:
    """What was written, and how."""

    path: Path
    inputs: list[str]
    outputs: list[str]
    exporter: str  # "torch.export" or "TorchScript"
    opset: int
    dynamic_axes: dict[str, dict[int, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def export_module(
    module: torch.nn.Module,
    example_inputs: Mapping[str, Any],
    path: str | Path,
    *,
    dynamic_axes: AxisNames | None = None,
    method: str = "forward",
    opset: int = OPSET,
) -> ExportReport:
    """Writes `module` as ONNX, its weights beside it as `<path>.data`.

    `example_inputs` are the arguments of `method` by name. Tensors become inputs of the same names
    (those in lists and dictionaries `name.0`, `name.key`); everything else is baked in. Symbolic axes
    are given as `{"latents": {2: "frames"}}`; equal names are equal sizes. Sizes that the module fixes
    itself are named in the error. Tries torch.export first, then TorchScript, and says which.

    Raises ExportError for arguments that the method does not have, for symbolic axes that it
    specialises, and where no exporter can.
    """
    path = Path(path)
    check_arguments(module, example_inputs, method)
    function = TensorFunction(module, example_inputs, method).eval()
    _, tensors = split_tensors(example_inputs)
    check_axes(dynamic_axes or {}, tensors, module)
    with torch.no_grad():
        outputs = function.output_names(*tensors.values())
        if not outputs:
            raise ExportError(f"{_name(module)}.{method} returned no tensor")
        path.parent.mkdir(parents=True, exist_ok=True)
        report = ExportReport(path, list(tensors), outputs, "", opset)
        report.dynamic_axes = {name: dict(axes) for name, axes in (dynamic_axes or {}).items()}
        _export(function, tensors, report)
    return report


def check_arguments(module: torch.nn.Module, arguments: Mapping[str, Any], method: str) -> None:
    """Raises ExportError unless the method can be called with these arguments."""
    if not hasattr(module, method):
        raise ExportError(f"{_name(module)} has no method '{method}'")
    signature = inspect.signature(getattr(module, method))
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise ExportError(
            f"{_name(module)}.{method}: {error}; it takes {', '.join(signature.parameters)}"
        ) from None


def check_axes(
    axes: AxisNames, tensors: Mapping[str, torch.Tensor], module: torch.nn.Module
) -> None:
    """Raises ExportError for symbolic axes of inputs that are not there."""
    for name, names in axes.items():
        if name not in tensors:
            raise ExportError(
                f"{_name(module)}: dynamic axes of '{name}', but the tensor inputs are {', '.join(tensors)}"
            )
        for axis in names:
            if not 0 <= axis < tensors[name].dim():
                raise ExportError(
                    f"{_name(module)}: input '{name}' has {tensors[name].dim()} dimensions, so no axis {axis}"
                )


def _export(
    function: TensorFunction, tensors: dict[str, torch.Tensor], report: ExportReport
) -> None:
    attempts = (("torch.export", _with_torch_export), ("TorchScript", _with_torchscript))
    errors = []
    for exporter, write in attempts:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                write(function, tensors, report)
        except Exception as error:  # exporters raise whatever the module's code raises
            errors.append(f"{exporter}: {root_cause(error)}")
            continue
        report.exporter = exporter
        report.notes += [f"fell back from {error}" for error in errors]
        return
    raise ExportError(f"{_name(function.module)} cannot be exported; " + "; ".join(errors))


def _with_torch_export(
    function: TensorFunction, tensors: dict[str, torch.Tensor], report: ExportReport
) -> None:
    symbols: dict[str, Any] = {}
    shapes = []
    for name in tensors:
        axes = report.dynamic_axes.get(name, {})
        shapes.append(
            {axis: symbols.setdefault(n, torch.export.Dim(n)) for axis, n in axes.items()}
        )
    program = torch.export.export(
        function,
        tuple(tensors.values()),
        dynamic_shapes={"tensors": tuple(shapes)} if symbols else None,
        strict=False,
    )
    written = torch.onnx.export(
        program,
        input_names=report.inputs,
        output_names=report.outputs,
        opset_version=report.opset,
        dynamo=True,
        verbose=False,
    )
    written.save(str(report.path), external_data=True)


TORCHSCRIPT_OPSET = 20  # its newest


def _with_torchscript(
    function: TensorFunction, tensors: dict[str, torch.Tensor], report: ExportReport
) -> None:
    report.opset = min(report.opset, TORCHSCRIPT_OPSET)
    torch.onnx.export(
        function,
        tuple(tensors.values()),
        str(report.path),
        input_names=report.inputs,
        output_names=report.outputs,
        dynamic_axes=report.dynamic_axes or None,
        opset_version=report.opset,
        dynamo=False,
        verbose=False,
    )


def root_cause(error: BaseException) -> str:
    """The first line of the innermost error: exporters wrap it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _name(module: torch.nn.Module) -> str:
    return type(module).__name__
