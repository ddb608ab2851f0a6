"""The text-to-video client: scheduler, transformers, models' files, demo."""

import json
import shutil
from concurrent import futures
from pathlib import Path

import numpy as np
import pytest
from tutti.clips import (
    ClipsPipeline,
    FlowMatchEulerScheduler,
    OnnxTransformer,
    TritonTransformer,
    demo,
    report,
)

CLIPS = Path(__file__).resolve().parents[2] / "models/clips"


@pytest.fixture(scope="module")
def transformer():
    return OnnxTransformer(CLIPS / "onnx/transformer.onnx")


def shifted(level, shift):
    return shift * level / (1 + (shift - 1) * level)


def test_scheduler_levels_follow_the_formula():
    scheduler = FlowMatchEulerScheduler(shift=3.0)
    scheduler.set_timesteps(4)
    lowest = shifted(1 / 1000, 3)
    expected = [shifted(1 - i * (1 - lowest) / 3, 3) for i in range(4)]
    assert scheduler.sigmas == pytest.approx([*expected, 0.0])
    assert scheduler.timesteps == pytest.approx([1000 * level for level in expected])
    with pytest.raises(ValueError, match="num_inference_steps is 0"):
        scheduler.set_timesteps(0)


def test_scheduler_follows_a_straight_flow_exactly():
    rng = np.random.default_rng(0)
    clean, noise = rng.standard_normal((2, 3, 4)).astype(np.float32)
    scheduler = FlowMatchEulerScheduler(shift=2.0)
    scheduler.set_timesteps(7)
    sample = noise
    for timestep in scheduler.timesteps:
        assert sample == pytest.approx(scheduler.scale_noise(clean, timestep, noise), abs=1e-5)
        (sample,) = scheduler.step(noise - clean, timestep, sample)
    assert sample == pytest.approx(clean, abs=1e-5)


def test_weights_are_small_and_stored_as_fp16():
    import onnx

    files = list((CLIPS / "onnx").iterdir())
    assert max(file.stat().st_size for file in files) <= 15_000_000
    assert sum(file.stat().st_size for file in files) <= 24_000_000
    for name in ("transformer", "vae_decoder", "text_encoder"):
        model = onnx.load(CLIPS / f"onnx/{name}.onnx", load_external_data=False)
        large = [t for t in model.graph.initializer if np.prod(t.dims) >= 1024]
        assert large and {t.data_type for t in large if t.data_type != onnx.TensorProto.INT64} == {
            onnx.TensorProto.FLOAT16
        }


def test_one_guided_step_is_finite_and_its_clip_has_25_frames(transformer):
    made = ClipsPipeline(transformer)("a red circle moving left over a plain background", 1)
    assert len(made.call_seconds) == 2
    assert made.latents.shape == (1, 16, 7, 16, 16) and np.isfinite(made.latents).all()
    assert made.frames.shape == (25, 64, 64, 3) and made.frames.dtype == np.uint8
    assert made.first_velocity.shape == (2, 16, 7, 16, 16)


def test_shapes_are_symbolic_and_batches_are_independent(transformer):
    rng = np.random.default_rng(0)
    latents = rng.standard_normal((2, 16, 2, 4, 6), np.float32)
    text = rng.standard_normal((2, 5, 256), np.float32)
    time = np.array([900.0, 100.0], np.float32)
    (both,) = transformer(latents, time, text)
    (second,) = transformer(latents[1:], time[1:], text[1:])
    assert both[1:] == pytest.approx(second, abs=1e-4)


def test_a_clip_size_that_latents_cannot_hold_is_refused(transformer):
    with pytest.raises(ValueError, match="24 frames"):
        ClipsPipeline(transformer)("a red circle", 1, num_frames=24)


def test_fidelity_numbers_match_their_formulas():
    right = np.zeros((3, 2, 4, 4), np.float32)
    seen = right + np.float32(0.01)
    assert report.psnr_db(seen, right) == pytest.approx(40.0, abs=1e-3)
    assert report.mean_absolute_error(seen, right) == pytest.approx(2.55, rel=1e-4)
    assert report.psnr_db(right, right) == report.IDENTICAL_DB
    assert report.relative_error(np.array([1.0, -3.0]), np.array([1.0, -4.0])) == 0.25


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs ffmpeg")
def test_demo_writes_film_contact_sheet_and_numbers(tmp_path, capsys):
    small = ["--frames", "9", "--side", "32", "--steps", "1"]
    code = demo.main(["--local", "--variants", "one,two", *small, "--out", str(tmp_path)])
    assert code == 0
    saved = json.loads((tmp_path / "demo.json").read_text())
    assert [v["name"] for v in saved["variants"]] == ["one", "two"]
    assert saved["variants"][1]["relative_error"] < 1e-5 and saved["variants"][1]["psnr_db"] > 80
    assert saved["prompt_check"]["total"] == 3
    assert (tmp_path / "clip.mp4").stat().st_size > 1000
    assert (tmp_path / "contact_sheet.png").stat().st_size > 1000
    assert "call share" in capsys.readouterr().out


def test_demo_says_in_one_line_that_no_server_answers(tmp_path, capsys):
    assert (
        demo.main(["--url", "127.0.0.1:1", "--variants", "clips_cp1", "--out", str(tmp_path)]) == 1
    )
    assert capsys.readouterr().err.startswith("demo: ")


@pytest.fixture
def server():
    """A gRPC service that answers twice the latents, as a model of three ranks."""
    import grpc
    from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

    class Service(service_pb2_grpc.GRPCInferenceServiceServicer):
        def ModelReady(self, request, context):
            return service_pb2.ModelReadyResponse(ready=request.name == "clips")

        def ModelConfig(self, request, context):
            config = model_config_pb2.ModelConfig(name=request.name)
            config.parameters["multi_device_gpus"].string_value = "0,1,2"
            return service_pb2.ModelConfigResponse(config=config)

        def ModelInfer(self, request, context):
            assert [i.name for i in request.inputs] == [
                "hidden_states",
                "timestep",
                "encoder_hidden_states",
            ]
            latents = np.frombuffer(request.raw_input_contents[0], np.float32)
            answer = service_pb2.ModelInferResponse(model_name=request.model_name)
            answer.outputs.add(name="sample", datatype="FP32", shape=request.inputs[0].shape)
            answer.raw_output_contents.append((2 * latents).tobytes())
            return answer

    running = grpc.server(futures.ThreadPoolExecutor(2))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Service(), running)
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    yield f"127.0.0.1:{port}"
    running.stop(None)


def test_a_served_transformer_is_called_by_name_and_tells_its_ranks(server):
    served = TritonTransformer(server, "clips")
    latents = np.arange(12, dtype=np.float32).reshape(1, 2, 1, 2, 3)
    (sample,) = served(
        hidden_states=latents, timestep=np.array([5.0]), encoder_hidden_states=np.ones((1, 4, 8))
    )
    assert served.ranks == 3 and len(served.call_seconds) == 1
    assert (sample == 2 * latents).all()
    served.close()


def test_a_model_that_is_not_ready_is_named(server):
    with pytest.raises(ConnectionError, match="'other'"):
        TritonTransformer(server, "other")
