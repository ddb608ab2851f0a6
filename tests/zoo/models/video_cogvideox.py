"""Transformers over latent video: CogVideoX, Mochi, Allegro, EasyAnimate, Latte."""

import torch

from models.registry import normal, steps, tiny
from models.video_sizes import FRAMES, HEIGHT, SIZE, TEXT, TOKENS, WIDTH

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
