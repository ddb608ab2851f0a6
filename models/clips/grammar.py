"""
Scenes behind the captions, and the split into training and held-out ones.

A scene is drawn from words (colour, shape, motion, size, background) and continuous
parameters (place, speed, tint). The split is by (colour, shape, motion): a held-out
combination appears in no training scene, alone or in a pair.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from tutti.clips.words import (
    BACKGROUNDS,
    COLOUR_NAMES,
    COLOURS,
    MOTION_NAMES,
    SHAPES,
    SIZES,
    caption,
)

FRAMES, SIDE = 25, 64
HELD_OUT_TRIPLES = 48
HELD_OUT_FILE = Path(__file__).with_name("heldout_prompts.json")
CROSSING_SHARE = 0.25
RADII = ((6.0, 7.5), (8.5, 10.5), (12.0, 14.0))  # of SIZES, in pixels


@dataclass
class Scenes:
    """
    N scenes as arrays; the last object is drawn first, so object 0 is on top.

    Attributes
    ----------
    words
        int64 ``[N, 2, 4]``: indexes of size, colour, shape, motion.
    count
        int64 ``[N]``: objects present, 1 or 2.
    rgb, track
        float32 ``[N, 2, 3]`` and ``[N, 2, 3, FRAMES]`` (x, y, radius in pixels).
    background
        int64 ``[N]``.
    tones
        float32 ``[N, 2, 3]``: the two background colours.
    pattern
        float32 ``[N, 4]``: angle, period, speed in pixels a frame, phase.
    """

    words: np.ndarray
    count: np.ndarray
    rgb: np.ndarray
    track: np.ndarray
    background: np.ndarray
    tones: np.ndarray
    pattern: np.ndarray

    def __len__(self) -> int:
        return len(self.count)

    def __getitem__(self, index) -> Scenes:
        return Scenes(*(getattr(self, field.name)[index] for field in fields(self)))

    def captions(self) -> list[str]:
        said = []
        for words, count, background in zip(
            self.words.tolist(), self.count.tolist(), self.background.tolist(), strict=False
        ):
            objects = [
                (SIZES[s], COLOUR_NAMES[c], SHAPES[k], MOTION_NAMES[m])
                for s, c, k, m in words[:count]
            ]
            said.append(caption(objects, BACKGROUNDS[background]))
        return said


def split_triples() -> tuple[np.ndarray, np.ndarray]:
    """The (colour, shape, motion) index triples of training and of the held-out set."""
    every = [
        (c, s, m)
        for c in range(len(COLOUR_NAMES))
        for s in range(len(SHAPES))
        for m in range(len(MOTION_NAMES))
    ]
    # Sorting by a digest is a shuffle which depends on neither platform nor library version.
    order = sorted(every, key=lambda triple: hashlib.sha256(repr(triple).encode()).digest())
    return np.array(sorted(order[HELD_OUT_TRIPLES:])), np.array(sorted(order[:HELD_OUT_TRIPLES]))


def _tracks(rng: np.random.Generator, motion: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """x, y and radius over time of N objects: float32 ``[N, 3, FRAMES]``."""
    n = len(motion)
    time = np.linspace(0.0, 1.0, FRAMES)[None]
    uniform = lambda low, high: rng.uniform(low, high, (n, 1))
    margin = radius[:, None] + 2.0
    free = lambda: margin + uniform(0, 1) * (SIDE - 2 * margin)
    start = margin + uniform(0, 5)
    along = start + (SIDE - margin - uniform(0, 5) - start) * time
    x, y = free() + 0 * time, free() + 0 * time
    kind = lambda name: (motion == MOTION_NAMES.index(name))[:, None]
    x = np.where(kind("right"), along, np.where(kind("left"), along[:, ::-1], x))
    y = np.where(kind("down"), along, np.where(kind("up"), along[:, ::-1], y))
    hops, phase = uniform(2.0, 3.0), uniform(0.0, 1.0)
    floor = SIDE - margin - uniform(0, 4)
    height = (floor - margin) * uniform(0.75, 1.0)
    y = np.where(
        kind("bouncing"), floor - height * np.abs(np.sin(np.pi * (hops * time + phase))), y
    )
    grown = uniform(4.0, 5.5) + uniform(7.5, 9.0) * time
    r = radius[:, None] + 0 * time
    r = np.where(kind("growing"), grown, np.where(kind("shrinking"), grown[:, ::-1], r))
    swells = kind("growing") | kind("shrinking")
    x, y = (np.where(swells, np.clip(p, 20.0, SIDE - 20.0), p) for p in (x, y))
    return np.stack([x, y, r], 1).astype(np.float32)


def sample(rng: np.random.Generator, n: int, triples: np.ndarray) -> Scenes:
    """Draw N scenes whose objects all come from the given triples."""
    words = np.zeros((n, 2, 4), np.int64)
    words[..., 1:] = triples[rng.integers(0, len(triples), (n, 2))]
    words[..., 0] = rng.integers(0, len(SIZES), (n, 2))
    _make_pairs(rng, words, crosses := rng.random(n) < CROSSING_SHARE, triples)
    return from_words(rng, words, np.where(crosses, 2, 1), rng.integers(0, len(BACKGROUNDS), n))


def _make_pairs(rng, words, crosses, triples) -> None:
    """Rewrite the objects of crossing scenes: opposite directions, different colours."""
    names = np.array(MOTION_NAMES)
    opposite = {"left": "right", "right": "left", "up": "down", "down": "up"}
    moving = {m: triples[names[triples[:, 2]] == m] for m in opposite}
    for i in np.flatnonzero(crosses):
        motion = list(opposite)[rng.integers(4)]
        first = moving[motion][rng.integers(len(moving[motion]))]
        others = moving[opposite[motion]]
        others = others[others[:, 0] != first[0]]
        words[i, 0, 1:], words[i, 1, 1:] = first, others[rng.integers(len(others))]
        words[i, :, 0] = rng.integers(0, 2, 2)  # large pairs would only hide each other


def from_words(
    rng: np.random.Generator, words: np.ndarray, count: np.ndarray, background: np.ndarray
) -> Scenes:
    """Choose the continuous parameters of scenes whose words are given."""
    n = len(words)
    swells = words[..., 3] >= MOTION_NAMES.index("growing")
    words = words.copy()
    words[..., 0] = np.where(swells, SIZES.index(""), words[..., 0])
    low, high = np.array(RADII).T
    radius = rng.uniform(low[words[..., 0]], high[words[..., 0]])
    track = np.stack([_tracks(rng, words[:, i, 3], radius[:, i]) for i in range(2)], 1)
    # Pairs meet: the second follows the first one's lane, a few pixels beside it.
    pair = (count == 2)[:, None]
    lane = np.clip(track[:, 0, :2] + rng.uniform(-5, 5, (n, 2, 1)), 13, SIDE - 13)
    sideways = words[:, 0, 3] <= MOTION_NAMES.index("right")
    track[:, 1, 1] = np.where(pair & sideways[:, None], lane[:, 1], track[:, 1, 1])
    track[:, 1, 0] = np.where(pair & ~sideways[:, None], lane[:, 0], track[:, 1, 0])
    rgb = np.array(list(COLOURS.values()))[words[..., 1]] + rng.uniform(-0.04, 0.04, (n, 2, 3))
    grey = rng.uniform(0.05, 0.42, (n, 2, 1))
    far = grey[:, :1] + np.where(grey[:, :1] > 0.23, -1, 1) * rng.uniform(0.12, 0.2, (n, 1, 1))
    grey[:, 1:] = np.clip(far, 0.03, 0.45)
    tones = grey * (1 + rng.uniform(-0.12, 0.12, (n, 2, 3)))
    pattern = np.stack(
        [
            rng.uniform(0, np.pi, n),
            rng.uniform(12, 22, n),
            rng.uniform(-0.6, 0.6, n),
            rng.uniform(0, 22, n),
        ],
        1,
    )
    single = lambda a: a.astype(np.float32)
    return Scenes(
        words, count, single(np.clip(rgb, 0, 1)), track, background, single(tones), single(pattern)
    )


def held_out_scenes(n: int = 100, seed: int = 2024) -> Scenes:
    """The test scenes: every held-out triple, then pairs of held-out triples."""
    rng = np.random.default_rng(seed)
    _, held_out = split_triples()
    pairs = 16
    words = np.zeros((n, 2, 4), np.int64)
    words[..., 1:] = held_out[np.arange(n) % len(held_out)][:, None]
    words[..., 0] = rng.integers(0, len(SIZES), (n, 2))
    crosses = np.arange(n) >= n - pairs
    _make_pairs(rng, words, crosses, held_out)
    return from_words(rng, words, np.where(crosses, 2, 1), rng.integers(0, len(BACKGROUNDS), n))


def write_held_out() -> None:
    """Write the committed file of held-out prompts."""
    scenes = held_out_scenes()
    HELD_OUT_FILE.write_text(json.dumps(scenes.captions(), indent=1) + "\n")


if __name__ == "__main__":
    write_held_out()
