"""ONNX nodes of transformers as exporters of PyTorch write them: norms and rotary embeddings taken apart.

A `Graph` collects nodes and weights. Weights are external; what is in them is only described (`Weight`), and
`weights.py` writes them where the model is to run.
"""

import dataclasses
import zlib

import numpy as np

from onnx import TensorProto, helper

TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}
ALIGNMENT = 4096  # bytes, of each weight in its file, so that it can be mapped


@dataclasses.dataclass
class Weight:
    """Normal numbers at an offset (bytes) of a file; the seed says which, whatever their type."""

    seed: int
    file: str
    offset: int
    shape: list
    mean: float
    deviation: float


class Graph:
    """`tie` maps a weight's name to the name of the weight whose numbers it has, its own by default. Matrices of
    linear layers are stored [in, out], or [out, in] as PyTorch has them."""

    def __init__(self, dtype, tie=lambda name: name, is_out_in=False):
        self.dtype, self.type, self.tie, self.is_out_in = dtype, TYPES[dtype], tie, is_out_in
        self.element_bytes = 4 if dtype == "float32" else 2
        self.nodes, self.initializers = [], []
        self.weights, self.file_bytes = {}, {}

    def node(self, op, inputs, name, outputs=1, **attributes):
        outputs = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attributes))
        return outputs[0] if len(outputs) == 1 else outputs

    def constant(self, name, array):
        array = np.asarray(array)
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        raw = helper.make_tensor(name, dtype, array.shape, array.tobytes(), raw=True)
        self.initializers.append(raw)
        return name

    def weight(self, name, shape, deviation, mean=0.0, file="model.data"):
        like = self.weights.get(self.tie(name))
        length = self.element_bytes * int(np.prod(shape))
        if like is None:
            offset = self.file_bytes.get(file, 0)
            seed = zlib.crc32(self.tie(name).encode())
            like = Weight(seed, file, offset, list(shape), mean, deviation)
            self.file_bytes[file] = -(-(offset + length) // ALIGNMENT) * ALIGNMENT
        self.weights[name] = like
        tensor = TensorProto(name=name, data_type=self.type, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", like.file), ("offset", like.offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.initializers.append(tensor)
        return name

    def cast(self, x, name, to=None):
        return self.node("Cast", [x], name, to=self.type if to is None else to)

    def linear(self, x, name, width_in, width_out, file="model.data", bias=False):
        shape = [width_out, width_in] if self.is_out_in else [width_in, width_out]
        weight = self.weight(f"{name}.weight", shape, width_in**-0.5, file=file)
        if self.is_out_in:
            weight = self.node("Transpose", [weight], f"{name}.turned", perm=[1, 0])
        if not bias:
            return self.node("MatMul", [x, weight], name)
        product = self.node("MatMul", [x, weight], f"{name}.product")
        return self.node(
            "Add", [product, self.weight(f"{name}.bias", [width_out], 0.02, file=file)], name
        )

    def rms_norm(self, x, name, width, epsilon, file="model.data"):
        """In fp32, scaled in the model's type."""
        two, axis = self.shared("two", np.float32(2)), self.shared("last_axis", np.int64([-1]))
        small = self.shared(f"epsilon_{epsilon:g}", np.float32(epsilon))
        wide = self.cast(x, f"{name}.wide", TensorProto.FLOAT)
        square = self.node("Pow", [wide, two], f"{name}.square")
        mean = self.node("ReduceMean", [square, axis], f"{name}.mean", keepdims=1)
        above_zero = self.node("Add", [mean, small], f"{name}.above_zero")
        root = self.node("Sqrt", [above_zero], f"{name}.root")
        inverse = self.node("Reciprocal", [root], f"{name}.inverse")
        narrow = self.cast(self.node("Mul", [wide, inverse], f"{name}.normal"), f"{name}.narrow")
        return self.node(
            "Mul", [narrow, self.weight(f"{name}.weight", [width], 0.02, 1.0, file)], name
        )

    def shared(self, name, array):
        """A constant that many nodes read."""
        if all(tensor.name != name for tensor in self.initializers):
            self.constant(name, array)
        return name

    def split_heads(self, x, name, heads, head_size):
        shape = self.shared(f"shape_{heads}x{head_size}", np.int64([0, 0, heads, head_size]))
        return self.node("Reshape", [x, shape], name)

    def rotate(self, x, name, cos, sin, head_size):
        """x cos + (-right half, left half) sin; x: [batch, heads, tokens, head_size]."""
        sizes = self.shared("halves", np.int64([head_size // 2, head_size // 2]))
        left, right = self.node("Split", [x, sizes], f"{name}.halves", outputs=2, axis=-1)
        minus = self.node("Neg", [right], f"{name}.minus")
        turned = self.node("Concat", [minus, left], f"{name}.turned", axis=-1)
        a = self.node("Mul", [x, cos], f"{name}.cos")
        b = self.node("Mul", [turned, sin], f"{name}.sin")
        return self.node("Add", [a, b], name)

    def gated_mlp(self, x, name, width, hidden, file):
        """down(silu(gate(x)) up(x))"""
        gate = self.linear(x, f"{name}.gate", width, hidden, file)
        up = self.linear(x, f"{name}.up", width, hidden, file)
        sigmoid = self.node("Sigmoid", [gate], f"{name}.sigmoid")
        silu = self.node("Mul", [gate, sigmoid], f"{name}.silu")
        gated = self.node("Mul", [silu, up], f"{name}.gated")
        return self.linear(gated, f"{name}.down", hidden, width, file)
