"""Lets a trace know the elements of tensors that depend on constants only, and use them where they decide sizes.

Masks and lengths that a caller bakes in (`constants` of export_module) otherwise leave sizes that the trace cannot know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode

KNOWN_ELEMENTS = 1 << 14
REPEATS = (torch.repeat_interleave, torch.Tensor.repeat_interleave)
NONZERO = (torch.nonzero, torch.Tensor.nonzero)
INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)


@contextlib.contextmanager
def known_elements() -> Iterator[None]:
    """Small tensors of constants keep their elements while traced; PyTorch itself keeps those of scalars alone."""
    limit = proxy_tensor.CONSTANT_NUMEL_LIMIT
    proxy_tensor.CONSTANT_NUMEL_LIMIT = KNOWN_ELEMENTS
    try:
        with KnownSizes():
            yield
    finally:
        proxy_tensor.CONSTANT_NUMEL_LIMIT = limit


def elements_of(tensor: Any) -> torch.Tensor | None:
    """The elements of a tensor that is being traced, if they are known."""
    mode = proxy_tensor.get_proxy_mode()
    if mode is None or not isinstance(tensor, torch.Tensor):
        return None
    slot = proxy_tensor.get_proxy_slot(tensor, mode.tracer, None)
    return getattr(slot, "constant", None)


class KnownSizes(TorchFunctionMode):
    """Repeats and masks with known elements become indexes, whose number is known."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in REPEATS:
            return _repeat(func, *args, **kwargs)
        if func in NONZERO:
            return _nonzero(func, *args, **kwargs)
        if func in INDEXING and not kwargs:
            x, index, *value = args
            return func(x, _without_masks(index), *value)
        return func(*args, **kwargs)


@contextlib.contextmanager
def _untraced() -> Iterator[None]:
    with proxy_tensor.disable_proxy_modes_tracing(), proxy_tensor.unset_fake_temporarily():
        yield


def _repeat(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    repeats = kwargs.get("repeats", args[0] if args else None)
    known = elements_of(repeats)
    if known is None:
        return func(x, *args, **kwargs)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    x, dim = (x.flatten(), 0) if dim is None else (x, dim)
    with _untraced():
        times = known.expand(x.shape[dim]).tolist()
    places = [place for place, count in enumerate(times) for _ in range(count)]
    return x.index_select(dim, torch.tensor(places))


def _nonzero(func: Any, x: Any, *, as_tuple: bool = False) -> Any:
    known = elements_of(x)
    if known is None:
        return func(x, as_tuple=as_tuple)
    with _untraced():
        places = known.nonzero().tolist()
    places = torch.tensor(places, dtype=torch.long).reshape(len(places), x.dim())
    return places.unbind(1) if as_tuple else places


def _without_masks(index: Any) -> Any:
    """An index with the places of true elements for each known mask of one dimension."""
    if isinstance(index, tuple):
        return tuple(_without_masks(part) for part in index)
    if not isinstance(index, torch.Tensor) or index.dtype != torch.bool or index.dim() != 1:
        return index
    known = elements_of(index)
    if known is None:
        return index
    with _untraced():
        places = known.nonzero().flatten().tolist()
    return torch.tensor(places, dtype=torch.long)
