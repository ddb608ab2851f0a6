"""Transformers over latent video: Wan and what grew out of it."""

import torch

from models.registry import normal, steps, tiny
from models.video_sizes import FRAMES, HEIGHT, SIZE, TEXT, TOKENS, WIDTH

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


@tiny(
    "transformer",
    tokens=(TOKENS,),
    name="WanTransformer3DModel.sizes",
    class_name="WanTransformer3DModel",
    dynamic_axes={
        "hidden_states": {0: "batch", 2: "frames"},
        "timestep": {0: "batch"},
        "encoder_hidden_states": {0: "batch", 1: "text"},
    },
    sizes=(
        {"batch": 1, "frames": 3, "text": 5},
        {"batch": 3, "frames": 8, "text": 23},
        {"frames": 7},
    ),
)
def wan_of_many_sizes():
    return WanTransformer3DModel()


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
