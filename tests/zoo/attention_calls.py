"""The attentions that a model's forward calls, and which of their rows matter to the ranks of a mesh.

A call is seen whether it is PyTorch's own operator or a product, a softmax and a product. Its rows are told apart by
experiment: another step (other latents, another time, the same prompt) leaves some queries and keys as they were; and the
gradient of the outputs leaves some results without any, and some values (which a mask closes to all that is read). Masks that are inputs let everything through for that: a plan has to
work for any content. Features that are 0 in all queries or all keys, or in all values, do not count: models fill up to the widths that
kernels want. Nothing here knows the compiler.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from build_model import build
from models.registry import Tiny, changes_between_steps
from torch.overrides import TorchFunctionMode
from tutti.export.arguments import join_tensors, named_outputs, split_tensors

Runs = tuple[tuple[int, int], ...]  # rows, as [first, last + 1) of each stretch


@dataclass(frozen=True)
class AttentionCall:
    """Shapes are [batch, heads, length, width].

    Key and value heads that a model repeated for grouped queries count once.
    """

    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    queries: Runs  # rows whose query changes from step to step
    keys: Runs  # rows whose key or value does, and is read
    read: Runs  # rows whose result anybody reads
    key_from: int = (
        0  # so many calls before was the first with the same keys, or with the same values
    )
    value_from: int = 0
    bias: int = 0  # heads of a bias for each query and key that changes from step to step
    # The tensor of `source_width` features that keys and values are projections of, row by row, where several calls share it: its number.
    source: int = -1
    source_width: int = 0
    element_bytes: int = 4  # of what the model gives its attention, which may be less than its own

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> AttentionCall:
        def fixed(value: Any) -> Any:
            return tuple(fixed(part) for part in value) if isinstance(value, list) else value

        return cls(**{name: fixed(value) for name, value in fields.items()})


def all_rows(query: tuple, key: tuple, value: tuple) -> AttentionCall:
    """A call of which every row changes and is read."""
    queries, keys = ((0, query[2]),), ((0, key[2]),)
    return AttentionCall(query, key, value, queries, keys, queries)


@dataclass
class Seen:
    """One attention of one forward."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    result: torch.Tensor
    source: torch.Tensor  # the value as the model made it, which knows its gradient
    bias: torch.Tensor | None = None
    projected: torch.Tensor | None = None  # what keys and values are projections of


class Recorder(TorchFunctionMode):
    """Notes the attentions of what runs under it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []
        # By id: what a tensor of scores, or of their softmax, was made from. The tensors are kept, so ids stay theirs.
        self._scores: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
        self._weights: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
        # What rows are a projection of, each by itself.
        self._projected: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        self._follow_rows(name, args, result)
        if isinstance(result, torch.Tensor):
            if name == "scaled_dot_product_attention":
                given = dict(zip(PARTS, args, strict=False)) | kwargs
                self.note(*(given.get(part) for part in PARTS), result)
            else:
                self._follow(name, [a for a in args if isinstance(a, torch.Tensor)], result)
        return result

    def note(self, query: Any, key: Any, value: Any, bias: Any, result: Any) -> None:
        if min(query.dim(), key.dim(), value.dim()) < 3:
            return
        for tensor in (value, result):
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.retain_grad()
        # Without a dimension of their own, heads are in the batch.
        parts = [with_heads(x.detach().clone()) for x in (query, key, value)]
        bias = None if bias is None else bias.detach().clone()
        self.seen.append(Seen(*parts, result, value, bias, self._projection_of(key, value)))

    def _follow_rows(self, name: str, args: Any, result: Any) -> None:
        tensors = [x for x in torch.utils._pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]
        if name == "linear":
            origins = {id(tensors[0]): tensors[0]}
        elif name in ROW_BY_ROW:
            found = [self._projected[id(x)][0] for x in tensors if id(x) in self._projected]
            origins = {id(x): x for x in found}
        else:
            return
        if len(origins) != 1:
            return
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, torch.Tensor):
                self._projected[id(made)] = (*origins.values(), made)

    def _projection_of(self, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor | None:
        of_key, of_value = (self._projected.get(id(x), (None,))[0] for x in (key, value))
        if of_key is None or of_key is not of_value or of_key.dim() < 2:
            return None
        return of_key if of_key.shape[-2] == key.shape[-2] else None

    def _follow(self, name: str, tensors: list[torch.Tensor], result: torch.Tensor) -> None:
        if name in PRODUCTS and result.dim() in (3, 4) and len(tensors) >= 2:
            left, right = tensors[-2:]
            if id(left) in self._weights:
                query, key, _ = self._weights[id(left)]
                self.note(query, key, right, None, result)
            elif left.dim() == right.dim() == result.dim():
                self._scores[id(result)] = (left, right.transpose(-1, -2), result)
            return
        for known in (self._scores, self._weights):
            made = next((known[id(t)] for t in tensors if id(t) in known), None)
            if made is not None and result.dim() in (3, 4) and result.shape == made[2].shape:
                known = self._weights if name == "softmax" else known
                known[id(result)] = (*made[:2], result)
                return


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder that sees flex attention as well, which PyTorch does not let modes see."""
    from torch.nn.attention import flex_attention

    recorder, original = Recorder(), flex_attention.flex_attention

    def noting(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        result = _dense(query, key, value, *args, **kwargs)
        if result is None:
            result = original(query, key, value, *args, **kwargs)
        recorder.note(query, key, value, None, result[0] if isinstance(result, tuple) else result)
        return result

    flex_attention.flex_attention = noting
    try:
        with recorder:
            yield recorder
    finally:
        flex_attention.flex_attention = original


def _dense(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    **others: Any,
) -> torch.Tensor | None:
    """Flex attention with a mask alone, as attention, which has a gradient on the CPU; None: there is more to it."""
    if score_mod is not None or others.get("return_lse") or others.get("return_aux"):
        return None
    mask = None
    if block_mask is not None:
        from torch.nn.attention.flex_attention import create_mask

        mask = create_mask(
            block_mask.mask_mod, 1, query.shape[1], query.shape[2], key.shape[2], device="cpu"
        )
    with torch._C.DisableTorchFunction():
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=scale, enable_gqa=enable_gqa
        )


