"""Tells the tensors among a module's arguments from the constants, and gives each tensor a name.

An argument may be a tensor, a constant (number, string, None, ...), or lists, tuples and dictionaries
of those. A tensor that is an argument itself keeps the argument's name; one inside a list or
dictionary gets a path: `vision_tokens.0`, `image_embeds.clip`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class TensorArgument:
    """Stands in a structure where a tensor was."""

    name: str


def split_tensors(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The arguments with a TensorArgument for each tensor, and the tensors by name."""
    tensors: dict[str, torch.Tensor] = {}
    structure = {name: _split(value, name, tensors) for name, value in arguments.items()}
    return structure, tensors


def _split(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors[name] = value
        return TensorArgument(name)
    if isinstance(value, Mapping):
        return {key: _split(part, f"{name}.{key}", tensors) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_split(part, f"{name}.{i}", tensors) for i, part in enumerate(value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value


def join_tensors(structure: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The inverse of split_tensors: puts tensors back in their places."""
    if isinstance(structure, TensorArgument):
        return tensors[structure.name]
    if isinstance(structure, dict):
        return {key: join_tensors(part, tensors) for key, part in structure.items()}
    if isinstance(structure, list | tuple):
        return type(structure)(join_tensors(part, tensors) for part in structure)
    return structure


def named_outputs(result: Any) -> dict[str, torch.Tensor]:
    """A forward's tensors by name, whatever it returned: a tensor, a tuple, an output class.

    The fields of an output class (a dictionary or a data class) keep their names; a tensor alone is
    `output`, the parts of a tuple `output.0`, `output.1`. What is no tensor is left out.
    """
    if isinstance(result, torch.Tensor):
        return {"output": result}
    if not isinstance(result, Mapping) and hasattr(result, "__dataclass_fields__"):
        result = {name: getattr(result, name) for name in result.__dataclass_fields__}
    tensors: dict[str, torch.Tensor] = {}
    if isinstance(result, Mapping):
        for name, value in result.items():
            _split(value, str(name), tensors)
    else:
        _split(result, "output", tensors)
    return tensors
