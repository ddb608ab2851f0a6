"""Decoders of video autoencoders: latents to frames."""

from models.registry import normal, tiny

SIZE = (3, 6, 10)  # latent frames, height, width


@tiny("vae", method="decode")
def AutoencoderKLWan():
    config = {"base_dim": 4, "z_dim": 4, "dim_mult": [1, 2, 2, 2], "num_res_blocks": 1}
    config |= {"latents_mean": [0.0] * 4, "latents_std": [1.0] * 4}
    return config, {"z": normal(1, 4, *SIZE)}


@tiny("vae", method="decode", name="AutoencoderKLWan.2_2", class_name="AutoencoderKLWan")
def wan_2_2():
    config = {"base_dim": 4, "z_dim": 4, "dim_mult": [1, 2, 2, 2], "num_res_blocks": 1}
    config |= {"latents_mean": [0.0] * 4, "latents_std": [1.0] * 4}
    config |= {"is_residual": True, "patch_size": 2, "in_channels": 12, "out_channels": 12}
    config |= {"decoder_base_dim": 8, "scale_factor_spatial": 16}
    return config, {"z": normal(1, 4, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLQwenImage():
    config = {"base_dim": 4, "z_dim": 4, "dim_mult": [1, 2, 2, 2], "num_res_blocks": 1}
    config |= {"latents_mean": [0.0] * 4, "latents_std": [1.0] * 4}
    return config, {"z": normal(1, 4, 1, 6, 10)}


@tiny("vae", method="decode")
def AutoencoderKLLTXVideo():
    config = {
        "latent_channels": 8,
        "block_out_channels": (8, 8, 8, 8),
        "decoder_block_out_channels": (8, 8, 8, 8),
        "layers_per_block": (1, 1, 1, 1, 1),
        "decoder_layers_per_block": (1, 1, 1, 1, 1),
    }
    return config, {"z": normal(1, 8, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLLTX2Video():
    config = {
        "latent_channels": 8,
        "block_out_channels": (8, 8, 8, 8),
        "decoder_block_out_channels": (16, 32, 64),
        "layers_per_block": (1, 1, 1, 1, 1),
        "decoder_layers_per_block": (1, 1, 1, 1),
        "upsample_residual": (False, False, False),
    }
    return config, {"z": normal(1, 8, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLHunyuanVideo():
    config = {
        "latent_channels": 4,
        "block_out_channels": (8, 8, 8, 8),
        "layers_per_block": 1,
        "norm_num_groups": 4,
    }
    return config, {"z": normal(1, 4, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLHunyuanVideo15():
    config = {
        "latent_channels": 4,
        "block_out_channels": (16, 16, 16, 16, 16),
        "layers_per_block": 1,
    }
    return config, {"z": normal(1, 4, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLCogVideoX():
    config = {
        "latent_channels": 4,
        "block_out_channels": (8, 8, 8, 8),
        "layers_per_block": 1,
        "norm_num_groups": 2,
    }
    return config, {"z": normal(1, 4, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLMochi():
    config = {
        "latent_channels": 4,
        "latents_mean": [0.0] * 4,
        "latents_std": [1.0] * 4,
        "encoder_block_out_channels": (32, 32, 32, 32),
        "decoder_block_out_channels": (32, 32, 32, 32),
        "layers_per_block": (1, 1, 1, 1, 1),
    }
    return config, {"z": normal(1, 4, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLCosmos():
    config = {
        "latent_channels": 4,
        "encoder_block_out_channels": (8, 8, 8, 8),
        "decode_block_out_channels": (8, 8, 8, 8),
        "attention_resolutions": (8,),
        "resolution": 64,
        "num_layers": 1,
        "latents_mean": [0.0] * 4,
        "latents_std": [1.0] * 4,
    }
    return config, {"z": normal(1, 4, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLMagvit():
    config = {
        "latent_channels": 4,
        "block_out_channels": (8, 8, 8, 8),
        "layers_per_block": 1,
        "norm_num_groups": 2,
    }
    return config, {"z": normal(1, 4, *SIZE)}


@tiny("vae", method="decode")
def AutoencoderKLTemporalDecoder():
    config = {
        "block_out_channels": (8, 8),
        "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
        "layers_per_block": 1,
        "sample_size": 16,
    }
    config["block_out_channels"] = (32, 32)
    return config, {"z": normal(3, 4, 6, 10), "num_frames": 3}


@tiny("vae", method="decode")
def AutoencoderKL():
    config = {
        "block_out_channels": (8, 8),
        "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
        "up_block_types": ("UpDecoderBlock2D", "UpDecoderBlock2D"),
        "norm_num_groups": 2,
    }
    return config, {"z": normal(1, 4, 6, 10)}


@tiny("vae", method="decode")
def AutoencoderDC():
    config = {
        "latent_channels": 4,
        "attention_head_dim": 4,
        "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
        "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
        "encoder_block_out_channels": (8, 8),
        "decoder_block_out_channels": (8, 8),
        "encoder_layers_per_block": (1, 1),
        "decoder_layers_per_block": (1, 1),
        "encoder_qkv_multiscales": ((), (5,)),
        "decoder_qkv_multiscales": ((), (5,)),
        "downsample_block_type": "Conv",
        "upsample_block_type": "interpolate",
        "encoder_out_shortcut": False,
        "decoder_in_shortcut": False,
    }
    return config, {"z": normal(1, 4, 6, 10)}
