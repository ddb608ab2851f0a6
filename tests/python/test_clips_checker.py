"""The checker names what the renderer drew, and refuses what it did not."""

import sys
from pathlib import Path

import numpy as np
import pytest

CLIPS = Path(__file__).resolve().parents[2] / "models/clips"
sys.path.insert(0, str(CLIPS))

import grammar  # noqa: E402
from render import render  # noqa: E402
from tutti.clips.checker import ClipChecker  # noqa: E402


@pytest.fixture(scope="module")
def checker():
    return ClipChecker(CLIPS / "onnx/shape_classifier.onnx")


@pytest.fixture(scope="module")
def drawn():
    scenes = grammar.held_out_scenes()[::5]
    return scenes.captions(), render(scenes)


def test_rendered_clips_are_numbers_from_0_to_1_of_the_models_shape(drawn):
    _, clips = drawn
    assert clips.shape == (20, 3, 25, 64, 64) and clips.dtype == np.float32
    assert clips.min() >= 0 and clips.max() <= 1


def test_rendered_clips_follow_their_captions(checker, drawn):
    verdicts = [checker.check(text, clip) for text, clip in zip(*drawn, strict=True)]
    assert all(verdict.passed and verdict.once for verdict in verdicts)


def test_another_captions_clip_is_refused(checker, drawn):
    captions, clips = drawn
    passed = [
        checker.check(text, clip).passed
        for text, clip in zip(captions[1:] + captions[:1], clips, strict=True)
    ]
    assert sum(passed) <= 2


def test_a_clip_played_backwards_has_another_motion(checker):
    words = np.array([[[0, 0, 0, 0], [0, 1, 1, 1]]])  # a small red circle moving left
    scene = grammar.from_words(np.random.default_rng(0), words, np.array([1]), np.array([0]))
    clip = render(scene)[0]
    assert checker.check("a small red circle moving left over a plain background", clip).passed
    backwards = checker.check(
        "a small red circle moving left over a plain background", clip[:, ::-1]
    )
    assert backwards.colour and backwards.shape and not backwards.motion


def test_an_object_drawn_twice_is_noticed(checker):
    words = np.array([[[0, 3, 1, 5], [0, 1, 1, 1]]])  # a green square growing
    clip = render(
        grammar.from_words(np.random.default_rng(3), words, np.array([1]), np.array([0]))
    )[0]
    twice = np.maximum(clip, np.roll(clip, 32, 2))
    assert checker.check("a green square growing", clip).once
    assert not checker.check("a green square growing", twice).once


def test_an_empty_clip_shows_nothing(checker):
    assert checker.describe(np.full((3, 25, 64, 64), 0.3, np.float32)) == []
