"""The minimum against counts of elements one by one, over all even ways to share out."""

import itertools

import pytest
from attention_calls import AttentionCall
from exchange_minimum import (
    Least,
    Premises,
    families,
    is_exchanged,
    least_exchange,
    least_exchanges,
    least_together,
    run_lengths,
    stretches,
)


def call(queries, keys=None, *, heads=4, groups=None, width=8, batch=1, read=None, moving=None):
    keys, groups = keys or queries, groups or heads
    shapes = [(batch, heads, queries, width)] + [(batch, groups, keys, width)] * 2
    everything, all_keys = ((0, queries),), ((0, keys),)
    return AttentionCall(
        *shapes, everything, all_keys if moving is None else moving, read or everything
    )


def dealings(count, ranks):
    """Owners of each of `count` in runs as even as can be, whichever ranks have the longer ones."""
    for lengths in set(itertools.permutations(run_lengths(count, ranks))):
        yield list(itertools.chain(*([rank] * n for rank, n in enumerate(lengths))))


def counted(tokens, heads, width, ranks):
    """fp32 bytes of q, k, v and the output that a rank needs and does not hold, in the best of all dealings."""
    best = min(
        sum(by_token[t] != by_head[h] for t in range(tokens) for h in range(heads))
        for by_token in dealings(tokens, ranks)
        for by_head in dealings(heads, ranks)
    )
    return 4 * 4 * best * width  # of four tensors


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("tokens", [7, 10, 41])
def test_equal_heads(tokens, ranks):
    assert least_exchange(call(tokens), ranks).bytes == counted(tokens, 4, 8, ranks)


def test_heads_take_two_exchanges_and_keys_one():
    assert least_exchange(call(40), 4).exchanges == 2
    # 2 of 8 heads of keys: 3 ranks' keys and values are less than queries and results.
    assert least_exchange(call(40, heads=8, groups=1), 4).exchanges == 1
    assert least_exchange(call(40, heads=8, groups=1), 4).bytes == 4 * 3 * 40 * 1 * (8 + 8)


def test_grouped_heads_send_each_key_once():
    by_heads = least_exchange(call(40, groups=2), 2, premises=Premises(way="heads"))
    # Each of two ranks lacks 20 tokens of 2 query heads and 1 key and value head, and 20 x 2 heads of the output.
    assert by_heads.bytes == 4 * 2 * 20 * 8 * (2 + 1 + 1 + 2)


def test_more_ranks_than_heads_gather_keys():
    assert least_exchange(call(40, heads=2), 4).bytes == 4 * 3 * 40 * 2 * (8 + 8)


def test_joined_sequences_may_be_cut_apart_or_as_one():
    apart = least_exchange(call(88), 3, (77, 11), Premises(cut="apart", way="heads"))
    joined = least_exchange(call(88), 3, (77, 11), Premises(cut="joined", way="heads"))
    assert apart.bytes == counted(77, 4, 8, 3) + counted(11, 4, 8, 3)
    assert joined.bytes == counted(88, 4, 8, 3)
    assert least_exchange(call(88), 3, (77, 11)).bytes == min(apart.bytes, joined.bytes)


def test_keys_that_do_not_change_cost_nothing():
    assert least_exchange(call(40, 11, moving=()), 4).bytes == 0
    beside = least_exchange(call(40, 48, moving=((8, 48),)), 4)
    assert beside == least_exchange(call(40), 4)


def test_what_nobody_reads_is_neither_asked_nor_answered():
    part = least_exchange(call(40, read=((0, 20),)), 2, premises=Premises(way="heads"))
    # Keys and values of 40 tokens, queries and results of 20; each of two ranks lacks half of the tokens or heads.
    assert part.bytes == 4 * 2 * (20 * 2 * (8 + 8) + 10 * 2 * (8 + 8))


def sharing(first, **distances):
    """Two calls, of which the second has the first one's keys or values."""
    return ((0, first), (1, AttentionCall(**vars(first) | distances)))


def test_values_that_travelled_before_stay_where_they_are():
    alone = least_exchange(call(40), 4).bytes
    assert least_together(sharing(call(40), value_from=1), 4).bytes == alone + alone * 3 // 4
    assert least_together(sharing(call(40), value_from=1, key_from=1), 4).bytes == alone * 3 // 2


