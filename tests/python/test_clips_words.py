"""Captions, their tokenizer, and the split into training and held-out prompts."""

import json
import sys
from pathlib import Path

import numpy as np

CLIPS = Path(__file__).resolve().parents[2] / "models/clips"
sys.path.insert(0, str(CLIPS))

import grammar  # noqa: E402
from tutti.clips.tokenizer import WordTokenizer  # noqa: E402
from tutti.clips.words import COLOUR_NAMES, MOTION_NAMES, SHAPES, ObjectWords, parse  # noqa: E402


def triples_of(scenes):
    return {
        tuple(w[1:])
        for words, n in zip(scenes.words.tolist(), scenes.count, strict=True)
        for w in words[:n]
    }


def test_held_out_combinations_are_in_no_training_scene():
    train, held_out = grammar.split_triples()
    assert not {*map(tuple, train)} & {*map(tuple, held_out)}
    scenes = grammar.sample(np.random.default_rng(0), 3000, train)
    seen = triples_of(scenes)
    assert not seen & {*map(tuple, held_out)}
    assert len(seen) == len(train)


def test_every_word_of_a_held_out_prompt_occurs_in_training():
    train, held_out = grammar.split_triples()
    for column in range(3):
        assert {*held_out[:, column]} <= {*train[:, column]}


def test_the_committed_prompts_are_the_grammars_held_out_ones():
    committed = json.loads((CLIPS / "heldout_prompts.json").read_text())
    assert len(committed) == 100
    assert committed == grammar.held_out_scenes().captions()
    held_out = {*map(tuple, grammar.split_triples()[1])}
    assert triples_of(grammar.held_out_scenes()) <= held_out


def test_captions_are_read_back_as_they_were_said():
    scenes = grammar.sample(np.random.default_rng(1), 200, grammar.split_triples()[0])
    for text, words, count in zip(scenes.captions(), scenes.words, scenes.count, strict=True):
        expected = [
            ObjectWords(COLOUR_NAMES[c], SHAPES[s], MOTION_NAMES[m]) for _, c, s, m in words[:count]
        ]
        assert parse(text) == expected


def test_tokenizer_frames_and_pads_a_caption():
    tokenizer = WordTokenizer(["<pad>", "<bos>", "<eos>", "<unk>", "a", "red", "star"], length=7)
    assert tokenizer(["A red star."]).tolist() == [[1, 4, 5, 6, 2, 0, 0]]
    assert tokenizer(["", "a purple star"]).tolist() == [
        [1, 2, 0, 0, 0, 0, 0],
        [1, 4, 3, 6, 2, 0, 0],
    ]
    assert tokenizer(["a " * 20]).tolist() == [[1, 4, 4, 4, 4, 4, 2]]


def test_the_committed_vocabulary_covers_every_caption():
    tokenizer = WordTokenizer.load(CLIPS / "tokenizer.json")
    assert tokenizer.words == WordTokenizer.from_grammar().words
    ids = tokenizer(
        grammar.sample(np.random.default_rng(2), 500, grammar.split_triples()[0]).captions()
    )
    unknown, end = tokenizer.words.index("<unk>"), tokenizer.words.index("<eos>")
    assert not (ids == unknown).any()
    assert ((ids == end).sum(1) == 1).all()
