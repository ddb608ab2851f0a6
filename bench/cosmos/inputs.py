"""Inputs of a call of the reference workload, the same for all who run it.

What a card at its power limit computes in a second hangs on the numbers: with inputs that repeat themselves it is faster.
So a race gives normal numbers to all, as the weights are.
"""

from pathlib import Path

import numpy as np

from cosmos.weights import narrow

TYPES = {"BF16": "V2", "FP32": np.float32, "INT64": np.int64}


def tensors(sizes):
    """Name -> (type of the protocol, numbers; those of BF16 as words of 16 bits)."""
    rng = np.random.default_rng(0)
    grid = [1, sizes.frames, sizes.height, sizes.columns, sizes.features]
    return {
        "patches": ("BF16", narrow(rng.standard_normal(grid, dtype=np.float32), "bfloat16")),
        "timestep": ("FP32", np.float32([500])),
        "ids": ("INT64", rng.integers(0, sizes.vocabulary, (1, sizes.text))),
    }


def write(folder, sizes):
    """Name -> file, as `tutti bench --input` reads it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, (kind, numbers) in tensors(sizes).items():
        files[name] = folder / f"{name}.npy"
        np.save(files[name], numbers.view(TYPES[kind]))
    return files
