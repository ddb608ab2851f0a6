"""Text encoders of the pipelines, from transformers: prompts to embeddings."""

import torch

from models.registry import tiny

LENGTH = 43
SMALL = {
    "vocab_size": 50,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


def prompt():
    return {
        "input_ids": torch.randint(3, 50, (1, LENGTH)),
        "attention_mask": (torch.arange(LENGTH)[None] < LENGTH - 5).long(),
    }


@tiny("text", library="transformers")
def T5EncoderModel():
    config = {
        "vocab_size": 50,
        "d_model": 48,
        "d_kv": 12,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "feed_forward_proj": "gated-gelu",
    }
    return config, prompt()


@tiny("text", library="transformers")
def UMT5EncoderModel():
    config = {
        "vocab_size": 50,
        "d_model": 48,
        "d_kv": 12,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "feed_forward_proj": "gated-gelu",
    }
    return config, prompt()


@tiny("text", library="transformers")
def CLIPTextModel():
    return SMALL | {"bos_token_id": 0, "eos_token_id": 1}, prompt()


@tiny("text", library="transformers")
def LlamaModel():
    return SMALL | {"num_key_value_heads": 2}, prompt() | {"use_cache": False}


@tiny("text", library="transformers")
def Qwen3Model():
    return SMALL | {"num_key_value_heads": 2, "head_dim": 12}, prompt() | {"use_cache": False}


@tiny("text", library="transformers")
def Gemma2Model():
    config = SMALL | {"num_key_value_heads": 2, "head_dim": 12, "query_pre_attn_scalar": 12}
    return config | {"sliding_window": 16}, prompt() | {"use_cache": False}
