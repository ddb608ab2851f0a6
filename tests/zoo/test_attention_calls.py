"""Which attentions a forward calls, and which of their rows change and are read."""

import pytest
import torch
from attention_calls import attention_calls, record, recording, runs_of
from torch.nn.functional import scaled_dot_product_attention as attention


def heads(rows, seed, count=2):
    return torch.randn(1, count, rows, 4, generator=torch.Generator().manual_seed(seed))


def eager(query, key, value):
    scores = torch.matmul(query, key.transpose(-1, -2)) * 0.5 + torch.zeros(key.shape[2])
    return torch.matmul(torch.softmax(scores, dim=-1), value)


def calls(forward, latents, next_latents):
    weight = torch.nn.Parameter(torch.ones(()))
    seen = [record(lambda x=x: {"out": forward(x * weight)})[1] for x in (latents, next_latents)]
    return attention_calls(*seen)


@pytest.mark.parametrize("call", [attention, eager])
def test_text_that_stays_and_results_that_are_dropped(call):
    text = heads(3, 0)

    def forward(latents):
        joined = torch.cat([text, latents], dim=2)
        first = call(joined, joined, joined)
        second = call(first, text, text)
        return second[:, :, 4:]

    first, second = calls(forward, heads(5, 1), heads(5, 2))
    assert (first.query, first.key) == ((1, 2, 8, 4), (1, 2, 8, 4))
    assert (first.queries, first.keys, first.read) == (((3, 8),), ((3, 8),), ((4, 8),))
    assert (second.queries, second.keys, second.read) == (((0, 8),), (), ((4, 8),))


def test_repeated_key_heads_and_values_count_once():
    value = heads(5, 3)

    def forward(latents):
        key = latents[:, :1].repeat(1, 2, 1, 1)
        return attention(latents, key, value) + attention(latents * 2, key + 1, value)

    first, second = calls(forward, heads(5, 1), heads(5, 2))
    assert first.key == (1, 1, 5, 4)
    assert (first.value_from, second.value_from, second.key_from) == (0, 1, 0)


def test_keys_that_a_mask_closes_are_not_read():
    closed = torch.tensor([[True] * 4 + [False] * 3] * 5 + [[True] * 7] * 2)

    def forward(latents):
        return attention(latents, latents, latents * 2, attn_mask=closed)[:, :, :5]

    (call,) = calls(forward, heads(7, 1), heads(7, 2))
    assert (call.queries, call.keys, call.read) == (((0, 7),), ((0, 4),), ((0, 5),))


def test_a_bias_over_pairs_that_changes():
    steady = torch.randn(1, 1, 5, 5)

    def forward(latents):
        pairs = latents @ latents.transpose(-1, -2)
        first = attention(latents, latents, latents, attn_mask=pairs)
        return first + attention(latents, latents, latents, attn_mask=steady)

    first, second = calls(forward, heads(5, 1), heads(5, 2))
    assert (first.bias, second.bias) == (2, 0)


def test_features_that_only_fill_up_do_not_count():
    def forward(latents):
        q = torch.nn.functional.pad(latents, (0, 12))
        v = torch.nn.functional.pad(latents, (0, 4))
        return attention(q, q, v)[..., :4]

    (one,) = calls(forward, heads(5, 1), heads(5, 2))
    assert (one.query, one.key, one.value) == ((1, 2, 5, 4),) * 3


def test_keys_and_values_know_the_rows_that_they_are_projections_of():
    weights = [heads(8, seed, count=1)[0, 0].repeat(1, 2) for seed in range(6)]

    def project(x, number):
        y = torch.nn.functional.linear(x, weights[number]).unflatten(2, (2, 4))
        return torch.nn.functional.rms_norm(y, (4,)).transpose(1, 2)

    def forward(latents):
        x = latents.transpose(1, 2).flatten(2)
        context = torch.sin(x[:, :3])
        shared = [attention(latents, project(context, i), project(context, i + 1)) for i in (0, 2)]
        mixed = attention(latents, project(context, 4), project(context + 1, 5))
        return sum(shared) + mixed

    first, second, third = calls(forward, heads(5, 1), heads(5, 2))
    assert first.source == second.source >= 0
    assert first.source_width == 8
    assert third.source == -1


def test_flex_attention_with_a_mask_has_results_that_nobody_reads():
    from torch.nn.attention import flex_attention

    mask = flex_attention.create_block_mask(
        lambda b, h, q, k: (q < 5) & (k < 5), B=None, H=None, Q_LEN=128, KV_LEN=128, device="cpu"
    )

    def forward(latents):
        filled = torch.nn.functional.pad(latents, (0, 12, 0, 123))
        return flex_attention.flex_attention(filled, filled, filled, block_mask=mask)[:, :, :5]

    (one,) = calls(forward, heads(5, 1), heads(5, 2))
    assert (one.queries, one.keys, one.read) == (((0, 5),),) * 3
    assert one.query == (1, 2, 128, 4)


def test_flex_attention_is_seen():
    from torch.nn.attention import flex_attention

    with recording() as recorder, torch.no_grad():
        flex_attention.flex_attention(heads(16, 0), heads(16, 1), heads(16, 2))
    assert [tuple(seen.query.shape) for seen in recorder.seen] == [(1, 2, 16, 4)]


def test_runs():
    assert runs_of(torch.tensor([True, True, False, True])) == ((0, 2), (3, 4))
    assert runs_of(torch.zeros(3, dtype=torch.bool)) == ()
