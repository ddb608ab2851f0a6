"""Transformers over latent video."""

import torch

from models.registry import normal, steps, tiny

FRAMES, HEIGHT, WIDTH = 5, 10, 14  # latent; patches of (1, 2, 2) make 5 x 5 x 7 tokens
TOKENS = FRAMES * (HEIGHT // 2) * (WIDTH // 2)
TEXT = 11
SIZE = (FRAMES, HEIGHT, WIDTH)

WAN = {
    "patch_size": (1, 2, 2),
    "num_attention_heads": 4,
    "attention_head_dim": 12,
    "in_channels": 4,
    "out_channels": 4,
    "text_dim": 16,
    "freq_dim": 32,
    "ffn_dim": 64,
    "num_layers": 2,
    "rope_max_seq_len": 32,
}


@tiny("transformer", tokens=(TOKENS,), meshes=("cfg=2,cp=2",))
def WanTransformer3DModel():
    inputs = {
        "hidden_states": normal(2, 4, *SIZE),
        "timestep": steps(2),
        "encoder_hidden_states": normal(2, TEXT, 16),
    }
    return WAN, inputs


@tiny(
    "transformer",
    tokens=(TOKENS,),
    name="WanTransformer3DModel.i2v",
    class_name="WanTransformer3DModel",
)
def wan_image_to_video():
    config = WAN | {"image_dim": 16, "added_kv_proj_dim": 48, "in_channels": 9}
    inputs = {
        "hidden_states": normal(1, 9, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "encoder_hidden_states_image": normal(1, 7, 16),
    }
    return config, inputs


@tiny(
    "transformer",
    tokens=(TOKENS,),
    name="WanTransformer3DModel.ti2v",
    class_name="WanTransformer3DModel",
)
def wan_text_image_to_video():
    """Wan 2.2's 5B model: a time step for each token."""
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(TOKENS)[None],
        "encoder_hidden_states": normal(1, TEXT, 16),
    }
    return WAN, inputs


@tiny("transformer", tokens=(TOKENS,))
def WanVACETransformer3DModel():
    config = WAN | {"num_layers": 3, "vace_layers": [0, 2], "vace_in_channels": 12}
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "control_hidden_states": normal(1, 12, *SIZE),
    }
    return config, inputs


@tiny("transformer", tokens=(6 * 35,))
def WanAnimateTransformer3DModel():
    config = WAN | {
        "in_channels": 12,
        "latent_channels": 4,
        "image_dim": 16,
        "motion_encoder_channel_sizes": {"4": 16, "8": 16, "16": 16},
        "motion_encoder_size": 16,
        "motion_style_dim": 8,
        "motion_dim": 4,
        "motion_encoder_dim": 16,
        "face_encoder_hidden_dim": 16,
        "face_encoder_num_heads": 2,
        "inject_face_latents_blocks": 2,
    }
    inputs = {
        "hidden_states": normal(1, 12, 6, HEIGHT, WIDTH),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "encoder_hidden_states_image": normal(1, 7, 16),
        "pose_hidden_states": normal(1, 4, 5, HEIGHT, WIDTH),
        "face_pixel_values": normal(1, 3, 17, 16, 16),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,), constants=("offset_grid_sizes",))
def WanAnimate2Transformer3DModel():
    from diffusers.models.transformers.transformer_wan_animate_2 import WanAnimate2KVCache

    config = {
        "patch_size": (1, 2, 2),
        "text_len": 11,
        "in_dim": 12,
        "dim": 64,
        "ffn_dim": 128,
        "freq_dim": 32,
        "text_dim": 32,
        "out_dim": 4,
        "num_heads": 4,
        "num_layers": 2,
    }
    inputs = {
        "hidden_states": [normal(4, *SIZE)],
        "timestep": torch.tensor([1.0]),
        "encoder_hidden_states": [normal(9, 32)],
        "condition_latents": [normal(8, *SIZE)],
        "encoder_hidden_states_image": normal(1, 4, 1280),
        "kv_cache": WanAnimate2KVCache(2),
        "kv_cache_mode": "extract",
        "seq_len": TOKENS,
        "offset_grid_sizes": torch.tensor([[5, 5, 7]]),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def ChronoEditTransformer3DModel():
    config = WAN | {"rope_temporal_skip_len": 8}
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def SkyReelsV2Transformer3DModel():
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
    }
    return WAN, inputs


