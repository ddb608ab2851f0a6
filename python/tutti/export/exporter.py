"""Exports a PyTorch module to an ONNX file that `tutti compile` reads."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tutti.export.arguments import split_tensors
from tutti.export.known_elements import known_elements
from tutti.export.rewrite import RewrittenProgram, drop_idle_squeezes, needs_rewrite
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
    constants: Sequence[str] = (),
    method: str = "forward",
    opset: int = OPSET,
) -> ExportReport:
    """Writes `module` as ONNX, its weights beside it as `<path>.data`.

    `example_inputs` are the arguments of `method` by name. Tensors become inputs of the same names
    (those in lists and dictionaries `name.0`, `name.key`); everything else is baked in, and so are the
    tensors named in `constants`: masks and lengths whose elements decide sizes. Symbolic axes are given
    as `{"latents": {2: "frames"}}`; equal names are equal sizes. Sizes that the module fixes itself are
    named in the error. Tries torch.export first, then TorchScript, and says which.

    Raises ExportError for arguments that the method does not have, for symbolic axes that it
    specialises, and where no exporter can.
    """
    path = Path(path)
    check_arguments(module, example_inputs, method)
    _, tensors = split_tensors(example_inputs)
    for name in constants:
        if name not in tensors:
            raise ExportError(
                f"{_name(module)}: constant '{name}', but the tensors are {', '.join(tensors)}"
            )
    function = TensorFunction(module, example_inputs, method, constants).eval()
    tensors = function.inputs
    check_axes(dynamic_axes or {}, tensors, module)
    with torch.no_grad():
        outputs = list(function.outputs(*tensors.values()))
        if not outputs:
            raise ExportError(f"{_name(module)}.{method} returned no tensor")
        path.parent.mkdir(parents=True, exist_ok=True)
        # An output of an input's name would be one value in ONNX.
        outputs = [f"{name}.out" if name in tensors else name for name in outputs]
        report = ExportReport(path, list(tensors), outputs, "", opset)
        report.dynamic_axes = {name: dict(axes) for name, axes in (dynamic_axes or {}).items()}
        _export(function, report)
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


def _export(function: TensorFunction, report: ExportReport) -> None:
    attempts = (("torch.export", _with_torch_export), ("TorchScript", _with_torchscript))
    errors = []
    for exporter, write in attempts:
        try:
            with _quiet():
                write(function, report)
        except Exception as error:  # exporters raise whatever the module's code raises
            errors.append(f"{exporter}: {root_cause(error)}")
            continue
        report.exporter = exporter
        report.notes += [f"fell back from {error}" for error in errors]
        return
    raise ExportError(f"{_name(function.module)} cannot be exported; " + "; ".join(errors))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters warn of much, and print the whole graph where they fail."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _with_torch_export(function: TensorFunction, report: ExportReport) -> None:
    program = real_program(function, report)
    written = torch.onnx.export(
        program,
        input_names=report.inputs,
        output_names=report.outputs,
        opset_version=report.opset,
        dynamo=True,
        verbose=False,
        optimize=False,
    )
    fold(written.model)
    name_axes(written.model, report)
    written.save(str(report.path), external_data=True)


def real_program(function: TensorFunction, report: ExportReport) -> torch.export.ExportedProgram:
    """The function as a program of ATen operators that ONNX has counterparts of."""
    # Their ranges are found in the trace; a size that the module fixes is an error there.
    dynamic = torch.export.Dim.DYNAMIC
    shapes = tuple(
        {axis: dynamic for axis in report.dynamic_axes.get(name, {})} for name in function.inputs
    )
    example = tuple(function.inputs.values())
    sizes = {"tensors": shapes} if any(shapes) else None
    with known_elements():
        program = torch.export.export(function, example, dynamic_shapes=sizes, strict=False)
    if needs_rewrite(program):
        rewritten = RewrittenProgram(program)
        program = torch.export.export(rewritten, example, dynamic_shapes=sizes, strict=False)
        report.notes.append(f"rewritten: {', '.join(sorted(rewritten.kinds))}")
    drop_idle_squeezes(program)
    return program


def name_axes(model: Any, report: ExportReport) -> None:
    """Gives symbols of sizes the names that were asked for, in every shape."""
    names: dict[str, str] = {}
    for value in model.graph.inputs:
        for axis, name in report.dynamic_axes.get(value.name, {}).items():
            size = value.shape[axis]
            if isinstance(size, int):
                raise ExportError(
                    f"axis {axis} of input '{value.name}' cannot be '{name}': the module fixes it to {size}"
                )
            names[size.value] = name
    if not names:
        return
    made = [output for node in model.graph.all_nodes() for output in node.outputs]
    for value in [*model.graph.inputs, *made]:
        for axis, size in enumerate(value.shape or ()):
            if not isinstance(size, int) and size.value:
                renamed = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), size.value)
                value.shape[axis] = renamed


def fold(model: Any) -> None:
    """What torch.onnx.export(optimize=True) does, without its rewrite of x + 1e-15 to x."""
    from onnxscript import optimizer
    from onnxscript.rewriter import onnx_fusions

    optimizer.inline(model)
    for _ in range(2):
        optimizer.fold_constants(model)
    optimizer.remove_unused_nodes(model)
    onnx_fusions.fuse(model)


TORCHSCRIPT_OPSET = 20  # its newest


def _with_torchscript(function: TensorFunction, report: ExportReport) -> None:
    report.opset = min(report.opset, TORCHSCRIPT_OPSET)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", torch.jit.TracerWarning)
        torch.onnx.export(
            function,
            tuple(function.inputs.values()),
            str(report.path),
            input_names=report.inputs,
            output_names=report.outputs,
            dynamic_axes=report.dynamic_axes or None,
            opset_version=report.opset,
            dynamo=False,
            verbose=False,
        )
    _refuse_baked_elements(seen)


def _refuse_baked_elements(seen: list[warnings.WarningMessage]) -> None:
    """A trace keeps the example's elements where Python reads them: right for this example alone.
    Integers and truth values are left out: those are mostly sizes."""
    for warning in seen:
        if re.search("to a Python (list|number|float)", str(warning.message)):
            raise ExportError(
                f"elements of a tensor are read in Python at {warning.filename}:{warning.lineno},"
                " and would be those of the example in every call"
            )


def root_cause(error: BaseException) -> str:
    """The first line of the innermost error: exporters wrap it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _name(module: torch.nn.Module) -> str:
    return type(module).__name__
