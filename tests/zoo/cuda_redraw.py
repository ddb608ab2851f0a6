"""Puts weights that cuda_weights.py draws into a module of the zoo and into its export."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from cuda_weights import FILE, Drawn

import onnx

LEAST_ELEMENTS = 512  # smaller ones stay in the model
LEAST_BYTES = 400_000  # a model with fewer keeps its own

Parameters = dict[int, np.ndarray]  # by their place among the module's


def redraw(
    name: str, module: torch.nn.Module, model: onnx.ModelProto, least_bytes: int = LEAST_BYTES
) -> tuple[Parameters, list[Drawn]]:
    """New parameters in the place of those that the export has as they are or transposed, with their mean and deviation.

    The model's initializers then lie in FILE. What the exporter computed from a parameter does not follow: compare with
    the module's answer.
    """
    kept: dict[bytes, list[onnx.TensorProto]] = {}
    for initializer in model.graph.initializer:
        if initializer.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(initializer)
            if array.size >= LEAST_ELEMENTS:
                kept.setdefault(array.tobytes(), []).append(initializer)
    parameters: Parameters = {}
    weights: list[Drawn] = []
    if sum(map(len, kept)) < least_bytes:
        return parameters, weights
    offset = 0
    for i, parameter in enumerate(module.parameters()):
        array = parameter.detach().numpy()
        if array.dtype != np.float32 or array.size < LEAST_ELEMENTS or array.std() == 0:
            continue
        for is_transposed in (False, True) if array.ndim == 2 else (False,):
            turned = array.T if is_transposed else array
            for initializer in kept.pop(turned.tobytes(), []):
                seed = zlib.crc32(f"{name}.{i}".encode())
                told = (seed, array.shape, float(array.mean()), float(array.std()))
                drawn = Drawn(*told, is_transposed)
                parameters[i] = Drawn(*told).draw()
                weights.append(drawn)
                put_outside(initializer, offset, 4 * array.size)
                offset += len(drawn.data())
    return parameters, weights


def put_outside(initializer: onnx.TensorProto, offset: int, length: int) -> None:
    initializer.ClearField("raw_data")
    initializer.ClearField("float_data")
    initializer.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", FILE), ("offset", offset), ("length", length)):
        initializer.external_data.add(key=key, value=str(value))


def put_in(module: torch.nn.Module, parameters: Parameters) -> None:
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            if i in parameters:
                parameter.copy_(torch.from_numpy(parameters[i]))
