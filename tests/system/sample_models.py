"""Helpers for tests that run the real binary on the sample model's ONNX files."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ONNX = ROOT / "models/clips/onnx"
BINARY = Path(os.environ.get("TUTTI_BINARY", ROOT / "build/release/bin/tutti"))


class Tutti:
    """Runs sub-commands of the binary; a failure raises with what it printed."""

    def __call__(self, *arguments, check=True):
        done = subprocess.run(
            [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=300
        )
        if check and done.returncode != 0:
            raise AssertionError(f"tutti {arguments[0]}: exit {done.returncode}\n{done.stderr}")
        return done

    def run(self, model, feeds, folder, *options):
        """Outputs of one forward, in the model's order."""
        folder.mkdir(parents=True, exist_ok=True)
        arguments = ["run", model, "--output-dir", folder / "out", *options]
        for i, (name, array) in enumerate(feeds.items()):
            np.save(folder / f"in{i}.npy", array)
            arguments += ["--input", f"{name}={folder}/in{i}.npy"]
        self(*arguments)
        files = sorted((folder / "out").glob("*.npy"), key=lambda path: int(path.stem))
        return [np.load(path) for path in files]

    def inspect(self, plan, sizes):
        """The JSON report of a plan, evaluated at these sizes."""
        options = [part for name, size in sizes.items() for part in ("--size", f"{name}={size}")]
        return json.loads(self("inspect", "plan", plan, "--json", *options).stdout)


def relative_error(got, want):
    """Largest difference over the largest magnitude of the right answer."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape
    assert np.isfinite(got).all()
    return np.abs(got - want).max() / np.abs(want).max()


CHANNELS, TEXT_LENGTH, TEXT_WIDTH = 16, 24, 256  # of the sample transformer
SIZES = {"batch": 1, "frames": 7, "height": 16, "width": 16, "text_len": TEXT_LENGTH}


def transformer_feeds(batch=1, frames=7, height=16, width=16, seed=0):
    """Random inputs of the sample transformer."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
    return {
        "hidden_states": normal(batch, CHANNELS, frames, height, width),
        "timestep": rng.uniform(0, 1000, batch).astype(np.float32),
        "encoder_hidden_states": normal(batch, TEXT_LENGTH, TEXT_WIDTH),
    }
