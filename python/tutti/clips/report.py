"""Fidelity between clips, and what a person looks at: film, contact sheet, table."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np

SHEET_FRAMES = 5
IDENTICAL_DB = 200.0


def relative_error(seen: np.ndarray, right: np.ndarray) -> float:
    """Largest difference over the largest magnitude of what is right."""
    return float(np.abs(seen - right).max() / np.abs(right).max())


def mean_absolute_error(seen: np.ndarray, right: np.ndarray) -> float:
    """Of clips in [0, 1], in units of 1/255."""
    return float(np.abs(seen - right).mean() * 255)


def psnr_db(seen: np.ndarray, right: np.ndarray) -> float:
    """Of clips in [0, 1], before rounding to bytes; ``IDENTICAL_DB`` where no value differs."""
    error = float(np.square(seen.astype(np.float64) - right).mean())
    return min(IDENTICAL_DB, -10 * np.log10(error)) if error > 0 else IDENTICAL_DB


def write_film(frames: np.ndarray, path: Path, rate: int = 10, side: int = 512) -> None:
    """
    Write H.264 through Debian's ffmpeg, enlarged without smoothing.

    Parameters
    ----------
    frames
        uint8 ``[frames, height, width, 3]``.
    """
    if not shutil.which("ffmpeg"):
        raise FileNotFoundError("[report] ffmpeg is not installed: apt-get install ffmpeg")
    _, height, width, _ = frames.shape
    command = ["ffmpeg", "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += [
        "-s",
        f"{width}x{height}",
        "-r",
        str(rate),
        "-i",
        "-",
        "-vf",
        f"scale=-2:{side}:flags=neighbor",
    ]
    command += [
        "-c:v",
        "libx264",
        "-crf",
        "12",
        "-pix_fmt",
        "yuv420p",
        "-movflags",
        "+faststart",
        str(path),
    ]
    subprocess.run(command, input=np.ascontiguousarray(frames).tobytes(), check=True)


def write_contact_sheet(
    rows: list[tuple[str, np.ndarray]], title: str, path: Path, scale: int = 3
) -> None:
    """
    Write five evenly sampled frames of each clip, a labelled row a clip.

    Parameters
    ----------
    rows
        Labels, and uint8 clips ``[frames, height, width, 3]`` of one shape.
    """
    from PIL import Image, ImageDraw, ImageFont

    count, height, width, _ = rows[0][1].shape
    sampled = np.linspace(0, count - 1, SHEET_FRAMES).round().astype(int)
    margin, label, head = 12, 26, 64
    tile_h, tile_w = height * scale, width * scale
    size = (margin + SHEET_FRAMES * (tile_w + margin), head + len(rows) * (tile_h + label + margin))
    sheet = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(20), ImageFont.load_default(15)
    pen.text((margin, 8), title, "black", large)
    for column, frame in enumerate(sampled):
        pen.text((margin + column * (tile_w + margin), 40), f"frame {frame}", "#555555", small)
    for row, (text, frames) in enumerate(rows):
        top = head + row * (tile_h + label + margin)
        pen.text((margin, top + 2), text, "black", small)
        for column, frame in enumerate(sampled):
            tile = Image.fromarray(frames[frame]).resize((tile_w, tile_h), Image.Resampling.NEAREST)
            sheet.paste(tile, (margin + column * (tile_w + margin), top + label))
    sheet.save(path)


def table(variants: list[dict]) -> str:
    """The variants' numbers as lines of text."""
    head = (
        "variant",
        "ranks",
        "e2e s",
        "call mean s",
        "call share",
        "rel. error",
        "MAE",
        "PSNR dB",
    )
    rows = [head]
    for v in variants:
        numbers = (f"{v['e2e_s']:.2f}", f"{v['call_mean_s']:.4f}", f"{v['call_share']:.1%}")
        fidelity = (f"{v['relative_error']:.1e}", f"{v['mae']:.4f}", f"{v['psnr_db']:.1f}")
        rows.append((v["name"], str(v["ranks"]), *numbers, *fidelity))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    line = lambda row: "  ".join(
        cell.ljust(w) if i == 0 else cell.rjust(w)
        for i, (cell, w) in enumerate(zip(row, widths, strict=True))
    )
    return "\n".join(line(row) for row in rows)
