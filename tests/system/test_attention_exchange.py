"""Keys and values that are gathered, and that pass by in a ring, give the answer of one rank."""

import pytest
from sample_models import ONNX, SIZES, relative_error, transformer_feeds

LAYERS = 8
TOLERANCE = 1e-5
MODEL = ONNX / "transformer.onnx"


@pytest.mark.parametrize("exchange", ["gather", "ring"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_equal_one_rank(tutti, tmp_path, ranks, exchange):
    feeds = transformer_feeds(frames=3, height=5, width=7)
    (one,) = tutti.run(MODEL, feeds, tmp_path / "one")
    options = ["--mesh", f"cp={ranks}", "--attention-exchange", exchange]
    (many,) = tutti.run(MODEL, feeds, tmp_path / "many", *options)
    assert relative_error(many, one) <= TOLERANCE


def test_a_ring_sends_the_bytes_of_a_gather(tutti, tmp_path):
    sent = {}
    for exchange, kind in (("gather", "AllGather"), ("ring", "RingAttention")):
        folder = tmp_path / exchange
        options = ["--mesh", "cp=4", "--attention-exchange", exchange]
        tutti("compile", MODEL, "--output", folder, *options)
        report = tutti.inspect(folder / "1/model.plan", SIZES)
        layers = [e for e in report["exchanges"] if e["kind"] == kind][:LAYERS]
        # One exchange a layer, keys and values together; the output is gathered besides.
        assert len(report["exchanges"]) == LAYERS + 1
        sent[exchange] = [e["bytes"] for e in layers]
    assert sent["ring"] == sent["gather"]


def test_an_unknown_way_is_an_error(tutti, tmp_path):
    done = tutti("run", MODEL, "--attention-exchange", "star", check=False)
    assert done.returncode == 1
    assert "'star' is unknown; expected auto, heads, gather or ring" in done.stderr
