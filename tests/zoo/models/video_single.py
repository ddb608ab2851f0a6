"""Transformers over latent video, of families with one or two models."""

import torch

from models.registry import normal, steps, tiny
from models.video_sizes import FRAMES, SIZE, TEXT, TOKENS


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


@tiny("transformer", tokens=(5, 9, 77), bind=("video_indices", "audio_indices", "text_indices"))
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
