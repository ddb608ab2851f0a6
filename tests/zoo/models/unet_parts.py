"""Transformers that stand inside UNets, and the prior in front of one."""

from models.image_sizes import TEXT, TOKENS
from models.registry import normal, steps, tiny

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
