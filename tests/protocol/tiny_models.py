"""Tiny ONNX models for the server's tests, with the right answers."""

import numpy as np
import onnxruntime

import onnx
from onnx import TensorProto, helper

OPSET = 21


def save(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, array):
    return onnx.numpy_helper.from_array(array, name)


def affine(path, scale=2.0):
    """y = scale * x + 1, x: f32[rows, 4]."""
    return save(
        path,
        [
            helper.make_node("Mul", ["x", "scale"], ["scaled"]),
            helper.make_node("Add", ["scaled", "one"], ["y"]),
        ],
        [tensor("x", ["rows", 4])],
        [tensor("y", ["rows", 4])],
        [constant("scale", np.float32(scale)), constant("one", np.float32(1))],
    )


def add_sub(path):
    """Two inputs of int32[16], their sum and their difference, as in Triton's own examples."""
    names = ("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1")
    return save(
        path,
        [
            helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
            helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
        ],
        [tensor(name, [1, 16], TensorProto.INT32) for name in names[:2]],
        [tensor(name, [1, 16], TensorProto.INT32) for name in names[2:]],
    )


def embedding(path):
    """embedding = -input, f32[1, 4]: the names of embedding services."""
    return save(
        path,
        [helper.make_node("Neg", ["input"], ["embedding"])],
        [tensor("input", [1, 4])],
        [tensor("embedding", [1, 4])],
    )


def cast(path):
    """Half precision in, float out."""
    return save(
        path,
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
        [tensor("x", ["n"], TensorProto.FLOAT16)],
        [tensor("y", ["n"])],
    )


def square(path):
    """y = x @ x, x: f32[rows, side, side]."""
    shape = ["rows", "side", "side"]
    node = helper.make_node("MatMul", ["x", "x"], ["y"])
    return save(path, [node], [tensor("x", shape)], [tensor("y", shape)])


DEEP_LAYERS, DEEP_WIDTH, DEEP_SCALE = 8, 512, 2.0**8


def deep(path):
    """y = 256 x, x: f32[rows, 4], through eight wide layers: many rows take their time."""
    eye = np.eye(DEEP_WIDTH, dtype=np.float32)
    weights = [constant("w_in", eye[:4]), constant("w_out", eye[:, :4])]
    nodes = [helper.make_node("MatMul", ["x", "w_in"], ["h0"])]
    for i in range(DEEP_LAYERS):
        weights.append(constant(f"w{i}", eye * np.float32(2)))
        nodes.append(helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]))
    nodes.append(helper.make_node("MatMul", [f"h{DEEP_LAYERS}", "w_out"], ["y"]))
    return save(path, nodes, [tensor("x", ["rows", 4])], [tensor("y", ["rows", 4])], weights)


# Datatypes of the protocol: numpy's name (None: it has none) and ONNX's.
IDENTITY_TYPES = {
    "BOOL": (np.bool_, TensorProto.BOOL),
    "INT8": (np.int8, TensorProto.INT8),
    "INT16": (np.int16, TensorProto.INT16),
    "INT32": (np.int32, TensorProto.INT32),
    "INT64": (np.int64, TensorProto.INT64),
    "UINT8": (np.uint8, TensorProto.UINT8),
    "UINT16": (np.uint16, TensorProto.UINT16),
    "UINT32": (np.uint32, TensorProto.UINT32),
    "UINT64": (np.uint64, TensorProto.UINT64),
    "FP16": (np.float16, TensorProto.FLOAT16),
    "FP32": (np.float32, TensorProto.FLOAT),
    "FP64": (np.float64, TensorProto.DOUBLE),
    "BF16": (None, TensorProto.BFLOAT16),
}


def identity(path, datatype):
    """y = x, one dimension of any size."""
    dtype = IDENTITY_TYPES[datatype][1]
    return save(
        path,
        [helper.make_node("Identity", ["x"], ["y"])],
        [tensor("x", ["n"], dtype)],
        [tensor("y", ["n"], dtype)],
    )


TOKENS, HEADS, WIDTH = 48, 6, 48


def attention(path):
    """One self-attention layer over x: f32[1, 48, 48] with 6 heads: what context parallelism splits."""
    random = np.random.default_rng(7)
    head = WIDTH // HEADS
    weights = [
        constant(name, (random.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32))
        for name in ("wq", "wk", "wv", "wo")
    ]
    shapes = [
        constant("split", np.array([1, TOKENS, HEADS, head], np.int64)),
        constant("joined", np.array([1, TOKENS, WIDTH], np.int64)),
        constant("scale", np.float32(head**-0.5)),
    ]
    nodes = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            helper.make_node("MatMul", ["x", f"w{name}"], [f"{name}_flat"]),
            helper.make_node("Reshape", [f"{name}_flat", "split"], [f"{name}_split"]),
            helper.make_node("Transpose", [f"{name}_split"], [name], perm=order),
        ]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=-1),
        helper.make_node("MatMul", ["probabilities", "v"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["tokens"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["tokens", "joined"], ["merged"]),
        helper.make_node("MatMul", ["merged", "wo"], ["projected"]),
        helper.make_node("Add", ["x", "projected"], ["y"]),
    ]
    shape = [1, TOKENS, WIDTH]
    return save(path, nodes, [tensor("x", shape)], [tensor("y", shape)], weights + shapes)


def reference(path, **inputs):
    """onnxruntime's outputs."""
    return onnxruntime.InferenceSession(str(path)).run(None, inputs)
