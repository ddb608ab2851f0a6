"""The least that ranks must exchange for an attention: arithmetic on its sizes, which knows nothing of the compiler.

What is given: ranks share out every position that changes from step to step, in contiguous runs as even as whole positions
allow: of the whole, of each sequence that was joined, or of each stretch whose rows all change, or are all read; positions that do not change (a prompt's keys and values) are whole on every rank; every rank needs the
results of its own positions, unless nobody reads them. So attention whose keys do not change exchanges nothing. Any other has two
ways, and the least is the cheaper one's bytes. Of H query heads of width w and G key heads of widths w and e (values), let U results be
read, the S queries of those change, and T keys; rank r has u_r, s_r and t_r of these positions:

  heads   Rank r works on h_r query heads and the g_r key heads that they need, over all positions (DeepSpeed Ulysses,
          Jacobs et al. 2023, section 3). It receives (S - s_r) h_r w + (T - t_r) g_r (w + e), computes, and then
          receives the other heads' results u_r (H - h_r) e. Two exchanges.
  keys    Rank r keeps its queries and receives the other ranks' keys and values: (T - t_r) G (w + e). One exchange
          (or a ring of the same bytes; Liu et al. 2023).

Heads are dealt out as evenly as whole heads allow, in units of one key head with its query heads or of one query head. Longer runs
and larger shares go to the same ranks, which makes the sum over r the least that such runs can make. Elements are as wide as
those that the model hands to its attention.

Keys or values that an earlier attention had as well do not travel again to where they are: whole on every rank once they were gathered,
some heads of them, all positions, once heads were exchanged. So attentions that share any are counted together, over all pairs of ways: a
rank that has h_r heads of all values and goes on by keys receives the values of the other ranks' positions all over.

A bias over pairs of query and key that changes from step to step is made where its query is, like all that is made of positions. Keys meet
it there; heads need their share of it: rank r receives (S - s_r) T b_r more, b_r being its heads of the bias, or 1 where all share one.

Where several attentions read keys and values that are projections of the same rows (a text that several layers ask), row by row, these
rows of width D may come together once instead, and every rank projects them:

  source  Rank r receives the other ranks' rows: (T - t_r) D, for all these attentions together. One exchange.

Of an attention over many short sequences (the frames of each place of a video) the ranks share out the sequences: nothing moves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attention_calls import AttentionCall, Runs

BYTES = 4  # of what attentions' operands are made of, fp32


@dataclass(frozen=True)
class Least:
    """Of one attention, all ranks together."""

    bytes: int = 0
    exchanges: int = 0


@dataclass(frozen=True)
class Premises:
    """How a plan may go about it; as given, the least is taken over all ways and cuts."""

    way: str = ""  # "heads" or "keys"
    cut: str = ""  # "joined" sequences cut as one, or "apart", each by itself
    sends_unread_queries: bool = False
    sends_unread_results: bool = False
    sends_steady_queries: bool = False
    sends_steady_keys: bool = False
    crosses: bool = False  # queries and results travel although no key changes


def run_lengths(count: int, ranks: int) -> list[int]:
    return [count // ranks + (rank < count % ranks) for rank in range(ranks)]


def is_exchanged(call: AttentionCall) -> bool:
    """Whether results are read and keys change, and positions rather than sequences are shared out."""
    short = call.query[0] > call.query[2]
    return bool(call.read) and bool(call.keys) and not short


Family = tuple[tuple[int, AttentionCall], ...]  # calls, each with its place behind the first


def families(calls: Iterable[AttentionCall]) -> list[Family]:
    """Calls that share keys or values, others by themselves."""
    found: list[dict[int, AttentionCall]] = []
    for i, call in enumerate(calls):
        origins = {i - call.key_from, i - call.value_from} - {i}
        joined = [family for family in found if origins & family.keys()]
        found = [family for family in found if family not in joined]
        found.append({k: v for family in joined for k, v in family.items()} | {i: call})
    return [tuple((i - min(one), call) for i, call in sorted(one.items())) for one in found]


@dataclass(frozen=True)
class Way:
    """What travels for one attention, and how its keys and values then lie."""

    lie: str
    bytes: int  # without keys and values
    key: int
    value: int
    exchanges: int


WHOLE = "whole"


def least_exchange(
    call: AttentionCall,
    ranks: int,
    sequences: tuple[int, ...] = (),
    premises: Premises = Premises(),
    finest: dict[int, tuple[int, ...]] | None = None,
) -> Least:
    """Of an attention by itself."""
    return least_together(((0, call),), ranks, sequences, {call: premises}, finest)


def least_together(
    family: Family,
    ranks: int,
    sequences: tuple[int, ...] = (),
    premises: Mapping[AttentionCall, Premises] | None = None,
    finest: dict[int, tuple[int, ...]] | None = None,
) -> Least:
    """`sequences`: lengths that the model joined, where it did: each may be shared out by itself, or all as one; or `finest`
    stretches by length."""
    options = []
    for place, call in family:
        given = (premises or {}).get(call, Premises())
        if ranks == 1 or not (is_exchanged(call) or (given.crosses and call.queries)):
            continue
        cuts = {"joined": [()], "apart": [sequences]}.get(
            given.cut, [(), sequences, *([finest[call.query[2]]] if finest else [])]
        )
        ways = {way for parts in cuts for way in _ways(call, ranks, parts, given)}
        options.append([(place, call, way) for way in ways])
    choices = (_of_ways(chosen) for chosen in itertools.product(*options))
    return min(choices, key=lambda least: (least.bytes, -least.exchanges))


def least_exchanges(
    calls: Iterable[AttentionCall],
    ranks: int,
    sequences: tuple[int, ...] = (),
    finest: dict[int, tuple[int, ...]] | None = None,
) -> list[Least]:
    """Of each family, in order; of those that read one source, the first has the source's where that is less."""
    found = families(calls)
    least = [least_together(family, ranks, sequences, finest=finest) for family in found]
    readers: dict[int, list[int]] = {}
    for i, family in enumerate(found):
        _, call = family[0]
        if len(family) == 1 and call.source >= 0 and is_exchanged(call):
            readers.setdefault(call.source, []).append(i)
    for sharing in readers.values():
        together = _by_source(found[sharing[0]][0][1], ranks)
        if len(sharing) > 1 and together < sum(least[i].bytes for i in sharing):
            for i in sharing:
                least[i] = Least(together, 1) if i == sharing[0] else Least()
    return least