PARTS = ("query", "key", "value", "attn_mask")
PRODUCTS = ("matmul", "__matmul__", "bmm", "baddbmm")


# Functions that leave each row to itself where rows are not their last dimension.
ROW_BY_ROW = {"add", "chunk", "contiguous", "flatten", "float", "layer_norm", "mul", "permute"}
ROW_BY_ROW |= {"reshape", "rms_norm", "split", "to", "transpose", "type_as", "unbind", "unflatten"}
ROW_BY_ROW |= {"unsqueeze", "view", "__add__", "__mul__", "__radd__", "__rmul__"}


def with_heads(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() == 4 else x[None]


def runs_of(rows: torch.Tensor) -> Runs:
    """Stretches of true elements."""
    edges = torch.diff(torch.cat([torch.zeros(1), rows.float(), torch.zeros(1)]))
    starts, stops = (edges > 0).nonzero().flatten(), (edges < 0).nonzero().flatten()
    return tuple(zip(starts.tolist(), stops.tolist(), strict=True))


def without_repeats(x: torch.Tensor) -> tuple[int, ...]:
    """The shape of a key or value, with each run of equal heads as one."""
    batch, heads, length, width = x.shape
    groups = heads
    while groups % 2 == 0 and length:
        runs = x.reshape(batch, groups // 2, heads // (groups // 2), length, width)
        if not (runs == runs[:, :, :1]).all():
            break
        groups //= 2
    return (batch, groups, length, width)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """[batch, heads, rows, width] to a flag for each row: whether anything in it is not 0."""
    return (x != 0).any(dim=3).any(dim=1).any(dim=0)


def _features(x: torch.Tensor) -> torch.Tensor:
    """A flag for each feature: whether it is not 0 somewhere."""
    return (x != 0).flatten(0, -2).any(dim=0)


def _used_shapes(one: Seen) -> tuple[tuple[int, ...], ...]:
    """Of queries, keys and values, each without repeats of heads and features that add nothing."""
    scored = int((_features(one.query) & _features(one.key)).sum()) or one.query.shape[3]
    carried = int(_features(one.value).sum()) or one.value.shape[3]
    shapes = (tuple(one.query.shape), without_repeats(one.key), without_repeats(one.value))
    widths = (scored, scored, carried)
    return tuple((*shape[:3], width) for shape, width in zip(shapes, widths, strict=True))


def _first_among(x: torch.Tensor, others: list[torch.Tensor]) -> int:
    """How many calls ago one had the same first; 0: none."""
    for i, other in enumerate(others):
        if x.shape == other.shape and torch.equal(x, other):
            return len(others) - i
    return 0


def _with_gradient(x: torch.Tensor, rows: int) -> torch.Tensor:
    """A flag for each row: whether the outputs depend on it, so far as gradients say."""
    if not x.requires_grad:
        return torch.ones(rows, dtype=torch.bool)
    if x.grad is None:
        return torch.zeros(rows, dtype=torch.bool)
    return _rows(with_heads(x.grad))


def _bias_heads(one: Seen, other: Seen | None) -> int:
    """Of a bias that has a number for each query and key and is another in the next step."""
    bias = one.bias
    if bias is None or not bias.is_floating_point() or other is None or other.bias is None:
        return 0
    pairs = (one.query.shape[2], one.key.shape[2])
    if tuple(bias.shape[-2:]) != pairs or min(pairs) < 2 or torch.equal(bias, other.bias):
        return 0
    return bias.shape[-3] if bias.dim() > 2 else 1


def record(forward: Callable[[], Mapping[str, torch.Tensor]]) -> tuple[dict, list[Seen]]:
    """The outputs of `forward` and its attentions, whose results know the outputs' gradient.

    Flex attention with a function of scores has no gradient on the CPU: where a model has it, all results count as read.
    """
    try:
        with torch.enable_grad(), recording() as recorder:
            outputs = dict(forward())
    except NotImplementedError:
        with torch.no_grad(), recording() as recorder:
            outputs = dict(forward())
    torch.manual_seed(1)
    total = sum((x * torch.randn_like(x)).sum() for x in outputs.values() if x.is_floating_point())
    if isinstance(total, torch.Tensor) and total.requires_grad:
        total.backward()
    return {name: x.detach() for name, x in outputs.items()}, recorder.seen


def attention_calls(seen: list[Seen], next_step: list[Seen] | None) -> list[AttentionCall]:
    """Calls, in order. Without a next step every query and key counts as changing."""
    calls = []
    sources = _shared_sources(seen)
    for i, one in enumerate(seen):
        shapes = _used_shapes(one)
        if next_step is None:
            queries = torch.ones(shapes[0][2], dtype=torch.bool)
            keys = torch.ones(shapes[1][2], dtype=torch.bool)
        else:
            other = next_step[i]
            queries = _rows(one.query - other.query)
            keys = _rows(one.key - other.key) | _rows(one.value - other.value)
        keys &= _with_gradient(one.source, shapes[1][2])
        read = _with_gradient(one.result, shapes[0][2])
        rows = (runs_of(queries), runs_of(keys), runs_of(read))
        first = (
            _first_among(one.key, [x.key for x in seen[:i]]),
            _first_among(one.value, [x.value for x in seen[:i]]),
        )
        bias = _bias_heads(one, None if next_step is None else next_step[i])
        calls.append(
            AttentionCall(*shapes, *rows, *first, bias, *sources[i], one.query.element_size())
        )
    return calls


def _shared_sources(seen: list[Seen]) -> list[tuple[int, int]]:
    """For each call, number and width of what its keys and values are projections of, if another's are as well."""
    users = Counter(id(one.projected) for one in seen if one.projected is not None)
    shared = [source for source, count in users.items() if count > 1]
    return [
        (shared.index(id(one.projected)), one.projected.shape[-1])
        if id(one.projected) in shared
        else (-1, 0)
        for one in seen
    ]


def calls_of(tiny: Tiny) -> list[AttentionCall]:
    """Of one forward of a model of the zoo."""
    _, seen = record(forward_of(tiny, next_step=False))
    changes_all = tiny.kind != "transformer"
    return attention_calls(seen, None if changes_all else record(forward_of(tiny, True))[1])


def forward_of(tiny: Tiny, next_step: bool) -> Callable[[], dict[str, torch.Tensor]]:
    # Built for each: an argument may be a cache that a forward fills.
    module, inputs = build(tiny)
    structure, tensors = split_tensors(inputs)
    for name, tensor in tensors.items():
        if _is_open_mask(tiny, name, tensor):
            tensors[name] = torch.ones_like(tensor)
        elif next_step and changes_between_steps(tiny, name):
            tensors[name] = _changed(tensor)
    inputs = join_tensors(structure, tensors)
    return lambda: named_outputs(getattr(module, tiny.method)(**inputs))


def _is_open_mask(tiny: Tiny, name: str, tensor: torch.Tensor) -> bool:
    """A mask whose content no plan knows: any row may be read."""
    known = name in tiny.bind or name in tiny.constants
    return "mask" in name and not known and bool(((tensor == 0) | (tensor == 1)).all())


def _changed(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return tensor * (1 + 0.1 * torch.randn_like(tensor))
    return tensor + 1