@tiny("transformer", tokens=(TOKENS,))
def AnyFlowTransformer3DModel():
    config = WAN | {"gate_value": 0.25, "deltatime_type": "r"}
    inputs = {
        "hidden_states": normal(1, FRAMES, 4, HEIGHT, WIDTH),
        "timestep": steps(FRAMES)[None],
        "r_timestep": steps(FRAMES)[None] / 2,
        "encoder_hidden_states": normal(1, TEXT, 16),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def AnyFlowFARTransformer3DModel():
    config = WAN | {
        "gate_value": 0.25,
        "deltatime_type": "r",
        "compressed_patch_size": (1, 4, 4),
        "full_chunk_limit": 3,
    }
    inputs = {
        "hidden_states": normal(1, 5, 4, 12, 20),
        "timestep": steps(5)[None],
        "r_timestep": steps(5)[None] / 2,
        "encoder_hidden_states": normal(1, TEXT, 16),
        "chunk_partition": [2, 3],
    }
    return config, inputs


@tiny("transformer", tokens=(51, TOKENS))
def HeliosTransformer3DModel():
    config = WAN | {
        "rope_dim": (4, 4, 4),
        "has_multi_term_memory_patch": True,
        "guidance_cross_attn": True,
        "zero_history_timestep": True,
        "is_amplify_history": False,
    }
    del config["rope_max_seq_len"]
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "indices_hidden_states": torch.arange(5.0)[None] + 6,
        "indices_latents_history_short": torch.ones(1, 1) * 5,
        "indices_latents_history_mid": torch.ones(1, 2) * 4,
        "indices_latents_history_long": torch.arange(4.0)[None],
        "latents_history_short": normal(1, 4, 1, HEIGHT, WIDTH),
        "latents_history_mid": normal(1, 4, 2, HEIGHT, WIDTH),
        "latents_history_long": normal(1, 4, 4, HEIGHT, WIDTH),
    }
    return config, inputs


COSMOS = {
    "in_channels": 4,
    "out_channels": 4,
    "num_attention_heads": 4,
    "attention_head_dim": 12,
    "num_layers": 2,
    "mlp_ratio": 2,
    "text_embed_dim": 16,
    "adaln_lora_dim": 4,
    "max_size": (8, 32, 32),
    "patch_size": (1, 2, 2),
    "rope_scale": (2.0, 1.0, 1.0),
    "concat_padding_mask": True,
    "extra_pos_embed_type": "learnable",
}


@tiny("transformer", tokens=(TOKENS,))
def CosmosTransformer3DModel():
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "fps": 30,
        "padding_mask": torch.zeros(1, 1, HEIGHT, WIDTH),
    }
    return COSMOS, inputs


@tiny(
    "transformer",
    tokens=(TOKENS,),
    name="CosmosTransformer3DModel.video",
    class_name="CosmosTransformer3DModel",
)
def cosmos_video_to_world():
    config = COSMOS | {"in_channels": 5, "extra_pos_embed_type": None}
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "attention_mask": torch.ones(1, TEXT),
        "condition_mask": torch.ones(1, 1, *SIZE),
        "padding_mask": torch.zeros(1, 1, HEIGHT, WIDTH),
    }
    return config, inputs


COSMOS3_BOUND = (
    "text_indexes",
    "position_ids",
    "vision_sequence_indexes",
    "vision_mse_loss_indexes",
    "vision_noisy_frame_indexes.0",
)


@tiny("transformer", tokens=(TOKENS,), bind=COSMOS3_BOUND)
def Cosmos3OmniTransformer():
    config = {
        "head_dim": 12,
        "hidden_size": 48,
        "intermediate_size": 64,
        "latent_channel": 4,
        "latent_patch_size": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "patch_latent_dim": 16,
        "rope_axes_dim": [2, 2, 2],
        "vocab_size": 50,
    }
    length = TEXT + TOKENS
    video = torch.arange(TEXT, length)
    place = torch.arange(TOKENS)
    positions = torch.arange(length).repeat(3, 1)
    positions[0, TEXT:] = place // 35 + TEXT
    positions[1, TEXT:] = place // 7 % 5
    positions[2, TEXT:] = place % 7
    inputs = {
        "input_ids": torch.randint(0, 50, (TEXT,)),
        "text_indexes": torch.arange(TEXT),
        "position_ids": positions,
        "und_len": TEXT,
        "sequence_length": length,
        "vision_tokens": [normal(1, 4, *SIZE)],
        "vision_token_shapes": [(5, 5, 7)],
        "vision_sequence_indexes": video,
        "vision_mse_loss_indexes": video,
        "vision_timesteps": steps().repeat(TOKENS),
        "vision_noisy_frame_indexes": [torch.arange(5)],
    }
    return config, inputs


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


