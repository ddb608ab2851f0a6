"""A module whose inputs and outputs are tensors only, around one that takes and returns anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tutti.export.arguments import join_tensors, named_outputs, split_tensors


class TensorFunction(torch.nn.Module):
    """Calls `method` of a module with constants baked in; tensors come and go by position.

    `inputs` are the tensors among the arguments by name, in order, without those named in `constants`: these
    are made anew in each forward, so that code which asks for their elements gets them while it is traced.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        arguments: Mapping[str, Any],
        method: str = "forward",
        constants: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.module = module
        self._method = method
        self._structure, tensors = split_tensors(arguments)
        self.inputs = distinct({n: t for n, t in tensors.items() if n not in constants})
        self._constants = {
            name: (tensors[name].tolist(), tensors[name].dtype) for name in constants
        }

    def outputs(self, *tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the module returns, by name."""
        named = dict(zip(self.inputs, tensors, strict=True))
        for name, (values, dtype) in self._constants.items():
            named[name] = torch.tensor(values, dtype=dtype)
        arguments = join_tensors(self._structure, named)
        return named_outputs(getattr(self.module, self._method)(**arguments))

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.outputs(*tensors).values())


def distinct(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Exporters take one tensor that stands in two places for one input, which the other place then reads too."""
    seen: set[int] = set()
    made = {}
    for name, tensor in tensors.items():
        made[name] = tensor.clone() if id(tensor) in seen else tensor
        seen.add(id(tensor))
    return made
