"""The bars of the zoo on CUDA, and the table of docs/zoo_cuda.md.

    cuda_report.py [REPORT.json...]

Adds reports that cuda_check.py wrote elsewhere to docs/zoo_cuda.json, and writes the table anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/zoo_cuda.json"

FP32_BAR = 1e-4
BF16_BAR = 2e-2
RATIO_BAR = 1.5  # our bf16 error against fp64, to PyTorch's own
SMALL = 1e-3  # errors that are too small for a ratio to say anything


PAST = "PyTorch's own is past the bar"


def verdict(precision: str, result: dict[str, Any]) -> str:
    """`ok`; which bar a run does not meet; or PAST, where bf16 itself does not do for a model and ours is as good as PyTorch's."""
    if "error" in result:
        return "not run" if result["error"] == "not run" else "failed"
    bar = FP32_BAR if precision == "fp32" else BF16_BAR
    is_past = result.get("pytorch_to_fp64", 0) > bar
    ratio = bf16_ratio(result, "rms_")
    if ratio is not None and not ratio <= RATIO_BAR and not result["to_fp64"] <= SMALL:
        return f"ratio > {RATIO_BAR:g}"
    for name in ("to_pytorch", "to_fp64", "to_cpu"):
        if name in result and not result[name] <= bar:
            return PAST if is_past else f"{name} > {bar:g}"
    return "ok"


def bf16_ratio(result: dict[str, Any], kind: str = "") -> float | None:
    """Our error over PyTorch's: of the largest elements, or (`rms_`) of root mean squares."""
    theirs = result.get(f"pytorch_{kind}to_fp64")
    return result[f"{kind}to_fp64"] / theirs if theirs else None


HEAD = """# The model zoo on CUDA

The zoo's tiny models (`docs/zoo.md`), packed with PyTorch's answers where there is no GPU and run where there is one:

    PYTHONPATH=python:tests/zoo .venv-zoo/bin/python tests/zoo/cuda_pack.py PACK [NAME...] [--megabytes N]
    python3 tests/zoo/cuda_check.py PACK --tutti bin/tutti --json docs/zoo_cuda.json

The second command writes this file and `zoo_cuda.json`; it needs NumPy and a bundle (`make dist`).

Where a model has more than 400 kB of parameters, they are drawn from a seed, again where the pack is used, with the mean and deviation of its own. Of outputs with more than
65,536 elements, an even sample of at most as many is compared with PyTorch, and all with our CPU ranks.

Errors are max |a-b| / max |b|, the worst of a model's outputs. fp32 (bar: 1e-4): against PyTorch in fp32, and against our CPU ranks.
All ranks share the card. 2, 4 and 8 ranks: on `cp`, for decoders on `sp`; others: other meshes, one rank at other sizes of the same plan, bf16 on 2 ranks.
bf16 (`--precision bf16`, inputs that bf16 has exactly; bar: 2e-2): against PyTorch in fp64 (fp32, where a class cannot run in double);
PyTorch's own, with the module cast to bf16; and ours over PyTorch's, of the largest error and of root mean squares (bar: 1.5, where ours
is above 1e-3). It is the latter that is judged: the largest error of one input is a matter of luck on both sides. Ten inputs of
AutoencoderDC on CPU ranks gave ratios of 0.89 to 1.61 of it, 1.09 of its mean, and 0.95 to 1.17 of root mean squares. The bar of 2e-2 holds for the
largest element, and a run that is past it is not within the bars, whatever its root mean square (rms), which is said beside it. Two runs in
bf16 that round apart, on the card and on CPU ranks, may differ by more than either does from fp64.

"""
COLUMNS = [
    "model",
    "fp32",
    "to CPU",
    "2 ranks",
    "4 ranks",
    "8 ranks",
    "others",
    "bf16",
    "PyTorch's",
    "ratio",
    "ratio (rms)",
    "rms",
    "notes",
]


