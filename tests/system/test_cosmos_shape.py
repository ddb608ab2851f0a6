"""The reference workload's generator (bench/cosmos), at a tiny size, against onnxruntime."""

import json

import numpy as np
import onnxruntime
import pytest
from cosmos import model, weights
from cosmos.sizes import Sizes
from sample_models import relative_error

TINY = Sizes(
    layers=3, width=64, heads=4, kv_heads=2, head_size=16, mlp=96, features=12, vocabulary=32,
    time_features=16, batch=2, frames=4, height=3, columns=5, text=7,
)  # fmt: skip
TRUE_SIZES = Sizes().call_sizes()


def make(folder, dtype="float32", share="none", sizes=TINY):
    path = model.write(folder, sizes, dtype, share)
    weights.write(folder)
    return path


def feeds():
    rng = np.random.default_rng(1)
    grid = (TINY.batch, TINY.frames, TINY.height, TINY.columns, TINY.features)
    return {
        "patches": rng.standard_normal(grid, dtype=np.float32),
        "timestep": np.float32([300, 700]),
        "ids": rng.integers(0, TINY.vocabulary, (TINY.batch, TINY.text)),
    }


@pytest.fixture(scope="module")
def float32_model(tmp_path_factory):
    return make(tmp_path_factory.mktemp("float32"))


@pytest.fixture(scope="module")
def right(float32_model):
    session = onnxruntime.InferenceSession(str(float32_model), providers=["CPUExecutionProvider"])
    (velocity,) = session.run(None, feeds())
    return velocity


@pytest.mark.parametrize("mesh", ["cp=1", "cp=2", "cp=4", "cp=8", "cfg=2,cp=2"])
def test_ranks_equal_onnxruntime(tutti, tmp_path, float32_model, right, mesh):
    (velocity,) = tutti.run(float32_model, feeds(), tmp_path, "--mesh", mesh)
    assert relative_error(velocity, right) <= 1e-5


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 1e-2), ("bfloat16", 5e-2)])
def test_16_bit_models_are_near_the_fp32_one(tutti, tmp_path, right, dtype, bound):
    path = make(tmp_path / "model", dtype)
    words = weights.narrow(feeds()["patches"], dtype)
    narrow = feeds() | {"patches": words.view("V2" if dtype == "bfloat16" else np.float16)}
    (velocity,) = tutti.run(path, narrow, tmp_path / "run", "--mesh", "cp=2")
    assert relative_error(weights.widen(velocity.view(np.uint16), dtype), right) <= bound


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("way", ["heads", "auto"])
def test_the_text_tower_is_hoisted_and_a_layer_exchanges_the_least(tutti, tmp_path, ranks, way):
    sizes = Sizes(layers=3, width=128, heads=32, kv_heads=8, head_size=4, mlp=96)
    path = make(tmp_path / "model", "bfloat16", sizes=sizes)
    options = ("--mesh", f"cp={ranks}", "--attention-exchange", way)
    tutti("compile", path, "--output", tmp_path / "plan", *options)
    report = tutti.inspect(tmp_path / "plan/1/model.plan", TRUE_SIZES)
    assert report["invariant_inputs"] == ["ids"]
    calls = [e for e in report["exchanges"] if not e["in_prologue"]]
    tokens, kept = 48 * 23 * 40, 128 * 2 / ranks
    moved = tokens * (ranks - 1) * kept  # of queries, or of the attention's result, by all ranks
    by_heads = [moved * (32 + 2 * 8) / 32, moved]
    by_keys = [tokens * (ranks - 1) * 2 * 8 * 4 * 2]  # of 8 heads of 4 in 16 bit
    is_gathered = way == "auto" and sum(by_keys) < sum(by_heads)
    assert is_gathered == (way == "auto" and ranks < 8)
    layer, kind = (by_keys, "AllGather") if is_gathered else (by_heads, "AllToAll")
    assert [e["kind"] for e in calls] == [kind] * len(layer) * sizes.layers + ["AllGather"]
    assert all("text" not in e["name"] for e in calls)
    assert [e["bytes"] for e in calls[: len(layer)]] == layer


def test_layers_of_a_tower_share_weights_where_asked(tmp_path):
    sizes = {}
    for share in ("none", "text", "all"):
        folder = tmp_path / share
        make(folder, share=share)
        sizes[share] = [(folder / f"{t}.data").stat().st_size for t in ("text", "video")]
    whole = sizes["none"]
    assert sizes["text"] == [whole[0] / 3, whole[1]]
    assert sizes["all"] == [whole[0] / 3, whole[1] / 3]


def test_weights_are_as_described(tmp_path):
    make(tmp_path, "bfloat16")
    description = json.loads((tmp_path / "weights.json").read_text())
    up = weights.read(tmp_path, description, "video.1.mlp.up.weight")
    down = weights.read(tmp_path, description, "video.1.mlp.down.weight")
    assert up.shape == (64, 96) and np.isclose(up.std(), 64**-0.5, rtol=0.05)
    assert down.shape == (96, 64) and np.isclose(down.std(), 96**-0.5, rtol=0.05)
    assert abs(np.corrcoef(up.ravel(), down.ravel())[0, 1]) < 0.1
    norm = weights.read(tmp_path, description, "norm_out.weight")
    assert np.isclose(norm.mean(), 1, atol=0.02)


def test_a_benchmark_takes_numbers_from_files(tutti, float32_model, tmp_path):
    files = []
    for name, array in feeds().items():
        np.save(tmp_path / f"{name}.npy", array)
        files += ["--input", f"{name}={tmp_path / name}.npy"]
    # Sizes are those of the files.
    report = json.loads(tutti("bench", float32_model, "--runs", 1, "--json", *files).stdout)
    given = report["flops"][0]
    smaller = [part for name, size in TINY.call_sizes().items() for part in ("--size", f"{name}={size}")]  # fmt: skip
    report = json.loads(tutti("bench", float32_model, "--runs", 1, "--json", *smaller).stdout)
    assert report["flops"][0] == given

    unknown = tutti("bench", float32_model, "--input", files[1].replace("patches", "pixels", 1), check=False)  # fmt: skip
    assert unknown.returncode != 0
    assert "--input 'pixels': the model has no such input" in unknown.stderr
    twice = tutti("bench", float32_model, *files, *files[:2], check=False)
    assert "--input 'patches' is given twice" in twice.stderr
    # Random ids are those of any table; a file's need not be.
    np.save(tmp_path / "ids.npy", np.full((TINY.batch, TINY.text), TINY.vocabulary + 3))
    outside = tutti("bench", float32_model, *files, check=False)
    assert outside.returncode != 0
    assert str(TINY.vocabulary + 3) in outside.stderr
