"""What else of a forward reaches across positions: sums over them, and convolutions.

Positions are followed by doing to their numbers what the model does to its tensors: from the first tensor [batch, positions,
width] on, each tensor has a twin that says of which position every element is, or -1. A product or a sum along a dimension
that positions vary along is a sum over positions: the state of a linear attention, a mean. A convolution whose windows hold
other positions than the one whose result they make reads those. Nothing here knows the compiler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from attention_calls import forward_of
from models.registry import Tiny
from pair_calls import PairCall, pair_calls, tensors_in
from pair_calls import record as record_pairs
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

NOWHERE = -1


@dataclass(frozen=True)
class SumCall:
    """Sums over positions, `elements` of them over each of the groups: of all positions, or of each frame's."""

    elements: int
    groups: tuple[tuple[int, ...], ...]
    layer: int  # how many sums stand behind one another up to this one
    # Of a linear attention's state [batch, heads, width, width]; 0: of something else.
    heads: int = 0
    width: int = 0


@dataclass(frozen=True)
class WindowCall:
    """A convolution, or several over one tensor: for each position's result, which positions it reads."""

    elements: int  # that each position has
    reads: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]  # between neighbours along each dimension of the grid


@dataclass(frozen=True)
class PositionCalls:
    count: int  # positions
    sums: tuple[SumCall, ...] = ()
    windows: tuple[WindowCall, ...] = ()
    pairs: tuple[PairCall, ...] = ()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> PositionCalls:
        def fixed(value: Any) -> Any:
            return tuple(fixed(part) for part in value) if isinstance(value, list) else value

        def calls(kind: type, name: str) -> tuple:
            return tuple(kind(**{k: fixed(v) for k, v in one.items()}) for one in fields[name])

        kinds = ((SumCall, "sums"), (WindowCall, "windows"), (PairCall, "pairs"))
        return cls(fields["count"], *(calls(*kind) for kind in kinds))


@dataclass
class Seen:
    """One sum, or one reading of windows, with what it was made of, or from."""

    call: SumCall | WindowCall
    tensor: torch.Tensor
    source: object = None


MOVES = {
    *("view", "reshape", "permute", "transpose", "unflatten", "flatten", "flip", "squeeze"),
    *("unsqueeze", "chunk", "split", "unbind", "narrow", "select", "__getitem__", "movedim"),
    *("expand", "swapaxes", "tensor_split", "cat", "concat", "stack"),
}
COPIES = {"contiguous", "clone", "to", "float", "double", "half", "bfloat16", "type_as", "detach"}
PRODUCTS = {"matmul", "__matmul__", "bmm"}
SUMS = {"sum", "mean"}
CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}


