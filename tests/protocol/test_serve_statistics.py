import time

import numpy as np
from serving import infer_affine, tensor


def test_counts_and_durations_are_exact(repository, start):
    repository.add("affine")
    client = start(repository.path).client
    fresh = client.get_inference_statistics("affine").model_stats[0]
    assert fresh.inference_count == fresh.execution_count == fresh.last_inference == 0

    begin_ms = int(time.time() * 1000)
    begin = time.monotonic_ns()
    for _ in range(7):
        infer_affine(client)
    elapsed = time.monotonic_ns() - begin
    stats = client.get_inference_statistics("affine", "1").model_stats[0]
    assert (stats.name, stats.version) == ("affine", "1")
    assert stats.inference_count == stats.execution_count == 7
    assert begin_ms <= stats.last_inference <= time.time() * 1000
    totals = stats.inference_stats
    assert totals.fail.count == 0
    phases = (totals.queue, totals.compute_input, totals.compute_infer, totals.compute_output)
    assert all(phase.count == 7 for phase in (totals.success, *phases))
    assert 0 < sum(phase.ns for phase in phases) <= totals.success.ns <= elapsed
    (batch,) = stats.batch_stats
    assert (batch.batch_size, batch.compute_infer.count) == (1, 7)
    assert batch.compute_infer.ns == totals.compute_infer.ns


def test_batches_count_their_elements(repository, start):
    folder = repository.add("affine", config=False)
    (folder / "config.pbtxt").write_text("max_batch_size: 16")
    client = start(repository.path).client
    assert list(client.get_model_metadata("affine").inputs[0].shape) == [-1, 4]
    assert list(client.get_model_config("affine").config.input[0].dims) == [4]
    for rows in (10, 2, 10):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        y = client.infer("affine", [tensor("x", x, "FP32")]).as_numpy("y")
        np.testing.assert_array_equal(y, x * np.float32(2) + np.float32(1))
    stats = client.get_inference_statistics("affine").model_stats[0]
    assert stats.inference_count == 22
    assert stats.execution_count == 3
    assert {b.batch_size: b.compute_infer.count for b in stats.batch_stats} == {10: 2, 2: 1}


def test_all_models_at_once(client):
    names = {model.name for model in client.get_inference_statistics().model_stats}
    assert {"affine", "add_sub", "attention_cp1", "attention_cp8"} <= names
