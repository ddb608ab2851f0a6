"""The sample model's three ONNX files: Tutti against onnxruntime, and N ranks against one."""

import numpy as np
import onnxruntime as ort
import pytest
from sample_models import CHANNELS, ONNX, SIZES, TEXT_LENGTH, relative_error, transformer_feeds

LAYERS = 8  # of the sample transformer
TOLERANCE = 1e-4  # fp32, the project's bar


def reference(name, feeds):
    session = ort.InferenceSession(ONNX / f"{name}.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def model_feeds(name):
    rng = np.random.default_rng(1)
    if name == "transformer":
        return transformer_feeds(batch=2)
    if name == "vae_decoder":
        return {"latents": rng.standard_normal((1, CHANNELS, 7, 16, 16), dtype=np.float32)}
    return {"input_ids": rng.integers(0, 20, (2, TEXT_LENGTH)).astype(np.int64)}


@pytest.mark.parametrize("name", ["transformer", "vae_decoder", "text_encoder"])
def test_one_rank_equals_onnxruntime(tutti, tmp_path, name):
    feeds = model_feeds(name)
    for got, want in zip(
        tutti.run(ONNX / f"{name}.onnx", feeds, tmp_path), reference(name, feeds), strict=True
    ):
        assert relative_error(got, want) <= TOLERANCE


# 1792 tokens divide by 2, 4 and 8; 975 by 3 only, 1001 by none of them.
@pytest.mark.parametrize("size", [(7, 16, 16), (5, 15, 13), (7, 11, 13)], ids=str)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_ranks_equal_one_rank(tutti, tmp_path, ranks, size):
    frames, height, width = size
    feeds = transformer_feeds(frames=frames, height=height, width=width)
    model = ONNX / "transformer.onnx"
    (one,) = tutti.run(model, feeds, tmp_path / "one")
    (many,) = tutti.run(model, feeds, tmp_path / "many", "--mesh", f"cp={ranks}")
    assert relative_error(many, one) <= TOLERANCE


@pytest.mark.parametrize("mesh", ["cfg=2", "cfg=2,cp=2", "cfg=2,cp=3"])
def test_guidance_branches_side_by_side_equal_one_rank(tutti, tmp_path, mesh):
    feeds = transformer_feeds(batch=2)
    model = ONNX / "transformer.onnx"
    (one,) = tutti.run(model, feeds, tmp_path / "one")
    (many,) = tutti.run(model, feeds, tmp_path / "many", "--mesh", mesh)
    assert relative_error(many, one) <= TOLERANCE


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_two_exchanges_a_layer_and_one_gather(tutti, tmp_path, ranks):
    options = ["--mesh", f"cp={ranks}", "--attention-exchange", "heads"]
    tutti("compile", ONNX / "transformer.onnx", "--output", tmp_path / "m", *options)
    report = tutti.inspect(tmp_path / "m/1/model.plan", SIZES)
    kinds = [exchange["kind"] for exchange in report["exchanges"]]
    assert kinds.count("AllToAll") == 2 * LAYERS
    assert kinds.count("AllGather") == 1
    assert len(kinds) == 2 * LAYERS + 1


# Its heads are grouped: on two ranks all keys and values are less than the queries that would travel.
@pytest.mark.parametrize(
    "ranks, kind, count", [(2, "AllGather", 1), (4, "AllToAll", 2), (8, "AllToAll", 2)]
)
def test_layers_move_the_less_of_heads_and_keys(tutti, tmp_path, ranks, kind, count):
    moved = {}
    for way in ("auto", "heads"):
        options = ["--mesh", f"cp={ranks}", "--attention-exchange", way]
        tutti("compile", ONNX / "transformer.onnx", "--output", tmp_path / way, *options)
        exchanges = tutti.inspect(tmp_path / way / "1/model.plan", SIZES)["exchanges"]
        of_layers, last = exchanges[:-1], exchanges[-1]
        assert last["kind"] == "AllGather"
        if way == "auto":
            assert [e["kind"] for e in of_layers] == [kind] * count * LAYERS
        moved[way] = sum(e["bytes"] for e in of_layers)
    assert (
        moved["auto"] < moved["heads"] if kind == "AllGather" else moved["auto"] == moved["heads"]
    )


def test_the_prompt_path_is_hoisted(tutti, tmp_path):
    tutti("compile", ONNX / "transformer.onnx", "--output", tmp_path / "m", "--mesh", "cp=2")
    report = tutti.inspect(tmp_path / "m/1/model.plan", SIZES)
    assert report["invariant_inputs"] == ["encoder_hidden_states"]
    # At least the keys and values of every cross-attention.
    assert (
        report["prologue"]["ops"].get("Linear", 0) + report["prologue"]["ops"].get("MatMul", 0)
        >= LAYERS
    )
