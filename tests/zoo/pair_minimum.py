"""The least that ranks must exchange for pairs of positions: arithmetic on sizes, as for attentions.

What is given: ranks share out the S positions in runs as even as whole positions allow, and each has the pairs of its own positions with
all others; rank r has s_r positions.

  outer    A pair of what a row and a column have, of width w: rank r has its rows, or its columns, and receives the other
           ranks' positions of the other operand, (S - s_r) w. One exchange.
  product  Triangle multiplication (Jumper et al. 2021, supplement 1.6.5): of C channels, pair (i, j) sums over k what two pairs have.

           rows      One of the three tensors of pairs has to be elsewhere: an operand whole on every rank, or partial sums of
                     the result with whoever has its rows. Rank r receives (S - s_r) S C. One exchange.
           channels  Rank r works on c_r channels of all pairs: it receives 2 (S - s_r) S c_r of the operands and then
                     s_r S (C - c_r) of the result. Two exchanges.
"""

from __future__ import annotations

from exchange_minimum import Least, run_lengths
from pair_calls import PairCall

BYTES = 4  # fp32


def least_of_pairs(call: PairCall, count: int, ranks: int) -> Least:
    own = run_lengths(count, ranks)
    lacking = [count - held for held in own]
    if call.kind == "outer":
        return Least(BYTES * sum(lacking) * call.width, 1)
    rows = Least(BYTES * sum(lacking) * count * call.width, 1)
    if call.width < ranks:
        return rows
    shares = run_lengths(call.width, ranks)
    turned = sum(
        2 * missing * count * share + held * count * (call.width - share)
        for missing, held, share in zip(lacking, own, shares, strict=True)
    )
    return min(rows, Least(BYTES * turned, 2), key=lambda least: (least.bytes, least.exchanges))
