"""--precision: 16-bit plans of fp32 models against the fp32 plans."""

import numpy as np
import pytest
from cosmos import model, weights
from cosmos.sizes import Sizes
from sample_models import ONNX, relative_error, transformer_feeds

BOUND = 2e-2
TINY = Sizes(
    layers=3, width=64, heads=4, kv_heads=2, head_size=16, mlp=96, features=12, vocabulary=32,
    time_features=16,
)  # fmt: skip


def sample_feeds(name):
    rng = np.random.default_rng(3)
    if name == "vae_decoder":
        return {"latents": rng.standard_normal((1, 16, 3, 6, 5), dtype=np.float32)}
    return transformer_feeds(frames=3, height=5, width=7)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ["transformer", "vae_decoder"])
def test_sample_models_are_near_fp32(tutti, tmp_path, name, precision):
    feeds = sample_feeds(name)
    (right,) = tutti.run(ONNX / f"{name}.onnx", feeds, tmp_path / "fp32")
    (found,) = tutti.run(
        ONNX / f"{name}.onnx", feeds, tmp_path / "narrow", "--precision", precision
    )
    assert found.dtype == np.float32  # as the model declares it
    error = relative_error(found, right)
    assert 0 < error <= BOUND


def cosmos_feeds():
    rng = np.random.default_rng(1)
    return {
        "patches": rng.standard_normal((1, 4, 3, 5, TINY.features), dtype=np.float32),
        "timestep": np.float32([700]),
        "ids": rng.integers(0, TINY.vocabulary, (1, 7)),
    }


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_the_reference_workload_is_near_fp32_on_ranks(tutti, tmp_path, precision):
    path = model.write(tmp_path / "model", TINY, "float32")
    weights.write(tmp_path / "model")
    (right,) = tutti.run(path, cosmos_feeds(), tmp_path / "fp32")
    options = ["--precision", precision, "--mesh", "cp=2"]
    (found,) = tutti.run(path, cosmos_feeds(), tmp_path / "narrow", *options)
    assert np.linalg.norm(found - right) <= BOUND * np.linalg.norm(right)


def test_the_plan_has_16_bit_weights_and_exchanges(tutti, tmp_path):
    path = model.write(tmp_path / "model", TINY, "float32")
    weights.write(tmp_path / "model")
    size = {}
    sent = {}
    for precision in ("keep", "bf16"):
        folder = tmp_path / precision
        tutti("compile", path, "--output", folder, "--precision", precision, "--mesh", "cp=2")
        report = tutti.inspect(folder / "1/model.plan", TINY.call_sizes())
        size[precision] = report["by_rank"][0]["weight_bytes"]
        sent[precision] = [e["bytes"] for e in report["exchanges"]]
        assert [i["dtype"] for i in report["inputs"]] == ["f32", "f32", "i64"]
    assert size["bf16"] < 0.55 * size["keep"]
    assert sent["bf16"] == [bytes_ / 2 for bytes_ in sent["keep"]]


def test_io_precision_narrows_what_is_narrow_anyway(tutti, tmp_path):
    path = model.write(tmp_path / "model", TINY, "float32")
    weights.write(tmp_path / "model")
    options = ["--precision", "bf16", "--io-precision", "bf16"]
    tutti("compile", path, "--output", tmp_path / "plan", *options)
    report = tutti.inspect(tmp_path / "plan/1/model.plan", TINY.call_sizes())
    assert [i["dtype"] for i in report["inputs"]] == ["bf16", "f32", "i64"]
    assert [o["dtype"] for o in report["outputs"]] == ["bf16"]
    assert "TYPE_BF16" in (tmp_path / "plan/config.pbtxt").read_text()


def test_options_that_make_no_sense_are_named(tutti, tmp_path):
    path = ONNX / "transformer.onnx"
    done = tutti("compile", path, "-o", tmp_path / "x", "--precision", "int3", check=False)
    assert "--precision 'int3' is unknown; expected keep, bf16 or fp16" in done.stderr
    done = tutti("compile", path, "-o", tmp_path / "x", "--io-precision", "bf16", check=False)
    assert "--io-precision 'bf16' needs a --precision that is not 'keep'" in done.stderr
