"""Text encoder: a small bidirectional transformer over word ids, trained with the diffusion transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TEXT_DIM = 256
PAD = 0


class TextBlock(nn.Module):
    """Pre-norm self-attention and MLP."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.to_qkv(self.norm1(x)).chunk(3, -1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.to_out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class TextEncoder(nn.Module):
    """
    ``input_ids`` int64 ``[batch, text_len]`` to ``[batch, text_len, 256]``.

    Padding is hidden from the other words, and its own output is one learned vector, so
    the reader of the output needs no mask.
    """

    def __init__(
        self, vocabulary: int, length: int, dim: int = TEXT_DIM, heads: int = 4, layers: int = 2
    ):
        super().__init__()
        self.words = nn.Embedding(vocabulary, dim)
        self.places = nn.Parameter(torch.randn(length, dim) * 0.02)
        self.blocks = nn.ModuleList(TextBlock(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.pad = nn.Parameter(torch.zeros(dim))
        nn.init.normal_(self.words.weight, std=0.5)

    def forward(self, input_ids: Tensor) -> Tensor:
        real = input_ids != PAD
        x = self.words(input_ids) + self.places[: input_ids.shape[1]]
        # Expanded, as onnxruntime's Attention does not broadcast the mask over queries.
        mask = real[:, None, None, :].expand(-1, -1, input_ids.shape[1], -1)
        for block in self.blocks:
            x = block(x, mask)
        return torch.where(real[..., None], self.norm(x), self.pad)
