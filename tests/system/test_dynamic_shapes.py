"""One plan a mesh serves every size of its range, in any order, with the answer of one rank."""

import subprocess
import time

import numpy as np
import onnxruntime as ort
import pytest
import tritonclient.grpc as triton
from sample_models import BINARY, CHANNELS, ONNX, TEXT_WIDTH, relative_error

MESHES = ("cp=1", "cp=2", "cp=3", "cp=4", "cfg=2,cp=2")
# Of every size: the least, where the plan is best, the most.
RANGES = {
    "batch": (1, 2, 3),
    "frames": (1, 2, 7),
    "height": (1, 4, 8),
    "width": (1, 4, 8),
    "text_len": (1, 24, 40),
}
TOLERANCE = 1e-4


def folder_of(mesh):
    return mesh.replace("=", "").replace(",", "_")


@pytest.fixture(scope="module")
def client(tutti, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dynamic")
    profile = ",".join(f"{name}={a}:{b}:{c}" for name, (a, b, c) in RANGES.items())
    for mesh in MESHES:
        model = folder / "models" / folder_of(mesh)
        options = ["--mesh", mesh, "--profile", profile]
        tutti("compile", ONNX / "transformer.onnx", "--output", model, *options)
    port_file = folder / "port"
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [BINARY, "serve", "--model-repository", folder / "models", "--grpc-port", "0"]
            + ["--allow-http", "false", "--allow-metrics", "false", "--port-file", port_file],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 120
    while not port_file.exists():
        assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    with triton.InferenceServerClient(f"127.0.0.1:{port_file.read_text().strip()}") as client:
        yield client
    server.terminate()
    assert server.wait(60) == 0


@pytest.fixture(scope="module")
def onnxruntime_session():
    return ort.InferenceSession(ONNX / "transformer.onnx", providers=["CPUExecutionProvider"])


def feeds_of(sizes, seed):
    batch, frames, height, width, text_len = sizes
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
    return {
        "hidden_states": normal(batch, CHANNELS, frames, height, width),
        "timestep": rng.uniform(0, 1000, batch).astype(np.float32),
        "encoder_hidden_states": normal(batch, text_len, TEXT_WIDTH),
    }


def infer(client, mesh, feeds):
    inputs = []
    for name, array in feeds.items():
        inputs.append(triton.InferInput(name, list(array.shape), "FP32"))
        inputs[-1].set_data_from_numpy(array)
    result = client.infer(folder_of(mesh), inputs)
    return result.as_numpy(result.get_response().outputs[0].name)


def sizes_in_random_order():
    smallest, best, largest = zip(*RANGES.values(), strict=True)
    rng = np.random.default_rng(3)
    sizes = [smallest, best, largest, (1, 1, 1, 1, 24), (1, 1, 1, 3, 7), (3, 1, 1, 2, 1)]
    for _ in range(10):
        sizes.append(tuple(int(rng.integers(a, c + 1)) for a, _, c in RANGES.values()))
    sizes += sizes[:4]  # again, after their kernels were dropped
    rng.shuffle(sizes)
    return [tuple(map(int, entry)) for entry in sizes]


@pytest.mark.parametrize("mesh", MESHES)
def test_one_plan_serves_its_range(client, onnxruntime_session, mesh):
    for seed, sizes in enumerate(sizes_in_random_order()):
        feeds = feeds_of(sizes, seed)
        (want,) = onnxruntime_session.run(None, feeds)
        assert relative_error(infer(client, mesh, feeds), want) <= TOLERANCE, (sizes, mesh)


@pytest.mark.parametrize("mesh", ["cp=1", "cp=3", "cfg=2,cp=2"])
def test_sizes_outside_are_refused_by_name(client, mesh):
    for dimension, (name, (_, _, most)) in enumerate(RANGES.items()):
        sizes = [best for _, best, _ in RANGES.values()]
        sizes[dimension] = most + 1
        with pytest.raises(triton.InferenceServerException) as error:
            infer(client, mesh, feeds_of(sizes, 0))
        message = error.value.message()
        tensor = "encoder_hidden_states" if name == "text_len" else "hidden_states"
        where = 1 if name == "text_len" else {0: 0, 1: 2, 2: 3, 3: 4}[dimension]
        assert f"input '{tensor}'" in message, message
        assert f"at dimension {where}: {name} is {most + 1}, the plan takes 1 to {most}" in message
    # The next good request works.
    assert infer(client, mesh, feeds_of([1, 1, 1, 1, 1], 0)).size == CHANNELS


def test_dynamic_sizes_are_minus_one_outside(client):
    for mesh in MESHES:
        metadata = client.get_model_metadata(folder_of(mesh))
        shapes = {tensor.name: list(tensor.shape) for tensor in metadata.inputs}
        assert shapes["hidden_states"] == [-1, CHANNELS, -1, -1, -1]
        assert shapes["timestep"] == [-1]
        config = client.get_model_config(folder_of(mesh)).config
        dims = {tensor.name: list(tensor.dims) for tensor in config.input}
        assert dims["encoder_hidden_states"] == [-1, -1, TEXT_WIDTH]


def test_the_plan_tells_its_ranges(tutti, tmp_path):
    shapes = {
        "--min-shapes": f"hidden_states:1x{CHANNELS}x1x1x1,encoder_hidden_states:1x1x{TEXT_WIDTH}",
        "--opt-shapes": f"hidden_states:2x{CHANNELS}x2x4x4",
        "--maxShapes": f"hidden_states:3x{CHANNELS}x7x8x8,encoder_hidden_states:3x40x{TEXT_WIDTH}",
    }
    options = [part for option in shapes.items() for part in option]
    tutti("compile", ONNX / "transformer.onnx", "--output", tmp_path / "m", *options)
    report = tutti.inspect(tmp_path / "m/1/model.plan", {})
    ranges = {
        name: tuple(r[k] for k in ("min", "opt", "max")) for name, r in report["ranges"].items()
    }
    assert ranges == {**RANGES, "text_len": (1, 40, 40)}
    assert report["sizes"]["frames"] == 2


def test_a_range_of_no_size_is_an_error(tutti, tmp_path):
    done = tutti(
        "compile", ONNX / "transformer.onnx", "--output", tmp_path / "m", "--profile", "f=1:2:3",
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no input has a size 'f'" in done.stderr
