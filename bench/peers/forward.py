"""Times PyTorch's forward of the reference workload, eager and with torch.compile.

    python forward.py --modes eager compile                             one GPU
    torchrun --nproc-per-node N forward.py --modes eager compile        Ulysses over NCCL

One warm-up (two where torch.compile compiles), then --runs timed forwards between synchronisations; each rank starts
with patches on its device and ends with the whole result there. Prints one JSON object a mode on rank 0.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cosmos.sizes import add_size_options, sizes_from

from peers import model

CLASSES = (  # of kernels, by what their names contain; the first that fits
    ("exchange", ("nccl",)),
    ("attention", ("sdpa", "flash", "fmha", "cudnn")),
    ("products", ("gemm", "cutlass", "nvjet", "xmma", "cublas")),
    ("copies", ("memcpy", "memset", "CatArray", "copy_kernel")),
)


def kernel_class(name):
    lowered = name.lower()
    return next(
        (c for c, words in CLASSES if any(w.lower() in lowered for w in words)), "pointwise"
    )


def profile(run):
    """Milliseconds of one run by class of kernel, and the ten longest kernels."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    classes, kernels = {}, []
    for row in profiler.key_averages():
        if row.device_time_total == 0:
            continue
        milliseconds = row.self_device_time_total / 1e3
        kind = kernel_class(row.key)
        classes[kind] = classes.get(kind, 0) + milliseconds
        kernels.append((round(milliseconds, 3), row.count, row.key[:90]))
    return {"classes_ms": classes, "kernels": sorted(kernels, reverse=True)[:12]}


def versions():
    return {
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "cuda": torch.version.cuda,
    }


def timed(run, ranks):
    if ranks > 1:
        dist.barrier()
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    took = torch.tensor([time.perf_counter() - start], device="cuda")
    if ranks > 1:
        dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


def race(options, mode, weights, rank, ranks):
    sizes = weights.sizes
    peer = model.Model(weights, rank, ranks, compiled=mode == "compile")
    tokens = sizes.frames * sizes.height * sizes.columns
    patches = torch.randn(tokens, sizes.features, dtype=weights.dtype, device=weights.device)
    text = peer.random_text()
    timestep = torch.tensor([500.0], device=weights.device)

    def run():
        return peer(patches, timestep, text)

    warm_up = [timed(run, ranks) for _ in range(2 if mode == "compile" else 1)]
    seconds = [timed(run, ranks) for _ in range(options.runs)]
    finite = bool(torch.isfinite(run()).all())
    report = {
        "peer": f"torch-{mode}", "ranks": ranks, "layers": sizes.layers, "tokens": tokens,
        "card": torch.cuda.get_device_name(), "median_s": statistics.median(seconds),
        "min_s": min(seconds), "max_s": max(seconds), "warm_up_s": warm_up, "finite": finite,
        "versions": versions(),
    }  # fmt: skip
    if options.profile:
        report |= profile(run)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--modes", nargs="+", default=["eager", "compile"], choices=["eager", "compile"]
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="kernel times of one more run")
    add_size_options(parser)
    options = parser.parse_args()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    if ranks > 1:
        dist.init_process_group("nccl", device_id=device)
    for mode in options.modes:
        weights = model.RandomWeights(sizes_from(options), torch.bfloat16, device)
        report = race(options, mode, weights, rank, ranks)
        if rank == 0:
            print(json.dumps(report), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
