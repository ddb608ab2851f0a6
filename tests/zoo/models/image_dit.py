"""Transformers over latent images after DiT: PixArt, CogView, GLM-Image, HiDream."""

import torch

from models.image_sizes import CROPS, SIZE, TEXT, TOKENS
from models.registry import normal, steps, tiny

PIXART = {
    "sample_size": 22,
    "num_layers": 2,
    "patch_size": 2,
    "attention_head_dim": 12,
    "num_attention_heads": 4,
    "in_channels": 4,
    "cross_attention_dim": 48,
    "out_channels": 8,
    "caption_channels": 16,
    "norm_type": "ada_norm_single",
    "norm_elementwise_affine": False,
    "norm_eps": 1e-6,
}


@tiny("transformer", tokens=(TOKENS,), meshes=("cfg=2,cp=2",))
def PixArtTransformer2DModel():
    inputs = {
        "hidden_states": normal(2, 4, *SIZE),
        "timestep": steps(2),
        "encoder_hidden_states": normal(2, TEXT, 16),
        "added_cond_kwargs": {"aspect_ratio": None, "resolution": None},
    }
    return PIXART | {"use_additional_conditions": False}, inputs


@tiny("transformer", tokens=(121,))
def DiTTransformer2DModel():
    config = {
        "in_channels": 4,
        "out_channels": 8,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "num_layers": 2,
        "norm_type": "ada_norm_zero",
        "num_embeds_ada_norm": 8,
        "patch_size": 2,
        "sample_size": 22,
    }
    inputs = {
        "hidden_states": normal(1, 4, 22, 22),
        "timestep": steps().long(),
        "class_labels": torch.tensor([3]),
    }
    return config, inputs


@tiny("transformer", tokens=(121,))
def HunyuanDiT2DModel():
    config = {
        "sample_size": 22,
        "patch_size": 2,
        "in_channels": 4,
        "num_layers": 4,
        "attention_head_dim": 12,
        "num_attention_heads": 4,
        "cross_attention_dim": 16,
        "cross_attention_dim_t5": 16,
        "pooled_projection_dim": 8,
        "hidden_size": 48,
        "text_len": 6,
        "text_len_t5": 5,
        "activation_fn": "gelu-approximate",
    }
    angles = normal(121, 12)
    inputs = {
        "hidden_states": normal(1, 4, 22, 22),
        "encoder_hidden_states": normal(1, 6, 16),
        "text_embedding_mask": torch.ones(1, 6),
        "encoder_hidden_states_t5": normal(1, 5, 16),
        "text_embedding_mask_t5": torch.ones(1, 5),
        "timestep": steps(),
        "image_meta_size": torch.tensor([[1024.0, 1024, 16, 16, 0, 0]]),
        "style": torch.zeros(1, dtype=torch.long),
        "image_rotary_emb": [angles.cos(), angles.sin()],
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def CogView3PlusTransformer2DModel():
    config = {
        "patch_size": 2,
        "in_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 12,
        "num_attention_heads": 4,
        "out_channels": 4,
        "text_embed_dim": 16,
        "time_embed_dim": 8,
        "condition_dim": 4,
        "pos_embed_max_size": 32,
        "sample_size": 22,
    }
    inputs = CROPS | {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps().long(),
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def CogView4Transformer2DModel():
    config = {
        "patch_size": 2,
        "in_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 12,
        "num_attention_heads": 4,
        "out_channels": 4,
        "text_embed_dim": 16,
        "time_embed_dim": 8,
        "condition_dim": 4,
    }
    inputs = CROPS | {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps().long(),
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS), bind=("prior_token_drop",))
def GlmImageTransformer2DModel():
    config = {
        "patch_size": 2,
        "in_channels": 4,
        "out_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "text_embed_dim": 32,
        "time_embed_dim": 16,
        "condition_dim": 8,
        "prior_vq_quantizer_codebook_size": 64,
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 32),
        "prior_token_id": torch.randint(0, 64, (1, TOKENS)),
        "prior_token_drop": torch.zeros(1, TOKENS, dtype=torch.bool),
        "timestep": steps().long(),
        "target_size": torch.tensor([[112.0, 176.0]]),
        "crop_coords": torch.tensor([[0.0, 0.0]]),
    }
    return config, inputs


@tiny("transformer", tokens=(256,))
def HiDreamImageTransformer2DModel():
    config = {
        "patch_size": 2,
        "in_channels": 4,
        "out_channels": 4,
        "num_layers": 2,
        "num_single_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "caption_channels": [8, 4],
        "text_emb_dim": 8,
        "num_routed_experts": 2,
        "num_activated_experts": 2,
        "axes_dims_rope": (8, 4, 4),
        "max_resolution": (32, 32),
        "llama_layers": (0, 1, 2, 3),
        "force_inference_output": True,
    }
    inputs = {
        "hidden_states": normal(1, 4, 32, 32),
        "encoder_hidden_states_t5": normal(1, TEXT, 8),
        "encoder_hidden_states_llama3": normal(4, 1, TEXT, 4),
        "pooled_embeds": normal(1, 8),
        "timesteps": steps(),
    }
    return config, inputs
