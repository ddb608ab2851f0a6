"""
Renderer of scenes into clips, for numpy arrays and torch tensors alike.

Both libraries run the same lines: every function takes the module ``xp`` to compute with.
Shapes are drawn from their signed distance, with one pixel of anti-aliasing.
"""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
from grammar import FRAMES, SIDE, Scenes
from tutti.clips.words import BACKGROUNDS


def _distances(xp, x, y, r) -> list:
    """Signed distances to each of ``words.SHAPES``, of about equal areas, in pixels."""
    ax, ay = xp.abs(x), xp.abs(y)
    circle = xp.sqrt(x * x + y * y) - r
    square = xp.maximum(ax, ay) - 0.88 * r
    diamond = (ax + ay - 1.32 * r) * 0.7071
    # y points down: an apex at the top.
    triangle = xp.maximum(0.866 * ax - 0.5 * (y - 0.2 * r), y - 0.2 * r) - 0.62 * r
    bar = 0.42 * r
    cross = xp.minimum(xp.maximum(ax - bar, ay - 1.12 * r), xp.maximum(ay - bar, ax - 1.12 * r))
    # A star folds into one half of one of five arms, bounded by one line from tip to notch.
    arm = 2 * math.pi / 5
    angle = xp.abs((xp.arctan2(x, -y) + arm / 2) % arm - arm / 2)
    far = xp.sqrt(x * x + y * y)
    u, v = far * xp.cos(angle), far * xp.sin(angle)
    tip, notch = 1.38 * r, 0.6 * r
    nu, nv = notch * math.cos(arm / 2), notch * math.sin(arm / 2)
    star = ((u - tip) * nv + v * (tip - nu)) / xp.sqrt((tip - nu) ** 2 + nv**2)
    return [circle, square, triangle, star, diamond, cross]


def _background(xp, scenes, x, y, t):
    """Background mix in [0, 1] between the two tones: ``[N, FRAMES, SIDE, SIDE]``."""
    wide = lambda a: a[:, None, None, None]
    angle, period, speed, phase = (wide(scenes.pattern[:, i]) for i in range(4))
    across = (x - 32) * xp.cos(angle) + (y - 32) * xp.sin(angle)
    wave = lambda a: xp.clip(0.5 + 0.5 * period * (xp.abs(a / period % 2 - 1) * 2 - 1), 0, 1)
    gradient = xp.clip(0.5 + across / 80 + speed * (t - 12) / 20, 0, 1)
    striped = wave(across + speed * t + phase)
    checkered = (wave(x + phase) * 2 - 1) * (wave(y + phase) * 2 - 1) * 0.5 + 0.5
    mixes = [
        0 * across + 0 * t,
        gradient,
        striped,
        checkered + 0 * t,
        t / (FRAMES - 1) + 0 * across,
    ]
    chosen = mixes[0]
    for i in range(1, len(BACKGROUNDS)):
        chosen = xp.where(wide(scenes.background) == i, mixes[i], chosen)
    return chosen


def render(scenes: Scenes, xp=np):
    """
    Draw scenes.

    Parameters
    ----------
    scenes
        Arrays of numpy, or of torch with ``xp=torch`` (see ``to_torch``).

    Returns
    -------
    float32 array ``[N, 3, FRAMES, SIDE, SIDE]`` in [0, 1].
    """
    where = {} if xp is np else {"device": scenes.rgb.device}
    make = lambda n: xp.arange(n, dtype=xp.float32, **where)
    t, y, x = make(FRAMES)[:, None, None], make(SIDE)[:, None] + 0.5, make(SIDE) + 0.5
    mix = _background(xp, scenes, x, y, t)[:, None]
    tone = scenes.tones[:, :, :, None, None, None]
    clip = tone[:, 0] * (1 - mix) + tone[:, 1] * mix
    for i in (1, 0):
        cx, cy, r = (scenes.track[:, i, j, :, None, None] for j in range(3))
        distance = None
        for k, candidate in enumerate(_distances(xp, x - cx, y - cy, r)):
            is_it = (scenes.words[:, i, 2] == k)[:, None, None, None]
            distance = candidate if distance is None else xp.where(is_it, candidate, distance)
        present = (scenes.count > i)[:, None, None, None]
        alpha = (xp.clip(0.5 - distance, 0, 1) * present)[:, None]
        clip = clip * (1 - alpha) + scenes.rgb[:, i, :, None, None, None] * alpha
    return clip


def to_torch(scenes: Scenes, device) -> Scenes:
    """The same scenes as tensors of a device."""
    import torch

    return Scenes(
        *(torch.as_tensor(getattr(scenes, f.name), device=device) for f in fields(scenes))
    )
