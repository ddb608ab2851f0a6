"""From rows to the table of docs/zoo.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from exchange_check import check_exchanges
from models.registry import Tiny
from one_model import AXES, TENSOR_MESHES
from position_calls import PositionCalls

RANKS = (1, 2, 3, 4)


def is_good(row: dict) -> bool:
    """Exported, compiled and equal on every mesh."""
    meshes = row["meshes"].values()
    return bool(row["export"]["ok"] and row["meshes"] and all(mesh["equal"] for mesh in meshes))


def third(models: list[Tiny]) -> list[Tiny]:
    """Every third of each kind, in the order of description, which keeps families apart; and those of many sizes."""
    chosen = []
    for kind in ("transformer", "vae", "text"):
        of_kind = enumerate(m for m in models if m.kind == kind)
        chosen += [model for i, model in of_kind if i % 3 == 0 or model.sizes]
    return chosen


def add_minimum(
    tiny: Tiny,
    row: dict,
    calls: Callable[[], list],
    positions: Callable[[], PositionCalls],
    outputs: int,
) -> None:
    """Holds each mesh's exchanges against the least. `outputs`: bytes of the model's outputs."""
    if tiny.kind == "vae" or not row["export"]["ok"]:
        return
    for ranks in RANKS[1:]:
        mesh = row["meshes"].get(f"{AXES[tiny.kind]}={ranks}")
        if mesh is not None and mesh["compiled"]:
            mesh["check"] = check_exchanges(calls(), tiny.tokens, ranks, mesh, outputs, positions())


def _on_ranks(row: dict, ranks: int) -> dict:
    return row["meshes"].get(f"{AXES[row['kind']]}={ranks}", {})


def _mark(mesh: dict) -> str:
    if not mesh:
        return ""
    if not mesh["compiled"]:
        return "no"
    return "=" if mesh["equal"] else "≠"


def _numbers(row: dict, key: str) -> str:
    found = [_on_ranks(row, ranks).get("check", {}).get(key) for ranks in RANKS[1:]]
    return " / ".join(f"{value:g}" for value in found if value is not None)


def _others(row: dict, ranks: int) -> str:
    """Exchanges that no attention asks for."""
    exchanges = _on_ranks(row, ranks).get("exchanges", [])
    kinds = Counter(e["kind"] for e in exchanges if e["for"] != "attention")
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _kinds(mesh: dict) -> str:
    kinds = Counter(e["kind"] for e in mesh.get("exchanges", []))
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _share(row: dict, mesh: dict, what: str) -> str:
    """Of what one rank has, the part that falls to the rank of `mesh` with the most."""
    one, most = _on_ranks(row, 1).get(what), mesh.get(what)
    return f"{100 * most / one:.0f} %" if one and most is not None else ""


def _reason(row: dict) -> str:
    if not row["export"]["ok"]:
        return row["export"]["error"]
    for mesh, result in row["meshes"].items():
        if "error" in result:
            return f"{mesh}: {result['error']}"
    return _why_not_least(row)


def _why_not_least(row: dict) -> str:
    """The reasons of all rank counts, each with those that it holds at."""
    ranks_of: dict[str, list[str]] = {}
    for ranks in RANKS[1:]:
        for reason in _on_ranks(row, ranks).get("check", {}).get("reasons", []):
            ranks_of.setdefault(re.sub(r" \(\d+ bytes\)", "", reason), []).append(str(ranks))
    return "; ".join(
        reason if len(ranks) == len(RANKS) - 1 else f"{'/'.join(ranks)} ranks: {reason}"
        for reason, ranks in ranks_of.items()
    )


def is_least(row: dict) -> bool:
    """Whether the exchanges are the least at every number of ranks."""
    checks = [_on_ranks(row, ranks).get("check") for ranks in RANKS[1:]]
    return all(check is not None and check["exact"] for check in checks)


HEAD = """# The model zoo

Tiny configurations with random, seeded weights of every transformer class in the installed Diffusers, of video decoders and of
text encoders: exported by `tutti.export`, compiled for 1, 2, 3 and 4 ranks (`cp`), for three that split the weights and for two that do beside
two that split the tokens, run on CPU ranks and compared with PyTorch.
`make zoo` writes this file and `zoo.json`.

