"""How long `tutti compile` takes for a large transformer, and how much memory.

Writes an ONNX model as exporters do (decomposed norms, rotary embedding and grouped-head attention)
with external fp16 weights, compiles it for --mesh, and reports wall time, CPU time and the peak of
resident memory, anonymous (the compiler's own) and mapped (the weights' pages, which the system may
take back) apart. All layers read the same weights, one region of one file, so that model and plan take 0.4
GB each; with --all-weights each layer has its own, 14 GB each. How long the disk alone takes for as
many bytes as the plan has is measured beside it.

Report: build/reports/compile_large.json.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[1]
BINARY = os.environ.get("TUTTI_BINARY", str(ROOT / "build/release/bin/tutti"))
HALF = TensorProto.FLOAT16


class Model:
    """Nodes and weights of one graph."""

    def __init__(self, sizes, data_name, share):
        self.sizes, self.data_name, self.share = sizes, data_name, share
        self.nodes, self.weights = [], []
        self.offset = self.layer_bytes = 0

    def node(self, op, inputs, name, outputs=1, **attributes):
        outputs = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attributes))
        return outputs[0] if len(outputs) == 1 else outputs

    def constant(self, name, array):
        array = np.asarray(array)
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        raw = helper.make_tensor(name, dtype, array.shape, array.tobytes(), raw=True)
        self.weights.append(raw)
        return name

    def weight(self, name, *shape):
        tensor = TensorProto(name=name, data_type=HALF, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        length = 2 * int(np.prod(shape))
        for key, value in (
            ("location", self.data_name), ("offset", self.offset), ("length", length),
        ):  # fmt: skip
            tensor.external_data.add(key=key, value=str(value))
        self.offset += length
        self.weights.append(tensor)
        return name

    def linear(self, x, name, width_in, width_out):
        return self.node("MatMul", [x, self.weight(f"{name}.weight", width_in, width_out)], name)

    def norm(self, x, name, width):
        wide = self.node("Cast", [x], f"{name}.cast", to=TensorProto.FLOAT)
        square = self.node("Pow", [wide, "two"], f"{name}.square")
        mean = self.node("ReduceMean", [square, "last_axis"], f"{name}.mean", keepdims=1)
        root = self.node(
            "Sqrt", [self.node("Add", [mean, "epsilon"], f"{name}.add")], f"{name}.root"
        )
        scaled = self.node("Div", [wide, root], f"{name}.div")
        narrow = self.node("Cast", [scaled], f"{name}.narrow", to=HALF)
        return self.node("Mul", [narrow, self.weight(f"{name}.weight", width)], name)

    def heads(self, x, name, count):
        shape = self.constant(f"{name}.shape", np.int64([0, 0, count, self.sizes.head_size]))
        split = self.node("Reshape", [x, shape], f"{name}.split")
        return self.node("Transpose", [split], name, perm=[0, 2, 1, 3])

    def rotate(self, x, name):
        half = self.sizes.head_size // 2
        sizes = self.constant(f"{name}.sizes", np.int64([half, half]))
        left, right = self.node("Split", [x, sizes], f"{name}.halves", outputs=2, axis=-1)
        minus = self.node("Neg", [right], f"{name}.minus")
        turned = self.node("Concat", [minus, left], f"{name}.turned", axis=-1)
        a = self.node("Mul", [x, "cos"], f"{name}.cos")
        b = self.node("Mul", [turned, "sin"], f"{name}.sin")
        return self.node("Add", [a, b], name)

    def repeat(self, x, name):
        s = self.sizes
        wide = self.node("Unsqueeze", [x, "axis2"], f"{name}.wide")
        expand = self.constant(f"{name}.expand", np.int64([1, 1, s.heads // s.kv_heads, 1, 1]))
        copies = self.node("Expand", [wide, expand], f"{name}.copies")
        shape = self.constant(f"{name}.shape", np.int64([0, s.heads, -1, s.head_size]))
        return self.node("Reshape", [copies, shape], name)

    def attention(self, x, name):
        s = self.sizes
        q = self.heads(
            self.linear(x, f"{name}.q", s.width, s.heads * s.head_size), f"{name}.qh", s.heads
        )
        kv = s.kv_heads * s.head_size
        k = self.heads(self.linear(x, f"{name}.k", s.width, kv), f"{name}.kh", s.kv_heads)
        v = self.heads(self.linear(x, f"{name}.v", s.width, kv), f"{name}.vh", s.kv_heads)
        q = self.rotate(self.norm(q, f"{name}.qn", s.head_size), f"{name}.qr")
        k = self.rotate(self.norm(k, f"{name}.kn", s.head_size), f"{name}.kr")
        k, v = self.repeat(k, f"{name}.kx"), self.repeat(v, f"{name}.vx")
        kt = self.node("Transpose", [k], f"{name}.kt", perm=[0, 1, 3, 2])
        scores = self.node(
            "Mul", [self.node("MatMul", [q, kt], f"{name}.qk"), "scale"], f"{name}.scores"
        )
        out = self.node(
            "MatMul", [self.node("Softmax", [scores], f"{name}.p", axis=-1), v], f"{name}.pv"
        )
        turned = self.node("Transpose", [out], f"{name}.back", perm=[0, 2, 1, 3])
        shape = self.constant(f"{name}.flat", np.int64([0, 0, s.heads * s.head_size]))
        flat = self.node("Reshape", [turned, shape], f"{name}.joined")
        return self.linear(flat, f"{name}.out", s.heads * s.head_size, s.width)

    def layer(self, x, name):
        s = self.sizes
        if self.share:
            self.offset = 0
        start = self.offset
        attended = self.attention(self.norm(x, f"{name}.n1", s.width), f"{name}.attn")
        x = self.node("Add", [x, attended], f"{name}.x1")
        y = self.norm(x, f"{name}.n2", s.width)
        gate = self.linear(y, f"{name}.gate", s.width, s.mlp)
        up = self.linear(y, f"{name}.up", s.width, s.mlp)
        silu = self.node("Mul", [gate, self.node("Sigmoid", [gate], f"{name}.sig")], f"{name}.silu")
        gated = self.node("Mul", [silu, up], f"{name}.gated")
        down = self.linear(gated, f"{name}.down", s.mlp, s.width)
        self.layer_bytes = self.offset - start
        return self.node("Add", [x, down], f"{name}.x2")


def write_model(sizes, folder, share):
    """The paths of the model and the bytes of its weights."""
    model = Model(sizes, "model.data", share)
    model.constant("two", np.float32(2))
    model.constant("epsilon", np.float32(1e-6))
    model.constant("last_axis", np.int64([-1]))
    model.constant("axis2", np.int64([2]))
    model.constant("scale", np.float16(sizes.head_size**-0.5))
    x = "hidden"
    for layer in range(sizes.layers):
        x = model.layer(x, f"layers.{layer}")
    inputs = [
        helper.make_tensor_value_info("hidden", HALF, ["batch", "tokens", sizes.width]),
        helper.make_tensor_value_info("cos", HALF, ["tokens", sizes.head_size]),
        helper.make_tensor_value_info("sin", HALF, ["tokens", sizes.head_size]),
    ]
    output = helper.make_tensor_value_info(x, HALF, ["batch", "tokens", sizes.width])
    graph = helper.make_graph(model.nodes, "large", inputs, [output], model.weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    rng = np.random.default_rng(0)
    block = (rng.standard_normal(model.layer_bytes // 2, dtype=np.float32) * 0.02).astype(
        np.float16
    )
    with open(folder / "model.data", "wb") as data:
        for _ in range(1 if share else sizes.layers):
            block.tofile(data)
        # Else the disk would still be writing the model while the plan is written.
        data.flush()
        os.fsync(data.fileno())
    return folder / "model.onnx", len(model.nodes), (folder / "model.data").stat().st_size


def write_seconds(folder, size):
    """What the disk alone takes for as many bytes as the plan has, written and flushed."""
    block = bytes(1 << 24)
    start = time.perf_counter()
    with open(folder / "probe", "wb") as probe:
        for _ in range(-(-size // len(block))):
            probe.write(block)
        probe.flush()
        os.fsync(probe.fileno())
    took = time.perf_counter() - start
    (folder / "probe").unlink()
    return took


def memory_of(pid):
    """Resident bytes of a process: its own, and mapped files'."""
    found = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(("RssAnon", "RssFile")):
                key, value, _ = line.split()
                found[key.rstrip(":")] = int(value) * 1024
    except OSError:
        pass
    return found.get("RssAnon", 0), found.get("RssFile", 0)


