"""Train the diffusion transformer and the text encoder together, by flow matching."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from export import make_text_encoder
from optim import Average, Clock, Optimiser
from torch import Tensor, nn
from transformer import ClipsTransformer, TransformerConfig

NULL_SHARE = 0.1  # of captions replaced by the empty one, for classifier-free guidance
TRAIN_SHIFT = 2.0


class Denoiser(nn.Module):
    """Text encoder and transformer as one trainable module."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.text, self.transformer = make_text_encoder(), ClipsTransformer(config)

    def forward(self, latents: Tensor, timestep: Tensor, ids: Tensor) -> Tensor:
        return self.transformer(latents, timestep, self.text(ids))


@dataclass
class Schedule:
    """Warm-up, a constant rate, and a linear decay over the last share of the time."""

    peak: float = 2e-3
    warm_steps: int = 150
    decay_share: float = 0.0

    def rate(self, step: int, progress: float) -> float:
        decay = min(1.0, (1 - progress) / self.decay_share) if self.decay_share else 1.0
        return self.peak * min(1.0, (step + 1) / self.warm_steps) * max(decay, 0.01)


def noise_levels(count: int, device) -> Tensor:
    """Logit-normal noise levels in (0, 1), shifted towards noise."""
    level = torch.sigmoid(torch.randn(count, device=device))
    return TRAIN_SHIFT * level / (1 + (TRAIN_SHIFT - 1) * level)


def train_transformer(
    denoiser: Denoiser, latents: Tensor, ids: Tensor, null: Tensor, seconds: float, batch: int,
    schedule: Schedule, should_compile: bool, log: list, max_steps: int = 10**9,
) -> Average:  # fmt: skip
    """
    Train for a given time; the latents and ids lie on the training device.

    Returns
    -------
    The moving average of the weights; the module keeps the live ones.
    """
    device = latents.device
    if should_compile:
        # Blocks are alike, so compiling them one by one compiles one.
        for block in [*denoiser.text.blocks, *denoiser.transformer.blocks]:
            block.compile()
    optimiser, average = Optimiser(denoiser), Average(denoiser)
    running, count = None, 0
    clock = Clock(seconds)
    while (progress := clock.progress) < 1 and count < max_steps:
        chosen = torch.randint(len(latents), (batch,), device=device)
        clean = latents[chosen].float()
        words = torch.where(torch.rand(batch, 1, device=device) < NULL_SHARE, null, ids[chosen])
        level, noise = noise_levels(batch, device), torch.randn_like(clean)
        mix = level[:, None, None, None, None]
        with torch.autocast(device.type, torch.bfloat16):
            velocity = denoiser((1 - mix) * clean + mix * noise, level * 1000, words)
            loss = (velocity.float() - (noise - clean)).square().mean()
        loss.backward()
        optimiser.step(schedule.rate(count, progress))
        average.update()
        running = loss.detach() if running is None else running.lerp(loss.detach(), 0.02)
        if count % 50 == 0:
            entry = {
                "stage": "transformer", "step": count, "seconds": round(clock.elapsed, 1),
                "loss": round(running.item(), 5), "rate": schedule.rate(count, progress),
            }  # fmt: skip
            log.append(entry)
            if count % 200 == 0 or count == 50:
                print(entry, flush=True)
        count += 1
    print(f"{count} steps of {batch} in {clock.elapsed:.1f} s", flush=True)
    return average
