import shutil
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
import tiny_models
import tritonclient.grpc as triton
from serving import FREE_PORTS, TUTTI, compile_model, infer_affine, tensor
from tritonclient.utils import InferenceServerException

EXPLICIT = ("--model-control-mode", "explicit")


def index(client):
    entries = client.get_model_repository_index().models
    return {(entry.name, entry.version): (entry.state, entry.reason) for entry in entries}


def serve_fails(repository, *options):
    """What the server says when it refuses to start."""
    command = [TUTTI, "serve", "--model-repository", repository, *FREE_PORTS, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_load_infer_unload(repository, start):
    repository.add("affine")
    client = start(repository.path, options=EXPLICIT).client
    assert index(client) == {("affine", ""): ("", "")}
    assert client.is_server_ready()
    with pytest.raises(InferenceServerException, match="'affine' is not found"):
        infer_affine(client)
    client.load_model("affine")
    assert index(client) == {("affine", "1"): ("READY", "")}
    infer_affine(client)
    client.unload_model("affine")
    assert index(client) == {("affine", "1"): ("UNAVAILABLE", "unloaded")}
    assert not client.is_model_ready("affine")
    with pytest.raises(InferenceServerException, match="has no available versions"):
        infer_affine(client)
    client.load_model("affine")
    infer_affine(client)


def test_startup_models_and_unknown_ones(repository, start):
    repository.add("affine")
    repository.add("add_sub")
    client = start(repository.path, options=(*EXPLICIT, "--load-model", "add_sub")).client
    assert client.is_model_ready("add_sub")
    assert not client.is_model_ready("affine")
    message = "failed to load 'nope': failed to poll from model repository"
    with pytest.raises(InferenceServerException, match=message):
        client.load_model("nope")
    with pytest.raises(InferenceServerException, match="failed to unload 'nope'"):
        client.unload_model("nope")
    for name in ("", "..", "../etc"):
        with pytest.raises(InferenceServerException, match="model name"):
            client.load_model(name)
    assert client.is_server_ready()


def test_control_is_forbidden_in_none_mode(client):
    for call in (client.load_model, client.unload_model):
        with pytest.raises(InferenceServerException, match="explicit model load / unload") as error:
            call("affine")
        assert error.value.status() == "StatusCode.UNAVAILABLE"


def test_several_repositories(repository, start, tmp_path):
    repository.add("affine")
    other = tmp_path / "other"
    shutil.copytree(repository.path / "affine", other / "twin")
    (other / "twin" / "config.pbtxt").unlink()
    client = start(repository.path, other).client
    np.testing.assert_array_equal(infer_affine(client), infer_affine(client, "twin"))


def test_versions(repository, start, onnx_files, tmp_path):
    folder = repository.add("affine")
    triple = tiny_models.affine(tmp_path / "triple.onnx", scale=3.0)
    compile_model(triple, repository.path / "affine", version=2)
    shutil.copytree(folder / "1", folder / "03")
    config = (folder / "config.pbtxt").read_text()
    (folder / "config.pbtxt").write_text(config + "version_policy { all { } }\n")
    server = start(repository.path)
    client = server.client
    assert index(client) == {("affine", "1"): ("READY", ""), ("affine", "2"): ("READY", "")}
    assert list(client.get_model_metadata("affine").versions) == ["1", "2"]
    x = np.ones((1, 4), np.float32)
    inputs = [tensor("x", x, "FP32")]
    for version, expected in (("1", 3), ("2", 4), ("", 4)):
        result = client.infer("affine", inputs, model_version=version)
        np.testing.assert_array_equal(result.as_numpy("y"), np.full((1, 4), expected, np.float32))
        assert result.get_response().model_version == (version or "2")
    assert "folder '03' is ignored" in server.log.read_text()


def test_three_dots_are_a_legal_name(repository, start):
    repository.add("affine", "...")
    infer_affine(start(repository.path).client, "...")


def test_failed_reload_keeps_the_old_one_serving(repository, start):
    folder = repository.add("affine")
    client = start(repository.path, options=(*EXPLICIT, "--load-model", "*")).client
    plan = (folder / "1" / "model.plan").read_bytes()
    (folder / "1" / "model.plan").write_bytes(plan[: len(plan) // 2])
    with pytest.raises(InferenceServerException, match="failed to load 'affine'.*model.plan"):
        client.load_model("affine")
    infer_affine(client)
    assert client.is_server_ready()
    state, reason = index(client)[("affine", "1")]
    assert state == "READY"
    assert "failed reload" in reason
    (folder / "1" / "model.plan").write_bytes(plan)
    client.load_model("affine")
    assert index(client) == {("affine", "1"): ("READY", "")}


def test_no_request_fails_during_reloads(repository, start):
    repository.add("affine")
    server = start(repository.path, options=(*EXPLICIT, "--load-model", "affine"))
    over = threading.Event()
    failures, answers = [], []

    def work():
        with triton.InferenceServerClient(server.url) as client:
            while not over.is_set():
                try:
                    answers.append(infer_affine(client))
                except InferenceServerException as error:
                    failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        server.client.load_model("affine")
    over.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert answers


def test_folder_and_name_differ(repository):
    folder = repository.add("affine", config=False)
    (folder / "config.pbtxt").write_text('backend: "tutti"\nname: "other"\n')
    message = serve_fails(repository.path)
    assert "config.pbtxt:2: name: 'other' differs from the model's folder 'affine'" in message


def test_batch_size_above_what_the_plan_takes(repository):
    folder = repository.add("add_sub", config=False)
    (folder / "config.pbtxt").write_text("max_batch_size: 8\n")
    message = serve_fails(repository.path)
    assert "config.pbtxt:1: max_batch_size: 8" in message
    assert "batches of 1 only" in message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("0,1,2", "0,1"), ("names 2 devices", "compiled for 3 ranks (mesh cp=3)")),
        (("0,1,2", "0,1,2,3"), ("names 4 devices", "compiled for 3 ranks")),
        (("0,1,2", "0"), ("at least 2",)),
        (("0,1,2", "0,x,2"), ("'x' at position 1", "no device id")),
        (('"true"', '"maybe"'), ("enable_multi_device", "'maybe'")),
        (('"true"', '"false"'), ("enable_multi_device", "compiled for 3 ranks")),
        (("KIND_MODEL", "KIND_CPU"), ("KIND_CPU", "expected KIND_MODEL")),
        (("KIND_MODEL", "KIND_MODEL gpus: [0]"), ("gpus", "KIND_MODEL")),
        (("KIND_MODEL", "KIND_GPU gpus: [0]"), ("KIND_GPU needs a GPU",)),
    ],
)
def test_device_lists_that_do_not_fit(repository, change, expected):
    config = repository.add("attention_cp3") / "config.pbtxt"
    before = config.read_text()
    assert change[0] in before
    config.write_text(before.replace(*change))
    message = serve_fails(repository.path)
    for part in expected:
        assert part in message


