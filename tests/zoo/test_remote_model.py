"""Diffusers' own pipelines over models that a server runs, against the same pipelines over PyTorch."""

import numpy as np
import pytest
import torch
from build_model import build
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    WanPipeline,
)
from models.video_sizes import FRAMES, HEIGHT, TEXT, WIDTH
from one_model import export_folder, exported_model
from serving import Server, compile_model
from tutti.diffusers import RemoteError, RemoteModel, ServedModel
from tutti.diffusers.results import result_of
from tutti.export import export_module

from models import MODELS

STEPS = 3


class Parts(torch.nn.Module):
    """A model of every kind of argument."""

    def forward(self, x, parts=(), step: float = 1.0, scale: float = 1.0, return_dict: bool = True):
        total = x * scale + step
        for part in parts:
            total = total + part
        return {"sample": total, "halves.0": total * 0.5} if return_dict else (total,)


FLUX = MODELS["FluxTransformer2DModel.sizes"]
WAN = MODELS["WanTransformer3DModel.sizes"]


@pytest.fixture(scope="module")
def wan():
    return build(WAN)[0], build(MODELS["AutoencoderKLWan"])[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory, wan):
    folder = tmp_path_factory.mktemp("remote")

    def serve(name, file, mesh="cp=1"):
        compile_model(file, folder / "models" / name, "--mesh", mesh)

    for name, tiny, mesh in (("wan", WAN, "cp=2"), ("flux", FLUX, "cp=3")):
        exported_model(tiny, export_folder(tiny))
        serve(name, export_folder(tiny) / "model.onnx", mesh)
    latents = torch.randn(1, 4, FRAMES, HEIGHT, WIDTH)
    export_module(wan[1], {"z": latents}, folder / "decoder.onnx", method="decode")
    serve("decoder", folder / "decoder.onnx", "sp=2")
    parts = {
        "x": torch.ones(2, 3),
        "parts": [torch.ones(3)] * 2,
        "step": torch.ones(()),
        "scale": 2.0,
    }
    for name, call in (("parts", parts), ("half", {"x": torch.ones(5, dtype=torch.bfloat16)})):
        export_module(Parts(), call, folder / f"{name}.onnx")
        serve(name, folder / f"{name}.onnx")
    server = Server(folder / "models", log=folder / "serve.log")
    yield server
    assert server.stop() == 0, server.log.read_text()


