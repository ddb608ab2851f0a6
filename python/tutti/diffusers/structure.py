"""What a model's class makes of its configuration alone: everything but the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from diffusers.configuration_utils import FrozenDict

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.Size)


class Structure:
    """
    Reads a module without weights: numbers, lists of them, constant buffers, and modules below it.

    A pipeline asks its models for such things: compression ratios, statistics of latents, the number of features of a
    layer. Methods are left out but those of modules that have no weights at all: what they would change or compute
    is in the server.
    """

    def __init__(self, module: torch.nn.Module, title: str, values: Mapping[str, torch.Tensor]):
        self.__dict__.update(_module=module, _title=title, _values=values)

    def __getattr__(self, name: str) -> Any:
        path = f"{self._title}.{name}"
        if not name.startswith("_") and hasattr(self._module, name):
            found = getattr(self._module, name)
            if isinstance(found, torch.nn.Module):
                return Structure(found, path, self._values) if found.state_dict() else found
            if isinstance(found, torch.Tensor) and name in self._module._buffers:
                return self._buffer(name, path, found)
            if _is_plain(found):
                return found
        raise AttributeError(
            f"'{path}': modules and weights are in the server; here are the model's call, its config and what "
            "follows from that"
        )

    def _buffer(self, name: str, path: str, found: torch.Tensor) -> torch.Tensor:
        if name in self._module._non_persistent_buffers_set:
            return found
        key = path.partition(".")[2]
        if key not in self._values or self._values[key] is None:
            raise AttributeError(
                f"'{path}' is in the model's weights, which are in the server; config= may be the folder with the "
                "weights, or the model"
            )
        return self._values[key]


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN)


@contextmanager
def _without_weights() -> Iterator[None]:
    """Parameters have shapes and no memory; buffers are made as ever."""
    register = torch.nn.Module.register_parameter

    def register_empty(module, name, parameter):
        if parameter is not None:
            parameter = torch.nn.Parameter(parameter.to("meta"), parameter.requires_grad)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = register_empty
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def structure_of(cls: type, config: Mapping[str, Any], source: Any) -> Structure:
    """`source` has the values of persistent buffers: a folder with weights, or tensors by name."""
    with _without_weights():
        if hasattr(cls, "from_config") and hasattr(cls, "load_config"):
            module = cls.from_config(FrozenDict(config))
        else:
            module = cls(cls.config_class(**config))
    return Structure(module, cls.__name__, persistent_buffers(module, source))


def persistent_buffers(module: torch.nn.Module, source: Any) -> dict[str, torch.Tensor | None]:
    """Of the module, by name; None where `source` does not have it."""
    names = [
        f"{prefix}{'.' if prefix else ''}{name}"
        for prefix, each in module.named_modules()
        for name in each._buffers.keys() - each._non_persistent_buffers_set
    ]
    values: dict[str, torch.Tensor | None] = dict.fromkeys(names)
    if isinstance(source, Mapping):
        return values | {name: source.get(name) for name in names}
    if source is None or not names:
        return values
    from safetensors import safe_open

    for file in sorted(Path(source).glob("*.safetensors")):
        with safe_open(file, "pt") as weights:
            values |= {name: weights.get_tensor(name) for name in weights.keys() if name in values}
    return values
