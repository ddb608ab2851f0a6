"""A module whose inputs and outputs are tensors only, around one that takes and returns anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tutti.export.arguments import join_tensors, named_outputs, split_tensors


class TensorFunction(torch.nn.Module):
    """Calls `method` of a module with constants baked in; tensors come and go by position.

    `input_names` are the names of the tensors among the arguments, in order.
    """

    def __init__(self, module: torch.nn.Module, arguments: Mapping[str, Any], method: str) -> None:
        super().__init__()
        self.module = module
        self._method = method
        self._structure, tensors = split_tensors(arguments)
        self.input_names = list(tensors)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        named = dict(zip(self.input_names, tensors, strict=True))
        result = getattr(self.module, self._method)(**join_tensors(self._structure, named))
        return tuple(named_outputs(result).values())

    def output_names(self, *tensors: torch.Tensor) -> list[str]:
        """Runs the module once to see what it returns."""
        named = dict(zip(self.input_names, tensors, strict=True))
        result = getattr(self.module, self._method)(**join_tensors(self._structure, named))
        return list(named_outputs(result))
