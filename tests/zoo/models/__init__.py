"""Tiny configurations of every transformer class, video decoder and text encoder of the zoo."""

from models import (
    audio,
    decoders,
    image_dit,
    image_flux,
    image_packed,
    text,
    unet_parts,
    video_cogvideox,
    video_cosmos,
    video_hunyuan,
    video_ltx,
    video_single,
    video_wan,
)
from models.registry import MODELS, Tiny

__all__ = [
    "MODELS",
    "Tiny",
    "audio",
    "decoders",
    "image_dit",
    "image_flux",
    "image_packed",
    "text",
    "unet_parts",
    "video_cogvideox",
    "video_cosmos",
    "video_hunyuan",
    "video_ltx",
    "video_single",
    "video_wan",
]