class PositionRecorder(TorchFunctionMode):
    """Follows positions through what runs under it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.seen: list[Seen] = []
        self._positions = WeakIdKeyDictionary()
        self._sources = WeakIdKeyDictionary()  # equal for tensors that only moves lie between
        self._layers = WeakIdKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self._follow(func, name, args, kwargs, result)
        return result

    def _follow(self, func: Any, name: str, args: Any, kwargs: dict, result: Any) -> None:
        tensors = list(tensors_in((args, list(kwargs.values()))))
        layer = max((self._layers.get(x, 0) for x in tensors), default=0)
        if name == "__setitem__":
            self._layers[args[0]] = layer
            return
        for one in tensors:
            if one not in self._layers and self._is_sequence(one.shape):
                self._positions[one] = self._numbers(one.shape)
        known = [x for x in tensors if x in self._positions]
        results = list(tensors_in([result]))
        found: list[torch.Tensor | None] = [None] * len(results)
        is_move = name in MOVES or name in COPIES
        if name in MOVES and known:
            found = list(tensors_in([func(*self._twins(args), **self._twins(kwargs))]))
        elif name in PRODUCTS and len(tensors) == 2 and known:
            found = [self._of_product(*tensors, results[0], layer)]
        elif name in SUMS and known and results:
            found = [self._of_sum(args, kwargs, results[0], layer)]
        elif name in CONVOLUTIONS and args[0] in self._positions:
            found = [self._of_convolution(args, kwargs, results[0])]
        elif name == "pad" and args[0] in self._positions:
            found = [torch.nn.functional.pad(self._positions[args[0]], args[1], value=NOWHERE)]
        elif name == "linear" and args[0] in self._positions:
            twin = self._positions[args[0]]
            found = [twin.amax(-1, keepdim=True).expand(results[0].shape)]
        elif known and len(results) == 1:
            found = [self._of_elements(known, results[0])]
        for one, twin in zip(results, found, strict=True):
            if twin is None and not known and self._is_sequence(one.shape):
                twin = self._numbers(one.shape)
            if twin is not None and twin.shape == one.shape:
                self._positions[one] = twin
                moved = known[0] if is_move and len(known) == 1 else None
                self._sources[one] = object() if moved is None else self._source(moved)
            self._layers[one] = max(layer, self._layers.get(one, 0))

    def _is_sequence(self, shape: torch.Size) -> bool:
        """[batch, positions, width]; no pairs of positions."""
        return len(shape) == 3 and shape[1] == self.count and list(shape).count(self.count) == 1

    def _numbers(self, shape: torch.Size) -> torch.Tensor:
        return torch.arange(self.count)[:, None].expand(shape)

    def _source(self, tensor: torch.Tensor) -> object:
        if tensor not in self._sources:
            self._sources[tensor] = object()
        return self._sources[tensor]

    def _twins(self, value: Any) -> Any:
        """Arguments with twins for tensors; what has no position is nowhere."""
        if isinstance(value, torch.Tensor):
            if value in self._positions:
                return self._positions[value]
            return torch.full(value.shape, NOWHERE) if value.is_floating_point() else value
        if isinstance(value, dict):
            return {key: self._twins(one) for key, one in value.items()}
        if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
            return type(value)(self._twins(one) for one in value)
        return value

    def _of_elements(self, known: list[torch.Tensor], result: torch.Tensor) -> torch.Tensor | None:
        """Of an operator that works on elements or rows: the operand's, where it has the result's shape or is broadcast."""
        twin = torch.full(result.shape, NOWHERE)
        for operand in known:
            try:
                one = self._positions[operand].expand(result.shape)
            except RuntimeError:
                return None
            if ((twin >= 0) & (one >= 0) & (twin != one)).any():
                return None
            twin = torch.maximum(twin, one)
        return twin

    def _of_product(
        self, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor, layer: int
    ) -> torch.Tensor | None:
        if min(left.dim(), right.dim()) < 2:
            return None
        twins = [self._positions.get(x, torch.full(x.shape, NOWHERE)) for x in (left, right)]
        over = [_varies(twins[0], -1), _varies(twins[1], -2)]
        if all(over):
            if _varies(twins[0], -2) or _varies(twins[1], -1):
                return None
            if self.count in result.shape[-2:]:
                return None  # for pairs of positions: no state that all share
            groups = twins[0].amax(-2).reshape(-1, left.shape[-1])
            is_state = result.dim() == 4 and left.shape[-1] == self.count
            shape = (result.shape[1], min(result.shape[-2:])) if is_state else (0, 0)
            self._note_sum(groups, result, layer, *shape)
            return None
        if any(over):
            return None
        rows, columns = twins[0].amax(-1, keepdim=True), twins[1].amax(-2, keepdim=True)
        if _varies(rows, -2) and _varies(columns, -1):
            return None  # scores
        return torch.maximum(rows, columns).expand(result.shape)

    def _of_sum(
        self, args: Any, kwargs: dict, result: torch.Tensor, layer: int
    ) -> torch.Tensor | None:
        twin = self._positions.get(args[0])
        dims = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if twin is None or dims is None:
            return None
        dims = [d % twin.dim() for d in ([dims] if isinstance(dims, int) else dims)]
        summed = [d for d in dims if _varies(twin, d)]
        keeps = kwargs.get("keepdim", len(args) > 2 and args[2])
        if not summed:
            return twin.amax(dims, keepdim=bool(keeps))
        rest = [d for d in range(twin.dim()) if d not in summed]
        groups = twin.permute(*rest, *summed).reshape(
            -1, int(torch.tensor([twin.shape[d] for d in summed]).prod())
        )
        self._note_sum(groups, result, layer)
        return None

    def _note_sum(
        self, rows: torch.Tensor, result: torch.Tensor, layer: int, heads: int = 0, width: int = 0
    ) -> None:
        """`rows`: the positions of each sum, or of each of some that are alike."""
        groups = tuple(
            sorted({tuple(sorted(set(row.tolist()) - {NOWHERE})) for row in rows} - {()})
        )
        if not any(len(group) > 1 for group in groups):
            return
        each = result.numel() // len(groups)
        self.seen.append(Seen(SumCall(each, groups, layer + 1, heads, width), result.detach()))
        self._layers[result] = layer + 1

    def _of_convolution(self, args: Any, kwargs: dict, result: torch.Tensor) -> torch.Tensor | None:
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        given = dict(zip(names, args, strict=False)) | kwargs
        operand, kernel = given["input"], given["weight"].shape[2:]
        count = len(kernel)
        settings = [
            _each(given.get(n, d), count)
            for n, d in (("stride", 1), ("padding", 0), ("dilation", 1))
        ]
        strides, paddings, dilations = settings
        twin = self._positions[operand].amax(1)
        if any(stride != 1 for stride in strides) or operand.dim() != count + 2:
            return None
        window, home = twin, twin
        for d, (size, padding, dilation) in enumerate(
            zip(kernel, paddings, dilations, strict=True)
        ):
            dim = d + 1
            pad = [0, 0] * (count - 1 - d) + [padding, padding]
            window = torch.nn.functional.pad(
                window, [0, 0] * (window.dim() - 1 - count) + pad, value=NOWHERE
            )
            window = window.unfold(dim, dilation * (size - 1) + 1, 1)[..., ::dilation]
            home = _homes(home, dim, result.shape[dim + 1])
        self._note_windows(operand, twin, home, window.reshape(*home.shape, -1))
        return home[:, None].expand(result.shape)

    def _note_windows(
        self, operand: torch.Tensor, twin: torch.Tensor, home: torch.Tensor, window: torch.Tensor
    ) -> None:
        reads: list[set[int]] = [set() for _ in range(self.count)]
        for at, read in zip(
            home.reshape(-1).tolist(), window.reshape(-1, window.shape[-1]).tolist(), strict=True
        ):
            if at >= 0:
                reads[at] |= set(read) - {NOWHERE, at}
        if not any(reads):
            return
        strides = {_stride(twin, dim) for dim in range(twin.dim())} - {0}
        call = WindowCall(
            operand.numel() // self.count,
            tuple(tuple(sorted(read)) for read in reads),
            tuple(sorted(strides)),
        )
        self.seen.append(Seen(call, operand.detach().clone(), self._source(operand)))


def _each(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value] * count


def _varies(twin: torch.Tensor, dim: int) -> bool:
    """Whether other positions stand along this dimension."""
    some = torch.where(twin >= 0, twin, twin.amax(dim, keepdim=True))
    return bool((some != some.amax(dim, keepdim=True)).any())


def _stride(twin: torch.Tensor, dim: int) -> int:
    if twin.shape[dim] < 2 or not _varies(twin, dim):
        return 0
    steps = torch.diff(twin, dim=dim)
    return int(steps.abs().reshape(-1)[0])


def _homes(twin: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """Whose results a convolution's `size` rows are: of the operand's rows that are positions, in order; more are nobody's."""
    others = [d for d in range(twin.dim()) if d != dim]
    rows = (twin >= 0).any(dim=others[0], keepdim=True)
    for other in others[1:]:
        rows = rows.any(dim=other, keepdim=True)
    real = twin.index_select(dim, rows.reshape(-1).nonzero().reshape(-1))
    lacking = size - real.shape[dim]
    if lacking <= 0:
        return real.narrow(dim, 0, size)
    shape = list(real.shape)
    shape[dim] = lacking
    return torch.cat([real, torch.full(shape, NOWHERE)], dim=dim)


