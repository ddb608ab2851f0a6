"""The sizes of the reference workload."""

import dataclasses

import numpy as np


@dataclasses.dataclass
class Sizes:
    layers: int = 36
    width: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head_size: int = 128
    mlp: int = 12288
    features: int = 192  # of a patch: 48 channels, 1x2x2
    vocabulary: int = 4096
    time_features: int = 256
    epsilon: float = 1e-6
    rope_theta: float = 5e6
    # Sizes of a call; the model takes any.
    batch: int = 1
    frames: int = 48
    height: int = 23
    columns: int = 40
    text: int = 2992

    def rope_axes(self):
        """By frequency: 0 for frame, 1 for row, 2 for column; (24, 20, 20) of 64."""
        half = self.head_size // 2
        each = half * 5 // 16
        axes = np.zeros(half, np.int64)
        axes[1 : 3 * each : 3], axes[2 : 3 * each : 3] = 1, 2
        return axes

    def inverse_frequencies(self):
        half = self.head_size // 2
        return (self.rope_theta ** (-np.arange(half, dtype=np.float64) / half)).astype(np.float32)

    def call_sizes(self):
        """Symbolic dimension -> size."""
        return {
            "batch": self.batch, "frames": self.frames, "height": self.height,
            "width": self.columns, "text": self.text,
        }  # fmt: skip


def add_size_options(parser):
    for field in dataclasses.fields(Sizes):
        name = "--" + field.name.replace("_", "-")
        parser.add_argument(name, type=type(field.default), default=field.default)


def sizes_from(options):
    return Sizes(
        **{field.name: getattr(options, field.name) for field in dataclasses.fields(Sizes)}
    )