@tiny("transformer", tokens=(TOKENS,))
def LTXVideoTransformer3DModel():
    config = {
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "cross_attention_dim": 48,
        "num_layers": 2,
        "caption_channels": 16,
    }
    inputs = {
        "hidden_states": normal(1, TOKENS, 4),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
        "encoder_attention_mask": torch.ones(1, TEXT).bool(),
        "num_frames": 5,
        "height": 5,
        "width": 7,
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def LTX2VideoTransformer3DModel():
    config = {
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "cross_attention_dim": 48,
        "audio_in_channels": 4,
        "audio_out_channels": 4,
        "audio_num_attention_heads": 4,
        "audio_attention_head_dim": 6,
        "audio_cross_attention_dim": 24,
        "num_layers": 2,
        "caption_channels": 16,
        "rope_double_precision": False,
    }
    inputs = {
        "hidden_states": normal(1, TOKENS, 4),
        "audio_hidden_states": normal(1, 43, 4),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "audio_encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
        "encoder_attention_mask": torch.ones(1, TEXT).bool(),
        "num_frames": 5,
        "height": 5,
        "width": 7,
        "audio_num_frames": 43,
        "fps": 25.0,
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def SanaWMLTX2RefinerTransformer3DModel():
    config = {
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "cross_attention_dim": 48,
        "audio_in_channels": 4,
        "audio_out_channels": 4,
        "audio_num_attention_heads": 4,
        "audio_attention_head_dim": 6,
        "audio_cross_attention_dim": 24,
        "num_layers": 2,
        "caption_channels": 16,
        "rope_double_precision": False,
    }
    angles = normal(1, TOKENS, 48)
    inputs = {
        "hidden_states": normal(1, TOKENS, 4),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(TOKENS)[None],
        "video_rotary_emb": (angles.cos(), angles.sin()),
    }
    return config, inputs


COGVIDEO = {
    "num_attention_heads": 4,
    "attention_head_dim": 12,
    "in_channels": 4,
    "out_channels": 4,
    "time_embed_dim": 8,
    "text_embed_dim": 16,
    "num_layers": 2,
    "sample_width": WIDTH,
    "sample_height": HEIGHT,
    "sample_frames": 17,
    "patch_size": 2,
    "temporal_compression_ratio": 4,
    "max_text_seq_length": TEXT,
}


@tiny("transformer", tokens=(TEXT, TOKENS))
def CogVideoXTransformer3DModel():
    inputs = {
        "hidden_states": normal(1, FRAMES, 4, HEIGHT, WIDTH),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
    }
    return COGVIDEO, inputs


@tiny(
    "transformer",
    tokens=(TEXT, 6 * 35 // 2),
    name="CogVideoXTransformer3DModel.1_5",
    class_name="CogVideoXTransformer3DModel",
)
def cogvideo_1_5():
    config = COGVIDEO | {"patch_size_t": 2, "use_rotary_positional_embeddings": True}
    angles = normal(3 * 35, 12)
    inputs = {
        "hidden_states": normal(1, 6, 4, HEIGHT, WIDTH),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
        "image_rotary_emb": (angles.cos(), angles.sin()),
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def ConsisIDTransformer3DModel():
    config = COGVIDEO | {
        "cross_attn_interval": 1,
        "is_kps": False,
        "is_train_face": True,
        "cross_attn_dim_head": 4,
        "cross_attn_num_heads": 4,
        "LFE_id_dim": 2,
        "LFE_vit_dim": 2,
        "LFE_depth": 5,
        "LFE_dim_head": 8,
        "LFE_num_heads": 2,
        "LFE_num_id_token": 1,
        "LFE_num_querie": 1,
        "LFE_output_dim": 32,
        "LFE_ff_mult": 1,
        "LFE_num_scale": 1,
    }
    inputs = {
        "hidden_states": normal(1, FRAMES, 4, HEIGHT, WIDTH),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
        "id_vit_hidden": [normal(1, 2, 2)],
        "id_cond": normal(1, 2),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS, TEXT), bind=("encoder_attention_mask",))
def MochiTransformer3DModel():
    config = {
        "patch_size": 2,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "num_layers": 2,
        "pooled_projection_dim": 16,
        "in_channels": 4,
        "text_embed_dim": 16,
        "time_embed_dim": 4,
        "max_sequence_length": 16,
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
        "encoder_attention_mask": torch.ones(1, TEXT, dtype=torch.bool),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def AllegroTransformer3DModel():
    config = {
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "in_channels": 4,
        "out_channels": 4,
        "num_layers": 2,
        "cross_attention_dim": 48,
        "sample_width": WIDTH,
        "sample_height": HEIGHT,
        "sample_frames": FRAMES,
        "caption_channels": 8,
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 8),
        "timestep": steps(),
    }
    return config, inputs


@tiny("transformer", tokens=(TEXT, TOKENS))
def EasyAnimateTransformer3DModel():
    config = {
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "in_channels": 4,
        "mmdit_layers": 2,
        "num_layers": 2,
        "out_channels": 4,
        "patch_size": 2,
        "sample_height": HEIGHT,
        "sample_width": WIDTH,
        "text_embed_dim": 16,
        "time_embed_dim": 8,
        "time_position_encoding_type": "3d_rope",
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "timestep": steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
    }
    return config, inputs


@tiny("transformer", tokens=(49,))
def LatteTransformer3DModel():
    """Attention over the places of a frame, then over the frames of a place."""
    config = {
        "sample_size": 14,
        "video_length": 5,
        "num_layers": 2,
        "patch_size": 2,
        "attention_head_dim": 12,
        "num_attention_heads": 4,
        "caption_channels": 8,
        "in_channels": 4,
        "cross_attention_dim": 48,
        "out_channels": 8,
        "attention_bias": True,
        "activation_fn": "gelu-approximate",
        "num_embeds_ada_norm": 1000,
        "norm_type": "ada_norm_single",
        "norm_elementwise_affine": False,
        "norm_eps": 1e-6,
    }
    inputs = {
        "hidden_states": normal(1, 4, 5, 14, 14),
        "encoder_hidden_states": normal(1, TEXT, 8),
        "timestep": steps(),
        "enable_temporal_attentions": True,
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def SanaVideoTransformer3DModel():
    config = {
        "in_channels": 8,
        "out_channels": 8,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "num_layers": 2,
        "num_cross_attention_heads": 4,
        "cross_attention_head_dim": 12,
        "cross_attention_dim": 48,
        "caption_channels": 16,
        "sample_size": 8,
        "patch_size": (1, 2, 2),
        "rope_max_seq_len": 32,
    }
    inputs = {
        "hidden_states": normal(1, 8, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def SanaWMTransformer3DModel():
    config = {
        "in_channels": 8,
        "num_layers": 2,
        "hidden_size": 48,
        "num_attention_heads": 4,
        "patch_size": (1, 2, 2),
        "softmax_every_n": 2,
        "linear_head_dim": 12,
        "caption_channels": 16,
        "chunk_plucker_channels": 6,
        "chunk_plucker_post_attn_blocks": 2,
        "fp32_attention": False,
    }
    inputs = {
        "hidden_states": normal(1, 8, *SIZE),
        "timestep": steps(FRAMES)[None, None],
        "encoder_hidden_states": normal(1, 1, TEXT, 16),
        "mask": torch.ones(1, TEXT),
    }
    return config, inputs


KANDINSKY = {
    "in_visual_dim": 4,
    "out_visual_dim": 4,
    "in_text_dim": 16,
    "in_text_dim2": 8,
    "time_dim": 32,
    "patch_size": (1, 2, 2),
    "model_dim": 48,
    "ff_dim": 64,
    "num_text_blocks": 1,
    "num_visual_blocks": 2,
    "axes_dims": (4, 4, 4),
    "visual_cond": False,
}


@tiny("transformer", tokens=(TOKENS,))
def Kandinsky5Transformer3DModel():
    inputs = {
        "hidden_states": normal(1, *SIZE, 4),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
        "pooled_projections": normal(1, 8),
        "visual_rope_pos": [torch.arange(5), torch.arange(5), torch.arange(7)],
        "text_rope_pos": torch.arange(TEXT),
    }
    return KANDINSKY, inputs


@tiny("transformer", tokens=(TOKENS,))
def Kandinsky6Transformer3DModel():
    inputs = {
        "hidden_states": normal(1, *SIZE, 4),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "pooled_projections": normal(1, 8),
        "timestep": steps(),
        "visual_rope_pos": [torch.arange(5), torch.arange(5), torch.arange(7)],
    }
    return KANDINSKY, inputs


@tiny("transformer", tokens=(TOKENS,))
def Kandinsky6SRTransformer3DModel():
    config = {
        "in_visual_dim": 4,
        "out_visual_dim": 4,
        "time_dim": 32,
        "patch_size": (1, 1, 1),
        "model_dim": 48,
        "ff_dim": 64,
        "num_visual_blocks": 2,
        "axes_dims": (4, 4, 4),
        "nabla_window": (3, 3, 3),
    }
    inputs = {"hidden_states": normal(1, 3, 16, 16, 9), "timestep": steps()}
    return config, inputs


@tiny("transformer", tokens=(TOKENS, TEXT))
def JoyImageEditTransformer3DModel():
    config = {
        "patch_size": [1, 2, 2],
        "in_channels": 4,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "text_dim": 16,
        "num_layers": 2,
        "rope_dim_list": [4, 6, 6],
    }
    inputs = {
        "hidden_states": normal(1, 4, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
    }
    return config, inputs


@tiny("transformer", tokens=(77, TEXT))
def JoyImageEditPlusTransformer3DModel():
    config = {
        "patch_size": [1, 2, 2],
        "in_channels": 4,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "text_dim": 16,
        "num_layers": 2,
        "rope_dim_list": [4, 6, 6],
    }
    inputs = {
        "hidden_states": normal(1, 77, 4, 1, 2, 2),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
        "shape_list": [[(1, 5, 7), (1, 6, 7)]],
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS, TEXT))
def MotifVideoTransformer3DModel():
    config = {
        "in_channels": 9,
        "out_channels": 4,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "num_layers": 2,
        "num_single_layers": 2,
        "num_decoder_layers": 1,
        "mlp_ratio": 2.0,
        "patch_size": 2,
        "patch_size_t": 1,
        "text_embed_dim": 16,
        "image_embed_dim": 4,
        "rope_axes_dim": (4, 4, 4),
    }
    inputs = {
        "hidden_states": normal(1, 9, *SIZE),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "timestep": steps(),
    }
    return config, inputs


@tiny("transformer", tokens=(5, 9, 77))
def MiniMaxH3Transformer3DModel():
    """Text, audio and video packed into one sequence by index inputs."""
    config = {
        "num_attention_heads": 4,
        "attention_head_dim": 16,
        "hidden_size": 64,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "ffn_dim": 64,
        "in_channels": 4,
        "audio_in_channels": 6,
        "patch_size": (1, 2, 2),
        "text_dim": 8,
        "freq_dim": 8,
        "time_embed_hidden_dim": 24,
        "time_embed_dim": 16,
        "rope_freq_dim": 2,
    }
    text, audio, video = torch.arange(5), torch.arange(5, 14), torch.arange(14, 91)
    tags = torch.cat([torch.full((5,), 1), torch.full((9,), 2), torch.zeros(77, dtype=torch.long)])
    positions = torch.zeros(91, 3)
    positions[:, 0] = torch.arange(91)
    positions[video, 1] = torch.arange(77.0) // 11
    positions[video, 2] = torch.arange(77.0) % 11
    inputs = {
        "hidden_states": normal(1, 77, 16),
        "audio_hidden_states": normal(1, 9, 6),
        "encoder_hidden_states": normal(1, 5, 8),
        "timestep": torch.tensor([0.7, 0.3]),
        "timestep_indices": (tags == 2).long(),
        "token_tags": tags,
        "position_ids": positions,
        "video_indices": video,
        "audio_indices": audio,
        "text_indices": text,
    }
    return config, inputs


@tiny("transformer", tokens=())
def TransformerTemporalModel():
    config = {
        "num_attention_heads": 4,
        "attention_head_dim": 4,
        "in_channels": 4,
        "num_layers": 2,
        "norm_num_groups": 1,
    }
    inputs = {"hidden_states": normal(5, 4, 9, 11), "timestep": steps(1), "num_frames": 5}
    return config, inputs
