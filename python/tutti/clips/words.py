"""The words of the clips' captions and what they mean: one table for grammar, tokenizer and checker."""

from __future__ import annotations

from dataclasses import dataclass

COLOURS = {
    "red": (0.93, 0.10, 0.12),
    "orange": (1.00, 0.50, 0.05),
    "yellow": (0.97, 0.93, 0.10),
    "green": (0.10, 0.80, 0.15),
    "cyan": (0.10, 0.90, 0.92),
    "blue": (0.12, 0.25, 0.98),
    "magenta": (0.95, 0.12, 0.90),
    "white": (0.98, 0.98, 0.98),
}
SHAPES = ("circle", "square", "triangle", "star", "diamond", "cross")
MOTIONS = {
    "left": "moving left",
    "right": "moving right",
    "up": "moving up",
    "down": "moving down",
    "bouncing": "bouncing",
    "growing": "growing",
    "shrinking": "shrinking",
}
SIZES = ("small", "", "large")
BACKGROUNDS = ("plain", "gradient", "striped", "checkered", "fading")
COLOUR_NAMES = tuple(COLOURS)
MOTION_NAMES = tuple(MOTIONS)


@dataclass(frozen=True)
class ObjectWords:
    """What a caption says of one object; ``None`` where it says nothing."""

    colour: str | None
    shape: str | None
    motion: str | None


def vocabulary() -> list[str]:
    """All words of the grammar, in a fixed order."""
    words = ["a", "an", "over", "background", "moving", "crossing"]
    words += [size for size in SIZES if size]
    return words + [*COLOUR_NAMES, *SHAPES, *MOTION_NAMES, *BACKGROUNDS]


def caption(objects: list[tuple[str, str, str, str]], background: str) -> str:
    """
    Say a scene in words.

    Parameters
    ----------
    objects
        One or two of (size, colour, shape, motion); the size may be empty.
    background
        A member of ``BACKGROUNDS``.
    """
    said = []
    for size, colour, shape, motion in objects:
        first = size or colour
        article = "an" if first[0] in "aeiou" else "a"
        said.append(
            " ".join(word for word in (article, size, colour, shape, MOTIONS[motion]) if word)
        )
    return " crossing ".join(said) + f" over a {background} background"


def parse(prompt: str) -> list[ObjectWords]:
    """Read back the objects that a caption names, in its order."""
    objects = []
    for clause in prompt.lower().split(" over ")[0].split(" crossing "):
        found = set(clause.replace(",", " ").replace(".", " ").split())
        named = [
            next((name for name in names if name in found), None)
            for names in (COLOUR_NAMES, SHAPES, MOTION_NAMES)
        ]
        if any(named):
            objects.append(ObjectWords(*named))
    return objects
