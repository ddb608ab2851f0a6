"""The least that ranks must exchange for sums over positions and for convolutions: arithmetic on sizes, as for attentions.

What is given: ranks share out the positions in contiguous runs of whole rows of the model's grid (frames, rows of a frame, single
positions), as even as whole rows allow; each does the work for its own positions, once. N ranks; the least is taken over the
rows that are cut between, and over which ranks have the longer runs.

  sums     A linear attention (Katharopoulos et al. 2020) needs of all keys and values only sums over positions, its state:
           H heads of w x w numbers and w more for the norm. The state has to be the whole sum on each of the m ranks
           whose positions it is made of and which read it: an all-reduce of S numbers moves 2 (m - 1) S in all,
           2 (m - 1) / m of S a rank (Patarasuk and Yuan 2009; Thakur et al. 2005 reach it). Sums that do not need
           each other are one exchange. As LASP-2 (Sun et al. 2025) says, it does not grow with the sequence.
           Or ranks take heads instead of positions, as for softmax attention, where that moves less (exchange_minimum.py).
           A sum over the positions of one frame moves nothing where frames are whole.
  windows  A convolution's rows at the border of a run reach into the neighbours' (halo exchange). A rank receives each
           position that its own positions' windows hold and that is not its own, once for all convolutions that read the
           same tensor, with all channels. Rows that padding makes up come from nobody. One exchange for each tensor read.

Pairs of positions are in pair_minimum.py. Recurrences over positions have no minimum here; what is exchanged for them is named.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from attention_calls import all_rows
from exchange_minimum import BYTES, Least, Premises, least_exchange, run_lengths
from pair_minimum import least_of_pairs
from position_calls import PositionCalls, SumCall, WindowCall


def least_over_positions(calls: PositionCalls, ranks: int) -> Least:
    if ranks == 1 or not (calls.sums or calls.windows or calls.pairs):
        return Least()
    choices = [_under(calls, owners, ranks) for owners in cuts(calls, ranks)]
    least = min(choices, key=lambda least: (least.bytes, -least.exchanges))
    parts = [least, *(least_of_pairs(call, calls.count, ranks) for call in calls.pairs)]
    return Least(sum(p.bytes for p in parts), sum(p.exchanges for p in parts))


def cuts(calls: PositionCalls, ranks: int) -> Iterator[list[int]]:
    """The owner of each position, in every way that is considered."""
    strides = {1} | {stride for call in calls.windows for stride in call.strides}
    for row in sorted(strides):
        if calls.count % row or calls.count // row < ranks:
            continue
        for lengths in sorted(set(itertools.permutations(run_lengths(calls.count // row, ranks)))):
            yield [rank for rank, rows in enumerate(lengths) for _ in range(rows * row)]


def _under(calls: PositionCalls, owners: list[int], ranks: int) -> Least:
    parts = [_of_layer(list(layer), owners, ranks) for layer in _layers(calls.sums)]
    parts += [_of_windows(call, owners) for call in calls.windows]
    moving = [part for part in parts if part.bytes]
    return Least(sum(p.bytes for p in moving), sum(p.exchanges for p in moving))


def _layers(sums: tuple[SumCall, ...]) -> Iterator[Iterator[SumCall]]:
    by_layer = sorted(sums, key=lambda call: call.layer)
    return (group for _, group in itertools.groupby(by_layer, key=lambda call: call.layer))


def _of_layer(sums: list[SumCall], owners: list[int], ranks: int) -> Least:
    reduced = Least(sum(_reduced(call, owners) for call in sums), 1)
    states = [call for call in sums if call.heads]
    if not states or not reduced.bytes or any(call.heads < ranks for call in states):
        return reduced
    by_heads = [
        least_exchange(
            all_rows(*([(1, call.heads, len(owners), call.width)] * 3)),
            ranks,
            premises=Premises(way="heads"),
        )
        for call in states
    ]
    turned = Least(sum(one.bytes for one in by_heads), 2)
    return min(reduced, turned, key=lambda least: (least.bytes, -least.exchanges))


def _reduced(call: SumCall, owners: list[int]) -> int:
    others = sum(len({owners[at] for at in group}) - 1 for group in call.groups)
    return BYTES * 2 * others * call.elements


def _of_windows(call: WindowCall, owners: list[int]) -> Least:
    lacking = {(owners[at], p) for at, read in enumerate(call.reads) for p in read}
    received = sum(owners[p] != rank for rank, p in lacking)
    return Least(BYTES * call.elements * received, 1)
