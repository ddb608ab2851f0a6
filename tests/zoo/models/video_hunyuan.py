"""Transformers over latent video: HunyuanVideo."""

import torch

from models.registry import normal, steps, tiny
from models.video_sizes import HEIGHT, SIZE, TEXT, TOKENS, WIDTH

HUNYUAN = {
    "in_channels": 4,
    "out_channels": 4,
    "num_attention_heads": 4,
    "attention_head_dim": 12,
    "num_layers": 2,
    "num_single_layers": 2,
    "num_refiner_layers": 1,
    "patch_size": 2,
    "patch_size_t": 1,
    "guidance_embeds": True,
    "text_embed_dim": 16,
    "pooled_projection_dim": 8,
    "rope_axes_dim": (4, 4, 4),
}


def hunyuan_inputs(channels):
    return {
        "hidden_states": normal(1, channels, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "encoder_attention_mask": torch.ones(1, TEXT),
        "pooled_projections": normal(1, 8),
    }


@tiny("transformer", tokens=(TOKENS, TEXT))
def HunyuanVideoTransformer3DModel():
    return HUNYUAN, hunyuan_inputs(4) | {"guidance": steps()}


@tiny(
    "transformer",
    tokens=(TOKENS, TEXT),
    name="HunyuanVideoTransformer3DModel.i2v",
    class_name="HunyuanVideoTransformer3DModel",
)
def hunyuan_image_to_video():
    config = HUNYUAN | {
        "in_channels": 9,
        "guidance_embeds": False,
        "image_condition_type": "latent_concat",
    }
    return config, hunyuan_inputs(9)


@tiny("transformer", tokens=(86, TOKENS, 18), bind=("encoder_attention_mask",))
def HunyuanVideoFramepackTransformer3DModel():
    config = HUNYUAN | {
        "has_image_proj": True,
        "image_proj_dim": 16,
        "has_clean_x_embedder": True,
    }
    inputs = hunyuan_inputs(4) | {
        "guidance": steps(),
        "image_embeds": normal(1, 7, 16),
        "indices_latents": torch.arange(5.0) + 11,
        "latents_clean": normal(1, 4, 2, HEIGHT, WIDTH),
        "indices_latents_clean": torch.arange(2.0) + 9,
        "latents_history_2x": normal(1, 4, 2, HEIGHT, WIDTH),
        "indices_latents_history_2x": torch.arange(2.0) + 7,
        "latents_history_4x": normal(1, 4, 4, HEIGHT, WIDTH),
        "indices_latents_history_4x": torch.arange(4.0) + 3,
    }
    return config, inputs


@tiny(
    "transformer",
    tokens=(TOKENS, 18),
    constants=("encoder_attention_mask", "encoder_attention_mask_2", "image_embeds"),
)
def HunyuanVideo15Transformer3DModel():
    config = {
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "mlp_ratio": 2.0,
        "patch_size": 2,
        "patch_size_t": 1,
        "text_embed_dim": 16,
        "text_embed_2_dim": 8,
        "image_embed_dim": 12,
        "rope_axes_dim": (4, 4, 4),
        "target_size": 16,
        "task_type": "t2v",
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "encoder_attention_mask": torch.ones(1, TEXT),
        "encoder_hidden_states_2": normal(1, 4, 8),
        "encoder_attention_mask_2": torch.ones(1, 4),
        "image_embeds": torch.zeros(1, 3, 12),
    }
    return config, inputs
