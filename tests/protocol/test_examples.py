"""examples/ do what their README says."""

import subprocess

import numpy as np
import pytest
import serving
import tiny_models

EMBED = serving.BUILD / "bin" / "example_embed"
CLIENT = serving.BUILD / "bin" / "example_client"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """affine on one rank, attention on three."""
    folder = tmp_path_factory.mktemp("examples")
    tiny_models.affine(folder / "affine.onnx")
    tiny_models.attention(folder / "attention.onnx")
    serving.compile_model(folder / "affine.onnx", folder / "models" / "affine")
    serving.compile_model(
        folder / "attention.onnx",
        folder / "models" / "attention",
        *("--mesh", "cp=3", "--strategy", "ulysses"),
    )
    return folder


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def values(line):
    return np.array([float(value) for value in line.split(":", 1)[1].split()])


def test_a_plan_in_the_programs_own_process(models):
    lines = run(EMBED, models / "models" / "affine" / "1" / "model.plan", "rows=2")
    assert lines[0] == "1 rank(s)"
    assert lines[1].startswith("y ")
    np.testing.assert_array_equal(values(lines[1]), 2 * np.arange(8) + 1)


def test_a_plan_of_three_ranks_in_the_programs_own_process(models):
    lines = run(EMBED, models / "models" / "attention" / "1" / "model.plan")
    assert lines[0] == "3 rank(s)"
    count = tiny_models.TOKENS * tiny_models.WIDTH
    x = np.arange(count, dtype=np.float32).reshape(1, tiny_models.TOKENS, tiny_models.WIDTH)
    (expected,) = tiny_models.reference(models / "attention.onnx", x=x)
    # Printed with six digits.
    np.testing.assert_allclose(values(lines[1]), expected.ravel(), rtol=1e-4, atol=1e-2)


def test_sizes_that_are_missing_are_named(models):
    plan = models / "models" / "affine" / "1" / "model.plan"
    done = subprocess.run([EMBED, plan], capture_output=True, text=True)
    assert done.returncode == 1
    assert "give SYMBOL=SIZE for rows" in done.stderr


def test_the_client_asks_a_server(models, tmp_path):
    server = serving.Server(models / "models", log=tmp_path / "serve.log")
    try:
        lines = run(CLIENT, server.url, "affine", "x=2,4")
        assert lines[0] == "affine version 1"
        assert lines[1].startswith("y FP32[2,4]:")
        np.testing.assert_array_equal(values(lines[1]), 2 * np.arange(8) + 1)
        assert lines[2] == "served 1, failed 0"
        done = subprocess.run([CLIENT, server.url, "nobody"], capture_output=True, text=True)
        assert done.returncode == 1
        assert "'nobody' is not found" in done.stderr
    finally:
        assert server.stop() == 0
