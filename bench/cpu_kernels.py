"""The CPU kernels of a small diffusion transformer, one line a case, on 1 thread and on all.

Builds bench/cpu_kernels.cpp on the release build and runs it. Then the same products and attention
through onnxruntime on one thread, for comparison (wall time, best of many).
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/release"


def session(nodes, inputs, output, constants):
    def info(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "case",
        [info(name, shape) for name, shape in inputs.items()],
        [info("y", output)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=onnx.IR_VERSION_2024_3_25
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def best_seconds(case, feeds):
    case.run(None, feeds)
    best = float("inf")
    end = time.perf_counter() + 1.5
    while time.perf_counter() < end:
        start = time.perf_counter()
        case.run(None, feeds)
        best = min(best, time.perf_counter() - start)
    return best


def report(name, case, inputs, flops):
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(s, dtype=np.float32) for n, s in inputs.items()}
    seconds = best_seconds(case, feeds)
    print(
        f"onnxruntime {name:32} {seconds * 1e3:9.3f} ms {flops / seconds * 1e-9:7.1f} GFLOP/s",
        flush=True,
    )


def main():
    subprocess.run(["cmake", "--build", BUILD, "--target", "cpu_kernels"], check=True)
    for threads in sorted({1, os.cpu_count()}):
        done = subprocess.run([BUILD / "bench/cpu_kernels", str(threads)])
        if done.returncode != 0:
            sys.exit(f"cpu_kernels {threads} failed with {done.returncode}")
    rng = np.random.default_rng(1)
    for m, k, n in ((1792, 256, 1024), (1792, 1024, 256), (1792, 256, 256)):
        weight = rng.standard_normal((k, n), dtype=np.float32)
        case = session(
            [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [m, k]}, [m, n], {"w": weight}
        )
        report(f"MatMul {m}x{k}x{n}", case, {"x": [m, k]}, 2 * m * k * n)
    for d in (32, 64):
        inputs = {"q": [1, 1792, 8 * d], "k": [1, 1792, 4 * d], "v": [1, 1792, 4 * d]}
        node = helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=8, kv_num_heads=4)
        case = session([node], inputs, inputs["q"], {})
        report(f"Attention 1792 tokens d={d}", case, inputs, 4 * 1792 * 1792 * 8 * d)


if __name__ == "__main__":
    main()
