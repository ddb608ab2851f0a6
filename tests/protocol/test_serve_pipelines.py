"""Ensembles, cached answers and warm-up requests, as clients see them."""

import numpy as np
import pytest
from serving import infer_affine, tensor
from tritonclient.utils import InferenceServerException


def stats(client, model):
    return client.get_inference_statistics(model).model_stats[0]


def write_ensemble(repository, name, steps, dims="-1, 4"):
    folder = repository.path / name
    (folder / "1").mkdir(parents=True)
    text = "\n".join(
        f'{{ model_name: "{model}" model_version: -1\n'
        f'  input_map {{ key: "x" value: "{source}" }}\n'
        f'  output_map {{ key: "y" value: "{target}" }} }},'
        for model, source, target in steps
    )
    (folder / "config.pbtxt").write_text(
        'platform: "ensemble"\n'
        f'input [ {{ name: "in" data_type: TYPE_FP32 dims: [ {dims} ] }} ]\n'
        f'output [ {{ name: "out" data_type: TYPE_FP32 dims: [ {dims} ] }} ]\n'
        f"ensemble_scheduling {{ step [\n{text.rstrip(',')}\n] }}\n"
    )
    return folder


def infer_ensemble(client, x, name="twice", outputs=None):
    return client.infer(name, [tensor("in", x, "FP32")], outputs=outputs)


def test_ensemble_runs_its_steps(repository, start):
    repository.add("affine")
    write_ensemble(repository, "twice", [("affine", "middle", "out"), ("affine", "in", "middle")])
    client = start(repository.path).client
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    result = infer_ensemble(client, x)
    np.testing.assert_array_equal(result.as_numpy("out"), 2 * (2 * x + 1) + 1)
    assert result.get_response().model_name == "twice"
    assert client.get_model_metadata("twice").platform == "ensemble"
    assert len(client.get_model_config("twice").config.ensemble_scheduling.step) == 2
    assert stats(client, "twice").execution_count == 1
    assert stats(client, "affine").execution_count == 2
    assert stats(client, "twice").inference_stats.success.count == 1
    with pytest.raises(InferenceServerException, match="input 'in': shape"):
        infer_ensemble(client, np.zeros((3, 5), np.float32))


def test_ensemble_comes_and_goes_with_its_models(repository, start):
    repository.add("affine")
    write_ensemble(repository, "twice", [("affine", "in", "m"), ("affine", "m", "out")])
    client = start(repository.path, options=("--model-control-mode", "explicit")).client
    client.load_model("twice")
    assert client.is_model_ready("affine")
    x = np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(infer_ensemble(client, x).as_numpy("out"), 7 * x)
    client.unload_model("affine")
    assert not client.is_model_ready("twice")
    with pytest.raises(InferenceServerException, match="step 'affine'.*has no available versions"):
        infer_ensemble(client, x)
    client.load_model("affine")
    np.testing.assert_array_equal(infer_ensemble(client, x).as_numpy("out"), 7 * x)
    client.unload_model("twice", unload_dependents=True)
    assert not client.is_model_ready("affine")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("affine", "in", "out"), ("affine", "b", "a"), ("affine", "a", "b")], "there is a cycle"),
        ([("affine", "nowhere", "out")], "'nowhere' is neither an input"),
        ([("affine", "in", "other")], "'out' is in no step's output_map"),
        ([("twice", "in", "out")], "the ensemble is a step of itself"),
        ([("missing", "in", "out")], "failed to load 'missing'"),
    ],
)
def test_ensembles_that_cannot_be_are_refused(repository, start, steps, message):
    repository.add("affine")
    write_ensemble(repository, "twice", steps)
    with pytest.raises(RuntimeError, match=message):
        start(repository.path)


def test_same_request_is_answered_from_the_cache(repository, start):
    folder = repository.add("affine", config=False)
    (folder / "config.pbtxt").write_text("response_cache { enable: true }")
    client = start(repository.path, options=("--cache-config", "local,size=65536")).client
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for _ in range(3):
        np.testing.assert_array_equal(infer_affine(client, x=x), 2 * x + 1)
    np.testing.assert_array_equal(infer_affine(client, x=x + 1), 2 * x + 3)
    seen = stats(client, "affine")
    assert seen.inference_stats.success.count == 4
    assert seen.inference_stats.cache_hit.count == 2
    assert seen.inference_stats.cache_miss.count == 2
    assert seen.execution_count == 2
    assert seen.inference_count == 2


def test_old_answers_make_room(repository, start):
    folder = repository.add("affine", config=False)
    (folder / "config.pbtxt").write_text("response_cache { enable: true }")
    client = start(repository.path, options=("--cache-config", "local,size=8192")).client
    arrays = [np.full((64, 4), i, np.float32) for i in range(16)]  # 1 KB each
    for x in arrays + arrays:
        np.testing.assert_array_equal(infer_affine(client, x=x), 2 * x + 1)
    assert stats(client, "affine").inference_stats.cache_hit.count == 0
    np.testing.assert_array_equal(infer_affine(client, x=arrays[-1]), 2 * arrays[-1] + 1)
    assert stats(client, "affine").inference_stats.cache_hit.count == 1


def test_warmup(repository, start):
    folder = repository.add("affine", config=False)
    config = folder / "config.pbtxt"
    sample = (
        'model_warmup [ {{ name: "rows" batch_size: 1 inputs {{ key: "x" value {{ {} }} }} }} ]'
    )
    config.write_text(sample.format("data_type: TYPE_FP32 dims: [ 8, 4 ] random_data: true"))
    client = start(repository.path).client
    assert stats(client, "affine").execution_count == 0
    infer_affine(client)
    config.write_text(sample.format('data_type: TYPE_FP32 dims: [ 1, 4 ] input_data_file: "row"'))
    with pytest.raises(RuntimeError, match="model_warmup.0. 'rows'.*warmup/row' is missing"):
        start(repository.path)
    (folder / "warmup").mkdir()
    (folder / "warmup" / "row").write_bytes(np.ones((1, 4), np.float32).tobytes())
    infer_affine(start(repository.path).client)