def test_attentions_that_share_values_go_one_way_or_pay_twice():
    # On 2 ranks, each attention moves 4 tensors by heads, or keys and values to where they are not, of half a tensor each.
    family = sharing(call(40), value_from=1)
    tensor = 4 * 40 * 4 * 8
    by_keys, by_heads = Premises(way="keys"), Premises(way="heads")
    of = {by_keys: 3 * tensor, by_heads: (4 + 3) * tensor // 2}
    for premises, expected in of.items():
        given = dict.fromkeys((one for _, one in family), premises)
        assert least_together(family, 2, premises=given).bytes == expected
    mixed = dict(zip((one for _, one in family), (by_heads, by_keys), strict=True))
    # Heads of all values are there, and the values of all heads are needed.
    assert least_together(family, 2, premises=mixed).bytes == 4 * tensor // 2 + 2 * tensor
    whole = dict(zip((one for _, one in family), (by_keys, by_heads), strict=True))
    assert least_together(family, 2, premises=whole).bytes == 2 * tensor + 3 * tensor // 2
    assert least_together(family, 2).bytes == 3 * tensor


def test_families_are_of_calls_that_share():
    first, other = call(40), call(30)
    second = AttentionCall(**vars(first) | {"value_from": 2})
    assert families([first, other, second, other]) == [
        ((0, other),),
        ((0, first), (2, second)),
        ((0, other),),
    ]


@pytest.mark.parametrize("heads", [4, 1])
def test_a_bias_lies_with_its_queries(heads):
    one = AttentionCall(**vars(call(40)) | {"bias": heads})
    alone = least_exchange(call(40), 4, premises=Premises(way="heads")).bytes
    # Each of 4 ranks lacks 30 queries' numbers for 40 keys, of one head, its own or everybody's.
    by_heads = least_exchange(one, 4, premises=Premises(way="heads")).bytes
    assert by_heads == alone + 4 * 4 * 30 * 40
    by_keys = Premises(way="keys")
    least = min(by_heads, least_exchange(call(40), 4, premises=by_keys).bytes)
    assert least_exchange(one, 4).bytes == least


def test_many_short_sequences_are_shared_out_whole():
    assert not is_exchanged(call(5, batch=49))
    assert is_exchanged(call(49, batch=5))


def test_stretches_that_are_read_may_be_cut_by_themselves():
    # 3 memory tokens in front of 77, which alone are read in the end.
    long, short = call(80), call(80, read=((3, 80),))
    finest = stretches([long, short], ())
    assert finest[80] == (3, 77)
    for one in (long, short):
        apart = least_exchange(one, 3, (3, 77), Premises(cut="apart"))
        assert least_exchange(one, 3, finest=finest).bytes <= apart.bytes


def test_stretches_end_where_sequences_or_changes_do():
    steady = call(88, moving=((11, 88),))
    assert stretches([steady, call(40)], (77, 11)) == {88: (11, 66, 11), 40: (40,)}


def of_source(width, source=0, **sizes):
    return AttentionCall(**{**vars(call(40, 11, **sizes)), "source": source, "source_width": width})


def test_rows_that_several_attentions_project_come_together_once():
    # Each of 4 ranks lacks 11 rows less its own, of 32 features; keys and values are 2 x 32 wide, each time.
    shared = [of_source(32), of_source(32)]
    assert least_exchanges(shared, 4) == [Least(4 * 3 * 11 * 32, 1), Least()]
    alone = least_exchanges([of_source(32, 0), of_source(32, 1)], 4)
    assert alone == [least_exchange(call(40, 11), 4)] * 2
    assert alone[0].bytes == 4 * 3 * 11 * 2 * 32


def test_wide_rows_are_projected_first():
    wide = [of_source(32 * 5), of_source(32 * 5)]
    assert least_exchanges(wide, 4) == [least_exchange(call(40, 11), 4)] * 2


def test_rows_that_do_not_change_come_at_no_cost():
    assert least_exchanges([of_source(32, moving=())] * 2, 4) == [Least(), Least()]
