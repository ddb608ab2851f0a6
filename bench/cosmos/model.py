"""Writes the reference workload as ONNX; `weights.py` writes the numbers.

Two towers of `layers` layers. Each layer of each has its own norms, projections with grouped heads and a norm
a head for queries and keys, and gated MLP. Text tokens attend to text tokens, causally; video tokens to text
and video. The text tower sees neither video nor time step.

| input | shape | |
| --- | --- | --- |
| patches | [batch, frames, height, width, features] | element type of the model |
| timestep | [batch] | fp32 |
| ids | [batch, text] | int64, below `vocabulary` |

The output `velocity` has the shape and type of `patches`. Rotary tables come from the places of tokens: text
counts on, video by frame, row and column, whose frequencies alternate as in Qwen 2.5-VL's interleaved form.
"""

import argparse
import dataclasses
import json
import re
from pathlib import Path

import numpy as np

from onnx import TensorProto, helper

from .blocks import Graph
from .sizes import add_size_options, sizes_from


class Model:
    def __init__(self, sizes, dtype, share, layout):
        self.sizes = sizes
        towers = {"none": "", "text": "text", "all": "text|video"}[share]
        pattern = re.compile(rf"^({towers})\.\d+\.")
        self.graph = Graph(
            dtype, lambda name: pattern.sub(r"\1.0.", name) if towers else name, layout == "out-in"
        )

    def size_of(self, x, dim, name):
        """Size of a dimension, as a scalar."""
        g = self.graph
        index = g.shared(f"dim_{dim}", np.int64(dim))
        return g.node("Gather", [g.node("Shape", [x], f"{name}.shape"), index], name, axis=0)

    def places(self, x, dim, name):
        """0, 1, .. as fp32 [size]"""
        g = self.graph
        zero, one = g.shared("zero", np.int64(0)), g.shared("one", np.int64(1))
        count = g.node("Range", [zero, self.size_of(x, dim, f"{name}.size"), one], f"{name}.range")
        return g.cast(count, name, TensorProto.FLOAT)

    def tables(self, angles, name):
        """Angles [tokens, head_size / 2] -> cos and sin [tokens, head_size]."""
        g = self.graph
        both = g.node("Concat", [angles, angles], f"{name}.both", axis=-1)
        return [
            g.cast(g.node(op, [both], f"{name}.{op}.wide"), f"{name}.{op}") for op in ("Cos", "Sin")
        ]

    def text_tables(self, ids):
        g = self.graph
        frequencies = g.constant("text.frequencies", self.sizes.inverse_frequencies()[None, :])
        column = g.node(
            "Unsqueeze", [self.places(ids, 1, "text.places"), g.shared("axis_1", np.int64([1]))],
            "text.column",
        )  # fmt: skip
        return self.tables(g.node("Mul", [column, frequencies], "text.angles"), "text.rope")

    def video_tables(self, patches):
        g, s = self.graph, self.sizes
        angles = None
        for axis, name in enumerate(("frame", "row", "column")):
            own = np.where(s.rope_axes() == axis, s.inverse_frequencies(), 0).astype(np.float32)
            frequencies = g.constant(f"video.{name}.frequencies", own)
            places = self.places(patches, 1 + axis, f"video.{name}.places")
            beside = np.int64([d for d in range(4) if d != axis])
            wide = g.node(
                "Unsqueeze",
                [places, g.constant(f"video.{name}.beside", beside)],
                f"video.{name}.wide",
            )
            turned = g.node("Mul", [wide, frequencies], f"video.{name}.angles")
            angles = (
                turned if angles is None else g.node("Add", [angles, turned], f"video.{name}.sum")
            )
        rows = g.shared("rows", np.int64([-1, s.head_size // 2]))
        return self.tables(g.node("Reshape", [angles, rows], "video.angles"), "video.rope")

    def projections(self, x, name, tables, file):
        """Queries, keys and values, [batch, heads, tokens, head_size]."""
        g, s = self.graph, self.sizes
        out = []
        for kind, heads in (("q", s.heads), ("k", s.kv_heads), ("v", s.kv_heads)):
            y = g.linear(x, f"{name}.{kind}", s.width, heads * s.head_size, file)
            y = g.split_heads(y, f"{name}.{kind}.split", heads, s.head_size)
            if kind != "v":
                y = g.rms_norm(y, f"{name}.{kind}.norm", s.head_size, s.epsilon, file)
            y = g.node("Transpose", [y], f"{name}.{kind}.heads", perm=[0, 2, 1, 3])
            if kind != "v":
                y = g.rotate(y, f"{name}.{kind}.rope", *tables, s.head_size)
            out.append(y)
        return out

    def attention(self, q, k, v, name, file, causal):
        g, s = self.graph, self.sizes
        scale = s.head_size**-0.5
        out = g.node("Attention", [q, k, v], f"{name}.sdpa", is_causal=int(causal), scale=scale)
        back = g.node("Transpose", [out], f"{name}.back", perm=[0, 2, 1, 3])
        flat = g.shared("flat_heads", np.int64([0, 0, s.heads * s.head_size]))
        joined = g.node("Reshape", [back, flat], f"{name}.joined")
        return g.linear(joined, f"{name}.out", s.heads * s.head_size, s.width, file)

    def layer(self, x, name, tables, file, before=None):
        """The next x, keys and values; `before`: keys and values that stand before its own."""
        g, s = self.graph, self.sizes
        normal = g.rms_norm(x, f"{name}.norm1", s.width, s.epsilon, file)
        q, k, v = self.projections(normal, f"{name}.attention", tables, file)
        own = (k, v)
        if before is not None:
            k, v = (
                g.node("Concat", [old, new], f"{name}.attention.all_{kind}", axis=2)
                for kind, old, new in zip("kv", before, own, strict=True)
            )
        causal = before is None
        attended = self.attention(q, k, v, f"{name}.attention", file, causal)
        x = g.node("Add", [x, attended], f"{name}.attended")
        normal = g.rms_norm(x, f"{name}.norm2", s.width, s.epsilon, file)
        changed = g.gated_mlp(normal, f"{name}.mlp", s.width, s.mlp, file)
        return g.node("Add", [x, changed], f"{name}.changed"), own

    def time_embedding(self, timestep):
        g, s = self.graph, self.sizes
        half = s.time_features // 2
        powers = np.exp(-np.log(10000.0) * np.arange(half, dtype=np.float64) / half)
        frequencies = g.constant("time.frequencies", powers.astype(np.float32)[None, :])
        column = g.node("Unsqueeze", [timestep, g.shared("axis_1", np.int64([1]))], "time.column")
        angles = g.node("Mul", [column, frequencies], "time.angles")
        waves = [g.node(op, [angles], f"time.{op}") for op in ("Cos", "Sin")]
        x = g.cast(g.node("Concat", waves, "time.waves", axis=-1), "time.narrow")
        x = g.linear(x, "time.up", s.time_features, s.width, bias=True)
        x = g.node("Mul", [x, g.node("Sigmoid", [x], "time.sigmoid")], "time.silu")
        x = g.linear(x, "time.out", s.width, s.width, bias=True)
        return g.node("Unsqueeze", [x, g.shared("axis_1", np.int64([1]))], "time.embedding")

    def build(self):
        """The whole model, as a ModelProto without its weights."""
        g, s = self.graph, self.sizes
        tokens = g.node(
            "Reshape",
            ["patches", g.constant("tokens_shape", np.int64([0, -1, s.features]))],
            "tokens",
        )
        video = g.linear(tokens, "patch_in", s.features, s.width, bias=True)
        video = g.node("Add", [video, self.time_embedding("timestep")], "patches_and_time")
        table = g.weight("embedding.weight", [s.vocabulary, s.width], 1.0)
        text = g.node("Gather", [table, "ids"], "embedding", axis=0)
        text_tables, video_tables = self.text_tables("ids"), self.video_tables("patches")
        for i in range(s.layers):
            text, before = self.layer(text, f"text.{i}", text_tables, "text.data")
            video, _ = self.layer(video, f"video.{i}", video_tables, "video.data", before)
        normal = g.rms_norm(video, "norm_out", s.width, s.epsilon)
        flat = g.linear(normal, "patch_out", s.width, s.features, bias=True)
        g.node("Reshape", [flat, g.node("Shape", ["patches"], "patches_shape")], "velocity")
        grid = ["batch", "frames", "height", "width", s.features]
        inputs = [
            helper.make_tensor_value_info("patches", g.type, grid),
            helper.make_tensor_value_info("timestep", TensorProto.FLOAT, ["batch"]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "text"]),
        ]
        outputs = [helper.make_tensor_value_info("velocity", g.type, grid)]
        graph = helper.make_graph(g.nodes, "cosmos_shape", inputs, outputs, g.initializers)
        opset = [helper.make_opsetid("", 23)]
        return helper.make_model(graph, opset_imports=opset, ir_version=11)


def write(folder, sizes, dtype="bfloat16", share="none", layout="in-out"):
    """model.onnx and weights.json, which says what its data files hold; returns the path of the first."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = Model(sizes, dtype, share, layout)
    proto = model.build()
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    weights = {name: dataclasses.asdict(w) for name, w in model.graph.weights.items()}
    description = {
        "dtype": dtype,
        "share": share,
        "layout": layout,
        "sizes": dataclasses.asdict(sizes),
        "files": model.graph.file_bytes,
        "weights": weights,
    }
    (folder / "weights.json").write_text(json.dumps(description))
    return folder / "model.onnx"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where model.onnx and weights.json go")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument(
        "--share", default="none", choices=["none", "text", "all"],
        help="layers of these towers have the same weights",
    )  # fmt: skip
    parser.add_argument(
        "--layout", default="in-out", choices=["in-out", "out-in"], help="of linear weights"
    )
    add_size_options(parser)
    options = parser.parse_args()
    print(write(options.folder, sizes_from(options), options.dtype, options.share, options.layout))


if __name__ == "__main__":
    main()
