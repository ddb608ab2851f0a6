"""Tiny configurations of every transformer class, video decoder and text encoder of the zoo."""

from models import audio, decoders, image, text, video
from models.registry import MODELS, Tiny

__all__ = ["MODELS", "Tiny", "audio", "decoders", "image", "text", "video"]
