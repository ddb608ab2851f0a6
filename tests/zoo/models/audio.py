"""Transformers over sound and over molecules: one sequence without a grid."""

import torch

from models.registry import normal, tiny, unit_steps

TOKENS, TEXT = 77, 11


@tiny("transformer", tokens=(TOKENS,))
def AceStepTransformer1DModel():
    config = {
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "in_channels": 24,
        "audio_acoustic_hidden_dim": 8,
        "patch_size": 2,
        "sliding_window": 16,
    }
    inputs = {
        "hidden_states": normal(1, 2 * TOKENS, 8),
        "timestep": unit_steps(),
        "timestep_r": unit_steps(),
        "encoder_hidden_states": normal(1, TEXT, 64),
        "context_latents": normal(1, 2 * TOKENS, 16),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def LongCatAudioDiTTransformer():
    config = {
        "dit_dim": 64,
        "dit_depth": 2,
        "dit_heads": 4,
        "dit_text_dim": 32,
        "latent_dim": 8,
        "text_conv": False,
    }
    inputs = {
        "hidden_states": normal(1, TOKENS, 8),
        "encoder_hidden_states": normal(1, TEXT, 32),
        "encoder_attention_mask": torch.ones(1, TEXT, dtype=torch.bool),
        "attention_mask": torch.ones(1, TOKENS, dtype=torch.bool),
        "timestep": unit_steps(),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def MiniMaxMusic3Transformer1DModel():
    config = {
        "in_channels": 8,
        "condition_dim": 16,
        "num_layers": 2,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "ff_inner_dim": 64,
        "rotary_dim": 4,
        "fourier_embedding_dim": 8,
    }
    inputs = {
        "hidden_states": normal(1, 8, TOKENS),
        "encoder_hidden_states": normal(1, TOKENS, 16),
        "timestep": unit_steps(),
    }
    return config, inputs


@tiny("transformer", tokens=(49,))
def MiniMaxMusic3RVQDepthDecoder():
    config = {
        "hidden_size": 64,
        "num_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "audio_vocab_size": 20,
        "num_codebooks": 4,
        "max_position_embeddings": 64,
    }
    return config, {"inputs_embeds": normal(1, 49, 64)}


@tiny("transformer", tokens=(TOKENS,))
def StableAudioDiTModel():
    config = {
        "sample_size": 96,
        "in_channels": 8,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "num_key_value_attention_heads": 2,
        "out_channels": 8,
        "cross_attention_dim": 32,
        "time_proj_dim": 16,
        "global_states_input_dim": 24,
        "cross_attention_input_dim": 16,
    }
    angles = normal(TOKENS + 1, 8)
    inputs = {
        "hidden_states": normal(1, 8, TOKENS),
        "timestep": unit_steps(),
        "encoder_hidden_states": normal(1, TEXT, 16),
        "global_hidden_states": normal(1, 1, 24),
        "rotary_embedding": (angles.cos(), angles.sin()),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def StableAudio3DiTModel():
    config = {
        "io_channels": 8,
        "patch_size": 1,
        "embed_dim": 64,
        "depth": 2,
        "num_heads": 4,
        "cond_token_dim": 16,
        "global_cond_dim": 12,
        "local_add_cond_dim": 5,
        "timestep_features_dim": 16,
        "ff_mult": 2,
        "num_memory_tokens": 3,
        "use_differential_attention": True,
    }
    inputs = {
        "hidden_states": normal(1, 8, TOKENS),
        "timestep": unit_steps(),
        "encoder_hidden_states": normal(1, 4, 16),
        "global_hidden_states": normal(1, 12),
    }
    return config, inputs


@tiny("transformer", tokens=(TOKENS,))
def T5FilmDecoder():
    config = {
        "input_dims": 8,
        "targets_length": TOKENS,
        "d_model": 48,
        "num_layers": 2,
        "num_heads": 4,
        "d_kv": 12,
        "d_ff": 64,
    }
    inputs = {
        "encodings_and_masks": [(normal(1, TEXT, 48), torch.ones(1, TEXT))],
        "decoder_input_tokens": normal(1, TOKENS, 8),
        "decoder_noise_time": unit_steps(),
    }
    return config, inputs


@tiny("transformer", tokens=(43,))
def RFD4ProteinaTransformer():
    """A molecule: pairs of residues bias the attention."""
    config = {
        "nlayers": 2,
        "token_dim": 48,
        "nheads": 4,
        "dim_cond": 16,
        "pair_repr_dim": 24,
        "latent_dim": 8,
        "token_type_emb_dim": 8,
        "cath_emb_dim": 8,
        "t_emb_dim": 16,
        "seq_sep_dim": 8,
        "tri_mult_c": 16,
        "feats_seq": ("xt_bb_ca", "xt_local_latents", "token_type"),
        "feats_cond_seq": ("time_emb_bb_ca", "time_emb_local_latents"),
        "feats_pair_repr": ("xt_bb_ca_pair_dists",),
    }
    inputs = {
        "bb_ca": normal(1, 43, 3),
        "local_latents": normal(1, 43, 8),
        "bb_ca_time": unit_steps(),
        "local_latents_time": unit_steps(),
        "padding_mask": torch.ones(1, 43, dtype=torch.bool),
        "token_type": torch.zeros(1, 43, dtype=torch.long),
        "conditioning": {
            "is_in_context_conditioning": torch.zeros(1, 43, dtype=torch.bool),
            "supports_local_latent": torch.ones(1, 43, dtype=torch.bool),
        },
    }
    return config, inputs
