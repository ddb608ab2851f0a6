"""
Train the checker's shape network on masks of rendered clips, export it, and score the checker.

A minute on two CPU cores; needs no GPU.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import grammar
import numpy as np
import torch
from render import render
from torch import nn
from tutti.clips.checker import ClipChecker, colour_masks, normalised_masks
from tutti.clips.words import SHAPES

HERE = Path(__file__).parent


def network() -> nn.Sequential:
    """Three strided convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(32, 48, 3, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(48 * 9, len(SHAPES)),
    )  # fmt: skip


def blurred(clips: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Blur and noise of random strength, as a decoder's output may have."""
    amount = rng.uniform(0, 0.3, (len(clips), 1, 1, 1, 1))
    for axis in (3, 4):
        clips = (1 - amount) * clips + amount * 0.5 * (
            np.roll(clips, 1, axis) + np.roll(clips, -1, axis)
        )
    return np.clip(
        clips + rng.normal(0, 0.03, clips.shape) * rng.random((len(clips), 1, 1, 1, 1)), 0, 1
    )


def masks_and_shapes(rng: np.random.Generator, triples: np.ndarray, n: int):
    """Normalised masks of four frames a clip, with their shapes."""
    scenes = grammar.sample(rng, n, triples)
    scenes.count[:] = 1  # pairs are cut by each other
    clips = blurred(render(scenes), rng)
    masks, shapes = [], []
    for clip, words in zip(clips, scenes.words, strict=False):
        frames = rng.integers(0, grammar.FRAMES, 4)
        chosen = colour_masks(clip[:, frames])[words[0, 1]]
        masks.append(chosen[chosen.sum((1, 2)) > 12])
        shapes += [words[0, 2]] * len(masks[-1])
    return normalised_masks(np.concatenate(masks)), np.array(shapes)


def score(checker: ClipChecker, scenes: grammar.Scenes, clips: np.ndarray) -> dict[str, float]:
    """Share of clips for which each attribute, and all of them, agree with the captions."""
    verdicts = [
        checker.check(text, clip) for text, clip in zip(scenes.captions(), clips, strict=False)
    ]
    names = ("colour", "shape", "motion", "passed", "once")
    return {name: float(np.mean([getattr(v, name) for v in verdicts])) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=2500)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--out", type=Path, default=HERE / "onnx/shape_classifier.onnx")
    options = parser.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    train, held_out = grammar.split_triples()
    parts = [masks_and_shapes(rng, train, 100) for _ in range(options.clips // 100)]
    masks, shapes = (
        torch.as_tensor(np.concatenate(column)) for column in zip(*parts, strict=False)
    )
    model = network()
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.02)
    steps = options.epochs * len(masks) // 128
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, steps)
    for step in range(steps):
        batch = torch.randint(0, len(masks), (128,))
        loss = nn.functional.cross_entropy(model(masks[batch]), shapes[batch], label_smoothing=0.02)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}/{steps} loss {loss.item():.4f}", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        model.eval(), (masks[:2],), options.out, dynamo=True, opset_version=21, external_data=False, verbose=False,
        input_names=["mask"], output_names=["logits"], dynamic_shapes=({0: torch.export.Dim("n")},),
    )  # fmt: skip
    checker = ClipChecker(options.out)
    result = {}
    for name, triples in (("train triples", train), ("held-out triples", held_out)):
        scenes = grammar.sample(rng, 300, triples)
        clips = render(scenes)
        result[name] = score(checker, scenes, clips)
        result[name + ", blurred"] = score(checker, scenes, blurred(clips, rng))
    print(json.dumps(result, indent=1))
    (HERE / "checker_accuracy.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
