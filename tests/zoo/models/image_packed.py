"""Transformers over latent images that refine text, or join it with the image: Lumina, Z-Image, Krea, Hunyuan."""

import torch

from models.image_sizes import SIZE, TEXT, TOKENS
from models.registry import grid_ids, normal, steps, tiny, unit_steps


@tiny("transformer", tokens=(TOKENS, TEXT))
def ErnieImageTransformer2DModel():
    config = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_layers": 2,
        "ffn_hidden_size": 64,
        "in_channels": 4,
        "out_channels": 4,
        "patch_size": 1,
        "text_in_dim": 16,
        "rope_theta": 256,
        "rope_axes_dim": (8, 4, 4),
    }
    inputs = {
        "hidden_states": normal(1, 4, 7, 11),
        "timestep": steps(),
        "text_bth": normal(1, TEXT, 16),
        "text_lens": torch.tensor([TEXT]),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS + TEXT,))
def Ideogram4Transformer2DModel():
    from diffusers.models.transformers.transformer_ideogram4 import (
        LLM_TOKEN_INDICATOR,
        OUTPUT_IMAGE_INDICATOR,
    )

    config = {
        "in_channels": 16,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "adaln_dim": 16,
        "llm_features_dim": 24,
        "rope_theta": 10000,
        "mrope_section": (4, 2, 2),
    }
    length = TEXT + TOKENS
    text = torch.arange(length) < TEXT
    place = grid_ids(1, 7, 11).long() + 1000
    words = torch.arange(TEXT)[:, None].expand(-1, 3)
    inputs = {
        "hidden_states": normal(1, length, 16) * ~text[None, :, None],
        "encoder_hidden_states": normal(1, length, 24) * text[None, :, None],
        "timestep": unit_steps(),
        "position_ids": torch.cat([words, place])[None],
        "segment_ids": torch.ones(1, length, dtype=torch.long),
        "indicator": torch.where(text, LLM_TOKEN_INDICATOR, OUTPUT_IMAGE_INDICATOR)[None],
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def Krea2Transformer2DModel():
    config = {
        "in_channels": 16,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "timestep_embed_dim": 8,
        "text_hidden_dim": 16,
        "num_text_layers": 3,
        "text_num_attention_heads": 2,
        "text_num_key_value_heads": 1,
        "text_intermediate_size": 16,
        "num_layerwise_text_blocks": 1,
        "num_refiner_text_blocks": 1,
        "axes_dims_rope": (8, 4, 4),
        "rope_theta": 1000.0,
    }
    inputs = {
        "hidden_states": normal(1, TOKENS, 16),
        "encoder_hidden_states": normal(1, TEXT, 3, 16),
        "timestep": unit_steps(),
        "position_ids": torch.cat([torch.zeros(TEXT, 3), grid_ids(1, 7, 11)]),
        "encoder_attention_mask": torch.arange(TEXT)[None] < TEXT - 1,
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def LuminaNextDiT2DModel():
    config = {
        "sample_size": 16,
        "patch_size": 2,
        "in_channels": 4,
        "hidden_size": 48,
        "num_layers": 2,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "multiple_of": 16,
        "learn_sigma": False,
        "qk_norm": True,
        "cross_attention_dim": 32,
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": unit_steps(),
        "encoder_hidden_states": normal(1, TEXT, 32),
        "encoder_mask": torch.ones(1, TEXT),
        "image_rotary_emb": torch.randn(32, 32, 6),
        "cross_attention_kwargs": {},
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS), constants=("encoder_attention_mask",))
def Lumina2Transformer2DModel():
    config = {
        "sample_size": 16,
        "patch_size": 2,
        "in_channels": 4,
        "hidden_size": 48,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "multiple_of": 2,
        "axes_dim_rope": (4, 4, 4),
        "axes_lens": (32, 32, 32),
        "cap_feat_dim": 32,
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 32),
        "timestep": unit_steps(),
        "encoder_attention_mask": torch.ones(1, TEXT, dtype=torch.bool),
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, 1, TOKENS))
def OmniGenTransformer2DModel():
    config = {
        "in_channels": 4,
        "patch_size": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 64,
        "num_layers": 2,
        "pad_token_id": 0,
        "vocab_size": 50,
        "pos_embed_max_size": 32,
        "time_step_dim": 16,
        "rope_scaling": {"long_factor": [1.0] * 8, "short_factor": [1.0] * 8},
    }
    length = TEXT + 1 + TOKENS
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": unit_steps(),
        "input_ids": torch.randint(1, 50, (1, TEXT)),
        "input_img_latents": [],
        "input_image_sizes": {},
        "attention_mask": torch.ones(1, length, length),
        "position_ids": torch.arange(length)[None],
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def PRXTransformer2DModel():
    config = {
        "in_channels": 4,
        "patch_size": 2,
        "context_in_dim": 32,
        "hidden_size": 64,
        "mlp_ratio": 2.0,
        "num_heads": 4,
        "depth": 2,
        "axes_dim": [8, 8],
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": unit_steps(),
        "encoder_hidden_states": normal(1, TEXT, 32),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def SanaTransformer2DModel():
    config = {
        "patch_size": 1,
        "in_channels": 4,
        "out_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 12,
        "num_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "cross_attention_head_dim": 12,
        "cross_attention_dim": 48,
        "caption_channels": 16,
        "sample_size": 16,
    }
    inputs = {
        "hidden_states": normal(1, 4, 7, 11),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
    }
    return config, inputs


@tiny("transformer", tokens=(96, 32))
def ZImageTransformer2DModel():
    config = {
        "in_channels": 4,
        "dim": 64,
        "n_layers": 2,
        "n_refiner_layers": 1,
        "n_heads": 4,
        "n_kv_heads": 4,
        "cap_feat_dim": 16,
        "axes_dims": [8, 4, 4],
        "axes_lens": [256, 32, 32],
    }
    inputs = {
        "x": [normal(4, 1, *SIZE)],
        "t": unit_steps(),
        "cap_feats": [normal(TEXT, 16)],
    }
    return config, inputs


@tiny(
    "transformer",
    tokens=(TOKENS, 7, 4),
    constants=("encoder_attention_mask", "encoder_attention_mask_2"),
)
def HunyuanImageTransformer2DModel():
    config = {
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": 4,
        "attention_head_dim": 16,
        "num_layers": 2,
        "num_single_layers": 2,
        "num_refiner_layers": 1,
        "patch_size": (1, 1),
        "guidance_embeds": True,
        "text_embed_dim": 16,
        "text_embed_2_dim": 8,
        "rope_axes_dim": (8, 8),
    }
    inputs = {
        "hidden_states": normal(1, 4, 7, 11),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, 7, 16),
        "encoder_attention_mask": torch.ones(1, 7),
        "encoder_hidden_states_2": normal(1, 4, 8),
        "encoder_attention_mask_2": torch.ones(1, 4),
        "guidance": steps(),
    }
    return config, inputs