`=`: max |a-b| / max |b| <= 1e-4 in fp32. Transformers are compiled for a denoising loop: what stays the same between steps (all inputs but
latents and time) is named (`--invariant`). Attentions: those whose queries and keys change between steps. Exchanges each, and bytes over the arithmetic
minimum: of what plans move for them (`tests/zoo/exchange_minimum.py` has formula and sources). Where a model sums over
positions or convolves them, bytes are those of all that moves but the output, and the minimum has theirs, too
(`tests/zoo/position_minimum.py`): a linear attention's state of S numbers is summed over N ranks, 2 (N - 1) S numbers in all and one exchange,
or its heads are exchanged, where that is less; a convolution's windows need the neighbours' rows that they reach into, once; products of pairs of positions
bring an operand or exchange channels (`tests/zoo/pair_minimum.py`). Recurrences over
frames have no minimum. Others: all other exchanges of a forward on 4 ranks; one AllGather brings the output together. Work: FLOPs of the busiest of 4 ranks, of those on one.
`tp=3`: exchanges of a forward, one AllReduce an attention and an MLP, and of some numbers a token for each norm over all heads; weights and work
of the rank with the most, of those on one. Four heads leave the busiest of three ranks with two, half of an attention's work and weights. What is left beyond that is on every rank: products in
and out, rotary tables, embeddings of patches (much of a model that is 48 wide), and modulation, where at these sizes it is cheaper than to gather results.
The reason says why a row has a 'no', or why its exchanges are not the least: at most two exchanges an attention and one a sum or a convolved tensor, the least bytes (of exchanging
heads, of gathering keys, or once the rows that several attentions make their keys of; up to 1 % less where cuts are not as even as can be or a token is computed on all ranks), and nothing else but the output. It is worked out from the plan. Decoders are split in space or time (`sp`).

"""


def summary(rows: list[dict]) -> str:
    lines = [
        "| kind | models | exported | of these compiled and equal on every mesh | exchanges the least |",
        "| --- | --- | --- | --- | --- |",
    ]
    for kind in ("transformer", "vae", "text"):
        chosen = [row for row in rows if row["kind"] == kind]
        exported = [row for row in chosen if row["export"]["ok"]]
        good = sum(is_good(row) for row in exported)
        percent = f" ({100 * good / len(exported):.0f} %)" if exported else ""
        least = "" if kind == "vae" else str(sum(is_least(row) for row in exported))
        lines.append(f"| {kind} | {len(chosen)} | {len(exported)} | {good}{percent} | {least} |")
    return "\n".join(lines) + "\n"


def table(rows: list[dict]) -> str:
    text = HEAD + summary(rows)
    for kind, title in (
        ("transformer", "Transformers"),
        ("vae", "Video decoders"),
        ("text", "Text encoders"),
    ):
        text += f"\n## {title}\n" + _rows([row for row in rows if row["kind"] == kind])
    return text + _many_sizes([row for row in rows if row.get("sizes")])


def _many_sizes(rows: list[dict]) -> str:
    lines = [
        "\n## Many sizes, one plan",
        "Compiled once a rank count; equal at all of these sizes.",
        "",
    ]
    lines += ["| model | sizes |", "| --- | --- |"]
    for row in rows:
        sizes = [" ".join(f"{k}={v}" for k, v in one.items()) for one in row["sizes"]]
        lines.append(f"| {row['name']} | {'; '.join(sizes)} |")
    return "\n".join(lines) + "\n" if rows else ""


TENSOR_COLUMNS = ("exchanges", "weights", "work")
ATTENTION_COLUMNS = ("attentions", "exchanges each (2/3/4)", "bytes/min (2/3/4)")


def _rows(rows: list[dict]) -> str:
    spatial = all(row["kind"] == "vae" for row in rows)
    head = [
        "model",
        "exported",
        "1",
        "2",
        "3",
        "4",
        *(() if spatial else (*TENSOR_MESHES, *ATTENTION_COLUMNS)),
    ]
    head += ["exchanges (4)" if spatial else "others (4)", "work"]
    head += [] if spatial else [f"{TENSOR_MESHES[0]}: {what}" for what in TENSOR_COLUMNS]
    head.append("reason")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [row["name"], "yes" if row["export"]["ok"] else "no"]
        cells += [_mark(_on_ranks(row, ranks)) for ranks in RANKS]
        if not spatial:
            cells += [_mark(row["meshes"].get(mesh, {})) for mesh in TENSOR_MESHES]
            cells.append(f"{_on_ranks(row, 4).get('check', {}).get('attentions', '')}")
            cells += [_numbers(row, key) for key in ("exchanges_each", "bytes_to_least")]
        four = _on_ranks(row, 4)
        cells += [_kinds(four) if spatial else _others(row, 4), _share(row, four, "flops")]
        if not spatial:
            tensor = row["meshes"].get(TENSOR_MESHES[0], {})
            cells += [_kinds(tensor), *(_share(row, tensor, what) for what in ("weights", "flops"))]
        cells.append(_reason(row).replace("|", "\\|").replace("\n", " "))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
