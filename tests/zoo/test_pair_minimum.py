"""Which pairs of positions a forward makes, and the least that they cost."""

import pytest
import torch
from pair_calls import PairCall, pair_calls, record
from pair_minimum import least_of_pairs
from torch.nn.functional import linear, scaled_dot_product_attention

WEIGHT = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))


def calls(forward):
    steps = [torch.randn(1, 5, 6, generator=torch.Generator().manual_seed(i)) for i in (1, 2)]
    return pair_calls(*(record(lambda x=x: {"out": forward(x)}, 5) for x in steps))


def test_an_outer_product_and_a_product_of_pairs():
    def forward(x):
        rows, columns = linear(x, WEIGHT), linear(x * 2, WEIGHT)
        pairs = rows[:, :, None] * columns[:, None]
        left, right = linear(pairs, WEIGHT).permute(0, 3, 1, 2), linear(pairs, WEIGHT)
        return torch.matmul(left, right.permute(0, 3, 2, 1))

    assert calls(forward) == (PairCall("outer", 6), PairCall("product", 6))


def test_scores_count_where_nobody_weighs_with_them():
    def forward(x):
        y = linear(x, WEIGHT)
        scores = torch.bmm(y, y.transpose(1, 2))
        return torch.softmax(scores * 0.5, dim=-1) @ y + torch.bmm(y, y.transpose(1, 2)).sum()

    assert calls(forward) == (PairCall("outer", 6),)


def test_attentions_and_what_every_rank_has_are_no_pairs():
    def forward(x):
        distances = (x[:, :, None] - x[:, None]).norm(dim=-1)
        y = linear(x, WEIGHT)
        steady = linear(torch.ones(1, 5, 6), WEIGHT)
        pairs = (steady[:, :, None] + steady[:, None]).sum(-1)
        return scaled_dot_product_attention(y, y, y, attn_mask=distances + pairs)

    assert calls(forward) == ()


def received(owners, channels, by):
    """Elements of operands and result, pair by pair, that ranks need and do not have."""
    count = len(owners)
    if by == "rows":
        return (
            sum(owner != rank for rank in set(owners) for owner in owners) * count * len(channels)
        )
    lacking = sum(2 * (owner != rank) for rank in channels for owner in owners)
    return (lacking + sum(owner != rank for rank in channels for owner in owners)) * count


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_products_of_pairs_move_rows_or_channels(ranks):
    owners = [at * ranks // 12 for at in range(12)]
    channels = [at * ranks // 24 for at in range(24)]
    least = least_of_pairs(PairCall("product", 24), 12, ranks)
    ways = {by: 4 * received(owners, channels, by) for by in ("rows", "channels")}
    assert least.bytes == min(ways.values())
    assert least.exchanges == (2 if ways["channels"] < ways["rows"] else 1)


def test_an_outer_product_brings_one_operand():
    # Of 5 positions two ranks lack 2 and 3.
    assert least_of_pairs(PairCall("outer", 6), 5, 2).bytes == 4 * 5 * 6
    assert least_of_pairs(PairCall("product", 2), 12, 3).bytes == 4 * 24 * 12 * 2
