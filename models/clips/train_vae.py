"""Train the video VAE on rendered clips for a given time."""

from __future__ import annotations

import math

import torch
from export import round_to_half
from optim import Clock, Optimiser
from torch import Tensor, nn
from torch.nn import functional as F
from vae import VideoVAE

KL_WEIGHT = 1e-4
EDGE_WEIGHT = 0.5
OBJECT_WEIGHT = 4.0  # added to the weight of pixels of, and beside, bright or saturated ones


def to_input(clips: Tensor) -> Tensor:
    """uint8 clips ``[n, 3, t, h, w]`` as floats in [-1, 1], channels last in memory."""
    return (clips.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last_3d)


def object_weight(clips: Tensor) -> Tensor:
    """Weights ``[n, 1, t, h, w]`` that make the small objects count beside the background."""
    high, low = clips.amax(1, keepdim=True), clips.amin(1, keepdim=True)
    is_object = ((high - low > 0.6) | (low > 0.5)).to(clips.dtype)
    return 1 + OBJECT_WEIGHT * F.max_pool3d(is_object, (1, 3, 3), 1, (0, 1, 1))


def reconstruction_loss(seen: Tensor, right: Tensor) -> Tensor:
    """Weighted L1 of the pixels and of their differences in time and space."""
    error, weight = seen - right, object_weight(right)
    loss = (error.abs() * weight).mean()
    for axis in (2, 3, 4):
        inner = weight.narrow(axis, 1, weight.shape[axis] - 1)
        loss = loss + EDGE_WEIGHT * (error.diff(dim=axis).abs() * inner).mean()
    return loss


class AdamW:
    """AdamW with ``Optimiser``'s interface."""

    def __init__(self, module: nn.Module):
        self._parameters = list(module.parameters())
        self._adam = torch.optim.AdamW(self._parameters, betas=(0.9, 0.99), weight_decay=1e-3)

    def step(self, rate: float) -> None:
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._adam.param_groups[0]["lr"] = 0.6 * rate
        self._adam.step()
        self._adam.zero_grad()


OPTIMISERS = {"muon": lambda vae: Optimiser(vae, ".conv"), "adamw": AdamW}


def train_vae(
    vae: VideoVAE, clips: Tensor, seconds: float, batch: int, optimiser, should_compile: bool, log: list,
    peak: float = 2e-3, should_decay: bool = True,
) -> float:  # fmt: skip
    """
    Train a VAE for a given time.

    Parameters
    ----------
    clips
        uint8 ``[n, 3, 25, 64, 64]`` on the training device.
    optimiser
        Of ``OPTIMISERS``, made.
    log
        Gets a dictionary every 100 steps.

    Returns
    -------
    The running mean of the loss at the end.
    """
    device = clips.device
    forward = torch.compile(vae) if should_compile else vae

    def step(rate: float) -> tuple[Tensor, Tensor]:
        right = to_input(clips[torch.randint(len(clips), (batch,), device=device)])
        with torch.autocast(device.type, torch.bfloat16):
            seen, kl = forward(right)
        loss = reconstruction_loss(seen.float(), right)
        (loss + KL_WEIGHT * kl).backward()
        optimiser.step(rate)
        return loss.detach(), kl.detach()

    running, kl = step(1e-5)  # compiles; not counted in the time
    clock, count = Clock(seconds), 0
    while (progress := clock.progress) < 1:
        decay = 0.5 * (1 + math.cos(math.pi * progress)) if should_decay else 1.0
        loss, kl = step(peak * min(1.0, (count + 1) / 100) * decay)
        running = running.lerp(loss, 0.03)
        if count % 100 == 0:
            seen = {"seconds": clock.elapsed, "loss": running.item(), "kl": kl.item()}
            log.append(
                {"stage": "vae", "step": count}
                | {key: round(value, 5) for key, value in seen.items()}
            )
            if count % 400 == 0:
                print(log[-1], flush=True)
        count += 1
    print(
        f"{count} steps of {batch} in {clock.elapsed:.1f} s, loss {running.item():.4f}", flush=True
    )
    return running.item()


def finish_vae(vae: VideoVAE, clips: Tensor) -> None:
    """Fix the latent statistics and round the weights to fp16 values."""
    vae.eval()
    round_to_half(vae)
    with torch.autocast(clips.device.type, torch.bfloat16):
        vae.fit_statistics(to_input(clips[:256]))


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
