"""
Says what a clip shows: the colour, shape and motion of its objects.

Colours come from segmentation by hue, motions from the track of each colour's centroid and
area, shapes from a small network that sees one mask at a time, centred and scaled. The
network runs in onnxruntime; all else is numpy. It never sees the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .words import COLOUR_NAMES, COLOURS, SHAPES, ObjectWords, parse

MASK_SIDE = 24
SMALLEST_SHARE = 0.003  # of a frame's pixels: less is no object
SECOND_SHARE = 0.2  # of the largest object's area: less is an edge or an artefact


@dataclass(frozen=True)
class Verdict:
    """What was asked of a clip and what it shows."""

    asked: list[ObjectWords]
    seen: list[ObjectWords]
    once: bool = True  # each object seen is in one piece; reported, no part of ``passed``

    @property
    def colour(self) -> bool:
        return self._agrees("colour")

    @property
    def shape(self) -> bool:
        return self._agrees("shape")

    @property
    def motion(self) -> bool:
        return self._agrees("motion")

    @property
    def passed(self) -> bool:
        return self.colour and self.shape and self.motion

    def _agrees(self, attribute: str) -> bool:
        # Objects are matched by colour: it is how they are found.
        seen = {thing.colour: thing for thing in self.seen}
        if attribute == "colour":
            return sorted(seen) == sorted({thing.colour for thing in self.asked})
        return all(
            thing.colour in seen
            and getattr(thing, attribute) in (None, getattr(seen[thing.colour], attribute))
            for thing in self.asked
        )


def colour_masks(clip: np.ndarray) -> np.ndarray:
    """
    Segment a clip by colour.

    Parameters
    ----------
    clip
        float ``[3, frames, height, width]`` in [0, 1].

    Returns
    -------
    bool ``[colours, frames, height, width]``, in the order of ``COLOURS``.
    """
    value, low = clip.max(0), clip.min(0)
    chroma = value - low
    hue = _hue(clip, value, chroma)
    coloured = (chroma > 0.5 * value) & (value > 0.45)
    white = (chroma < 0.25 * value) & (value > 0.72)
    hues = np.array(
        [_hue(np.array(rgb), max(rgb), max(rgb) - min(rgb)) for rgb in COLOURS.values()]
    )
    away = np.abs((hue[None] - hues[:, None, None, None] + 3) % 6 - 3)
    away[COLOUR_NAMES.index("white")] = np.inf
    masks = (away.argmin(0)[None] == np.arange(len(hues))[:, None, None, None]) & coloured
    masks[COLOUR_NAMES.index("white")] = white
    return masks


def _hue(rgb: np.ndarray, value, chroma) -> np.ndarray:
    """Hue on a circle of circumference 6."""
    red, green, blue = rgb
    safe = np.maximum(chroma, 1e-6)
    return np.where(
        value == red,
        (green - blue) / safe % 6,
        np.where(value == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )


def normalised_masks(masks: np.ndarray) -> np.ndarray:
    """Centre masks ``[n, height, width]`` and scale them to one area: float32 ``[n, 1, 24, 24]``."""
    n, height, width = masks.shape
    weight = masks.astype(np.float32)
    area = np.maximum(weight.sum((1, 2)), 1)
    y = (weight.sum(2) * np.arange(height)).sum(1) / area
    x = (weight.sum(1) * np.arange(width)).sum(1) / area
    # A disc of this area gets a radius of 7 cells.
    step = np.sqrt(area / np.pi) / 7.0
    grid = (np.arange(MASK_SIDE) - (MASK_SIDE - 1) / 2)[None] * step[:, None]
    return _bilinear(weight, y[:, None] + grid, x[:, None] + grid)[:, None]


def _bilinear(images: np.ndarray, ys: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Sample images ``[n, h, w]`` at the grids ``ys[n, a] x xs[n, b]``; outside is 0."""

    def weights(points, size):
        return np.maximum(1 - np.abs(points[..., None] - np.arange(size)), 0).astype(np.float32)

    _, height, width = images.shape
    return weights(ys, height) @ images @ weights(xs, width).transpose(0, 2, 1)


