"""Pipelines of further families: each model exported with the call that the pipeline makes of it, served, and put back."""

import inspect

import numpy as np
import pytest
import torch
from build_model import describe, find_class, rouse
from diffusers import (
    AutoencoderKL,
    AutoencoderKLFlux2,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    LTXPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from serving import Server, compile_model
from tutti.diffusers import RemoteModel
from tutti.diffusers.structure import structure_of
from tutti.export import export_module, record_calls

from models import MODELS

TEXT = 11


def zoo_model(name, **changes):
    module = find_class(MODELS[name])(**(describe(MODELS[name])[0] | changes)).eval()
    rouse(module)
    return module


def embeddings(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def small_unet():
    """As of Stable Diffusion XL: its input and its output are both called `sample`."""
    torch.manual_seed(0)
    return UNet2DConditionModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        sample_size=16,
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=8 * 6 + 12,
    ).eval()


def unet_family():
    vae = AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
    ).eval()

    def pipeline(unet, vae):
        parts = (vae, None, None, None, None, unet, EulerDiscreteScheduler())
        return StableDiffusionXLPipeline(
            *parts, force_zeros_for_empty_prompt=False, add_watermarker=False
        )

    call = {
        "prompt_embeds": embeddings(1, 1, TEXT, 16),
        "negative_prompt_embeds": embeddings(2, 1, TEXT, 16),
        "pooled_prompt_embeds": embeddings(3, 1, 12),
        "negative_pooled_prompt_embeds": embeddings(4, 1, 12),
        "height": 32,
        "width": 32,
    }
    return pipeline, small_unet(), vae, call


def video_family():
    """The decoder's statistics lie in its weights, its compression ratios follow from its configuration."""
    transformer = zoo_model("LTXVideoTransformer3DModel")
    vae = zoo_model("AutoencoderKLLTXVideo", latent_channels=4)
    vae.latents_mean += embeddings(5, 4)

    def pipeline(transformer, vae):
        return LTXPipeline(FlowMatchEulerDiscreteScheduler(), vae, None, None, transformer)

    mask = torch.arange(TEXT)[None] < 7
    call = {
        "prompt_embeds": embeddings(1, 1, TEXT, 16),
        "prompt_attention_mask": mask,
        "negative_prompt_embeds": embeddings(2, 1, TEXT, 16),
        "negative_prompt_attention_mask": torch.ones_like(mask),
        "height": 160,
        "width": 224,
        "num_frames": 17,
    }
    return pipeline, transformer, vae, call


def pictures(pipeline, call):
    pipeline.set_progress_bar_config(disable=True)
    options = {"num_inference_steps": 2, "generator": torch.Generator().manual_seed(6)}
    return np.asarray(pipeline(**call, **options, output_type="np")[0])


@pytest.mark.parametrize("family", [unet_family, video_family])
def test_recorded_calls_are_enough_to_serve_a_pipelines_models(family, tmp_path):
    pipeline, denoiser, vae, call = family()
    with record_calls(denoiser) as denoised, record_calls(vae, "decode") as decoded:
        expected = pictures(pipeline(denoiser, vae), call)
    assert len(denoised) == 2 and len(decoded) == 1
    parts = (("denoiser", denoiser, denoised[0], "forward"), ("decoder", vae, decoded[0], "decode"))
    for (name, module, recorded, method), mesh in zip(parts, ("cp=2", "sp=2"), strict=True):
        export_module(module, recorded, tmp_path / f"{name}.onnx", method=method)
        compile_model(tmp_path / f"{name}.onnx", tmp_path / "models" / name, "--mesh", mesh)
    server = Server(tmp_path / "models", log=tmp_path / "serve.log")
    remote = [
        RemoteModel(server.url, name, config=module, method=method, constants=recorded)
        for name, module, recorded, method in parts
    ]
    found = pictures(pipeline(*remote), call)
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
    for model in remote:
        model.close()
    assert server.stop() == 0


def structure(module, source=None):
    return structure_of(type(module), dict(module.config), source)


def test_a_structure_answers_what_follows_from_the_configuration():
    unet = small_unet()
    here = structure(unet)
    assert here.add_embedding.linear_1.in_features == unet.add_embedding.linear_1.in_features == 60
    assert here.dtype == torch.float32
    with pytest.raises(AttributeError, match="UNet2DConditionModel.set_attn_processor"):
        _ = here.set_attn_processor  # what it would change is in the server
    with pytest.raises(AttributeError, match=r"UNet2DConditionModel.conv_in.weight"):
        _ = here.conv_in.weight
    with pytest.raises(AttributeError, match="nothing"):
        _ = here.nothing
    vae = zoo_model("AutoencoderKLLTXVideo")
    assert vae.config.spatial_compression_ratio is None
    assert structure(vae).spatial_compression_ratio == vae.spatial_compression_ratio > 1


def test_statistics_come_from_the_weights(tmp_path):
    torch.manual_seed(0)
    vae = AutoencoderKLFlux2(
        block_out_channels=(8,),
        down_block_types=("DownEncoderBlock2D",),
        up_block_types=("UpDecoderBlock2D",),
        norm_num_groups=4,
        latent_channels=4,
    )
    vae.bn.running_mean += 3
    vae.save_pretrained(tmp_path)
    for source in (tmp_path, dict(vae.named_buffers())):
        assert torch.equal(structure(vae, source).bn.running_mean, vae.bn.running_mean)
    with pytest.raises(AttributeError, match="bn.running_mean' is in the model's weights"):
        _ = structure(vae).bn.running_mean


def test_modules_without_weights_are_whole():
    transformer = zoo_model("LTXVideoTransformer3DModel")
    here = structure(transformer)
    assert not list(transformer.rope.state_dict())
    tokens = torch.zeros(1, 105, 4)
    sizes = {"num_frames": 3, "height": 5, "width": 7}
    for found, expected in zip(here.rope(tokens, **sizes), transformer.rope(tokens, **sizes), strict=True):  # fmt: skip
        assert torch.equal(found, expected)


def test_recording_leaves_the_module_as_it_was():
    unet = small_unet()
    signature = inspect.signature(unet.forward)
    with record_calls(unet) as calls, pytest.raises(TypeError, match="nobody"):
        unet(nobody=1)
    assert calls == []
    assert "forward" not in vars(unet)
    assert inspect.signature(unet.forward) == signature