def compile_model(path, folder, mesh):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with open(folder / "log", "w") as log:
        command = [BINARY, "compile", path, "--output", folder / "plan", "--mesh", mesh]
        process = subprocess.Popen(command, stderr=log)
        anonymous = mapped = 0
        while process.poll() is None:
            own, files = memory_of(process.pid)
            anonymous, mapped = max(anonymous, own), max(mapped, files)
            time.sleep(0.02)
    wall = time.perf_counter() - start
    passes = (folder / "log").read_text()
    if process.returncode != 0:
        sys.exit(f"tutti compile failed: {passes}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": wall,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
        "peak_anonymous_bytes": anonymous,
        "peak_mapped_bytes": mapped,
        "plan_bytes": sum(f.stat().st_size for f in (folder / "plan/1").iterdir()),
        "passes": passes.splitlines(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, size in (
        ("layers", 36), ("width", 4096), ("heads", 32), ("kv-heads", 8), ("head-size", 128), ("mlp", 12288),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--mesh", default="cp=8")
    parser.add_argument("--all-weights", action="store_true", help="14 GB, twice")
    parser.add_argument(
        "--folder", help="where model and plan go (and stay); default: a temporary one"
    )
    parser.add_argument("--report", default=str(ROOT / "build/reports/compile_large.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path, nodes, data_bytes = write_model(options, folder, not options.all_weights)
        report = {"model": vars(options), "onnx_nodes": nodes, "weight_bytes": data_bytes}
        report.update(compile_model(path, folder, options.mesh))
        report["disk_s"] = write_seconds(folder, report["plan_bytes"])
        report["load_average"] = os.getloadavg()
    Path(options.report).parent.mkdir(parents=True, exist_ok=True)
    Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(report["passes"]))
    print(
        f"{nodes} nodes, {data_bytes / 1e9:.2f} GB of weights, {options.mesh}: "
        f"{report['wall_s']:.1f} s ({report['user_s']:.1f} s user, {report['system_s']:.1f} s system), "
        f"{report['peak_anonymous_bytes'] / 1e9:.2f} GB own memory, "
        f"{report['peak_mapped_bytes'] / 1e9:.2f} GB mapped at the peak; "
        f"writing as many bytes takes the disk {report['disk_s']:.1f} s"
    )


if __name__ == "__main__":
    main()
