"""
Train the sample model within a wall-clock budget.

``python train.py --out DIR --deadline 570`` trains all; ``--resume DIR`` takes the VAE and the
live weights of an earlier run's folder and trains the transformer further. In a folder:
``vae.pt``; ``transformer.pt`` and ``text.pt`` (averaged weights, to export);
``live_transformer.pt`` and ``live_text.pt`` (to resume); ``log.json``; ``samples.png``.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import grammar
import numpy as np
import torch
from evaluate import contact_sheet, evaluate
from export import LATENT_SHAPE, load, round_to_half, save
from render import render, to_torch
from torch import Tensor, nn
from train_transformer import Denoiser, Schedule, train_transformer
from train_vae import OPTIMISERS, encode_all, finish_vae, reconstruction_psnr, train_vae
from transformer import TransformerConfig
from tutti.clips.tokenizer import WordTokenizer
from vae import VideoVAE

HERE = Path(__file__).parent
STARTED = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)


@torch.no_grad()
def draw(scenes: grammar.Scenes, device, chunk: int = 250) -> Tensor:
    """uint8 clips of scenes, drawn on the device."""
    out = torch.empty(
        len(scenes), 3, grammar.FRAMES, grammar.SIDE, grammar.SIDE, dtype=torch.uint8, device=device
    )
    for start in range(0, len(scenes), chunk):
        part = slice(start, start + chunk)
        out[part] = (render(to_torch(scenes[part], device), torch) * 255).round().to(torch.uint8)
    return out


def load_matching(module: nn.Module, path: Path, prefix: str = "") -> None:
    """Load what still fits of an earlier version of a module."""
    mine = module.state_dict()
    saved = torch.load(path, map_location="cpu")
    fitting = {
        k: v.float()
        for k, v in saved.items()
        if k.startswith(prefix) and k in mine and mine[k].shape == v.shape
    }
    module.load_state_dict(fitting, strict=False)
    say(
        f"{path.name}: {len(fitting)} of {len(mine)} tensors; new are {sorted(mine.keys() - fitting.keys())[:6]}"
    )


def pick_and_train_vae(
    vae: VideoVAE, clips: Tensor, options: argparse.Namespace, should_compile: bool, log: dict
) -> None:
    """Train with the optimiser that does better in a short trial."""
    start = {key: value.clone() for key, value in vae.state_dict().items()}
    losses = {}
    arguments = (clips, options.vae_trial, options.vae_batch)
    for name, make in OPTIMISERS.items():
        vae.load_state_dict(start)
        losses[name] = train_vae(vae, *arguments, make(vae), should_compile, [], should_decay=False)
    log["vae_optimiser_trial"] = losses
    best = min(losses, key=losses.get)
    say(f"VAE optimisers: {losses}, so {best}")
    vae.load_state_dict(start)
    train_vae(
        vae,
        clips,
        options.vae_seconds,
        options.vae_batch,
        OPTIMISERS[best](vae),
        should_compile,
        log["steps"],
    )


def latent_data(vae: VideoVAE, rng: np.random.Generator, n: int, device) -> tuple[Tensor, Tensor]:
    """Latents (bf16) and caption ids of n training scenes."""
    train, _ = grammar.split_triples()
    tokenizer = WordTokenizer.from_grammar()
    latents, ids = None, []
    for start in range(0, n, 10000):
        scenes = grammar.sample(rng, min(10000, n - start), train)
        ids.append(tokenizer(scenes.captions()))
        if latents is None:
            shape = vae.encode(
                torch.zeros(1, 3, grammar.FRAMES, grammar.SIDE, grammar.SIDE, device=device)
            ).shape[1:]
            latents = torch.empty(n, *shape, dtype=torch.bfloat16, device=device)
        encode_all(vae, draw(scenes, device), latents[start : start + len(scenes)])
    return latents, torch.as_tensor(np.concatenate(ids), device=device)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    parser.add_argument(
        "--warm", type=Path, help="folder of an earlier version, to start from what fits"
    )
    parser.add_argument("--deadline", type=float, default=570, help="seconds until all is saved")
    parser.add_argument("--vae-seconds", type=float, default=130)
    parser.add_argument("--vae-trial", type=float, default=12, help="seconds for each optimiser")
    parser.add_argument("--vae-clips", type=int, default=24000)
    parser.add_argument("--vae-batch", type=int, default=32)
    parser.add_argument("--clips", type=int, default=80000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--decay-share", type=float, default=0.0)
    parser.add_argument("--reserve", type=float, default=40, help="seconds kept for evaluation")
    parser.add_argument("--sweep", default="4:3", help="guidance:shift,... to score")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    log: dict = {
        "machine": machine,
        "torch": torch.__version__,
        "options": vars(options),
        "steps": [],
    }
    should_compile = not options.no_compile
    write_log = lambda: (options.out / "log.json").write_text(
        json.dumps(log, indent=0, default=str)
    )

    if should_compile:
        # Fails within a minute where the compiler or an attention kernel is missing.
        trial = Denoiser(TransformerConfig(layers=options.layers)).to(device)
        null = torch.as_tensor(WordTokenizer.from_grammar()([""]), device=device)
        random = torch.randn(options.batch, *LATENT_SHAPE, device=device)
        train_transformer(
            trial,
            random,
            null.repeat(options.batch, 1),
            null,
            90,
            options.batch,
            Schedule(),
            True,
            [],
            max_steps=5,
        )
        say("trial steps done")
    vae = VideoVAE().to(device, memory_format=torch.channels_last_3d)
    train, _ = grammar.split_triples()
    if options.resume:
        load(vae, options.resume / "vae.pt")
        vae.eval()
    else:
        if options.warm:
            load_matching(vae, options.warm / "vae.pt", "decoder.layers.")
        clips = draw(grammar.sample(rng, options.vae_clips, train), device)
        say(f"{len(clips)} clips drawn")
        pick_and_train_vae(vae, clips, options, should_compile, log)
        finish_vae(vae, clips)
        save(vae, options.out / "vae.pt")
    fresh = draw(grammar.held_out_scenes()[:64], device)
    log["vae_psnr_db"] = reconstruction_psnr(vae, fresh)
    say(f"VAE: {log['vae_psnr_db']:.2f} dB")
    write_log()

    latents, ids = latent_data(vae, rng, options.clips, device)
    say(
        f"{len(latents)} clips encoded: mean {latents.float().mean().item():.3f} std {latents.float().std().item():.3f}"
    )
    denoiser = Denoiser(TransformerConfig(layers=options.layers)).to(device)
    if options.resume:
        load(denoiser.transformer, options.resume / "live_transformer.pt")
        load(denoiser.text, options.resume / "live_text.pt")
    elif options.warm:
        load_matching(denoiser.transformer, options.warm / "live_transformer.pt")
        load_matching(denoiser.text, options.warm / "live_text.pt")
    null = torch.as_tensor(WordTokenizer.from_grammar()([""]), device=device)
    seconds = options.deadline - options.reserve - (time.monotonic() - STARTED)
    schedule = Schedule(options.rate, decay_share=options.decay_share)
    average = train_transformer(
        denoiser, latents, ids, null, seconds, options.batch, schedule, should_compile, log["steps"]
    )
    say("trained")
    save(denoiser.transformer, options.out / "live_transformer.pt")
    save(denoiser.text, options.out / "live_text.pt")
    average.swap()
    round_to_half(denoiser.eval())
    save(denoiser.transformer, options.out / "transformer.pt")
    save(denoiser.text, options.out / "text.pt")
    write_log()

    log["scores"] = []
    scenes = grammar.held_out_scenes()
    for setting in options.sweep.split(","):
        if time.monotonic() - STARTED > options.deadline:
            break
        guidance, shift = map(float, setting.split(":"))
        result, made = evaluate(
            denoiser, vae.decoder, scenes, latents.shape[1:], HERE / "onnx/shape_classifier.onnx",
            guidance=guidance, shift=shift,
        )  # fmt: skip
        log["scores"].append({"guidance": guidance, "shift": shift, "steps": 25, **result})
        say(f"held-out prompts: {log['scores'][-1]}")
        if len(log["scores"]) == 1:
            contact_sheet(made[np.r_[0:84:4, 84:100:2]][:30], options.out / "samples.png")
        write_log()


if __name__ == "__main__":
    main()
