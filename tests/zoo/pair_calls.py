"""What a forward makes of pairs of positions: scores that no attention weighs, and products of pairs.

A tensor is projected when a matrix of weights made it, or anything it was made of: what is not (coordinates, masks) every rank has.
Two projected tensors that change from step to step make pairs where one has positions along rows and the other along columns;
a product of three times as many positions is one of pairs (triangle multiplication). Nothing here knows the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary


@dataclass(frozen=True)
class PairCall:
    kind: str  # "outer": of a row and a column; "product": sums over a third position
    width: int  # of an operand, for each position; of a product, channels


@dataclass
class Seen:
    call: PairCall
    operands: tuple[torch.Tensor, torch.Tensor]
    result: torch.Tensor


PROJECTIONS = {"linear", "conv1d", "conv2d", "conv3d"}
PRODUCTS = {"matmul", "__matmul__", "bmm"}
ELEMENTWISE = {"add", "sub", "mul", "__add__", "__sub__", "__mul__", "add_", "mul_", "sub_"}
WEIGHTS = {"softmax", "scaled_dot_product_attention"}


class PairRecorder(TorchFunctionMode):
    """Notes what is made of pairs in what runs under it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.seen: list[Seen] = []
        self._projected = WeakIdKeyDictionary()
        self._scores = (
            WeakIdKeyDictionary()
        )  # tensors that are made of one product of a row and a column

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        tensors = list(tensors_in((args, list((kwargs or {}).values()))))
        projects = name in PROJECTIONS or any(x in self._projected for x in tensors)
        for one in tensors_in([result]):
            if projects:
                self._projected[one] = True
        if isinstance(result, torch.Tensor):
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._follow(name, tensors, result)
        return result

    def _follow(self, name: str, tensors: list[torch.Tensor], result: torch.Tensor) -> None:
        made = next((self._scores[x] for x in tensors if x in self._scores), None)
        if made is not None and name in WEIGHTS:
            self.seen = [one for one in self.seen if one is not made]
        elif made is not None and result.shape == made.result.shape:
            self._scores[result] = made
        if len(tensors) != 2 or not all(x in self._projected for x in tensors):
            return
        if name in PRODUCTS:
            self._of_product(*tensors, result)
        elif name in ELEMENTWISE and {x.dim() for x in tensors} == {result.dim()}:
            self._of_elements(*tensors, result)

    def _of_product(self, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor) -> None:
        if tuple(result.shape[-2:]) != (self.count, self.count):
            return
        if left.shape[-1] == self.count:
            channels = result.numel() // self.count**2
            self._note(PairCall("product", channels), left, right, result)
            return
        width = min(left.numel(), right.numel()) // self.count
        self._note(PairCall("outer", width), left, right, result)
        self._scores[result] = self.seen[-1]

    def _of_elements(self, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor) -> None:
        dims = [
            [d for d in range(result.dim()) if x.shape[d] == self.count and y.shape[d] == 1]
            for x, y in ((left, right), (right, left))
        ]
        if len(dims[0]) == len(dims[1]) == 1:
            width = min(left.numel(), right.numel()) // self.count
            self._note(PairCall("outer", width), left, right, result)

    def _note(self, call: PairCall, *tensors: torch.Tensor) -> None:
        left, right, result = (x.detach().clone() for x in tensors)
        self.seen.append(Seen(call, (left, right), result))


def pair_calls(seen: list[Seen], next_step: list[Seen]) -> tuple[PairCall, ...]:
    """Those of which both operands change between two steps."""
    return tuple(
        one.call
        for one, other in zip(seen, next_step, strict=True)
        if not any(map(torch.equal, one.operands, other.operands))
    )


def record(forward: Callable[[], Mapping[str, torch.Tensor]], count: int) -> list[Seen]:
    with torch.no_grad(), PairRecorder(count) as recorder:
        forward()
    return recorder.seen


def tensors_in(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    """In lists and tuples too, in order."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
