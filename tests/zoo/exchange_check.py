"""Holds a plan's exchanges against the arithmetic minimum, and says why they differ where they do.

Every reason is worked out from the plan and from the sizes of the model's attentions: their bytes are computed again under
other premises, fewest first, until they are those of the plan.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from attention_calls import AttentionCall
from exchange_minimum import (
    Family,
    Least,
    Premises,
    families,
    is_exchanged,
    least_exchanges,
    least_together,
    stretches,
)
from position_calls import PositionCalls
from position_minimum import least_over_positions

NO_POSITIONS = PositionCalls(0)
SENDING = {
    "sends_unread_queries": "queries whose results nobody reads",
    "sends_unread_results": "results that nobody reads",
    "sends_steady_queries": "queries that do not change between steps",
    "sends_steady_keys": "keys that do not change between steps",
}
WAYS = {
    "heads": "heads are exchanged where gathering keys would move less",
    "keys": "keys are gathered where exchanging heads would move less",
    "crosses": "queries and results travel to keys that do not change",
}
CUTS = {
    "joined": "joined sequences are cut as one",
    "apart": "joined sequences are cut each by itself",
}


def check_exchanges(
    calls: list[AttentionCall],
    sequences: tuple[int, ...],
    ranks: int,
    mesh: dict,
    outputs: int,
    positions: PositionCalls = NO_POSITIONS,
) -> dict:
    """`mesh`: what one_model found on a mesh; `outputs`: bytes of the model's outputs; `positions`: sums, convolutions and pairs.

    Of attentions: how many exchange anything, the least bytes and those of the plan, exchanges for each. `exact` is true
    where bytes are the least, nothing takes more exchanges than two an attention and one a sum or a convolution or what pairs need, and
    all else that moves is each output, once. `reasons` say why not.
    """
    layers = [call for call in calls if is_exchanged(call)]
    finest = stretches(calls, sequences)
    least = least_exchanges(calls, ranks, sequences, finest)
    served = [e for e in mesh["exchanges"] if e["for"] == "attention"]
    bytes_least, moved = sum(one.bytes for one in least), sum(e["bytes"] for e in served)
    result = {"attentions": len(layers), "least_bytes": bytes_least, "attention_bytes": moved}
    if layers:
        result["exchanges_each"] = round(len(served) / len(layers), 2)
    others = [e for e in mesh["exchanges"] if e["for"] == "other"]
    across = least_over_positions(positions, ranks)
    if across.bytes:
        result |= {"others_least_bytes": across.bytes, "other_bytes": _bytes(others)}
    if bytes_least + across.bytes:
        counted = moved + (_bytes(others) if across.bytes else 0)
        result["bytes_to_least"] = round(counted / (bytes_least + across.bytes), 3)
    serving = {name for e in served for name in e["attentions"]}
    ways = {"keys" if e["kind"] in ("AllGather", "RingAttention") else "heads" for e in served}
    if len(serving) > len(layers):
        ways.add("crosses")
    reasons = []
    if not _are_together(served, others, Least(bytes_least, 2 * len(layers)), across):
        # Less by a little: cuts that are not as even as can be, a token that all ranks compute.
        if not _is_about(moved, bytes_least):
            reasons = _of_bytes(calls, sequences, ranks, ways, moved, bytes_least)
        if not reasons and len(served) > 2 * len(layers):
            reasons.append(f"{len(served)} exchanges serve {len(layers)} attentions")
        reasons += _of_others(others, across)
    gathered = _bytes(e for e in mesh["exchanges"] if e["for"] == "output")
    if gathered > outputs * (ranks - 1):
        factor = gathered / (outputs * (ranks - 1))
        reasons.append(f"the last gather moves {factor:.3g} times the output")
    merged = sum(len(e["attentions"]) > 1 for e in served)
    return result | {"exact": not reasons, "reasons": reasons, "merged": merged}


def _bytes(exchanges: Iterable[dict]) -> int:
    return sum(e["bytes"] for e in exchanges)


def _is_about(moved: int, least: int) -> bool:
    return 0.99 * least <= moved <= least


def _are_together(served: list[dict], others: list[dict], attentions: Least, across: Least) -> bool:
    """Least in all, where some transfers bring something to attentions and something for what else reaches across positions."""
    count = len(served) + len(others)
    is_least = _is_about(_bytes(served) + _bytes(others), attentions.bytes + across.bytes)
    return across.bytes > 0 and is_least and count <= attentions.exchanges + across.exchanges


def _of_bytes(
    calls: list[AttentionCall],
    sequences: tuple[int, ...],
    ranks: int,
    ways_taken: set[str],
    moved: int,
    least: int,
) -> list[str]:
    """Why attentions move `moved` bytes. `ways_taken`: what the plan's exchanges are for."""
    layers = [call for call in calls if call.queries or is_exchanged(call)]
    groups = Counter(families(calls))
    finest = stretches(calls, sequences)
    costs: dict[tuple[Family, tuple[Premises, ...]], Least] = {}
    for general, ways in _assumptions(Counter(layers), ways_taken):
        total = 0
        for family, count in groups.items():
            given = {call: replace(general, **ways.get(call, {})) for _, call in family}
            key = (family, tuple(given.values()))
            if key not in costs:
                costs[key] = least_together(family, ranks, sequences, given, finest)
            total += count * costs[key].bytes
        if total == moved:
            sent = [text for name, text in SENDING.items() if getattr(general, name)]
            said = [", ".join(sent) + " travel"] if sent else []
            named = {"crosses" if "crosses" in way else way["way"] for way in ways.values()}
            said += [text for name, text in WAYS.items() if name in named]
            return said or [CUTS[general.cut]]
    difference = f"{abs(moved - least) / least:.1%}" if least else f"{moved} bytes"
    if moved < least:
        return [
            f"{difference} less for attentions: other cuts, or positions that all ranks compute"
        ]
    return [f"{difference} more for attentions"]


def _assumptions(
    groups: Counter, ways_taken: set[str]
) -> Iterator[tuple[Premises, dict[AttentionCall, dict]]]:
    """Premises for all attentions, and other ways for some, fewest first."""
    sending = [
        dict.fromkeys(names, True)
        for count in range(len(SENDING) + 1)
        for names in itertools.combinations(SENDING, count)
    ]
    options = []
    for call in groups:
        if is_exchanged(call):
            options.append([{}, *({"way": way} for way in sorted(ways_taken - {"crosses"}))])
        elif "crosses" in ways_taken:
            options.append([{}, {"crosses": True, "way": "heads"}])
        else:
            options.append([{}])
    ways = [
        {call: way for call, way in zip(groups, chosen, strict=True) if way}
        for chosen in itertools.product(*options[:6], *([{}] for _ in options[6:]))
    ]
    both = itertools.product(sending, ways)
    for some, others in sorted(both, key=lambda pair: len(pair[0]) + len(pair[1])):
        for cut in ("", "joined", "apart"):
            yield Premises(cut=cut, **some), others


def _of_others(others: list[dict], least: Least) -> list[str]:
    """`least`: what sums over positions and convolutions need."""
    moved = _bytes(others)
    if _is_about(moved, least.bytes) and len(others) <= least.exchanges:
        return []
    found = Counter((e["kind"], " and ".join(e["serves"][:3])) for e in others)
    named = [f"{count} {kind} for {serves or 'outputs'}" for (kind, serves), count in found.items()]
    if least.bytes and not _is_about(moved, least.bytes):
        sign = "more" if moved > least.bytes else "less"
        share = abs(moved - least.bytes) / least.bytes
        named.append(f"{share:.1%} {sign} for sums, convolutions and pairs")
    return named
