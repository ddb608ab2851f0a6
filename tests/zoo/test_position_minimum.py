"""The minimum of sums and convolutions against counts one by one."""

import itertools

import pytest
from exchange_check import check_exchanges
from exchange_minimum import Least, run_lengths
from position_calls import PositionCalls, SumCall, WindowCall
from position_minimum import least_over_positions

ROWS, COLUMNS = 7, 11
COUNT = ROWS * COLUMNS
EVERY = (tuple(range(COUNT)),)


def state(layer=1, heads=4, width=12):
    return SumCall(heads * width * (width + 1), EVERY, layer, heads, width)


def around(reach=1):
    """What a convolution over (2 reach + 1) x (2 reach + 1) places reads of a grid."""
    reads = []
    for row, column in itertools.product(range(ROWS), range(COLUMNS)):
        near = itertools.product(
            range(max(0, row - reach), min(ROWS, row + reach + 1)),
            range(max(0, column - reach), min(COLUMNS, column + reach + 1)),
        )
        reads.append(tuple(r * COLUMNS + c for r, c in near if (r, c) != (row, column)))
    return WindowCall(240, tuple(reads), (1, COLUMNS))


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_state_is_reduced_in_one_exchange_a_layer(ranks):
    norm = SumCall(48, EVERY, 2)
    found = least_over_positions(PositionCalls(COUNT, (state(), state(2), norm)), ranks)
    assert found == Least(4 * 2 * (ranks - 1) * (2 * 624 + 48), 2)


def test_heads_are_exchanged_where_that_is_less():
    # A state of 64 x 65 numbers a head is more than a head's share of 77 positions.
    found = least_over_positions(PositionCalls(COUNT, (state(width=64),)), 4)
    received = sum((COUNT - own) * 64 * 3 + own * 3 * 64 for own in run_lengths(COUNT, 4))
    assert found == Least(4 * received, 2)
    # Fewer heads than ranks leave nothing but the state.
    few = least_over_positions(PositionCalls(COUNT, (state(width=64, heads=2),)), 4)
    assert few == Least(4 * 2 * 3 * 2 * 64 * 65, 1)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_convolution_needs_a_row_of_each_neighbour(ranks):
    found = least_over_positions(PositionCalls(COUNT, (), (around(),)), ranks)
    assert found == Least(4 * 240 * 2 * (ranks - 1) * COLUMNS, 1)


def test_windows_past_a_neighbour_reach_the_next():
    # 7 rows over 4 ranks: rows 2, 2, 2, 1 in some order. Three rows up and down, as far as there are any.
    best = min(
        sum(
            sum(1 for row in range(ROWS) if first - 3 <= row < last + 3 and not first <= row < last)
            for first, last in itertools.pairwise(itertools.accumulate((0, *lengths)))
        )
        for lengths in set(itertools.permutations([2, 2, 2, 1]))
    )
    found = least_over_positions(PositionCalls(COUNT, (), (around(3),)), 4)
    assert found.bytes == 4 * 240 * COLUMNS * best


def test_sums_over_frames_cost_nothing_where_frames_are_whole():
    frames = tuple(tuple(range(r * COLUMNS, (r + 1) * COLUMNS)) for r in range(ROWS))
    calls = PositionCalls(COUNT, (SumCall(48, frames, 1),), (around(),))
    assert least_over_positions(calls, 2).exchanges == 1


def mesh(*exchanges):
    return {
        "exchanges": [
            {"kind": k, "bytes": b, "for": "other", "serves": ["MatMul"]} for k, b in exchanges
        ]
    }


def test_a_plan_with_the_least_needs_no_reason():
    calls = PositionCalls(COUNT, (state(),), (around(),))
    reduced, halo = 4 * 2 * 3 * 624, 4 * 240 * 6 * COLUMNS
    plan = mesh(("AllReduce", reduced), ("Halo", halo))
    found = check_exchanges([], (COUNT,), 4, plan, 0, calls)
    assert (found["exact"], found["bytes_to_least"]) == (True, 1.0)
    # The same bytes in three exchanges, or a gathered tensor more, are not the least.
    thrice = mesh(("AllReduce", reduced), ("Halo", halo // 2), ("Halo", halo // 2))
    assert check_exchanges([], (COUNT,), 4, thrice, 0, calls)["reasons"] == [
        "1 AllReduce for MatMul",
        "2 Halo for MatMul",
    ]
    more = mesh(("AllReduce", 2 * reduced), ("Halo", halo))
    assert check_exchanges([], (COUNT,), 4, more, 0, calls)["reasons"] == [
        "1 AllReduce for MatMul",
        "1 Halo for MatMul",
        f"{reduced / (reduced + halo):.1%} more for sums, convolutions and pairs",
    ]