def _piece(masks: np.ndarray) -> np.ndarray:
    """The connected piece of each mask's first pixel."""
    piece = np.zeros(masks.shape, bool)
    first = masks.reshape(len(masks), -1).argmax(1)
    piece.reshape(len(masks), -1)[np.arange(len(masks)), first] = True
    piece &= masks
    while True:
        wide = np.pad(piece, ((0, 0), (1, 1), (1, 1)))
        across = wide[:, 1:-1, :-2] | wide[:, 1:-1, 2:]
        grown = (wide[:, :-2, 1:-1] | wide[:, 2:, 1:-1] | across | piece) & masks
        if (grown == piece).all():
            return piece
        piece = grown


def main_piece_share(masks: np.ndarray, most_pieces: int = 4) -> float:
    """Median over frames of the share of a mask's area that its largest connected piece has."""
    masks = masks[masks.any((1, 2))]
    if not len(masks):
        return 0.0
    left, largest = masks, np.zeros(len(masks))
    for _ in range(most_pieces):
        piece = _piece(left)
        largest = np.maximum(largest, piece.sum((1, 2)))
        left = left & ~piece
    return float(np.median(largest / masks.sum((1, 2))))


def motion_of(masks: np.ndarray) -> str:
    """The motion of one object from its masks ``[frames, height, width]``."""
    area = masks.sum((1, 2)).astype(np.float64)
    seen = area > max(
        SMALLEST_SHARE * masks[0].size, 0.15 * np.median(area[area > 0]) if area.any() else 0
    )
    if seen.sum() < 5:
        return "none"
    frames = np.flatnonzero(seen)
    area = area[seen]
    y = (masks.sum(2) * np.arange(masks.shape[1])).sum(1)[seen] / area
    x = (masks.sum(1) * np.arange(masks.shape[2])).sum(1)[seen] / area
    time = frames / (len(masks) - 1) - 0.5
    dx, dy = np.polyfit(time, x, 1)[0], np.polyfit(time, y, 1)[0]
    # What a straight line leaves of the vertical track is what hops.
    left_over = np.std(y - np.polyval(np.polyfit(time, y, 1), time))
    growth = np.polyfit(time, np.sqrt(area), 1)[0] / np.sqrt(area).mean()
    # Crossing hides an object for a while, so a steady move is asked about first.
    if left_over > 4.0 and abs(dx) < 16:
        return "bouncing"
    if max(abs(dx), abs(dy)) > 14:
        if abs(dx) > abs(dy):
            return "right" if dx > 0 else "left"
        return "down" if dy > 0 else "up"
    if abs(growth) > 0.4:
        return "growing" if growth > 0 else "shrinking"
    return "none"


class ClipChecker:
    """
    Names the objects of a clip.

    Parameters
    ----------
    shape_classifier
        ONNX file: ``mask`` float32 ``[n, 1, 24, 24]`` to ``logits`` ``[n, shapes]``.
    """

    def __init__(self, shape_classifier: str | Path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(shape_classifier), options, providers=["CPUExecutionProvider"]
        )

    def shape_of(self, masks: np.ndarray) -> str:
        """The shape of one object from its masks ``[frames, height, width]``."""
        area = masks.sum((1, 2))
        large = np.flatnonzero(area >= max(0.7 * area.max(), 1))
        logits = self._session.run(None, {"mask": normalised_masks(masks[large])})[0]
        logits = logits - logits.max(1, keepdims=True)
        log_probability = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        return SHAPES[int(np.maximum(log_probability, -6.0).mean(0).argmax())]

    def describe(self, clip: np.ndarray) -> list[ObjectWords]:
        """The objects of a clip (float ``[3, frames, height, width]`` in [0, 1]), largest first."""
        masks = colour_masks(clip)
        # The median keeps a flash of colour from counting as an object.
        area = np.median(masks.sum((2, 3)), 1)
        found = []
        for index in np.argsort(-area)[:2]:
            if area[index] > max(
                SMALLEST_SHARE * masks[0, 0].size, SECOND_SHARE * area.max() if found else 0
            ):
                found.append(
                    ObjectWords(
                        COLOUR_NAMES[index], self.shape_of(masks[index]), motion_of(masks[index])
                    )
                )
        return found

    def check(self, prompt: str, clip: np.ndarray) -> Verdict:
        """Compare what a prompt asks with what the clip shows."""
        seen, masks = self.describe(clip), colour_masks(clip)
        once = all(
            main_piece_share(masks[COLOUR_NAMES.index(thing.colour)]) > 0.8 for thing in seen
        )
        return Verdict(parse(prompt), seen, once)
