"""Word-level tokenizer of the clips' captions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from .words import vocabulary

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
LENGTH = 24


class WordTokenizer:
    """
    Turn captions into fixed-length rows of ids: ``<bos> words <eos> <pad>...``.

    Parameters
    ----------
    words
        The vocabulary; a word's index is its id, and the first four are ``SPECIAL``.
    length
        Ids in a row; longer captions are cut before ``<eos>``.
    """

    def __init__(self, words: list[str], length: int = LENGTH):
        self.words = list(words)
        self.length = length
        self._ids = {word: index for index, word in enumerate(words)}

    @classmethod
    def from_grammar(cls) -> WordTokenizer:
        return cls([*SPECIAL, *vocabulary()])

    @classmethod
    def load(cls, path: str | Path) -> WordTokenizer:
        saved = json.loads(Path(path).read_text())
        return cls(saved["words"], saved["length"])

    def save(self, path: str | Path) -> None:
        Path(path).write_text(
            json.dumps({"length": self.length, "words": self.words}, indent=1) + "\n"
        )

    def __call__(self, prompts: list[str]) -> np.ndarray:
        """Ids of prompts: int64 ``[batch, length]``. The empty prompt is the unconditional one."""
        ids = np.zeros((len(prompts), self.length), np.int64)
        unknown = self._ids["<unk>"]
        for row, prompt in zip(ids, prompts, strict=False):
            words = re.findall(r"[a-z]+", prompt.lower())[: self.length - 2]
            known = [self._ids.get(word, unknown) for word in words]
            row[: len(known) + 2] = [self._ids["<bos>"], *known, self._ids["<eos>"]]
        return ids
