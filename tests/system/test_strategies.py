"""Tensor parallelism, combinations of mesh axes and the automatic mesh on the sample transformer."""

import json

import numpy as np
import pytest
from sample_models import ONNX, SIZES, relative_error, transformer_feeds

import onnx
from onnx import TensorProto, helper, numpy_helper

MODEL = ONNX / "transformer.onnx"
LAYERS = 8
TOLERANCE = 1e-4
TYPICAL = [part for name, size in SIZES.items() for part in ("--typical", f"{name}={size}")]


def bytes_by_rank(tutti, folder, *options):
    """Weights and all memory that `inspect` reports for each rank."""
    tutti("compile", MODEL, "--output", folder / "m", *options, *TYPICAL)
    rows = tutti.inspect(folder / "m/1/model.plan", SIZES)["by_rank"]
    total = lambda row: (
        row["weight_bytes"]
        + row["prologue_bytes"]
        + max(row[part]["arena_bytes"] for part in ("main", "prologue") if part in row)
    )
    return [row["weight_bytes"] for row in rows], [total(row) for row in rows]


@pytest.mark.parametrize(
    "mesh", ["tp=2", "tp=3", "tp=4", "tp=2,cp=2", "cp=2,tp=2", "cfg=2,tp=2", "cfg=2,tp=2,cp=2"]
)
def test_meshes_equal_one_rank(tutti, tmp_path, mesh):
    feeds = transformer_feeds(batch=2, frames=5, height=11, width=7)
    (one,) = tutti.run(MODEL, feeds, tmp_path / "one")
    (many,) = tutti.run(MODEL, feeds, tmp_path / "many", "--mesh", mesh)
    assert relative_error(many, one) <= TOLERANCE


def test_a_tensor_parallel_block_reduces_three_times(tutti, tmp_path):
    tutti("compile", MODEL, "--output", tmp_path / "m", "--mesh", "tp=4")
    report = tutti.inspect(tmp_path / "m/1/model.plan", SIZES)
    kinds = [row["kind"] for row in report["exchanges"] if not row["in_prologue"]]
    # Two attentions and the MLP of each block, and the MLP of the time.
    assert kinds == ["AllReduce"] * (3 * LAYERS + 1)


def test_ranks_hold_their_share_of_the_weights(tutti, tmp_path):
    whole, _ = bytes_by_rank(tutti, tmp_path / "one")
    for ranks in (2, 4):
        weights, _ = bytes_by_rank(tutti, tmp_path / str(ranks), "--mesh", f"tp={ranks}")
        assert len(weights) == ranks
        assert max(weights) <= 1.25 * whole[0] / ranks


def test_ranks_load_their_share_of_the_weights(tutti):
    """What executors hold, not what the plan promises."""
    sizes = [part for name, size in SIZES.items() for part in ("--size", f"{name}={size}")]

    def loaded(*options):
        report = tutti("bench", MODEL, "--runs", "1", "--json", *sizes, *options).stdout
        return [row["weight_bytes"] for row in json.loads(report)["memory"]]

    (whole,) = loaded()
    parts = loaded("--mesh", "tp=4")
    assert len(parts) == 4
    assert max(parts) <= 1.25 * whole / 4


def test_a_model_that_is_too_large_for_one_rank_fits_on_four(tutti, tmp_path):
    _, total = bytes_by_rank(tutti, tmp_path / "one")
    limit = int(0.6 * total[0])
    limited = ["--memory-limit", str(limit), *TYPICAL]
    refused = tutti("compile", MODEL, "--output", tmp_path / "m", *limited, check=False)
    assert refused.returncode != 0
    assert "rank 0 needs" in refused.stderr and str(limit) in refused.stderr
    _, by_rank = bytes_by_rank(tutti, tmp_path / "four", "--mesh", "tp=4", *limited[:2])
    assert max(by_rank) <= limit


WORDS, WIDTH = 5003, 32


def word_model(path, is_tied):
    """Tokens to logits: nearly all weights are an embedding table and a projection to the vocabulary."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((WORDS, WIDTH), dtype=np.float32)
    head = table.T if is_tied else rng.standard_normal((WIDTH, WORDS), dtype=np.float32)
    inner = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32)
    weights = {"table": table, "inner": inner, "head": np.ascontiguousarray(head)}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"], name="embed"),
        helper.make_node("MatMul", ["x", "inner"], ["i"], name="inner"),
        helper.make_node("Tanh", ["i"], ["h"], name="act"),
        helper.make_node("MatMul", ["h", "head"], ["logits"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "tokens", WORDS])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, path)


@pytest.mark.parametrize("is_tied", [True, False])
def test_large_tables_are_divided(tutti, tmp_path, is_tied):
    """One that is read twice, by rows; others by rows or columns."""
    model = tmp_path / "model.onnx"
    word_model(model, is_tied)

    def weights(*options):
        tutti("compile", model, "--output", tmp_path / "m", *options)
        rows = tutti.inspect(tmp_path / "m/1/model.plan", {"tokens": 4})["by_rank"]
        return [row["weight_bytes"] for row in rows]

    typical = ["--typical", "tokens=4"]
    (whole,) = weights(*typical)
    assert whole <= 1.02 * 4 * WORDS * WIDTH * (1 if is_tied else 2)  # a tied one is kept once
    feeds = {"ids": np.array([[0, WORDS - 1, 17, -1, 2500, -WORDS]])}
    (want,) = tutti.run(model, feeds, tmp_path / "one")
    for ranks in (3, 4):
        options = ["--mesh", f"tp={ranks}", "--memory-limit", str(int(0.6 * whole))]
        options += typical
        assert max(weights(*options)) <= 1.05 * whole / ranks
        (got,) = tutti.run(model, feeds, tmp_path / str(ranks), *options)
        assert relative_error(got, want) <= TOLERANCE


def test_the_automatic_mesh_is_explained(tutti, tmp_path):
    auto = ["--strategy", "auto", "--ranks", "4", "--explain"]
    done = tutti(
        "compile", MODEL, "--output", tmp_path / "m", *auto, *TYPICAL, "--typical", "batch=2"
    )
    assert "meshes of 4 ranks" in done.stdout
    for mesh in ("cfg=2,cp=2", "cfg=2,tp=2", "tp=2,cp=2", "tp=4", "cp=4"):
        assert f"  {mesh}: " in done.stdout
    assert "chosen: " in done.stdout
    report = tutti.inspect(tmp_path / "m/1/model.plan", SIZES)
    assert report["ranks"] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "auto"], "--ranks"),
        (["--ranks", "2"], "--strategy auto"),
        (["--strategy", "auto", "--ranks", "2", "--mesh", "cp=2"], "chooses the mesh"),
        (["--device-profile", "abacus"], "'abacus' is unknown"),
        (["--memory-limit", "much"], "--memory-limit 'much'"),
    ],
)
def test_options_that_do_not_fit_are_refused(tutti, tmp_path, options, message):
    done = tutti("compile", MODEL, "--output", tmp_path / "m", *options, check=False)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize(("mesh", "idle"), [("xy=2", ["xy"]), ("cp=2", []), ("xy=1,cp=2", [])])
def test_an_axis_that_splits_nothing_is_a_warning(tutti, tmp_path, mesh, idle):
    said = tutti("compile", MODEL, "--output", tmp_path / "m", "--quiet", "--mesh", mesh).stderr
    assert [line.split("'")[1] for line in said.splitlines() if "splits nothing" in line] == idle
