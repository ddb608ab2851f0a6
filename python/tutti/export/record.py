"""The arguments that a module is called with, for an export of just that call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def record_calls(
    module: torch.nn.Module, method: str = "forward"
) -> Iterator[list[dict[str, Any]]]:
    """
    Keeps the arguments of every call of ``module.method`` within the block, by name.

    ``return_dict`` is left out: an export takes the names of its outputs from the output class.

    Examples
    --------
    >>> with record_calls(pipeline.transformer) as calls:
    ...     pipeline("a red kite", num_inference_steps=1)
    >>> export_module(pipeline.transformer, calls[0], "model.onnx")
    """
    original = getattr(module, method)
    signature = inspect.signature(original)
    others = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    calls: list[dict[str, Any]] = []

    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)  # first: what is wrong with a call, it says itself
        call = dict(signature.bind(*args, **kwargs).arguments)
        for name in others:
            call |= call.pop(name, {})
        call.pop("return_dict", None)
        calls.append(call)
        return result

    setattr(module, method, recorded)
    try:
        yield calls
    finally:
        delattr(module, method)