def test_device_ids_may_repeat_and_need_not_begin_at_zero(repository, start, onnx_files):
    config = repository.add("attention_cp3") / "config.pbtxt"
    config.write_text(config.read_text().replace("0,1,2", "1, 0, 1"))
    client = start(repository.path).client
    x = np.random.default_rng(0).standard_normal((1, tiny_models.TOKENS, tiny_models.WIDTH))
    x = x.astype(np.float32)
    (expected,) = tiny_models.reference(onnx_files["attention"], x=x)
    answer = client.infer("attention_cp3", [tensor("x", x, "FP32")]).as_numpy("y")
    assert np.abs(answer - expected).max() <= 1e-4 * np.abs(expected).max()


def test_configuration_is_completed(repository, start):
    repository.add("affine", config=False)
    client = start(repository.path).client
    config = client.get_model_config("affine").config
    assert config.name == "affine"
    assert config.default_model_filename == "model.plan"
    assert list(config.input[0].dims) == [-1, 4]
    infer_affine(client)


def test_broken_configuration_names_line_and_field(repository):
    folder = repository.add("affine", config=False)
    (folder / "config.pbtxt").write_text('name: "affine"\nmax_batch: 1\n')
    message = serve_fails(repository.path)
    assert "config.pbtxt:2:" in message
    assert "max_batch" in message
    (folder / "config.pbtxt").write_text('backend: "tensorrt"')
    assert "backend: 'tensorrt' is not available; available: backend 'tutti'" in serve_fails(
        repository.path
    )


def test_failed_model_leaves_the_others_serving_when_asked(repository, start):
    repository.add("affine")
    (repository.path / "broken" / "1").mkdir(parents=True)
    client = start(repository.path, options=("--exit-on-error", "false")).client
    infer_affine(client)
    assert client.is_server_live()
    assert not client.is_server_ready()
    state, reason = index(client)[("broken", "1")]
    assert state == "UNAVAILABLE"
    assert "model.plan' is missing" in reason
    relaxed = ("--exit-on-error", "false", "--strict-readiness", "false")
    assert start(repository.path, options=relaxed).client.is_server_ready()


def test_wrong_options_exit_with_2():
    for options in (["--model-repository"], ["--grpc-port", "70000"], ["--nope"], []):
        done = subprocess.run([TUTTI, "serve", *options], capture_output=True, timeout=60)
        assert done.returncode == 2, done.stderr
    command = [TUTTI, "serve", "--model-repository", "/tmp", "--load-model", "x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--model-control-mode=explicit" in done.stderr


def test_missing_repository_is_an_error(tmp_path):
    assert "nowhere" in serve_fails(tmp_path / "nowhere")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_drain_and_exit_with_0(repository, start, number):
    repository.add("affine")
    server = start(repository.path)
    x = np.zeros((1 << 18, 4), np.float32)
    answer = []

    def work():
        with triton.InferenceServerClient(server.url) as client:
            try:
                answer.append(client.infer("affine", [tensor("x", x, "FP32")]).as_numpy("y"))
            except InferenceServerException as error:
                answer.append(error)

    def executions():
        stats = server.client.get_inference_statistics("affine").model_stats[0]
        return stats.inference_stats.success.count

    infer_affine(server.client)
    before = executions()
    thread = threading.Thread(target=work)
    thread.start()
    # The answer is on its way, or will be: either way it must arrive whole.
    while executions() == before:
        time.sleep(0.01)
    assert server.stop(number) == 0, server.log.read_text()
    thread.join()
    assert isinstance(answer[0], np.ndarray), answer[0]
    assert (answer[0] == 1).all()
    assert "Started GRPCInferenceService at 127.0.0.1:" in server.log.read_text()
