"""Stands in for a model of a Diffusers pipeline; the model itself runs in a server."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import grpc
import torch
from tutti.diffusers.results import result_of
from tutti.diffusers.served_model import ServedModel
from tutti.diffusers.structure import Structure, structure_of
from tutti.export.arguments import split_tensors
from tutti.export.load import find_class

from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import FrozenDict


class RemoteModel(ModelMixin, ConfigMixin):
    """
    A served model with the call, the configuration and the types of the Diffusers model that it was exported from.

    Tensors among a call's arguments are sent under the names that ``tutti.export`` gave them. All else was baked in
    when the model was exported and cannot differ: an argument that has another value than its default, and that
    `constants` does not name, is an error rather than a wrong picture.

    Parameters
    ----------
    url, model_name, version, timeout, credentials
        As of `ServedModel`.
    config
        Where the model's configuration comes from: its folder in Diffusers format, the model itself, or a mapping.
        It names the class whose signature gives positional arguments and defaults, and whose attributes (ratios,
        numbers of features, statistics of latents) pipelines may read. Without one, calls name their arguments.
    method
        What was exported: ``forward``, or ``decode`` of a VAE.
    constants
        Arguments that were baked in with another value than their default, by name.

    Raises
    ------
    RemoteError
        The server does not answer or refuses.
    TypeError
        Arguments that the served model does not take, or lacks.
    """

    def __init__(
        self,
        url: str,
        model_name: str,
        *,
        config: str | Path | Mapping[str, Any] | torch.nn.Module | None = None,
        version: str = "",
        method: str = "forward",
        constants: Mapping[str, Any] | None = None,
        timeout: float = 600.0,
        credentials: grpc.ChannelCredentials | None = None,
    ):
        super().__init__()
        self.served = ServedModel(url, model_name, version, timeout, credentials)
        values, cls, self._weights = _describe(config)
        self._internal_dict = FrozenDict(values)
        self._class = cls
        self._class_name = cls.__name__ if cls else model_name
        self._structure: Structure | None = None
        self._signature = inspect.signature(getattr(cls, method)) if cls else None
        self._constants = dict(constants or {})
        # Has the type and place that pipelines ask the model for, and moves as they wish.
        floats = [
            spec.dtype for spec in self.served.inputs.values() if spec.dtype.is_floating_point
        ]
        self._served_dtype = floats[0] if floats else torch.float32
        here = torch.empty(0, dtype=self._served_dtype)
        self.register_buffer("_here", here, persistent=False)
        if method != "forward":
            setattr(self, method, self.forward)

    @torch.no_grad()
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        arguments = self._bind(args, kwargs)
        return_dict = arguments.pop("return_dict", True)
        _, tensors = split_tensors(arguments)
        self._add_numbers(arguments, tensors)
        self._check_constants(arguments, tensors)
        places = {tensor.device for tensor in tensors.values()} or {self._here.device}
        answer = self.served.infer({name: tensors[name] for name in self.served.inputs})
        place = next((each for each in places if each.type != "cpu"), next(iter(places)))
        moved = {self._field(name): self._placed(each, place) for name, each in answer.items()}
        return result_of(moved, self._class_name, return_dict is not False)

    def _placed(self, tensor: torch.Tensor, place: torch.device) -> torch.Tensor:
        """In the type that the pipeline has moved the model to, as the model's own answer would be."""
        is_of_model = tensor.dtype == self._served_dtype
        return tensor.to(place, self._here.dtype if is_of_model else tensor.dtype)

    def _field(self, output: str) -> str:
        """An output that is called like an input has its name with `.out` behind it in the file."""
        name = output.removesuffix(".out")
        return name if name in self.served.inputs else output

    def cache_context(self, name: str, **state: Any):
        """Pipelines name the branches of guidance and the steps for caches in the model; the server keeps its own."""
        return nullcontext()

    def close(self) -> None:
        self.served.close()

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        if self._signature is None:
            if args:
                raise TypeError(f"{self._title()}: without a config all arguments need names")
            return dict(kwargs)
        arguments = self._signature.bind(self, *args, **kwargs).arguments
        arguments.pop(next(iter(self._signature.parameters)))
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments |= arguments.pop(parameter.name, {})
        return arguments

    def _add_numbers(self, arguments: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        """Inputs of the server that the call gives as plain numbers."""
        for name, spec in self.served.inputs.items():
            if name in tensors:
                continue
            value = arguments.get(name)
            if not isinstance(value, bool | int | float):
                raise TypeError(f"{self._title()} takes a tensor '{name}', and the call has none")
            tensors[name] = torch.tensor(value, dtype=spec.dtype).reshape([1] * len(spec.shape))

    def _check_constants(
        self, arguments: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
    ) -> None:
        for name, tensor in tensors.items():
            if name in self.served.inputs or self._is_constant(name, tensor):
                continue
            takes = ", ".join(self.served.inputs)
            raise TypeError(f"{self._title()} takes no tensor '{name}', only {takes}")
        for name, value in arguments.items():
            if name in self.served.inputs or split_tensors({name: value})[1]:
                continue
            if not self._is_constant(name, value):
                raise TypeError(
                    f"{self._title()}: '{name}' is {value!r}, and what is no tensor was fixed when the model was "
                    f"exported; if it was exported with this value, say constants={{{name!r}: {value!r}}}"
                )

    def _is_constant(self, name: str, value: Any) -> bool:
        # No served model draws random numbers.
        if isinstance(value, torch.Generator):
            return True
        if name in self._constants:
            return _equal(self._constants[name], value)
        if isinstance(value, torch.Tensor):
            return False
        parameter = self._signature.parameters.get(name) if self._signature else None
        default = None if parameter is None else parameter.default
        # An empty container is how some pipelines say None.
        is_empty = isinstance(value, Mapping | list | tuple) and not value
        return value is None or is_empty or _equal(default, value)

    def _title(self) -> str:
        return f"model '{self.served.name}' at {self.served.url}"

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__.get("_buffers", {})
        cls = self.__dict__.get("_class")
        if name in own or name.startswith("_") or cls is None:
            return super().__getattr__(name)
        if self._structure is None:
            self._structure = structure_of(cls, self.config, self._weights)
        return getattr(self._structure, name)


def _describe(config: Any) -> tuple[dict[str, Any], type | None, Any]:
    """The configuration's values, the class it is of where it says so, and what has its weights."""
    if config is None:
        return {}, None, None
    if isinstance(config, torch.nn.Module):
        values = config.config
        # transformers' configurations are no mappings.
        values = dict(values) if isinstance(values, Mapping) else values.to_dict()
        return values, type(config), dict(config.named_buffers())
    folder = config if isinstance(config, str | Path) else None
    if isinstance(config, str | Path):
        file = Path(config) / "config.json"
        if not file.is_file():
            raise FileNotFoundError(f"config: {file} does not exist")
        config = json.loads(file.read_text())
    name = config.get("_class_name") or next(iter(config.get("architectures") or []), None)
    return dict(config), find_class(name) if name else None, folder


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return torch.equal(torch.as_tensor(a), torch.as_tensor(b).cpu())
    return a == b
