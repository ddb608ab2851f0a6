"""Transformers over latent video: Cosmos."""

import torch

from models.registry import normal, steps, tiny
from models.video_sizes import HEIGHT, SIZE, TEXT, TOKENS, WIDTH

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
