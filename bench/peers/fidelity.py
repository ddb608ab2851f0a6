"""How far a result of the reference workload is from fp64's, and how far PyTorch's own bf16 is.

    python fidelity.py inputs MODEL_FOLDER WORK --frames 4     inputs of a call, as .npy
    tutti run MODEL_FOLDER/model.onnx --input patches=WORK/patches.npy ... --output-dir WORK/ours
    python fidelity.py compare MODEL_FOLDER WORK WORK/ours/0.npy ...

Prints one JSON object: relative errors (Euclidean norm of the difference over that of fp64's result) and PSNR against the
fp64 result's range.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cosmos import weights as numbers

from peers import model


def write_inputs(options, sizes):
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    frames = options.frames or sizes.frames
    grid = (1, frames, sizes.height, sizes.columns, sizes.features)
    patches = rng.standard_normal(grid, dtype=np.float32)
    words = numbers.narrow(patches, options.dtype)
    kinds = {"bfloat16": "V2", "float16": np.float16, "float32": np.float32}
    np.save(work / "patches.npy", words.view(kinds[options.dtype]))
    np.save(work / "timestep.npy", np.float32([500]))
    ids = rng.integers(0, sizes.vocabulary, (1, options.text or sizes.text))
    np.save(work / "ids.npy", ids)


def as_float(array):
    return numbers.widen(array.view(np.uint16), "bfloat16") if array.dtype.kind == "V" else array


def peer_result(folder, work, dtype, device, attention):
    weights = model.FileWeights(folder, dtype, device)
    patches = as_float(np.load(work / "patches.npy"))
    ids = np.load(work / "ids.npy")
    sizes = dataclasses.replace(weights.sizes, frames=patches.shape[1], text=ids.shape[1])
    weights.sizes = sizes
    text = list(model.text_keys_and_values(weights, torch.from_numpy(ids[0]).to(device)))
    peer = model.Model(weights, attention=attention)
    tokens = torch.from_numpy(patches).reshape(-1, sizes.features).to(device).to(dtype)
    timestep = torch.from_numpy(np.load(work / "timestep.npy")).to(device)
    return peer(tokens, timestep, text).double().cpu().numpy().reshape(patches.shape)


def errors(got, right):
    difference = got.astype(np.float64) - right
    peak = right.max() - right.min()
    return {
        "relative": float(np.linalg.norm(difference) / np.linalg.norm(right)),
        "psnr": float(20 * np.log10(peak / max(np.sqrt((difference**2).mean()), 1e-300))),
        "finite": bool(np.isfinite(got).all()),
    }


def compare(options):
    device, work = torch.device(options.device), Path(options.work)
    torch.backends.cuda.matmul.allow_tf32 = False
    right = peer_result(options.folder, work, torch.float64, device, model.plain_attention)
    attention = model.cudnn_attention if device.type == "cuda" else model.plain_attention
    dtype = getattr(torch, options.dtype)
    theirs = peer_result(options.folder, work, dtype, device, attention)
    report = {f"torch-{options.dtype}": errors(theirs, right)}
    for path in options.results:
        ours = errors(as_float(np.load(path)), right)
        ours["of_peers"] = ours["relative"] / report[f"torch-{options.dtype}"]["relative"]
        report[path] = ours
    print(json.dumps(report))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["inputs", "compare"])
    parser.add_argument("folder")
    parser.add_argument("work")
    parser.add_argument("results", nargs="*")
    parser.add_argument("--frames", type=int, help="fewer than the model's sizes say")
    parser.add_argument("--text", type=int, help="fewer tokens than the model's sizes say")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    description = json.loads((Path(options.folder) / "weights.json").read_text())
    options.dtype = description["dtype"]
    if options.command == "inputs":
        write_inputs(options, model.Sizes(**description["sizes"]))
    else:
        compare(options)


if __name__ == "__main__":
    main()
