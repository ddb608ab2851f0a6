"""Transformers over latent video, one with sound: LTX."""

import torch

from models.registry import normal, steps, tiny
from models.video_sizes import TEXT, TOKENS


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
