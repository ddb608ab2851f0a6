"""Times cuDNN's attention, as PyTorch calls it, alone: the shapes of the reference workload on 1, 2, 4 and 8 ranks.

Prints one JSON object a shape.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from peers.forward import versions
from peers.model import cudnn_attention

HEAD_SIZE = 128


def milliseconds(run, runs):
    run()
    times = []
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--queries", type=int, default=44160)
    parser.add_argument("--keys", type=int, nargs="+", default=[47152, 47104])
    options = parser.parse_args()
    normal = lambda *shape: torch.randn(*shape, dtype=torch.bfloat16, device="cuda")
    for ranks in (1, 2, 4, 8):
        for keys in options.keys:
            heads, kv_heads = 32 // ranks, 8 // ranks
            q = normal(options.queries, heads, HEAD_SIZE)
            k, v = (normal(keys, kv_heads, HEAD_SIZE) for _ in range(2))
            times = milliseconds(lambda: cudnn_attention(q, k, v), options.runs)  # noqa: B023
            median = statistics.median(times)
            flops = 4 * options.queries * keys * heads * HEAD_SIZE
            report = {
                "peer": "torch-cudnn-attention", "ranks": ranks, "queries": options.queries, "keys": keys,
                "heads": heads, "kv_heads": kv_heads, "median_ms": median, "min_ms": min(times),
                "max_ms": max(times), "tflops": flops / median / 1e9, "versions": versions(),
            }  # fmt: skip
            print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
