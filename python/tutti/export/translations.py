"""ATen operators as ONNX operators, where PyTorch's exporter would write them as gathers of single elements."""

from __future__ import annotations

from typing import Any

import torch
from onnxscript import opset18 as op


def nearest_exact(x: Any, output_size: Any = None, scale_factors: Any = None) -> Any:
    """upsample_nearest_exact of two dimensions by fixed factors: the element whose middle is nearest."""
    if scale_factors is None:
        raise NotImplementedError("upsample_nearest_exact to a size; expected scale factors")
    return op.Resize(
        x,
        None,
        op.Constant(value_floats=[1.0, 1.0, *scale_factors]),
        mode="nearest",
        coordinate_transformation_mode="half_pixel",
        nearest_mode="round_prefer_ceil",
    )


TRANSLATIONS = {torch.ops.aten._upsample_nearest_exact2d.vec: nearest_exact}
