"""What bench/peers races with computes the same as the ONNX model that it races against."""

import numpy as np
import onnxruntime
import pytest
import torch
from cosmos import model as onnx_model
from cosmos import weights
from cosmos.sizes import Sizes
from peers import fidelity, model

SIZES = Sizes(
    layers=2, width=64, heads=4, kv_heads=2, head_size=16, mlp=96, features=12, vocabulary=32,
    time_features=16, frames=4, height=3, columns=5, text=7,
)  # fmt: skip


@pytest.mark.parametrize("layout", ["in-out", "out-in"])
def test_the_peer_equals_onnxruntime(tmp_path, layout):
    path = onnx_model.write(tmp_path, SIZES, "float32", layout=layout)
    weights.write(tmp_path)
    rng = np.random.default_rng(0)
    feeds = {
        "patches": rng.standard_normal((1, 4, 3, 5, 12), dtype=np.float32),
        "timestep": np.float32([500]),
        "ids": rng.integers(0, 32, (1, 7)),
    }
    for name, array in feeds.items():
        np.save(tmp_path / f"{name}.npy", array)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (right,) = session.run(None, feeds)
    found = fidelity.peer_result(
        tmp_path, tmp_path, torch.float64, torch.device("cpu"), model.plain_attention
    )
    assert fidelity.errors(right, found)["relative"] <= 1e-6


def test_packing_for_an_exchange_gives_each_rank_its_heads():
    read = model.RandomWeights(SIZES, torch.float32, torch.device("cpu"))
    layer = model.read_layer(read, "video", 0)
    cos, sin = model.video_tables(SIZES, torch.float32, torch.device("cpu"))
    x = torch.randn(60, SIZES.width)
    q, k, v = model.project(x, layer, cos, sin, SIZES)
    packed = model.project_and_pack(x, layer, cos, sin, SIZES, 2)
    assert packed.shape == (2, 60, (2 + 1 + 1) * SIZES.head_size)
    heads = packed[1].unflatten(1, (-1, SIZES.head_size))
    torch.testing.assert_close(heads, torch.cat([q[:, 2:], k[:, 1:], v[:, 1:]], 1))
    # What comes back from the exchange of results is read the same way.
    attended = torch.randn(60, SIZES.heads, SIZES.head_size)
    back = attended.flatten(1).unflatten(1, (2, -1)).transpose(0, 1)
    torch.testing.assert_close(
        model.finish(x, back, layer, SIZES), model.finish(x, attended, layer, SIZES)
    )
