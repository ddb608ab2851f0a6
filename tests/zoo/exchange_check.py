"""Holds a plan's exchanges against the arithmetic minimum, and says why they differ where they do.

Every reason is worked out from the plan and from the sizes of the model's attentions: what the plan moves is computed again under
the smallest set of other assumptions that gives its bytes.
"""

from __future__ import annotations

import itertools
from collections import Counter

from attention_calls import AttentionCall
from exchange_minimum import is_exchanged, least_exchange, with_steady_keys, with_unread_rows

RELAXED = {
    "heads": "heads are exchanged where gathering the fewer key heads would move less",
    "unread": "queries and results that nobody reads travel",
    "steady": "keys that do not change between steps travel",
}


def check_exchanges(
    calls: list[AttentionCall], sequences: tuple[int, ...], ranks: int, mesh: dict, outputs: int
) -> dict:
    """`mesh`: what one_model found on a mesh; `outputs`: bytes of the model's outputs.

    Of attentions: how many exchange anything, the least bytes and those of the plan, exchanges for each. `exact` is true
    where bytes are the least, nothing takes more exchanges than its way needs, and all else that moves is each
    output, once. `reasons` say why not.
    """
    layers = [call for call in calls if is_exchanged(call)]
    least = [least_exchange(call, ranks, sequences) for call in layers]
    served = [e for e in mesh["exchanges"] if e["for"] == "attention"]
    bytes_least, moved = sum(one.bytes for one in least), sum(e["bytes"] for e in served)
    result = {"attentions": len(layers), "least_bytes": bytes_least, "attention_bytes": moved}
    if layers:
        result["exchanges_each"] = round(len(served) / len(layers), 2)
    if bytes_least:
        result["bytes_to_least"] = round(moved / bytes_least, 3)
    reasons = _of_bytes(layers, sequences, ranks, moved, bytes_least)
    reasons += _of_others(mesh["exchanges"])
    gathered = sum(e["bytes"] for e in mesh["exchanges"] if e["for"] == "output")
    if gathered > outputs * (ranks - 1):
        factor = gathered / (outputs * (ranks - 1))
        reasons.append(f"the last gather moves {factor:.2g} times the output")
    allowed = sum(one.exchanges for one in least)
    if moved == bytes_least and len(served) > max(allowed, 2 * len(layers)):
        reasons.append(f"{len(served)} exchanges serve {len(layers)} attentions")
    merged = sum(len(e["attentions"]) > 1 for e in served)
    notes = [f"{merged} exchanges serve two attentions at once"] if merged else []
    return result | {"exact": not reasons, "reasons": reasons, "notes": notes}


def _of_bytes(
    layers: list[AttentionCall], sequences: tuple[int, ...], ranks: int, moved: int, least: int
) -> list[str]:
    if moved == least:
        return []
    for count in range(1, len(RELAXED) + 1):
        for assumed in itertools.combinations(RELAXED, count):
            if _bytes_assuming(assumed, layers, sequences, ranks) == moved:
                return [RELAXED[name] for name in assumed]
    if moved < least:
        return [f"{least - moved} bytes less: some positions are computed on every rank"]
    return [f"attentions exchange {moved - least} bytes more, with other cuts of the sequences"]


def _bytes_assuming(
    assumed: tuple[str, ...], layers: list[AttentionCall], sequences: tuple[int, ...], ranks: int
) -> int:
    total = 0
    for call in layers:
        call = with_unread_rows(call) if "unread" in assumed else call
        call = with_steady_keys(call) if "steady" in assumed else call
        ways = "heads" if "heads" in assumed else "heads keys"
        total += least_exchange(call, ranks, sequences, ways).bytes
    return total


def _of_others(exchanges: list[dict]) -> list[str]:
    found: Counter[tuple[str, str]] = Counter()
    moved: Counter[tuple[str, str]] = Counter()
    for exchange in exchanges:
        if exchange["for"] == "other":
            key = (exchange["kind"], " and ".join(exchange["serves"][:3]))
            found[key] += 1
            moved[key] += exchange["bytes"]
    return [
        f"{count} {kind} for {serves or 'outputs'} ({moved[kind, serves]} bytes)"
        for (kind, serves), count in found.items()
    ]