def _of_ways(chosen: Iterable[tuple[int, AttentionCall, Way]]) -> Least:
    keys: set[tuple[int, str]] = set()  # calls that had them first, and how they lie by now
    values: set[tuple[int, str]] = set()
    total, exchanges = 0, 0
    for place, call, way in chosen:
        total, exchanges = total + way.bytes, exchanges + way.exchanges
        for there, origin, cost in (
            (keys, place - call.key_from, way.key),
            (values, place - call.value_from, way.value),
        ):
            if not {(origin, way.lie), (origin, WHOLE)} & there:
                total += cost
                there.add((origin, way.lie))
    return Least(total, exchanges)


def _ways(call: AttentionCall, ranks: int, parts: tuple[int, ...], premises: Premises) -> list[Way]:
    everything = ((0, call.query[2]),)
    keys = ((0, call.key[2]),) if premises.sends_steady_keys and call.keys else call.keys
    queries = everything if premises.sends_steady_queries else call.queries
    if not premises.sends_unread_queries:
        queries = both(queries, call.read)
    results = everything if premises.sends_unread_results else call.read
    sent, returned = (held(rows, call, parts, ranks) for rows in (queries, results))
    held_keys = held(keys, call, parts, ranks, of_keys=True)
    choices = []
    if premises.way != "keys":
        choices += [
            _by_heads(call, sent, held_keys, returned, units)
            for units in {call.key[1], call.query[1]}
            if units >= ranks
        ]
    if premises.way != "heads" or not choices:
        choices.append(_by_keys(call, held_keys))
    return choices


def held(
    runs: Runs, call: AttentionCall, sequences: tuple[int, ...], ranks: int, of_keys: bool = False
) -> list[int]:
    """How many of the rows in `runs` each rank has, where `sequences` were joined to the call's length."""
    length = call.key[2] if of_keys else call.query[2]
    lengths = sequences if sum(sequences) == length else (length,)
    total, first = [0] * ranks, 0
    for size in lengths:
        rows = sum(max(0, min(stop, first + size) - max(start, first)) for start, stop in runs)
        total = [a + b for a, b in zip(total, run_lengths(rows, ranks), strict=True)]
        first += size
    return total


def stretches(
    calls: Iterable[AttentionCall], sequences: tuple[int, ...]
) -> dict[int, tuple[int, ...]]:
    """By length: the finest cuts that the model's rows suggest. Ends of what was joined, of what changes, of what is read."""
    ends: dict[int, set[int]] = {sum(sequences): set(itertools.accumulate(sequences))}
    for call in calls:
        for length, runs in ((call.query[2], call.queries + call.read), (call.key[2], call.keys)):
            ends.setdefault(length, set()).update(end for run in runs for end in run)
    return {
        length: tuple(b - a for a, b in itertools.pairwise(sorted({0, length} | found)))
        for length, found in ends.items()
    }


def both(some: Runs, others: Runs) -> Runs:
    """Rows that are in both."""
    cuts = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return tuple((start, stop) for start, stop in cuts if start < stop)


def _by_heads(
    call: AttentionCall, sent: list[int], keys: list[int], returned: list[int], units: int
) -> Way:
    heads, groups = call.query[1], call.key[1]
    queries, key_rows, first = 0, 0, 0
    for rank, share in enumerate(run_lengths(units, len(sent))):
        query_heads = share * heads // units
        key_heads = -(-(first + share) * groups // units) - first * groups // units
        first += share
        queries += (sum(sent) - sent[rank]) * query_heads * call.query[3]
        queries += returned[rank] * (heads - query_heads) * call.value[3]
        if call.bias:
            bias_heads = query_heads if call.bias > 1 else 1
            queries += (sum(sent) - sent[rank]) * call.key[2] * bias_heads
        key_rows += (sum(keys) - keys[rank]) * key_heads
    return _way(call, f"{units} units of heads", queries, key_rows, 2)


def _by_keys(call: AttentionCall, keys: list[int]) -> Way:
    lacking = sum(sum(keys) - own for own in keys)
    return _way(call, WHOLE, 0, lacking * call.key[1], 1)


def _by_source(call: AttentionCall, ranks: int) -> int:
    keys = held(call.keys, call, (), ranks, of_keys=True)
    lacking = sum(sum(keys) - own for own in keys)
    return BYTES * call.key[0] * lacking * call.source_width


def _way(call: AttentionCall, lie: str, elements: int, key_rows: int, exchanges: int) -> Way:
    size = call.element_bytes * call.query[0]
    key, value = (size * key_rows * one[3] for one in (call.key, call.value))
    return Way(lie, size * elements, key, value, exchanges)
