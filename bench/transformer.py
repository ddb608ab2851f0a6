"""One forward of the sample transformer: Tutti on one CPU rank against onnxruntime, and its exchanges.

Both sides run the same ONNX file on the same inputs in this process' machine with the same number of
threads, one warm-up and five timed runs each, in turns (ours, theirs, ours, ...) so that a change in
the machine's speed hits both. Model loading is excluded on both sides. Then the exchange bytes of a
layer at 2, 3, 4 and 8 ranks are compared with the arithmetic minimum.

Report: build/reports/transformer.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

ROOT = Path(__file__).resolve().parents[1]
BINARY = os.environ.get("TUTTI_BINARY", str(ROOT / "build/release/bin/tutti"))
MODEL = ROOT / "models/clips/onnx/transformer.onnx"
SIZES = {"batch": 1, "frames": 7, "height": 16, "width": 16, "text_len": 24}
HEADS, KV_HEADS, HEAD_SIZE, ELEMENT = 8, 4, 32, 4


def tutti(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tutti {arguments[0]} failed: {done.stderr}")
    return done.stdout


def compile_plan(folder, ranks):
    mesh = ["--mesh", f"cp={ranks}"] if ranks > 1 else []
    tutti("compile", MODEL, "--output", f"{folder}/cp{ranks}", "--quiet", *mesh)
    return f"{folder}/cp{ranks}/1/model.plan"


def ort_session(threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return ort.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])


def random_inputs(session):
    rng = np.random.default_rng(0)
    feeds = {}
    for tensor in session.get_inputs():
        shape = [SIZES[d] if isinstance(d, str) else d for d in tensor.shape]
        feeds[tensor.name] = rng.standard_normal(shape, dtype=np.float32)
    return feeds


def minimum_layer_bytes(tokens, ranks):
    """Bytes that must cross between ranks in one layer, all ranks together.

    q, k, v and the attention's output go from token pieces to head pieces or back; a rank keeps
    what it already has. Pieces are balanced: sizes differ by one unit at most.
    """

    def pieces(units):
        return [units // ranks + (r < units % ranks) for r in range(ranks)]

    # One unit is a key/value head with its query heads. Where its query heads can be dealt out more
    # evenly, ranks share a key/value head, which each of them then needs.
    replicas = 1
    while KV_HEADS * replicas % ranks and replicas < HEADS // KV_HEADS:
        replicas += 1
    groups = pieces(KV_HEADS * replicas)
    token_pieces = pieces(tokens)
    total = 0
    for rank in range(ranks):
        others = tokens - token_pieces[rank]
        queries = groups[rank] * (HEADS // KV_HEADS // replicas)
        keys = groups[rank]
        if replicas > 1:
            first = sum(groups[:rank])
            keys = len({unit // replicas for unit in range(first, first + groups[rank])})
        # Received: q, k, v before the attention; and q's size again, sent back, after it.
        total += others * (2 * queries + 2 * keys) * HEAD_SIZE * ELEMENT
    return total


def race(plan, session, feeds, threads):
    """Interleaved timings: (ours, theirs), seconds a forward, the warm-up excluded."""
    sizes = [part for name, size in SIZES.items() for part in ("--size", f"{name}={size}")]
    ours, theirs = [], []
    for _ in range(5):
        report = json.loads(
            tutti("bench", plan, *sizes, "--threads", threads, "--warmup", 1, "--runs", 3, "--json")
        )
        ours.append(report["median_s"])
        session.run(None, feeds)
        runs = []
        for _ in range(3):
            start = time.perf_counter()
            session.run(None, feeds)
            runs.append(time.perf_counter() - start)
        theirs.append(statistics.median(runs))
    return ours, theirs, report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--report", default=str(ROOT / "build/reports/transformer.json"))
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        session = ort_session(options.threads)
        feeds = random_inputs(session)
        plan = compile_plan(folder, 1)
        ours, theirs, detail = race(plan, session, feeds, options.threads)
        tokens = SIZES["frames"] * SIZES["height"] * SIZES["width"]
        exchanges = []
        sizes = [part for name, size in SIZES.items() for part in ("--size", f"{name}={size}")]
        for ranks in (2, 3, 4, 8):
            plan = compile_plan(folder, ranks)
            report = json.loads(tutti("inspect", "plan", plan, "--json", *sizes))
            layer = [x for x in report["exchanges"] if x["kind"] == "AllToAll"]
            layers = len(layer) // 2
            moved = sum(x["bytes"] for x in layer) / max(layers, 1)
            exchanges.append(
                {
                    "ranks": ranks,
                    "layers": layers,
                    "exchanges_a_layer": len(layer) / max(layers, 1),
                    "bytes_a_layer": moved,
                    "minimum_bytes_a_layer": minimum_layer_bytes(tokens, ranks),
                }
            )

    result = {
        "machine": f"{os.cpu_count()} cores",
        "threads": options.threads,
        "shapes": SIZES,
        "ours_s": statistics.median(ours),
        "ours_all_s": ours,
        "onnxruntime_s": statistics.median(theirs),
        "onnxruntime_all_s": theirs,
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "onnxruntime": ort.__version__,
        "kernels": detail.get("kernels", []),
        "exchanges": exchanges,
    }
    Path(options.report).parent.mkdir(parents=True, exist_ok=True)
    Path(options.report).write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"forward, {options.threads} threads: tutti {result['ours_s'] * 1e3:.1f} ms, "
        f"onnxruntime {result['onnxruntime_s'] * 1e3:.1f} ms, ratio {result['ratio']:.3f}"
    )
    for row in result["kernels"][:10]:
        print(f"  {row['op']:24} {row['seconds'] * 1e3:8.2f} ms {row['count']:5} calls")
    for row in exchanges:
        print(
            f"{row['ranks']} ranks: {row['exchanges_a_layer']:g} exchanges a layer, "
            f"{row['bytes_a_layer']:.0f} bytes, minimum {row['minimum_bytes_a_layer']}"
        )


if __name__ == "__main__":
    main()
