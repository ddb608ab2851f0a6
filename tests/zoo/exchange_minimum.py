"""The least that ranks must exchange for an attention, counted from sizes alone.

Ulysses: a rank holds a run of tokens with all heads; the attention needs all tokens with a run of
heads. For each tensor, a rank lacks what it needs and does not hold; the least is the sum over ranks. Runs are
dealt out as evenly as whole units allow, the longer ones first. This knows nothing of the compiler.
"""

from __future__ import annotations

from build_model import AttentionCall

BYTES = 4  # fp32
SHORT = 40  # positions; attention over fewer stands on text, which every rank holds whole


def run_lengths(count: int, ranks: int) -> list[int]:
    return [count // ranks + (rank < count % ranks) for rank in range(ranks)]


def is_self_attention(call: AttentionCall) -> bool:
    """Over tokens that ranks share; the keys may have text beside them, which is whole everywhere."""
    queries, keys = call.query[2], call.key[2]
    return queries >= SHORT and 0 <= keys - queries < SHORT


def least_bytes(call: AttentionCall, ranks: int, sequences: tuple[int, ...] = ()) -> int:
    """Of one self-attention, all ranks together. `sequences`: lengths that were joined for it."""
    tokens = call.query[2]
    parts = sequences if sum(sequences) == tokens else (tokens,)
    heads, groups = call.query[1], call.key[1]
    # Work in units of a group where every rank gets one, else in units of a query head.
    choices = [units for units in {groups, heads} if units >= ranks] or [heads]
    return min(
        sum(_least_of_sequence(call, ranks, length, units) for length in parts) for units in choices
    )


def _least_of_sequence(call: AttentionCall, ranks: int, tokens: int, units: int) -> int:
    batch, heads = call.query[0], call.query[1]
    groups = call.key[1]
    held = run_lengths(tokens, ranks)
    total, first = 0, 0
    for rank, share in enumerate(run_lengths(units, ranks)):
        query_heads = share * heads // units
        last_group = -(-(first + share) * groups // units)
        key_heads = last_group - first * groups // units if share else 0
        first += share
        inward = query_heads * call.query[3] + key_heads * (call.key[3] + call.value[3])
        outward = (heads - query_heads) * call.value[3]
        total += (tokens - held[rank]) * inward + held[rank] * outward
    return BYTES * batch * total
