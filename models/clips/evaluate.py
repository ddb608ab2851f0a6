"""Sample clips for prompts on the training device and let the checker score them."""

from __future__ import annotations

from pathlib import Path

import grammar
import numpy as np
import torch
from torch import Tensor
from train_checker import score
from train_transformer import Denoiser
from tutti.clips.checker import ClipChecker
from tutti.clips.tokenizer import WordTokenizer
from vae import Decoder


@torch.no_grad()
def sample_latents(
    denoiser: Denoiser, ids: Tensor, null: Tensor, shape: tuple[int, ...], steps: int = 25, guidance: float = 4.0,
    shift: float = 3.0, seed: int = 0,
) -> Tensor:  # fmt: skip
    """Euler's method along the guided velocity, as ``FlowMatchEulerScheduler`` steps."""
    device = ids.device
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(len(ids), *shape, generator=generator, device=device)
    levels = torch.linspace(1, 1 / 1000, steps)
    levels = torch.cat([shift * levels / (1 + (shift - 1) * levels), torch.zeros(1)]).tolist()
    both = torch.cat([ids, null.expand_as(ids)])
    with torch.autocast(device.type, torch.bfloat16):
        text = denoiser.text(both)
        for level, following in zip(levels, levels[1:], strict=False):
            time = torch.full((len(both),), level * 1000.0, device=device)
            said, unsaid = (
                denoiser.transformer(x.repeat(2, 1, 1, 1, 1), time, text).float().chunk(2)
            )
            x = x + (following - level) * (unsaid + guidance * (said - unsaid))
    return x


@torch.no_grad()
def decode(decoder: Decoder, latents: Tensor, chunk: int = 50) -> np.ndarray:
    """Clips in [0, 1] of latents."""
    with torch.autocast(latents.device.type, torch.bfloat16):
        parts = [decoder(part).float() for part in latents.split(chunk)]
    return (torch.cat(parts) * 0.5 + 0.5).clamp(0, 1).cpu().numpy()


def evaluate(
    denoiser: Denoiser, decoder: Decoder, scenes: grammar.Scenes, shape, classifier: Path, **options
):
    """Returns the score of the scenes' captions and the sampled clips."""
    device = next(denoiser.parameters()).device
    tokenizer = WordTokenizer.from_grammar()
    ids = torch.as_tensor(tokenizer(scenes.captions()), device=device)
    null = torch.as_tensor(tokenizer([""]), device=device)
    with torch.compiler.set_stance("force_eager"):
        clips = decode(decoder, sample_latents(denoiser, ids, null, shape, **options))
    return score(ClipChecker(classifier), scenes, clips), clips


def contact_sheet(clips: np.ndarray, path: Path, columns: int = 3) -> None:
    """Save five frames of each clip."""
    from PIL import Image

    frames = clips[:, :, [0, 6, 12, 18, 24]]
    rows = [
        np.concatenate([np.pad(f[:, i], ((0, 0), (1, 1), (1, 1))) for i in range(5)], 2)
        for f in frames
    ]
    tall = -(-len(rows) // columns)
    rows += [np.zeros_like(rows[0])] * (tall * columns - len(rows))
    sheet = np.concatenate(
        [np.concatenate(rows[i * tall : (i + 1) * tall], 1) for i in range(columns)], 2
    )
    Image.fromarray((sheet.transpose(1, 2, 0) * 255).round().astype(np.uint8)).save(path)
