"""Text-to-video client of the sample model: a Diffusers-style pipeline without PyTorch."""

from .pipeline import ClipsOutput, ClipsPipeline
from .scheduler import FlowMatchEulerScheduler
from .tokenizer import WordTokenizer
from .transformers import OnnxTransformer, TritonTransformer

__all__ = [
    "ClipsOutput",
    "ClipsPipeline",
    "FlowMatchEulerScheduler",
    "OnnxTransformer",
    "TritonTransformer",
    "WordTokenizer",
]
