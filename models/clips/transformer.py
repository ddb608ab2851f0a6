"""
The diffusion transformer: predicts the flow-matching velocity of video latents.

Each block has self-attention over all video tokens (grouped queries, q/k RMS norm, 3-D rotary
embedding), cross-attention to the text tokens, and a gated MLP; the time step modulates the
norms (adaLN, one projection shared by all blocks plus a learned table for each, as in PixArt
and Wan).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class TransformerConfig:
    channels: int = 16
    width: int = 256
    heads: int = 8
    kv_heads: int = 4
    mlp: int = 512
    layers: int = 8
    text_dim: int = 256
    rope_axes: tuple[int, int, int] = (8, 12, 12)  # of a head's 32, for frame, row, column
    rope_base: float = 100.0  # places reach 16, not thousands

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


class RotaryTables(nn.Module):
    """Cosines and sines ``[frames * height * width, head_dim / 2]`` of the video's places."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        for name, dim in zip(("frame", "row", "column"), config.rope_axes, strict=False):
            frequencies = config.rope_base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
            self.register_buffer(name, frequencies, persistent=False)

    def forward(self, f: int, h: int, w: int) -> tuple[Tensor, Tensor]:
        place = lambda n: torch.arange(n, device=self.row.device, dtype=torch.float32)
        angles = torch.cat(
            [
                (place(f)[:, None] * self.frame)[:, None, None].expand(f, h, w, -1),
                (place(h)[:, None] * self.row)[None, :, None].expand(f, h, w, -1),
                (place(w)[:, None] * self.column)[None, None].expand(f, h, w, -1),
            ],
            -1,
        ).flatten(0, 2)
        return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the halves of each head of ``[b, heads, tokens, head_dim]`` against each other."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with q/k RMS norm; ``context`` of its own width for cross-attention."""

    def __init__(self, config: TransformerConfig, context_dim: int):
        super().__init__()
        self.head_dim = config.head_dim
        self.to_q = nn.Linear(config.width, config.heads * self.head_dim)
        self.to_k = nn.Linear(context_dim, config.kv_heads * self.head_dim)
        self.to_v = nn.Linear(context_dim, config.kv_heads * self.head_dim)
        self.to_out = nn.Linear(config.width, config.width)
        self.norm_q, self.norm_k = nn.RMSNorm(self.head_dim, 1e-6), nn.RMSNorm(self.head_dim, 1e-6)

    def forward(
        self, x: Tensor, context: Tensor, rotary: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        split = lambda t: t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        q, k, v = split(self.to_q(x)), split(self.to_k(context)), split(self.to_v(context))
        q, k = self.norm_q(q), self.norm_k(k)
        if rotary is not None:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        attended = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, enable_gqa=True)
        return self.to_out(attended.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        width = config.width
        self.norm1 = nn.LayerNorm(width, 1e-6, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(width, 1e-6)
        self.norm3 = nn.LayerNorm(width, 1e-6, elementwise_affine=False)
        self.self_attention = Attention(config, width)
        self.cross_attention = Attention(config, config.text_dim)
        self.gate_up = nn.Linear(width, 2 * config.mlp)
        self.down = nn.Linear(config.mlp, width)
        # Rows: shift, scale, gate of the attention; the same of the MLP.
        rows = torch.tensor([0.0, 0.0, 0.5, 0.0, 0.0, 0.5])[None, :, None]
        self.modulation = nn.Parameter(rows + torch.randn(1, 6, width) * 0.02)

    def forward(
        self, x: Tensor, text: Tensor, condition: Tensor, rotary: tuple[Tensor, Tensor]
    ) -> Tensor:
        shift1, scale1, gate1, shift3, scale3, gate3 = (self.modulation + condition).chunk(6, 1)
        y = self.norm1(x) * (1 + scale1) + shift1
        x = x + gate1 * self.self_attention(y, y, rotary)
        x = x + self.cross_attention(self.norm2(x), text)
        gate, up = self.gate_up(self.norm3(x) * (1 + scale3) + shift3).chunk(2, -1)
        return x + gate3 * self.down(F.silu(gate) * up)


class ClipsTransformer(nn.Module):
    """
    Velocity of latents at a time step, given text.

    ``hidden_states`` ``[batch, 16, frames, height, width]``, ``timestep`` float ``[batch]`` in
    [0, 1000] and ``encoder_hidden_states`` ``[batch, text_len, 256]`` give ``sample`` of the
    latents' shape.
    """

    def __init__(self, config: TransformerConfig = TransformerConfig()):
        super().__init__()
        self.config = config
        width = config.width
        self.patch = nn.Linear(config.channels, width)
        self.place = nn.Linear(
            config.head_dim, width
        )  # attention itself knows only relative places
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.pooled_text = nn.Linear(config.text_dim, width)
        self.condition = nn.Linear(width, 6 * width)
        text_dim = config.text_dim
        self.text = nn.Sequential(
            nn.Linear(text_dim, text_dim), nn.SiLU(), nn.Linear(text_dim, text_dim)
        )
        self.rotary = RotaryTables(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width, 1e-6, elementwise_affine=False)
        self.modulation = nn.Parameter(torch.randn(1, 2, width) * 0.02)
        self.out = nn.Linear(width, config.channels)
        frequencies = torch.exp(-math.log(10000.0) * torch.arange(128) / 128)
        self.register_buffer("time_frequencies", frequencies, persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        for last in (self.condition, self.out, self.place):
            nn.init.zeros_(last.weight)
        for block in self.blocks:
            for last in (block.self_attention.to_out, block.cross_attention.to_out, block.down):
                nn.init.normal_(last.weight, std=0.02)

    def forward(
        self, hidden_states: Tensor, timestep: Tensor, encoder_hidden_states: Tensor
    ) -> Tensor:
        b, c, f, h, w = hidden_states.shape
        rotary = self.rotary(f, h, w)
        x = self.patch(hidden_states.flatten(2).transpose(1, 2)) + self.place(torch.cat(rotary, -1))
        angles = timestep[:, None] * self.time_frequencies
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        time = time + self.pooled_text(encoder_hidden_states.mean(1))
        condition = self.condition(F.silu(time)).unflatten(-1, (6, -1))
        text = encoder_hidden_states + self.text(encoder_hidden_states)
        for block in self.blocks:
            x = block(x, text, condition, rotary)
        shift, scale = (self.modulation + time[:, None]).chunk(2, 1)
        x = self.out(self.norm(x) * (1 + scale) + shift)
        return x.transpose(1, 2).unflatten(2, (f, h, w))
