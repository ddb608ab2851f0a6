"""Attention and convolutions of the CUDA backend one by one, and PyTorch's on the same card.

Builds and runs `cuda_kernels`, which prints every way that the backend has, then the same shapes
through PyTorch: cuDNN's and flash attention, and convolutions with cudnn.benchmark and without
TF32. Medians by CUDA events. `--json` writes the rows, and records for bench/measurements/records.py:
the fastest way, which the backend takes, against PyTorch's fastest.
"""

import argparse
import datetime
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def ours(binary, kind, runs):
    command = [str(binary), kind, str(runs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"{' '.join(command)} failed", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def median_ms(torch, call, runs):
    times = []
    for i in range(runs + 2):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def peer_attention(torch, shape, runs):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    pattern = r"(\w+) (\d+)x(\d+) (\d+)/(\d+)( causal)?$"
    dtype, queries, keys, heads, kv_heads, causal = re.match(pattern, shape).groups()
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]

    def tensor(tokens, count):
        made = torch.randn(1, int(tokens), int(count), 128, device="cuda", dtype=dtype)
        return made.transpose(1, 2)

    q, k, v = tensor(queries, heads), tensor(keys, kv_heads), tensor(keys, kv_heads)
    flops = 4 * int(queries) * int(keys) * int(heads) * 128 * (0.5 if causal else 1)
    for way, backend in (
        ("cudnn", SDPBackend.CUDNN_ATTENTION),
        ("flash", SDPBackend.FLASH_ATTENTION),
    ):
        with sdpa_kernel(backend):
            ms = median_ms(
                torch,
                lambda: torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=bool(causal), enable_gqa=heads != kv_heads
                ),
                runs,
            )
        yield {"shape": shape, "way": f"torch {way}", "ms": ms, "tflops": flops / ms * 1e-9}


def peer_convolution(torch, shape, runs):
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[shape.split()[0]]
    x, w, stride, before, after = (json.loads(text) for text in re.findall(r"\[[\d, ]+\]", shape))
    is_transposed = " transposed " in shape
    functional = torch.nn.functional
    spatial = len(x) - 2
    groups = 1 if is_transposed else x[1] // w[1]
    weight = torch.randn(w, device="cuda", dtype=dtype)
    bias = torch.randn(w[1] if is_transposed else w[0], device="cuda", dtype=dtype)
    source = torch.randn(x, device="cuda", dtype=dtype)
    formats = {2: torch.channels_last, 3: torch.channels_last_3d}
    for way, memory in (("", torch.contiguous_format), (" channels last", formats[spatial])):
        values, kernel = source.to(memory_format=memory), weight.to(memory_format=memory)
        if is_transposed:
            convolve = getattr(functional, f"conv_transpose{spatial}d")
            call = lambda: convolve(values, kernel, bias, stride, before)  # noqa: B023
        else:
            convolve = getattr(functional, f"conv{spatial}d")
            pads = [n for pair in zip(before[::-1], after[::-1], strict=True) for n in pair]

            def call():
                padded = values if before == after else functional.pad(values, pads)  # noqa: B023
                padding = before if before == after else 0
                return convolve(padded, kernel, bias, stride, padding, groups=groups)  # noqa: B023

        yield {"shape": shape, "way": f"torch{way}", "ms": median_ms(torch, call, runs)}


def title(shape):
    """Name and shape of a record."""
    attention = re.match(r"\w+ (\d+)x(\d+) (\d+)/(\d+)( causal)?$", shape)
    if not attention:
        dtype, rest = shape.split(" ", 1)
        kind = "transposed convolution" if rest.startswith("transposed") else "convolution"
        return f"{kind} with bias, x {rest.removeprefix('transposed ')}", None, dtype
    queries, keys, heads, kv_heads, causal = attention.groups()
    name = f"attention, {heads} query and {kv_heads} key/value heads of 128" + (causal or "")
    return name, f"{int(queries):,} x {int(keys):,}", shape.split()[0]


def driver():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.check_output(command, text=True).splitlines()[0]


def records(rows):
    head = next(row for row in rows if "card" in row)
    peer = next((row for row in rows if "peer" in row), None)
    by_shape = {}
    for row in rows:
        if "ms" in row and "alone" not in row["way"]:
            by_shape.setdefault(row["shape"], []).append(row)
    made = []
    for shape, ways in by_shape.items():
        fastest = lambda is_peer, ways=ways: min(
            (row for row in ways if row["way"].startswith("torch") == is_peer),
            key=lambda row: row["ms"],
            default=None,
        )
        ours, theirs = fastest(False), fastest(True)
        name, size, dtype = title(shape)
        record = {
            "name": name, "shape": size, "card": head["card"], "ranks": 1, "cards": 1,
            "dtype": {"f32": "fp32", "f16": "fp16"}.get(dtype, dtype),
            "ours_s": ours["ms"] * 1e-3, "way": ours["way"],
            "peer": theirs and theirs["way"].replace("torch", "PyTorch"),
            "peer_s": theirs and theirs["ms"] * 1e-3,
            "versions": {"driver": driver(), "cuDNN": head["cudnn"]}
            | (peer["versions"] if peer else {}),
            "command": "python bench/cuda_kernels.py",
            "date": datetime.date.today().isoformat(),
        }  # fmt: skip
        if "tflops" in ours:
            record["flops"] = round(ours["tflops"] * ours["ms"] * 1e9)
        made.append(record)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    binary = ROOT / "build/release/bench/cuda_kernels"
    parser.add_argument("--binary", type=Path, default=binary)
    parser.add_argument("--kinds", nargs="*", default=["attention", "convolution"])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", type=Path, help="where the rows go")
    arguments = parser.parse_args()
    if not arguments.binary.exists():
        subprocess.run(["ninja", "-C", ROOT / "build/release", "cuda_kernels"], check=True)
    rows = []
    for kind in arguments.kinds:
        rows += ours(arguments.binary, kind, arguments.runs)
    if not rows:
        print("no GPU: nothing measured")
        return
    try:
        import torch
    except ImportError:
        torch = None
        print("no PyTorch: no peers", file=sys.stderr)
    if torch is not None:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False
        rows.append({"peer": "PyTorch", "versions": {"PyTorch": torch.__version__}})
        for shape in dict.fromkeys(row["shape"] for row in rows if "shape" in row):
            peer = peer_attention if "/" in shape else peer_convolution
            try:
                rows += peer(torch, shape, arguments.runs)
            except RuntimeError as error:
                rows.append({"shape": shape, "way": "torch", "error": str(error)})
    for row in rows:
        print(json.dumps(row))
    if arguments.json:
        report = {"rows": rows, "records": records(rows)}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
