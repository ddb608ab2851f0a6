"""Weights of packed models, drawn where they are used: a pack then holds graphs, inputs and answers only.

Needs NumPy alone. The numbers are those of Philox, whose stream NumPy keeps, and of single operations in
fp32, so they are the same bits everywhere; a checksum says so.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FILE = "weights.bin"
ALIGNMENT = 64


@dataclass(frozen=True)
class Drawn:
    """A tensor of fp32 numbers, evenly spread about a mean."""

    seed: int
    shape: tuple[int, ...]
    mean: float
    deviation: float
    is_transposed: bool = False  # drawn in `shape`, which has two dimensions, and turned after that

    def draw(self) -> np.ndarray:
        count = int(np.prod(self.shape))
        raw = np.random.Philox(self.seed).random_raw(-(-count // 2)).view(np.uint32)[:count]
        unit = (raw >> 8).astype(np.float32) * np.float32(2**-24) - np.float32(0.5)
        array = unit * np.float32(self.deviation * 12**0.5) + np.float32(self.mean)
        array = array.reshape(self.shape)
        return np.ascontiguousarray(array.T) if self.is_transposed else array

    def data(self) -> bytes:
        """What FILE holds of it."""
        array = self.draw().tobytes()
        return array.ljust(-(-len(array) // ALIGNMENT) * ALIGNMENT, b"\0")


def checksum(weights: list[Drawn]) -> int:
    crc = 0
    for drawn in weights:
        crc = zlib.crc32(drawn.data(), crc)
    return crc


def write_weights(place: Path, described: dict[str, Any]) -> None:
    """Draws a packed model's weights into its folder; raises where they are not those that were packed."""
    told = described.get("weights", [])
    weights = [Drawn(**fields | {"shape": tuple(fields["shape"])}) for fields in told]
    if weights:
        (place / FILE).write_bytes(b"".join(drawn.data() for drawn in weights))
    if checksum(weights) != described.get("weights_crc32", 0):
        raise ValueError(f"{place.name}: weights drawn here are not those of the pack")
