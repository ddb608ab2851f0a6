"""
Make one clip with each of several served transformers, and compare them.

``python -m tutti.clips.demo --url 127.0.0.1:8001 --variants clips_cp1,clips_cp2 --out out``

Each variant makes the clip of the same prompt and seed, after a warm-up step that is not
counted. ``out/clip.mp4`` is the last variant's; ``out/demo.json`` holds, against the first
variant: ``relative_error``, the largest difference of the transformer's outputs in the first
step (whose inputs are the same bits) over their largest magnitude; ``latents_relative_error``,
the same of the final latents; ``mae`` of the frames in 1/255, and ``psnr_db`` before rounding to
bytes (200 where no value differs). ``prompt_check`` counts what the checker found as asked:
colour, shape, motion.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .checker import ClipChecker
from .pipeline import FRAMES, MODELS, SIDE, ClipsOutput, ClipsPipeline
from .report import (
    mean_absolute_error,
    psnr_db,
    relative_error,
    table,
    write_contact_sheet,
    write_film,
)
from .transformers import OnnxTransformer, TritonTransformer

PROMPT = "a red star moving right crossing a yellow circle moving left over a striped background"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="127.0.0.1:8001", help="gRPC address of the server")
    parser.add_argument(
        "--variants",
        "--models",
        nargs="+",
        default=["clips_cp1"],
        help="served models; the first is the reference",
    )
    parser.add_argument("--out", "--output", type=Path, default=Path("out"))
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--frames", type=int, default=FRAMES, help="4n+1; trained on 25")
    parser.add_argument("--side", type=int, default=SIDE, help="4n pixels; trained on 64")
    parser.add_argument(
        "--model-files", type=Path, default=MODELS, help="folder of tokenizer.json and onnx/"
    )
    parser.add_argument(
        "--local", action="store_true", help="run the ONNX transformer here instead of a server"
    )
    options = parser.parse_args(argv)
    options.variants = [name for group in options.variants for name in group.split(",") if name]
    return options


def progress(name: str):
    """A callback that draws a bar on one line."""
    is_terminal = sys.stderr.isatty()

    def draw(done: int, total: int) -> None:
        if is_terminal or done == total:
            bar = "#" * (30 * done // total)
            print(
                f"\r{name:<12} [{bar:<30}] step {done}/{total}", end="", file=sys.stderr, flush=True
            )
        if done == total:
            print(file=sys.stderr)

    return draw


def make(name: str, pipeline: ClipsPipeline, options: argparse.Namespace) -> ClipsOutput:
    """One clip of one variant, after a warm-up step."""
    settings = {"guidance_scale": options.guidance, "seed": options.seed}
    settings |= {"num_frames": options.frames, "height": options.side, "width": options.side}
    pipeline(options.prompt, num_inference_steps=1, **settings)
    return pipeline(
        options.prompt,
        num_inference_steps=options.steps,
        callback_on_step_end=progress(name),
        **settings,
    )


def measure(name: str, ranks: int, made: ClipsOutput, first: ClipsOutput) -> dict:
    """A variant's entry in ``demo.json``."""
    calls = sum(made.call_seconds)
    return {
        "name": name,
        "ranks": ranks,
        "e2e_s": made.seconds,
        "call_mean_s": calls / len(made.call_seconds),
        "call_share": calls / made.seconds,
        "relative_error": relative_error(made.first_velocity, first.first_velocity),
        "latents_relative_error": relative_error(made.latents, first.latents),
        "mae": mean_absolute_error(made.clip, first.clip),
        "psnr_db": psnr_db(made.clip, first.clip),
    }


def run(options: argparse.Namespace) -> dict:
    """Make and compare the clips; returns what ``demo.json`` holds."""
    options.out.mkdir(parents=True, exist_ok=True)
    made: list[ClipsOutput] = []
    variants, rows, pipeline = [], [], None
    for name in options.variants:
        if options.local:
            transformer = OnnxTransformer(options.model_files / "onnx/transformer.onnx")
        else:
            transformer = TritonTransformer(options.url, name)
        pipeline = pipeline or ClipsPipeline(transformer, options.model_files)
        pipeline.transformer = transformer
        made.append(make(name, pipeline, options))
        variants.append(measure(name, transformer.ranks, made[-1], made[0]))
        transformer.close()
        text = f"{name}   {transformer.ranks} rank{'s' * (transformer.ranks > 1)}"
        if len(made) > 1:
            text += f"   PSNR {variants[-1]['psnr_db']:.1f} dB, MAE {variants[-1]['mae']:.4f} against {options.variants[0]}"
        rows.append((text, made[-1].frames))
    film, sheet = options.out / "clip.mp4", options.out / "contact_sheet.png"
    write_film(made[-1].frames, film)
    write_contact_sheet(rows, options.prompt, sheet)
    verdict = ClipChecker(options.model_files / "onnx/shape_classifier.onnx").check(
        options.prompt, made[-1].clip
    )
    checks = {name: getattr(verdict, name) for name in ("colour", "shape", "motion")}
    return {
        "prompt": options.prompt,
        "steps": options.steps,
        "variants": variants,
        "clip": str(film),
        "contact_sheet": str(sheet),
        "prompt_check": {"passed": sum(checks.values()), "total": len(checks)},
        "seen": [f"{thing.colour} {thing.shape}, {thing.motion}" for thing in verdict.seen],
    }


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    try:
        result = run(options)
    except Exception as error:  # a command line ends in words
        print(f"demo: {error}", file=sys.stderr)
        return 1
    (options.out / "demo.json").write_text(json.dumps(result, indent=1) + "\n")
    check = result["prompt_check"]
    print(
        f"\n{result['prompt']}\n{options.steps} steps, guidance {options.guidance:g}, seed {options.seed}\n"
    )
    print(table(result["variants"]))
    print(
        f"\nchecker: {check['passed']} of {check['total']} as asked; it sees {'; '.join(result['seen'])}"
    )
    print(f"{result['clip']}  {result['contact_sheet']}  {options.out / 'demo.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
