"""Compares an exported file, run by onnxruntime, with the module it came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tutti.export.arguments import named_outputs, split_tensors


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """max |got - want| / max |want|; infinite for other shapes and for what is not finite."""
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf")
    if want.size == 0:
        return 0.0
    got, want = got.astype(np.float64), want.astype(np.float64)
    difference, largest = np.abs(got - want).max(), np.abs(want).max()
    return float(difference / largest) if largest > 0 else float(difference)


def check_export(
    module: torch.nn.Module,
    example_inputs: Mapping[str, Any],
    path: str | Path,
    *,
    method: str = "forward",
) -> dict[str, float]:
    """Relative error of every output, by name."""
    import onnxruntime

    with torch.no_grad():
        wanted = named_outputs(getattr(module, method)(**example_inputs))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    _, tensors = split_tensors(example_inputs)
    kept = {info.name for info in session.get_inputs()}
    feeds = {name: tensor.numpy() for name, tensor in tensors.items() if name in kept}
    got = session.run(None, feeds)
    return {
        name: relative_error(array, tensor.numpy())
        for array, (name, tensor) in zip(got, wanted.items(), strict=True)
    }
