"""Transformers over latent images."""

import torch

from models.registry import grid_ids, normal, steps, tiny, unit_steps

HEIGHT, WIDTH = 14, 22  # latent; patches of 2 make 7 x 11 tokens
TOKENS = 77
TEXT = 11
SIZE = (HEIGHT, WIDTH)
CROPS = {
    "original_size": torch.tensor([[112.0, 176.0]]),
    "target_size": torch.tensor([[112.0, 176.0]]),
    "crop_coords": torch.tensor([[0.0, 0.0]]),
}
JOINT = {
    "patch_size": 1,
    "in_channels": 4,
    "num_layers": 2,
    "num_single_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 4,
    "joint_attention_dim": 32,
    "axes_dims_rope": [4, 4, 8],
}


def joint_inputs(columns=3, width=32):
    return {
        "hidden_states": normal(1, TOKENS, 4),
        "encoder_hidden_states": normal(1, TEXT, width),
        "timestep": unit_steps(),
        "img_ids": grid_ids(1, 7, 11, columns),
        "txt_ids": torch.zeros(TEXT, columns),
    }


@tiny("transformer", tokens=(TEXT, TOKENS))
def FluxTransformer2DModel():
    config = JOINT | {"pooled_projection_dim": 32, "guidance_embeds": True}
    inputs = joint_inputs() | {"pooled_projections": normal(1, 32), "guidance": unit_steps()}
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def Flux2Transformer2DModel():
    config = JOINT | {"timestep_guidance_channels": 32, "axes_dims_rope": [4, 4, 4, 4]}
    return config, joint_inputs(4) | {"guidance": unit_steps()}


@tiny("transformer", tokens=(TEXT, TOKENS))
def Flux3Transformer2DModel():
    config = {
        "in_channels": 4,
        "cond_in_channels": 4,
        "num_layers": 2,
        "num_single_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "joint_attention_dim": 32,
        "timestep_channels": 32,
        "axes_dims_rope": (4, 4, 4, 4),
    }
    return config, joint_inputs(4)


@tiny("transformer", tokens=(TEXT, TOKENS))
def ChromaTransformer2DModel():
    config = JOINT | {
        "approximator_num_channels": 8,
        "approximator_hidden_dim": 16,
        "approximator_layers": 1,
    }
    return config, joint_inputs()


@tiny("transformer", tokens=(TEXT, TOKENS))
def BriaTransformer2DModel():
    return JOINT | {"pooled_projection_dim": None}, joint_inputs()


@tiny("transformer", tokens=(TEXT, TOKENS))
def BriaFiboTransformer2DModel():
    config = JOINT | {
        "text_encoder_dim": 32,
        "pooled_projection_dim": None,
        "joint_attention_dim": 64,
    }
    inputs = joint_inputs(width=64)
    inputs["text_encoder_layers"] = [normal(1, TEXT, 32) for _ in range(4)]
    return config, inputs


@tiny("transformer", tokens=(6, TOKENS))
def BriaFibo2Transformer2DModel():
    config = {
        "in_channels": 4,
        "patch_size": 2,
        "dim": 64,
        "n_layers": 2,
        "n_refiner_layers": 1,
        "n_heads": 4,
        "cap_feat_dim": 32,
        "injection_layer_ids": (1,),
        "perceiver_num_layers": 1,
        "min_num_gist_tokens": 4,
        "max_num_gist_tokens": 8,
        "gist_step": 2,
        "gist_min_text_len": 4,
        "gist_max_text_len": 32,
        "axes_dims": (4, 6, 6),
        "axes_lens": (64, 64, 64),
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": unit_steps(),
        "encoder_hidden_states": normal(1, 2, TEXT, 32),
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def OvisImageTransformer2DModel():
    return JOINT | {"out_channels": 4}, joint_inputs()


@tiny("transformer", tokens=(TEXT, TOKENS))
def LongCatImageTransformer2DModel():
    return JOINT | {"pooled_projection_dim": 32}, joint_inputs() | {"guidance": unit_steps()}


@tiny("transformer", tokens=(TEXT + 8, TOKENS))
def AuraFlowTransformer2DModel():
    config = {
        "sample_size": 22,
        "patch_size": 2,
        "in_channels": 4,
        "num_mmdit_layers": 2,
        "num_single_dit_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "caption_projection_dim": 64,
        "joint_attention_dim": 32,
        "out_channels": 4,
        "pos_embed_max_size": 256,
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 32),
        "timestep": unit_steps(),
    }
    return config, inputs


