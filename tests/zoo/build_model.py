"""Makes a model of the zoo with random weights."""

from __future__ import annotations

import importlib
import zlib
from typing import Any

import numpy as np
import torch
from models.registry import Tiny


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
