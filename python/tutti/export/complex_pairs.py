"""Rewrites complex numbers, which ONNX does not have, as pairs of reals.

Rotary embeddings are often written with complex numbers. `rewrite.py` runs an exported program once more with every
complex tensor as a Pair; RULES says what each operator does to one, MAKERS what makes one of reals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

REAL_OF = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@dataclass(frozen=True)
class Pair:
    """A complex tensor: `parts` is real, its last dimension holds the real and the imaginary part."""

    parts: torch.Tensor

    @property
    def real(self) -> torch.Tensor:
        return self.parts[..., 0]

    @property
    def imag(self) -> torch.Tensor:
        return self.parts[..., 1]

    @property
    def rank(self) -> int:
        return self.parts.dim() - 1

    def axis(self, axis: int) -> int:
        return axis % self.rank


def pair(real: torch.Tensor, imag: torch.Tensor) -> Pair:
    return Pair(torch.stack([real, imag], dim=-1))


def paired(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_complex():
        return Pair(torch.view_as_real(value.resolve_conj()))
    return value


def _polar(radius: torch.Tensor, angle: torch.Tensor) -> Pair:
    return pair(radius * angle.cos(), radius * angle.sin())


# What makes complex numbers of real ones.
MAKERS = {
    "view_as_complex": Pair,
    "polar": _polar,
    "complex": pair,
}


def _parts(x: Any) -> Any:
    return x.parts if isinstance(x, Pair) else x


def _multiply(call: Any, target: Any, a: Any, b: Any) -> Pair:
    if isinstance(a, Pair) and isinstance(b, Pair):
        return pair(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)
    number, other = (a, b) if isinstance(a, Pair) else (b, a)
    return Pair(number.parts * (other.unsqueeze(-1) if isinstance(other, torch.Tensor) else other))


def _elementwise(call: Any, target: Any, a: Any, b: Any) -> Pair:
    """Sums and differences of two complex tensors of any broadcast."""
    if not (isinstance(a, Pair) and isinstance(b, Pair)):
        raise NotImplementedError(f"{target} of a complex and a real number")
    return Pair(call(target, (a.parts, b.parts), {}))


def _same(call: Any, target: Any, x: Pair, *args: Any, **kwargs: Any) -> Pair:
    """Operators that treat the last dimension like any other."""
    return Pair(call(target, (x.parts, *args), kwargs))


def _with_axes(count: int) -> Any:
    """Operators whose first `count` arguments after the tensor are dimensions."""

    def rule(call: Any, target: Any, x: Pair, *args: Any, **kwargs: Any) -> Any:
        axes = [x.axis(axis) for axis in args[:count]]
        if count and not args:
            axes = [0]
        return _as_pairs(call(target, (x.parts, *axes, *args[count:]), kwargs))

    return rule


def _axis_last(default: int) -> Any:
    """Operators (x, size, dim): pieces of a dimension."""

    def rule(call: Any, target: Any, x: Pair, size: Any, axis: int = default) -> Any:
        return _as_pairs(call(target, (x.parts, size, x.axis(axis)), {}))

    return rule


def _unsqueeze(call: Any, target: Any, x: Pair, axis: int) -> Pair:
    return Pair(x.parts.unsqueeze(axis if axis >= 0 else axis + x.rank + 1))


def _permute(call: Any, target: Any, x: Pair, axes: list[int]) -> Pair:
    return Pair(x.parts.permute([x.axis(axis) for axis in axes] + [x.rank]))


def _flatten(call: Any, target: Any, x: Pair, first: int = 0, last: int = -1) -> Pair:
    return Pair(x.parts.flatten(x.axis(first), x.axis(last)))


def _shaped(call: Any, target: Any, x: Pair, sizes: list[Any], *args: Any, **kwargs: Any) -> Pair:
    return Pair(call(target, (x.parts, [*sizes, 2], *args), kwargs))


def _repeat(call: Any, target: Any, x: Pair, times: list[Any]) -> Pair:
    return Pair(x.parts.repeat([*times, 1]))


def _joined(call: Any, target: Any, parts: list[Pair], axis: int = 0) -> Pair:
    rank = parts[0].rank + (target.overloadpacket.__name__ == "stack")
    return Pair(call(target, ([part.parts for part in parts], axis % rank), {}))


def _converted(call: Any, target: Any, x: Pair, *args: Any, **kwargs: Any) -> Pair:
    args = tuple(REAL_OF.get(a, a) if isinstance(a, torch.dtype) else a for a in args)
    kwargs = {k: REAL_OF.get(v, v) if isinstance(v, torch.dtype) else v for k, v in kwargs.items()}
    return Pair(call(target, (x.parts, *args), kwargs))


def _as_pairs(value: Any) -> Any:
    return [Pair(part) for part in value] if isinstance(value, list | tuple) else Pair(value)


def _gather(call: Any, target: Any, x: Pair, axis: int, index: torch.Tensor) -> Pair:
    places = index.unsqueeze(-1).expand(*index.shape, 2)
    return Pair(x.parts.gather(x.axis(axis), places))


def _filled(call: Any, target: Any, x: Pair, sizes: list[Any], **kwargs: Any) -> Pair:
    return Pair(x.parts.new_zeros([*sizes, 2]))


def _copied(call: Any, target: Any, x: Pair, source: Any, *args: Any) -> Pair:
    x.parts.copy_(source.parts)
    return x


def _padded(call: Any, target: Any, parts: list[Pair], *args: Any, **kwargs: Any) -> Pair:
    return Pair(call(target, ([part.parts for part in parts], *args), kwargs))


def _item(call: Any, target: Any, values: list[Pair], index: int) -> Pair:
    return values[index]


RULES = {
    "mul": _multiply,
    "add": _elementwise,
    "sub": _elementwise,
    "view_as_real": lambda call, target, x: x.parts,
    "real": lambda call, target, x: x.real,
    "imag": lambda call, target, x: x.imag,
    "conj": lambda call, target, x: pair(x.real, -x.imag),
    "_conj": lambda call, target, x: pair(x.real, -x.imag),
    "resolve_conj": lambda call, target, x: x,
    "unsqueeze": _unsqueeze,
    "permute": _permute,
    "flatten": _flatten,
    "repeat": _repeat,
    "pad_sequence": _padded,
    "new_zeros": _filled,
    "copy_": _copied,
    "gather": _gather,
    "_assert_tensor_metadata": lambda *_, **__: None,
    "cat": _joined,
    "stack": _joined,
    **dict.fromkeys(
        ("clone", "contiguous", "detach", "detach_", "alias", "lift_fresh_copy"), _same
    ),
    # Indexes of leading dimensions.
    "index": _same,
    **dict.fromkeys(("to", "_to_copy", "type_as"), _converted),
    **dict.fromkeys(
        ("slice", "select", "index_select", "squeeze", "unbind", "narrow"), _with_axes(1)
    ),
    "transpose": _with_axes(2),
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), _axis_last(0)),
    **dict.fromkeys(("view", "reshape", "expand", "_unsafe_view"), _shaped),
    "getitem": _item,
}
