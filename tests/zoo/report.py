"""From rows to the table of docs/zoo.md."""

from __future__ import annotations

import json
from pathlib import Path

from build_model import AttentionCall
from exchange_minimum import is_self_attention, least_bytes
from models.registry import Tiny
from one_model import AXES

RANKS = (1, 2, 3, 4)


def is_good(row: dict) -> bool:
    """Exported, compiled and equal on every mesh."""
    meshes = row["meshes"].values()
    return bool(row["export"]["ok"] and row["meshes"] and all(mesh["equal"] for mesh in meshes))


def third(models: list[Tiny]) -> list[Tiny]:
    """Every third of each kind, in the order of description, which keeps families apart."""
    chosen = []
    for kind in ("transformer", "vae", "text"):
        chosen += [m for m in models if m.kind == kind][::3]
    return chosen


def add_minimum(tiny: Tiny, row: dict, folder: Path) -> None:
    """Adds the number of self-attentions, and each mesh's bytes against the least."""
    report = folder / "export.json"
    if not report.exists() or tiny.kind != "transformer":
        return
    calls = [AttentionCall(**call) for call in json.loads(report.read_text())["calls"]]
    layers = [call for call in calls if is_self_attention(call)]
    row["self_attentions"] = len(layers)
    for ranks in RANKS[1:]:
        mesh = row["meshes"].get(f"cp={ranks}")
        if mesh is None or not mesh["compiled"] or not layers:
            continue
        least = sum(least_bytes(call, ranks, tiny.tokens) for call in layers)
        mesh["least_bytes"] = least
        mesh["exchanges_a_layer"] = round(mesh["exchanges"].get("AllToAll", 0) / len(layers), 2)
        mesh["bytes_to_least"] = round(mesh["bytes"].get("AllToAll", 0) / least, 3)


def _on_ranks(row: dict, ranks: int) -> dict:
    return row["meshes"].get(f"{AXES[row['kind']]}={ranks}", {})


def _mark(row: dict, ranks: int) -> str:
    mesh = _on_ranks(row, ranks)
    if not mesh:
        return ""
    if not mesh["compiled"]:
        return "no"
    return "=" if mesh["equal"] else "≠"


def _number(row: dict, key: str, ranks: int) -> str:
    value = _on_ranks(row, ranks).get(key)
    return "" if value is None else f"{value:g}"


def _others(row: dict, ranks: int) -> str:
    kinds = _on_ranks(row, ranks).get("exchanges", {})
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items() if kind != "AllToAll")


def _share(row: dict) -> str:
    one, four = (_on_ranks(row, ranks).get("flops") for ranks in (1, 4))
    return f"{100 * four / one:.0f} %" if one and four else ""


def _reason(row: dict) -> str:
    if not row["export"]["ok"]:
        return row["export"]["error"]
    for mesh, result in row["meshes"].items():
        if "error" in result:
            return f"{mesh}: {result['error']}"
    return ""


HEAD = """# The model zoo

Tiny configurations with random, seeded weights of every transformer class in the installed Diffusers, of video decoders and of
text encoders: exported by `tutti.export`, compiled for 1, 2, 3 and 4 ranks, run on CPU ranks and compared with PyTorch.
`make zoo` writes this file and `zoo.json`.

`=`: max |a-b| / max |b| <= 1e-4 in fp32. Exchanges a layer: all-to-alls for each self-attention over shared tokens. Bytes: theirs, over the
arithmetic minimum (`tests/zoo/exchange_minimum.py`). Others: the exchanges of another kind in a whole forward; one AllGather brings the output
together. Work: FLOPs of the busiest of 4 ranks, of those on one.

"""


def summary(rows: list[dict]) -> str:
    lines = [
        "| kind | models | exported | of these compiled and equal at 1, 2, 3, 4 ranks |",
        "| --- | --- | --- | --- |",
    ]
    for kind in ("transformer", "vae", "text"):
        chosen = [row for row in rows if row["kind"] == kind]
        exported = [row for row in chosen if row["export"]["ok"]]
        good = sum(is_good(row) for row in exported)
        percent = f" ({100 * good / len(exported):.0f} %)" if exported else ""
        lines.append(f"| {kind} | {len(chosen)} | {len(exported)} | {good}{percent} |")
    return "\n".join(lines) + "\n"


def table(rows: list[dict]) -> str:
    text = HEAD + summary(rows)
    for kind, title in (
        ("transformer", "Transformers"),
        ("vae", "Video decoders"),
        ("text", "Text encoders"),
    ):
        text += f"\n## {title}\n" + _rows([row for row in rows if row["kind"] == kind])
    return text


def _rows(rows: list[dict]) -> str:
    columns = "model exported 1 2 3 4 self-attentions exchanges_a_layer_(2/3/4) bytes/min_(2/3/4) others_(4) work reason_of_a_'no'"
    head = [name.replace("_", " ") for name in columns.split()]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [row["name"], "yes" if row["export"]["ok"] else "no"]
        cells += [_mark(row, ranks) for ranks in RANKS]
        cells += [str(row.get("self_attentions", ""))]
        for key in ("exchanges_a_layer", "bytes_to_least"):
            cells += [" / ".join(n for n in (_number(row, key, r) for r in RANKS[1:]) if n)]
        cells += [_others(row, 4), _share(row), _reason(row).replace("|", "\\|").replace("\n", " ")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
