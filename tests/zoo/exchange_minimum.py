"""The least that ranks must exchange for an attention: arithmetic on its sizes, which knows nothing of the compiler.

What is given: ranks share out every position that changes from step to step, in contiguous runs as even as whole positions
allow; positions that do not change (a prompt's keys and values) are whole on every rank; every rank needs the
results of its own positions. So attention whose keys do not change exchanges nothing. Any other has two ways, and the
least is the cheaper one's bytes. With S queries and T keys that change, of H and G heads and widths w (query, key) and
e (value); rank r has s_r and t_r of them:

  heads   Rank r works on h_r query heads and the g_r key heads that they need, over all positions (DeepSpeed Ulysses,
          Jacobs et al. 2023, section 3). It receives (S - s_r) h_r w + (T - t_r) g_r (w + e), computes, and returns: it
          receives the other heads' results s_r (H - h_r) e. Two exchanges.
  keys    Rank r keeps its queries and receives the other ranks' keys and values: (T - t_r) G (w + e). One exchange
          (or a ring of the same bytes; Liu et al. 2023).

Heads are dealt out as evenly as whole heads allow, in units of one key head with its query heads or of one query head. Longer runs
and larger shares go to the same ranks, which makes the sum over r the least that such runs can make.
Of an attention over many short sequences (the frames of each place of a video) the ranks share out the sequences: nothing moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from attention_calls import AttentionCall, Runs

BYTES = 4  # fp32


@dataclass(frozen=True)
class Least:
    """Of one attention, all ranks together."""

    bytes: int = 0
    exchanges: int = 0
    way: str = ""  # "heads" or "keys"


def run_lengths(count: int, ranks: int) -> list[int]:
    return [count // ranks + (rank < count % ranks) for rank in range(ranks)]


def is_exchanged(call: AttentionCall) -> bool:
    """Whether queries and keys change, and positions rather than sequences are shared out."""
    short = call.query[0] > call.query[2]
    return bool(call.queries) and bool(call.keys) and not short


def least_exchange(
    call: AttentionCall, ranks: int, sequences: tuple[int, ...] = (), ways: str = "heads keys"
) -> Least:
    """`sequences`: lengths that the model joined, where it did: each may be shared out by itself, or all as one."""
    if ranks == 1 or not is_exchanged(call):
        return Least()
    choices = []
    for parts in {(), sequences}:
        held_queries = held(call.queries, call.query[2], parts, ranks)
        held_keys = held(call.keys, call.key[2], parts, ranks)
        if "heads" in ways:
            choices += [
                Least(_by_heads(call, held_queries, held_keys, units), 2, "heads")
                for units in {call.key[1], call.query[1]}
                if units >= ranks
            ]
        if "keys" in ways or not choices:
            choices.append(Least(_by_keys(call, held_keys), 1, "keys"))
    return min(choices, key=lambda least: (least.bytes, least.way))


def held(runs: Runs, length: int, sequences: tuple[int, ...], ranks: int) -> list[int]:
    """How many of the rows in `runs` each rank has, where the last of `sequences` end at `length`."""
    total = [0] * ranks
    lengths = sequences if sum(sequences) == length else (length,)
    first = 0
    for size in lengths:
        rows = sum(max(0, min(stop, first + size) - max(start, first)) for start, stop in runs)
        total = [a + b for a, b in zip(total, run_lengths(rows, ranks), strict=True)]
        first += size
    return total


def _by_heads(call: AttentionCall, held_queries: list, held_keys: list, units: int) -> int:
    heads, groups = call.query[1], call.key[1]
    width, value_width = call.key[3], call.value[3]
    ranks = len(held_queries)
    total, first = 0, 0
    for rank, share in enumerate(run_lengths(units, ranks)):
        query_heads = share * heads // units
        key_heads = -(-(first + share) * groups // units) - first * groups // units
        first += share
        total += (sum(held_queries) - held_queries[rank]) * query_heads * width
        total += (sum(held_keys) - held_keys[rank]) * key_heads * (width + value_width)
        total += held_queries[rank] * (heads - query_heads) * value_width
    return BYTES * call.query[0] * total


def _by_keys(call: AttentionCall, held_keys: list) -> int:
    lacking = sum(sum(held_keys) - own for own in held_keys)
    return BYTES * call.query[0] * lacking * call.key[1] * (call.key[3] + call.value[3])


def with_unread_rows(call: AttentionCall) -> AttentionCall:
    """As if somebody read every result."""
    return replace(call, queries=call.changing)


def with_steady_keys(call: AttentionCall) -> AttentionCall:
    """As if every key changed from step to step."""
    return replace(call, keys=((0, call.key[2]),) if call.keys else ())
