"""Times the exchanges of one layer alone: queries, keys and values from tokens to heads, and the attention's result back.

    torchrun --nproc-per-node N exchange.py [--ways nccl fast-ulysses]

nccl: packed into one all-to-all each way, as bench/peers/model.py does. fast-ulysses (from the Python index; copies by the copy
engines into symmetric memory, https://pypi.org/project/fast-ulysses): one collective each way over the heads of queries, keys
and values side by side, results in its own buffers. Prints one JSON object a way on rank 0.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from peers.forward import versions

TOKENS, HEADS, KV_HEADS, HEAD_SIZE = 44160, 32, 8, 128


def nccl_layer(ranks):
    q, k, v = (
        torch.randn(TOKENS // ranks, h * HEAD_SIZE, dtype=torch.bfloat16, device="cuda")
        for h in (HEADS, KV_HEADS, KV_HEADS)
    )
    out = torch.randn(TOKENS, HEADS // ranks * HEAD_SIZE, dtype=torch.bfloat16, device="cuda")

    def run():
        parts = [x.unflatten(1, (ranks, -1)) for x in (q, k, v)]
        packed = torch.cat(parts, -1).transpose(0, 1).contiguous()
        received = torch.empty_like(packed)
        dist.all_to_all_single(received, packed)
        back = torch.empty_like(out)
        dist.all_to_all_single(back, out)
        return received, back.unflatten(0, (ranks, -1)).transpose(0, 1).flatten(1)

    return run


def fast_ulysses_layer(ranks):
    from fast_ulysses import UlyssesGroup

    group = UlyssesGroup()
    heads = HEADS + 2 * KV_HEADS
    shape = (1, TOKENS // ranks, heads, HEAD_SIZE)
    tokens = torch.randn(*shape, dtype=torch.bfloat16, device="cuda")
    shape = (1, TOKENS, HEADS // ranks, HEAD_SIZE)
    attended = torch.randn(*shape, dtype=torch.bfloat16, device="cuda")
    there = group.empty_output(tokens, mode=0)
    back = group.empty_output(attended, mode=1)

    def run():
        group.all_to_all_4d(tokens, mode=0, out=there)
        group.all_to_all_4d(attended, mode=1, out=back)

    return run


def milliseconds(run, runs):
    """The slowest rank's, each time."""
    run()
    times = []
    for _ in range(runs):
        dist.barrier()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        took = torch.tensor([start.elapsed_time(end)], device="cuda")
        dist.all_reduce(took, dist.ReduceOp.MAX)
        times.append(took.item())
    return times


def main():
    ways = {"nccl": nccl_layer, "fast-ulysses": fast_ulysses_layer}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="+", default=list(ways), choices=list(ways))
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    heads = 2 * HEADS + 2 * KV_HEADS
    sent = 2 * TOKENS // ranks * heads * HEAD_SIZE * (ranks - 1) // ranks  # bytes of a rank
    for way in options.ways:
        times = milliseconds(ways[way](ranks), options.runs)
        median = statistics.median(times)
        report = {
            "peer": f"{way}-exchange", "ranks": ranks, "median_ms": median, "min_ms": min(times),
            "max_ms": max(times), "sent_bytes": sent, "gb_per_s": sent / median / 1e6,
            "versions": versions(),
        }  # fmt: skip
        if rank == 0:
            print(json.dumps(report), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
