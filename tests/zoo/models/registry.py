"""How a tiny configuration is described: a function of the class's name that returns the arguments of
the class and the arguments of its forward (or decode), seeded before the call.

Sizes are small and odd on purpose: four heads or two groups of two, at least 40 tokens whose number
three and four do not divide, two layers of each kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Description = Callable[[], tuple[dict[str, Any], dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class Tiny:
    """One model of the zoo."""

    name: str
    describe: Description
    kind: str  # "transformer", "vae" or "text"
    # Positions of each sequence that ranks share, in the order in which attention joins them.
    tokens: tuple[int, ...] = ()
    method: str = "forward"
    # Inputs whose content a profile fixes (`tutti compile --bind`).
    bind: tuple[str, ...] = ()
    # Tensors that the exporter bakes in: their elements decide sizes.
    constants: tuple[str, ...] = ()
    class_name: str = ""
    library: str = "diffusers"
    meshes: tuple[str, ...] = ()  # beyond the ranks of the table
    # Symbolic axes of inputs, and sizes beyond those of the description that the same plan is run at.
    dynamic_axes: dict[str, dict[int, str]] = field(default_factory=dict)
    sizes: tuple[dict[str, int], ...] = ()


MODELS: dict[str, Tiny] = {}


def tiny(kind: str, **options: Any) -> Callable[[Description], Description]:
    """Registers a description under the function's name (or `name=`)."""

    def register(describe: Description) -> Description:
        name = options.pop("name", describe.__name__)
        options.setdefault("class_name", describe.__name__)
        if name in MODELS:
            raise ValueError(f"{name} is described twice")
        MODELS[name] = Tiny(name, describe, kind, **options)
        return describe

    return register


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def steps(batch: int = 1) -> torch.Tensor:
    """Time steps of a schedule of 1000, as numbers."""
    return torch.rand(batch) * 900 + 50


def unit_steps(batch: int = 1) -> torch.Tensor:
    """Time steps between 0 and 1."""
    return torch.rand(batch) * 0.8 + 0.1


def grid_ids(frames: int, height: int, width: int, columns: int = 3) -> torch.Tensor:
    """[frames * height * width, columns]: each position's place, padded with zeros on the right."""
    parts = torch.meshgrid(*(torch.arange(n) for n in (frames, height, width)), indexing="ij")
    ids = torch.stack(parts, dim=-1).reshape(-1, 3).float()
    return torch.nn.functional.pad(ids, (0, columns - 3))


# Inputs that change from step to step: latents and their time. All others are the prompt's or the clip's.
STEP_INPUTS = re.compile(
    r"((audio_)?hidden_states|x|vision_tokens|bb_ca|local_latents|decoder_input_tokens|inputs_embeds"
    r"|t|\w*time(step)?s?(_r)?)(\.\d+)?"
)


def changes_between_steps(tiny: Tiny, name: str) -> bool:
    """Of a tensor input: what is denoised does, and so does all that a decoder or a text encoder is given."""
    return tiny.kind != "transformer" or STEP_INPUTS.fullmatch(name) is not None


def own_sizes(tiny: Tiny, tensors: dict[str, torch.Tensor]) -> dict[str, int]:
    """Of the symbolic axes, in the description."""
    axes = tiny.dynamic_axes.items()
    return {
        symbol: tensors[name].shape[axis] for name, named in axes for axis, symbol in named.items()
    }


def at_sizes(
    tiny: Tiny, tensors: dict[str, torch.Tensor], sizes: dict[str, int]
) -> dict[str, torch.Tensor]:
    """The inputs at other sizes: repeated or cut along symbolic axes, floats with some noise."""
    result = {}
    for name, tensor in tensors.items():
        for axis, symbol in tiny.dynamic_axes.get(name, {}).items():
            size = sizes.get(symbol, tensor.shape[axis])
            tensor = tensor.index_select(axis, torch.arange(size) % tensor.shape[axis])
        noise = 1 + 0.1 * torch.randn_like(tensor) if tensor.is_floating_point() else 1
        result[name] = tensor * noise
    return result
