"""From tensors by name, as `tutti.export.arguments.named_outputs` names them, to what a forward returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, make_dataclass
from typing import Any

import torch

from diffusers.utils import BaseOutput


def result_of(tensors: Mapping[str, torch.Tensor], class_name: str, return_dict: bool) -> Any:
    """
    A tensor alone for ``output``, a tuple for ``output.0``, ``output.1``; an output class with the names as
    fields for all others, or with ``return_dict=False`` their tuple.
    """
    fields: dict[str, Any] = {}
    for name, tensor in tensors.items():
        first, *rest = name.split(".")
        fields[first] = _put(fields.get(first), rest, tensor)
    if set(fields) == {"output"}:
        whole = fields["output"]
        return tuple(whole) if isinstance(whole, list) else whole
    if not return_dict:
        return tuple(fields.values())
    described = [(name, Any, field(default=None)) for name in fields]
    return make_dataclass(f"{class_name}Output", described, bases=(BaseOutput,))(**fields)


def _put(whole: Any, path: list[str], tensor: torch.Tensor) -> Any:
    """`whole` with the tensor at `path`: digits are places in a list, in order, all else keys."""
    if not path:
        return tensor
    step, *rest = path
    if step.isdigit():
        whole = whole if whole is not None else []
        if int(step) == len(whole):
            whole.append(None)
        whole[int(step)] = _put(whole[int(step)], rest, tensor)
        return whole
    whole = whole if whole is not None else {}
    whole[step] = _put(whole.get(step), rest, tensor)
    return whole
