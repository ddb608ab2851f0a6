"""Transformers over latent images with streams of text and image: Flux and its kin, SD3, Qwen-Image."""

import torch

from models.image_sizes import SIZE, TEXT, TOKENS
from models.registry import grid_ids, normal, steps, tiny, unit_steps

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


@tiny(
    "transformer",
    tokens=(TEXT, TOKENS),
    name="FluxTransformer2DModel.sizes",
    class_name="FluxTransformer2DModel",
    dynamic_axes={
        "hidden_states": {1: "tokens"},
        "img_ids": {0: "tokens"},
        "encoder_hidden_states": {1: "text"},
        "txt_ids": {0: "text"},
    },
    sizes=({"tokens": 50, "text": 3}, {"tokens": 126, "text": 17}, {"tokens": 101}),
)
def flux_of_many_sizes():
    return FluxTransformer2DModel()


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
