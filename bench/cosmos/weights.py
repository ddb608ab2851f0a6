"""Writes the weights that weights.json describes (see model.py). Needs NumPy alone, so that it runs anywhere.

Every weight is a stretch of one long block of random numbers, scaled, from a place of its own: as good as
independent numbers for timing and for comparing implementations, and as fast as the disk.

    python weights.py FOLDER
"""

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

BLOCK = (1 << 24) - 3  # a prime: rows of a matrix longer than the block do not repeat in step


def narrow(values, dtype):
    """fp32 -> bytes of the element type, as unsigned integers of its size."""
    if dtype == "float32":
        return values.view(np.uint32)
    if dtype == "float16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widen(words, dtype):
    """The inverse of narrow."""
    if dtype == "bfloat16":
        return (words.astype(np.uint32) << 16).view(np.float32)
    return words.view(np.float16 if dtype == "float16" else np.float32).astype(np.float32)


def stretches(count, start):
    """Pieces (offset in the weight, begin and end in the block) that make `count` numbers."""
    done = 0
    while done < count:
        length = min(count - done, BLOCK - start)
        yield done, start, start + length
        done, start = done + length, 0


def read(folder, description, name):
    """A weight as fp32."""
    weight = description["weights"][name]
    word = np.uint32 if description["dtype"] == "float32" else np.uint16
    words = np.fromfile(
        Path(folder) / weight["file"], word, int(np.prod(weight["shape"])), offset=weight["offset"]
    )
    return widen(words, description["dtype"]).reshape(weight["shape"])


def write(folder, threads=None, seed=0):
    """Writes the data files of a folder; returns their bytes."""
    folder = Path(folder)
    description = json.loads((folder / "weights.json").read_text())
    dtype, element = description["dtype"], 4 if description["dtype"] == "float32" else 2
    normal = np.random.default_rng(seed).standard_normal(BLOCK, dtype=np.float32)
    unique = {(w["file"], w["offset"]): w for w in description["weights"].values()}
    scales = sorted({(w["mean"], w["deviation"]) for w in unique.values()})
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        blocks = dict(
            zip(
                scales,
                pool.map(
                    lambda s: narrow(normal * np.float32(s[1]) + np.float32(s[0]), dtype), scales
                ),
                strict=True,
            )
        )
        files = {}
        for name, size in description["files"].items():
            files[name] = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            os.ftruncate(files[name], size)

        def put(weight):
            block = blocks[weight["mean"], weight["deviation"]]
            count = int(np.prod(weight["shape"]))
            for done, begin, end in stretches(count, weight["seed"] % BLOCK):
                view, at = memoryview(block[begin:end]).cast("B"), weight["offset"] + done * element
                while view:
                    written = os.pwrite(files[weight["file"]], view, at)
                    view, at = view[written:], at + written

        list(pool.map(put, unique.values()))
        for descriptor in files.values():
            os.close(descriptor)
    return sum(description["files"].values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    start = time.perf_counter()
    size = write(options.folder, options.threads)
    print(f"{size / 1e9:.2f} GB of weights in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
