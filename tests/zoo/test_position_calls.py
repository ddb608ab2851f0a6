"""Which sums over positions and which convolutions a forward calls, and what of each position they read."""

import pytest
import torch
from position_calls import position_calls, record
from torch.nn.functional import conv1d, conv2d, linear

COUNT = 20  # 4 rows of 5


def calls(forward, first, second=None):
    steps = [record(lambda x=x: forward(x), COUNT) for x in (first, first + 1)]
    return position_calls(steps[0], steps[1] if second is None else second, COUNT)


def tokens(width=6):
    return torch.randn(1, COUNT, width, generator=torch.Generator().manual_seed(0))


def heads(x):
    return linear(x, torch.eye(x.shape[-1])).unflatten(2, (2, -1)).transpose(1, 2)


def linear_attention(x):
    query, key, value = heads(x).relu(), heads(x).relu(), heads(2 * x)
    value = torch.nn.functional.pad(value, (0, 1), value=1.0)
    summed = query @ (key.transpose(-1, -2) @ value)
    return (summed[..., :-1] / summed[..., -1:]).transpose(1, 2).flatten(2)


def test_a_linear_attention_sums_its_state():
    found = calls(lambda x: linear_attention(x + linear_attention(x)), tokens())
    assert [(s.elements, s.heads, s.width, s.layer) for s in found.sums] == [
        (2 * 3 * 4, 2, 3, 1),
        (2 * 3 * 4, 2, 3, 2),
    ]
    assert found.sums[0].groups == (tuple(range(COUNT)),)


def test_softmax_attention_sums_no_state():
    def forward(x):
        query, key, value = heads(x), heads(x), heads(x)
        return torch.softmax(query @ key.transpose(-1, -2), dim=-1) @ value

    assert calls(forward, tokens()).sums == ()


def test_means_are_sums_over_their_positions():
    def forward(x):
        return x.mean(dim=1), x.unflatten(1, (4, 5)).sum(dim=2), x.sum(dim=-1)

    whole, rows = calls(forward, tokens()).sums
    assert (whole.elements, whole.groups) == (6, (tuple(range(COUNT)),))
    assert rows.elements == 6
    assert rows.groups == tuple(tuple(range(5 * row, 5 * row + 5)) for row in range(4))


def test_what_does_not_change_is_left_out():
    steady = tokens()
    assert calls(lambda x: (x * 1, steady.relu().mean(dim=1)), tokens()).sums == ()


@pytest.mark.parametrize("shape", ["image", "columns"])
def test_a_convolution_reads_the_windows_of_its_positions(shape):
    def forward(x):
        grid = linear(x, torch.eye(6)).unflatten(1, (4, 5)).permute(0, 3, 1, 2)
        if shape == "image":
            return conv2d(grid.relu(), torch.ones(6, 1, 3, 3), padding=1, groups=6)
        return conv2d(
            grid.flatten(2)[:, :, None].unflatten(3, (4, 5)).squeeze(2),
            torch.ones(1, 6, 3, 1),
            padding=(1, 0),
        )

    (window,) = calls(forward, tokens()).windows
    assert (window.elements, window.strides) == (6, (1, 5))
    around = {"image": (1, 2, 3, 6, 8, 11, 12, 13), "columns": (2, 12)}
    corner = {"image": (1, 5, 6), "columns": (5,)}
    assert (window.reads[7], window.reads[0]) == (around[shape], corner[shape])


def test_a_causal_convolution_run_both_ways_reads_one_tensor():
    def causal(x):
        return conv1d(x.transpose(1, 2), torch.ones(6, 1, 3), padding=2, groups=6)[..., :4]

    def forward(x):
        frames = linear(x, torch.eye(6)).unflatten(1, (4, 5)).transpose(1, 2).flatten(0, 1)
        return causal(frames) + causal(frames.flip(1)).flip(2)

    (window,) = calls(forward, tokens()).windows
    assert window.reads[5] == (0, 10, 15)
    assert window.reads[19] == (9, 14)


def test_a_convolution_over_single_positions_reads_nothing():
    def forward(x):
        return conv1d(x.relu().transpose(1, 2), torch.ones(3, 6, 1))

    assert calls(forward, tokens()).windows == ()


def test_pairs_of_positions_are_no_state():
    def forward(x):
        pairs = x.relu()[:, :, None] * torch.ones(1, 1, COUNT, 1)
        return pairs.permute(0, 3, 2, 1) @ pairs.permute(0, 3, 1, 2)

    assert calls(forward, tokens()).sums == ()
