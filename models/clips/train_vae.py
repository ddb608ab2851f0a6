"""Train the video VAE on rendered clips for a given time."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from export import round_to_half
from optim import Clock
from vae import VideoVAE

KL_WEIGHT = 5e-4
EDGE_WEIGHT = 0.5


def to_input(clips: Tensor) -> Tensor:
    """uint8 clips ``[n, 3, t, h, w]`` as floats in [-1, 1], channels last in memory."""
    return (clips.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last_3d)


def edges(x: Tensor) -> list[Tensor]:
    return [x.diff(dim=axis) for axis in (2, 3, 4)]


def reconstruction_loss(seen: Tensor, right: Tensor) -> Tensor:
    """L1 of the pixels and of their differences in time and space."""
    loss = F.l1_loss(seen, right)
    pairs = zip(edges(seen), edges(right))
    return loss + EDGE_WEIGHT * sum(F.l1_loss(a, b) for a, b in pairs)


def train_vae(clips: Tensor, seconds: float, batch: int, should_compile: bool, log: list) -> VideoVAE:
    """
    Train a VAE and fix its latent statistics.

    Parameters
    ----------
    clips
        uint8 ``[n, 3, 25, 64, 64]`` on the training device.
    log
        Gets a dictionary every 50 steps.

    Returns
    -------
    The VAE, its weights rounded to fp16 values.
    """
    device = clips.device
    vae = VideoVAE().to(device, memory_format=torch.channels_last_3d)
    forward = torch.compile(vae) if should_compile else vae
    optimiser = torch.optim.AdamW(vae.parameters(), 1e-3, betas=(0.9, 0.99), weight_decay=1e-3)

    def step(rate: float) -> tuple[Tensor, Tensor, Tensor]:
        right = to_input(clips[torch.randint(len(clips), (batch,), device=device)])
        with torch.autocast(device.type, torch.bfloat16):
            seen, kl = forward(right)
            loss = reconstruction_loss(seen.float(), right)
        (loss + KL_WEIGHT * kl).backward()
        norm = torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
        optimiser.zero_grad()
        return loss.detach(), kl.detach(), norm

    step(1e-5)  # compiles; not counted in the time
    clock, count = Clock(seconds), 0
    while (progress := clock.progress) < 1:
        rate = 1.2e-3 * min(1.0, (count + 1) / 100) * 0.5 * (1 + math.cos(math.pi * progress))
        loss, kl, norm = step(rate)
        if count % 50 == 0:
            entry = {"stage": "vae", "step": count, "seconds": clock.elapsed, "loss": loss.item(), "kl": kl.item(), "gradient": norm.item()}
            log.append({key: round(v, 5) if isinstance(v, float) else v for key, v in entry.items()})
            if count % 200 == 0:
                print(log[-1], flush=True)
        count += 1
    vae.eval()
    with torch.autocast(device.type, torch.bfloat16):
        vae.fit_statistics(to_input(clips[:256]))
    return round_to_half(vae)


@torch.no_grad()
def encode_all(vae: VideoVAE, clips: Tensor, out: Tensor, chunk: int = 250) -> None:
    """Write the normalised latents of uint8 clips into ``out``."""
    for start in range(0, len(clips), chunk):
        part = slice(start, start + chunk)
        with torch.autocast(clips.device.type, torch.bfloat16):
            out[part] = vae.encode(to_input(clips[part])).to(out.dtype)


@torch.no_grad()
def reconstruction_psnr(vae: VideoVAE, clips: Tensor) -> float:
    """Mean PSNR in dB of decoded mean latents, of uint8 clips no step has seen."""
    right = to_input(clips)
    with torch.autocast(clips.device.type, torch.bfloat16):
        seen = vae.decoder(vae.encode(right)).float().clamp(-1, 1)
    error = ((seen - right) / 2).square().mean((1, 2, 3, 4))
    return (-10 * error.log10()).mean().item()