def relative_error(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def video(pipeline, output_type):
    torch.manual_seed(1)
    text, negative = torch.randn(2, 1, TEXT, 16)
    return pipeline(
        prompt_embeds=text,
        negative_prompt_embeds=negative,
        height=HEIGHT * 8,
        width=WIDTH * 8,
        num_frames=(FRAMES - 1) * 4 + 1,
        num_inference_steps=STEPS,
        guidance_scale=4.0,
        generator=torch.Generator().manual_seed(2),
        output_type=output_type,
    ).frames


def test_a_video_pipeline_with_transformer_and_decoder_on_ranks(server, wan):
    def pipeline(transformer, vae):
        made = WanPipeline(None, None, vae, FlowMatchEulerDiscreteScheduler(), transformer)
        made.set_progress_bar_config(disable=True)
        return made

    transformer, vae = wan
    remote = (
        RemoteModel(server.url, "wan", config=transformer),
        RemoteModel(server.url, "decoder", config=vae, method="decode"),
    )
    assert sum(parameter.numel() for model in remote for parameter in model.parameters()) == 0
    expected = video(pipeline(*wan), "latent")
    assert relative_error(video(pipeline(*remote), "latent"), expected) < 1e-4
    expected = video(pipeline(*wan), "np")
    assert relative_error(video(pipeline(*remote), "np"), expected) < 1e-3
    for model in remote:
        model.close()


def test_an_image_pipeline_of_joint_attention(server):
    image, call = build(FLUX)
    vae = AutoencoderKL(
        block_out_channels=(8,), norm_num_groups=4, latent_channels=image.config.in_channels // 4
    )

    def run(transformer):
        made = FluxPipeline(
            FlowMatchEulerDiscreteScheduler(), vae, None, None, None, None, transformer
        )
        made.set_progress_bar_config(disable=True)
        return made(
            prompt_embeds=call["encoder_hidden_states"],
            pooled_prompt_embeds=call["pooled_projections"],
            height=8,
            width=12,
            num_inference_steps=STEPS,
            generator=torch.Generator().manual_seed(3),
            output_type="latent",
        ).images

    remote = RemoteModel(server.url, "flux", config=image)
    assert relative_error(run(remote).numpy(), run(image).numpy()) < 1e-4


def test_a_pipeline_is_loaded_around_a_remote_model(server, wan, tmp_path):
    """Without the transformer's weights on this machine: only its config is there."""
    transformer, vae = wan
    WanPipeline(None, None, vae, FlowMatchEulerDiscreteScheduler(), transformer).save_pretrained(
        tmp_path / "pipeline"
    )
    weights = list((tmp_path / "pipeline/transformer").glob("*.safetensors"))
    assert weights
    for file in weights:
        file.unlink()
    remote = RemoteModel(server.url, "wan", config=tmp_path / "pipeline/transformer")
    parts = {"transformer": remote, "transformer_2": None, "text_encoder": None, "tokenizer": None}
    loaded = WanPipeline.from_pretrained(tmp_path / "pipeline", **parts)
    loaded.set_progress_bar_config(disable=True)
    assert loaded.transformer is remote
    assert remote.config.num_attention_heads == 4 and remote.dtype == torch.float32
    assert video(loaded, "latent").shape == (1, 4, FRAMES, HEIGHT, WIDTH)


PARTS = [torch.arange(3.0), torch.ones(3)]


def remote_parts(server, **options):
    return RemoteModel(server.url, "parts", **options)


def test_lists_numbers_and_output_classes(server):
    model = remote_parts(server, constants={"scale": 2.0})
    x = torch.randn(2, 3)
    result = model(x=x, parts=PARTS, step=0.25, scale=2.0)
    expected = x * 2 + 0.25 + PARTS[0] + PARTS[1]
    torch.testing.assert_close(result.sample, expected)
    torch.testing.assert_close(result["sample"], expected)
    torch.testing.assert_close(result.halves[0], expected / 2)
    plain = model(x=x, parts=PARTS, step=0.25, scale=2.0, return_dict=False)
    torch.testing.assert_close(plain[0], expected)


def test_bf16_keeps_its_bits(server):
    model = RemoteModel(server.url, "half")
    assert model.dtype == torch.bfloat16
    x = torch.tensor([1.0, -3.14, 65280.0, 1e-30, 0.0], dtype=torch.bfloat16)
    assert torch.equal(model(x=x).sample, x + 1)
    assert model(x=x.double()).sample.dtype == torch.bfloat16


def test_answers_have_the_type_that_the_model_is_moved_to(server):
    model = remote_parts(server, constants={"scale": 2.0}).to(torch.bfloat16)
    x = torch.randn(2, 3).bfloat16()
    found = model(x=x, parts=PARTS, step=0.25, scale=2.0).sample
    assert (model.dtype, found.dtype) == (torch.bfloat16, torch.bfloat16)
    torch.testing.assert_close(found, (x.float() * 2 + 0.25 + sum(PARTS)).bfloat16())


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"parts": PARTS[:1]}, "takes a tensor 'parts.1', and the call has none"),
        ({"mask": torch.ones(3)}, "takes no tensor 'mask', only x, parts.0, parts.1, step"),
        ({"scale": 3.0}, "'scale' is 3.0, and what is no tensor was fixed"),
        ({"mode": "fast"}, "'mode' is 'fast'"),
    ],
)
def test_arguments_that_the_served_model_does_not_know_are_refused(server, changes, part):
    call = {"x": torch.ones(2, 3), "parts": PARTS, "step": 1.0, "scale": 2.0} | changes
    with pytest.raises(TypeError) as caught:
        remote_parts(server, constants={"scale": 2.0})(**call)
    assert part in str(caught.value)
    assert "model 'parts' at" in str(caught.value)


def test_signatures_are_those_of_the_class(server, wan):
    model = RemoteModel(server.url, "wan", config=wan[0])
    latents, text = torch.randn(1, 4, FRAMES, HEIGHT, WIDTH), torch.randn(1, TEXT, 16)
    by_place = model(latents, torch.ones(1), text, return_dict=False)[0]
    by_name = model(hidden_states=latents, timestep=1.0, encoder_hidden_states=text).sample
    assert torch.equal(by_place, by_name)
    with pytest.raises(TypeError, match="encoder_hidden_states"):
        model(latents, torch.ones(1))
    with pytest.raises(TypeError, match="attention_kwargs"):
        model(latents, torch.ones(1), text, attention_kwargs={"scale": 0.5})
    with pytest.raises(AttributeError, match="WanTransformer3DModel.nothing.: .* in the server"):
        _ = model.nothing


def test_what_the_server_refuses_is_an_error_with_its_words(server):
    model = remote_parts(server, constants={"scale": 2.0})
    with pytest.raises(RemoteError, match="model 'parts' at .*: INVALID_ARGUMENT: .*'x'"):
        model(x=torch.ones(4, 3), parts=PARTS, step=1.0, scale=2.0)
    with pytest.raises(RemoteError, match="NOT_FOUND|UNAVAILABLE"):
        RemoteModel(server.url, "nobody")
    with pytest.raises(RemoteError, match="UNAVAILABLE"):
        ServedModel("127.0.0.1:1", "wan", timeout=5)
    with pytest.raises(ValueError, match="expected host:port of the server's gRPC service"):
        RemoteModel(f"http://{server.url}", "parts")
    with pytest.raises(FileNotFoundError, match="nowhere/config.json does not exist"):
        remote_parts(server, config="/nowhere")


def test_results_have_the_form_that_their_names_say():
    a, b = torch.ones(1), torch.zeros(1)
    assert result_of({"output": a}, "M", True) is a
    assert result_of({"output.0": a, "output.1": b}, "M", True) == (a, b)
    assert result_of({"sample": a, "states.0": b}, "M", False) == (a, [b])
    assert result_of({"sample": a, "by.key": b}, "M", True).by == {"key": b}