def add(path: Path, rows: list[dict[str, Any]]) -> None:
    """Puts rows in the place of earlier ones of the same models, and writes the table beside the file."""
    kept = {row["name"]: row for row in json.loads(path.read_text())} if path.exists() else {}
    kept |= {row["name"]: row for row in rows}
    rows = [kept[name] for name in sorted(kept)]
    path.write_text(json.dumps(rows, indent=1) + "\n")
    path.with_suffix(".md").write_text(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    text = HEAD + summary(rows)
    for kind, title in (
        ("transformer", "Transformers"),
        ("vae", "Decoders"),
        ("text", "Text encoders"),
    ):
        chosen = [row for row in rows if row["kind"] == kind]
        if chosen:
            text += f"\n## {title}\n| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
            text += "".join(f"| {' | '.join(cells(row))} |\n" for row in chosen)
    return text


def summary(rows: list[dict[str, Any]]) -> str:
    """How many runs of each kind there were, and how many met the bars."""
    counts: dict[str, list[int]] = {}
    for row in rows:
        for key, result in row["runs"].items():
            if key.startswith("cuda") and result["verdict"] != "not run":
                _, precision, mesh, *sizes = key.split()
                ranks = "1 rank" if mesh.endswith("=1") else f"`{mesh}`"
                name = f"{precision}, {ranks}{', other sizes' if sizes else ''}"
                count = counts.setdefault(name, [0, 0, 0, 0])
                count[0] += 1
                count[1] += result["verdict"] == "ok"
                count[2] += result["verdict"] == PAST
                count[3] += is_past_in_one(result)
    seen = sorted({f"{row['card']}, driver {row['driver']}, {row['date']}" for row in rows})
    lines = [f"{len(rows)} models; {'; '.join(seen)}.", ""]
    heads = ["runs", "how many", "within the bars", f"{PAST}, ours within 1.5x of it"]
    heads += ["past the bar in the largest element, within it in rms"]
    lines += [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    lines += [f"| {name} | {' | '.join(map(str, count))} |" for name, count in counts.items()]
    return "\n".join(lines) + "\n"


def cells(row: dict[str, Any]) -> list[str]:
    of = {key.removeprefix("cuda "): r for key, r in row["runs"].items() if key.startswith("cuda")}
    first = next(iter(of))
    bf16 = first.replace("fp32", "bf16")
    several = [first.removesuffix("1") + ranks for ranks in ("2", "4", "8")]
    others = [
        f"{key.removeprefix('fp32 ')}: {mark(result, 'to_pytorch', 'to_fp64')}"
        for key, result in of.items()
        if key not in (first, bf16, *several)
    ]
    ratios = [bf16_ratio(of.get(bf16, {}), kind) for kind in ("", "rms_")]
    notes = [f"{key}: {told(result)}" for key, result in of.items() if result["verdict"] != "ok"]
    notes += [f"no {dtype} in PyTorch" for dtype in row.get("missing", {})]
    return [
        row["name"],
        mark(of[first], "to_pytorch"),
        mark(of[first], "to_cpu"),
        *(mark(of.get(key, {}), "to_pytorch") for key in several),
        ", ".join(others),
        mark(of.get(bf16, {}), "to_fp64"),
        mark(of.get(bf16, {}), "pytorch_to_fp64"),
        *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        mark(of.get(bf16, {}), "rms_to_fp64"),
        "; ".join(notes),
    ]


def is_past_in_one(result: dict[str, Any]) -> bool:
    """Whether it is the largest element alone that is past the bar of bf16."""
    return result["verdict"].startswith("to_") and result.get("rms_to_fp64", 1) <= BF16_BAR


def told(result: dict[str, Any]) -> str:
    if not is_past_in_one(result):
        return result["verdict"]
    name = result["verdict"].split()[0]
    rms = f"{result['rms_to_fp64']:.1e} (PyTorch's {result['pytorch_rms_to_fp64']:.1e})"
    return f"{result['verdict']} ({result[name]:.1e}), rms to fp64 {rms}"


def mark(result: dict[str, Any], *names: str) -> str:
    """The first of these errors that a run has."""
    return next((f"{result[name]:.1e}" for name in names if name in result), "")


def main() -> int:
    for report in sys.argv[1:]:
        add(DOCUMENT, json.loads(Path(report).read_text()))
    add(DOCUMENT, [])
    return 0


if __name__ == "__main__":
    sys.exit(main())
