"""The minimum against a count of elements one by one."""

import itertools

import pytest
from build_model import AttentionCall
from exchange_minimum import is_self_attention, least_bytes, run_lengths


def owners(count, ranks):
    return list(itertools.chain(*([rank] * n for rank, n in enumerate(run_lengths(count, ranks)))))


def counted(tokens, heads, width, ranks):
    """fp32 bytes of q, k, v and the output that a rank needs and does not hold."""
    by_token, by_head = owners(tokens, ranks), owners(heads, ranks)
    lacking = sum(by_token[t] != by_head[h] for t in range(tokens) for h in range(heads))
    return 4 * 4 * lacking * width  # of four tensors


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("tokens", [40, 41, 175])
def test_equal_heads(tokens, ranks):
    shape = (1, 4, tokens, 8)
    call = AttentionCall(shape, shape, shape)
    assert least_bytes(call, ranks) == counted(tokens, 4, 8, ranks)


def test_joined_sequences_are_split_each():
    shape = (1, 4, 88, 8)
    call = AttentionCall(shape, shape, shape)
    assert least_bytes(call, 3, (77, 11)) == counted(77, 4, 8, 3) + counted(11, 4, 8, 3)


def test_grouped_heads_send_each_key_once():
    call = AttentionCall((1, 4, 40, 8), (1, 2, 40, 8), (1, 2, 40, 8))
    # Each of two ranks lacks 20 tokens of 2 query heads and 1 key and value head, and 20 x 2 heads of the output.
    assert least_bytes(call, 2) == 4 * 2 * 20 * 8 * (2 + 1 + 1 + 2)


def test_what_counts_as_self_attention():
    def call(queries, keys):
        return AttentionCall((1, 4, queries, 8), (1, 4, keys, 8), (1, 4, keys, 8))

    assert is_self_attention(call(175, 175))
    assert is_self_attention(call(175, 186))  # text beside
    assert not is_self_attention(call(175, 11))
    assert not is_self_attention(call(11, 11))
