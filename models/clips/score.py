"""
Score committed weights on held-out prompts, and time the ONNX files.

``python score.py --weights DIR --out DIR`` samples with PyTorch (on a GPU in seconds) for
several seeds and step counts; ``evaluation.json`` gets the scores.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import grammar
import numpy as np
import torch
from evaluate import contact_sheet, evaluate
from export import LATENT_SHAPE, load
from train_transformer import Denoiser
from transformer import TransformerConfig
from tutti.clips.transformers import OnnxTransformer
from vae import VideoVAE

HERE = Path(__file__).parent


def forward_seconds(threads: int, repeats: int = 7) -> float:
    """Median seconds of the ONNX transformer's forward in onnxruntime, after two warm-ups."""
    transformer = OnnxTransformer(HERE / "onnx/transformer.onnx", threads)
    rng = np.random.default_rng(0)
    latents = rng.standard_normal((1, *LATENT_SHAPE), np.float32)
    text = rng.standard_normal((1, 24, 256), np.float32)
    for _ in range(repeats + 2):
        transformer(latents, np.array([500.0]), text)
    return float(np.median(transformer.call_seconds[2:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument(
        "--runs",
        default="0:25:4,1:25:4,2:20:4,3:20:4,4:20:3,5:20:6",
        help="seed:steps:guidance,...",
    )
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vae, denoiser = VideoVAE().to(device).eval(), Denoiser(TransformerConfig()).to(device).eval()
    load(vae, options.weights / "vae.pt")
    load(denoiser.text, options.weights / "text.pt")
    load(denoiser.transformer, options.weights / "transformer.pt")
    train, _ = grammar.split_triples()
    sets = {
        "held-out": grammar.held_out_scenes(),
        "training": grammar.sample(np.random.default_rng(9), 100, train),
    }
    result: dict = {"runs": []}
    for run in options.runs.split(","):
        seed, steps, guidance = run.split(":")
        for name, scenes in sets.items():
            start = time.monotonic()
            scored, clips = evaluate(
                denoiser, vae.decoder, scenes, LATENT_SHAPE, HERE / "onnx/shape_classifier.onnx",
                seed=int(seed), steps=int(steps), guidance=float(guidance),
            )  # fmt: skip
            entry = {
                "prompts": name,
                "seed": int(seed),
                "steps": int(steps),
                "guidance": float(guidance),
                **scored,
            }
            result["runs"].append(entry)
            print(entry, f"{time.monotonic() - start:.1f} s", flush=True)
            if name == "held-out" and seed == "2":
                contact_sheet(clips[np.r_[0:84:4, 84:100:2]], options.out / "samples.png")
        (options.out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    result["onnxruntime_forward_s"] = {
        str(threads): forward_seconds(threads) for threads in (1, 2, 4)
    }
    print(result["onnxruntime_forward_s"])
    (options.out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