SD3 = {
    "sample_size": 22,
    "patch_size": 2,
    "in_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 4,
    "caption_projection_dim": 64,
    "joint_attention_dim": 32,
    "pooled_projection_dim": 32,
    "out_channels": 4,
    "pos_embed_max_size": 32,
    "qk_norm": "rms_norm",
}


def sd3_inputs():
    return {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 32),
        "pooled_projections": normal(1, 32),
        "timestep": steps(),
    }


@tiny("transformer", tokens=(TOKENS, TEXT))
def SD3Transformer2DModel():
    return SD3, sd3_inputs()


@tiny(
    "transformer",
    tokens=(TOKENS, TEXT),
    name="SD3Transformer2DModel.3_5",
    class_name="SD3Transformer2DModel",
)
def sd3_medium():
    return SD3 | {"dual_attention_layers": (0,)}, sd3_inputs()


@tiny("transformer", tokens=(TEXT, TOKENS))
def QwenImageTransformer2DModel():
    config = {
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "joint_attention_dim": 32,
        "axes_dims_rope": (8, 4, 4),
    }
    inputs = {
        "hidden_states": normal(1, TOKENS, 16),
        "encoder_hidden_states": normal(1, TEXT, 32),
        "encoder_hidden_states_mask": torch.ones(1, TEXT, dtype=torch.long),
        "timestep": unit_steps(),
        "img_shapes": [(1, 7, 11)],
    }
    return config, inputs


@tiny("transformer", tokens=(110,), constants=("img_mask",))
def QwenImage21Transformer2DModel():
    config = {
        "patch_size": 1,
        "in_channels": 16,
        "out_channels": 16,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "context_in_dim": 32,
        "axes_dims_rope": (8, 4, 4),
        "causal_condition": False,
    }
    inputs = {
        "hidden_states": normal(1, 100, 16),
        "encoder_hidden_states": normal(1, 10, 32),
        "timestep": unit_steps(),
        "img_shapes": [[(1, 10, 10)]],
        "img_mask": torch.arange(35)[None] >= 10,
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def NucleusMoEImageTransformer2DModel():
    config = {
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "joint_attention_dim": 32,
        "axes_dims_rope": (8, 4, 4),
        "moe_enabled": False,
        "capacity_factors": [8.0, 8.0],
    }
    inputs = {
        "hidden_states": normal(1, TOKENS, 16),
        "encoder_hidden_states": normal(1, TEXT, 32),
        "encoder_hidden_states_mask": torch.ones(1, TEXT, dtype=torch.long),
        "timestep": unit_steps(),
        "img_shapes": [(1, 7, 11)],
    }
    return config, inputs


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
    tokens=(TOKENS, TEXT),
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


UNET_PART = {
    "num_attention_heads": 4,
    "attention_head_dim": 12,
    "in_channels": 48,
    "num_layers": 2,
    "norm_num_groups": 4,
    "cross_attention_dim": 16,
}


@tiny("transformer", tokens=(TOKENS,))
def Transformer2DModel():
    inputs = {"hidden_states": normal(1, 48, 7, 11), "encoder_hidden_states": normal(1, TEXT, 16)}
    return UNET_PART, inputs


@tiny("transformer", tokens=(65,))
def DualTransformer2DModel():
    inputs = {
        "hidden_states": normal(1, 48, 5, 13),
        "encoder_hidden_states": normal(1, 77 + 257, 16),
        "return_dict": False,
    }
    return UNET_PART, inputs


@tiny("transformer", tokens=(TOKENS,))
def DreamLiteTransformer2DModel():
    config = UNET_PART | {"num_kv_heads": 4, "qk_norm": "rms_norm"}
    inputs = {"hidden_states": normal(1, 48, 7, 11), "encoder_hidden_states": normal(1, TEXT, 16)}
    return config, inputs


@tiny("transformer", tokens=(53,))
def PriorTransformer():
    config = {
        "num_attention_heads": 4,
        "attention_head_dim": 8,
        "num_layers": 2,
        "embedding_dim": 16,
        "num_embeddings": 49,
        "additional_embeddings": 4,
    }
    inputs = {
        "hidden_states": normal(1, 16),
        "timestep": steps(),
        "proj_embedding": normal(1, 16),
        "encoder_hidden_states": normal(1, 49, 16),
    }
    return config, inputs