@contextlib.contextmanager
def _flex_attention_alone() -> Iterator[None]:
    """Flex attention is compiled, and no mode may look on."""
    from torch.nn.attention import flex_attention

    original = flex_attention.flex_attention

    def alone(*args: Any, **kwargs: Any) -> Any:
        with torch.overrides._pop_mode_temporarily():
            return original(*args, **kwargs)

    flex_attention.flex_attention = alone
    try:
        yield
    finally:
        flex_attention.flex_attention = original


def record(forward: Callable[[], Any], count: int) -> list[Seen]:
    with torch.no_grad(), _flex_attention_alone(), PositionRecorder(count) as recorder:
        forward()
    return recorder.seen


def position_calls(seen: list[Seen], next_step: list[Seen], count: int) -> PositionCalls:
    """Those that change between two steps. What several convolutions read of one tensor is read once."""
    changed = [
        one
        for one, other in zip(seen, next_step, strict=True)
        if not torch.equal(one.tensor, other.tensor)
    ]
    sums = tuple(one.call for one in changed if isinstance(one.call, SumCall))
    by_source: dict[int, list[WindowCall]] = {}
    for one in changed:
        if isinstance(one.call, WindowCall):
            by_source.setdefault(id(one.source), []).append(one.call)
    windows = []
    for calls in by_source.values():
        reads = tuple(
            tuple(sorted(set().union(*parts)))
            for parts in zip(*(call.reads for call in calls), strict=True)
        )
        strides = {stride for call in calls for stride in call.strides}
        windows.append(WindowCall(calls[0].elements, reads, tuple(sorted(strides))))
    return PositionCalls(count, sums, tuple(windows))


def positions_of(tiny: Tiny) -> PositionCalls:
    """Of one forward of a model of the zoo, where it has one sequence of positions."""
    if len(tiny.tokens) != 1:
        return PositionCalls(0)
    count = tiny.tokens[0]
    steps = [record(forward_of(tiny, next_step), count) for next_step in (False, True)]
    with _flex_attention_alone():
        pairs = [record_pairs(forward_of(tiny, next_step), count) for next_step in (False, True)]
    return replace(position_calls(*steps, count), pairs=pair_calls(*pairs))
