"""
Causal video VAE: 4x smaller in time and space, 16 latent channels.

A clip of 4n+1 frames becomes n+1 latent frames: convolutions look back in time only, and the
first frame of each doubling is dropped again, so that the first latent frame is the first
frame (as in the causal VAEs of Wan, HunyuanVideo and Cosmos). Norms are over channels at each
place (Wan's RMS norm), so that a split in space needs halos but no reductions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LATENT_CHANNELS = 16
WIDE, NARROW = 96, 64


def per_channel(values: Tensor) -> Tensor:
    """Values of channels, to broadcast over ``[b, c, t, h, w]``."""
    return values[:, None, None, None]


class ChannelRMSNorm(nn.Module):
    """RMS norm over the channel axis of ``[b, c, t, h, w]``."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * per_channel(self.weight)


class CausalConv3d(nn.Conv3d):
    """3x3x3 convolution padded with zeros in space, and in time before the clip alone."""

    def __init__(self, inputs: int, outputs: int, stride: tuple[int, int, int] = (1, 1, 1)):
        super().__init__(inputs, outputs, 3, stride, padding=(0, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (0, 0, 0, 0, 2, 0)))


class ResBlock(nn.Module):
    """Two normed convolutions beside an identity."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm1, self.conv1 = ChannelRMSNorm(channels), CausalConv3d(channels, channels)
        self.norm2, self.conv2 = ChannelRMSNorm(channels), CausalConv3d(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        return x + self.conv2(F.silu(self.norm2(y)))


class Upsample(nn.Module):
    """Nearest doubling in time, and in space where asked, then a convolution."""

    def __init__(self, inputs: int, outputs: int, in_space: bool):
        super().__init__()
        self.scale = (2.0, 2.0, 2.0) if in_space else (2.0, 1.0, 1.0)
        self.conv = CausalConv3d(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.interpolate(x, scale_factor=self.scale, mode="nearest")[:, :, 1:])


class Encoder(nn.Module):
    """Clip ``[b, 3, 4n+1, 4h, 4w]`` in [-1, 1] to mean and log variance ``[b, 16, n+1, h, w]``."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            CausalConv3d(12, NARROW), ResBlock(NARROW),
            CausalConv3d(NARROW, NARROW, (2, 1, 1)), ResBlock(NARROW),
            CausalConv3d(NARROW, WIDE, (2, 1, 1)), ResBlock(WIDE),
            CausalConv3d(WIDE, WIDE, (1, 2, 2)), ResBlock(WIDE), ResBlock(WIDE),
            ChannelRMSNorm(WIDE), nn.SiLU(), CausalConv3d(WIDE, 2 * LATENT_CHANNELS),
        )  # fmt: skip

    def forward(self, clip: Tensor) -> tuple[Tensor, Tensor]:
        b, c, t, h, w = clip.shape
        patches = (
            clip.reshape(b, c, t, h // 2, 2, w // 2, 2).permute(0, 1, 4, 6, 2, 3, 5).flatten(1, 3)
        )
        mean, log_variance = self.layers(patches).chunk(2, 1)
        return mean, log_variance.clamp(-20, 5)


class Decoder(nn.Module):
    """Latents ``[b, 16, n+1, h, w]``, each channel normalised, to a clip ``[b, 3, 4n+1, 4h, 4w]`` near [-1, 1]."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(LATENT_CHANNELS))
        self.register_buffer("std", torch.ones(LATENT_CHANNELS))
        self.layers = nn.Sequential(
            CausalConv3d(LATENT_CHANNELS, WIDE), ResBlock(WIDE), ResBlock(WIDE),
            Upsample(WIDE, NARROW, in_space=True), ResBlock(NARROW), ResBlock(NARROW),
            Upsample(NARROW, NARROW, in_space=False), ResBlock(NARROW),
            ChannelRMSNorm(NARROW), nn.SiLU(), CausalConv3d(NARROW, 12),
        )  # fmt: skip

    def forward(self, latents: Tensor) -> Tensor:
        x = self.layers(latents * per_channel(self.std) + per_channel(self.mean))
        b, _, t, h, w = x.shape
        return (
            x.reshape(b, 3, 2, 2, t, h, w)
            .permute(0, 1, 4, 5, 2, 6, 3)
            .reshape(b, 3, t, 2 * h, 2 * w)
        )


class VideoVAE(nn.Module):
    """Encoder and decoder; ``fit_statistics`` sets the normalisation between them."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def encode(self, clip: Tensor) -> Tensor:
        """The mean latents, normalised."""
        return self.normalise(self.encoder(clip)[0])

    def normalise(self, latents: Tensor) -> Tensor:
        return (latents - per_channel(self.decoder.mean)) / per_channel(self.decoder.std)

    def forward(self, clip: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstruction from sampled latents, and the mean KL divergence of a latent element."""
        mean, log_variance = self.encoder(clip)
        sampled = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()
        return self.decoder(self.normalise(sampled)), kl

    @torch.no_grad()
    def fit_statistics(self, clips: Tensor) -> None:
        mean = self.encoder(clips)[0].float()
        self.decoder.mean.copy_(mean.mean((0, 2, 3, 4)))
        self.decoder.std.copy_(mean.std((0, 2, 3, 4)))
