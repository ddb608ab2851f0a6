"""Makes a model of the zoo with random weights, and the answer that PyTorch gives."""

from __future__ import annotations

import importlib
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from models.registry import Tiny


@dataclass(frozen=True)
class AttentionCall:
    """Shapes [batch, heads, length, width] of one call of scaled_dot_product_attention.

    Key and value heads that a model repeated for grouped queries count once.
    """

    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]


def without_repeats(x: torch.Tensor) -> tuple[int, ...]:
    """The shape of a key or value, with each run of equal heads as one."""
    batch, heads, length, width = x.shape
    groups = heads
    while groups % 2 == 0 and length:
        runs = x.reshape(batch, groups // 2, heads // (groups // 2), length, width)
        if not (runs == runs[:, :, :1]).all():
            break
        groups //= 2
    return (batch, groups, length, width)


def find_class(tiny: Tiny) -> type:
    if tiny.kind != "transformer":
        return getattr(importlib.import_module(tiny.library), tiny.class_name)
    # Some transformers are not exported by name at the top.
    return getattr(importlib.import_module("diffusers.models.transformers"), tiny.class_name)


def describe(tiny: Tiny) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the class and of the method, from the model's own seed."""
    torch.manual_seed(zlib.crc32(tiny.name.encode()))
    return tiny.describe()


def build(tiny: Tiny) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The module, in fp32, and the arguments of `tiny.method`; the same ones every time."""
    config, inputs = describe(tiny)
    cls = find_class(tiny)
    if tiny.library == "transformers":
        module = cls(cls.config_class(**config))
    else:
        module = cls(**config)
    module = module.eval().float()
    rouse(module)
    return module, inputs


def rouse(module: torch.nn.Module) -> None:
    """Gives parameters that start as a constant some noise: a gate of zeros would hide its branch."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.unique().numel() == 1:
                scale = 0.1 if parameter.dim() < 2 else 0.5 / np.sqrt(parameter[0].numel())
                parameter += scale * torch.randn_like(parameter)


def answer(
    module: torch.nn.Module, tiny: Tiny, inputs: dict[str, Any]
) -> tuple[dict[str, np.ndarray], list[AttentionCall]]:
    """Outputs by name, and the attentions that the forward called."""
    from tutti.export.arguments import named_outputs

    calls: list[AttentionCall] = []
    functional = torch.nn.functional
    original = functional.scaled_dot_product_attention

    def recording(query, key, value, *args, **kwargs):
        if query.dim() == 4:
            calls.append(
                AttentionCall(tuple(query.shape), without_repeats(key), without_repeats(value))
            )
        return original(query, key, value, *args, **kwargs)

    functional.scaled_dot_product_attention = recording
    try:
        with torch.no_grad():
            outputs = named_outputs(getattr(module, tiny.method)(**inputs))
    finally:
        functional.scaled_dot_product_attention = original
    return {name: tensor.numpy() for name, tensor in outputs.items()}, calls
