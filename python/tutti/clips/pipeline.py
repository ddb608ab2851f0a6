"""The text-to-video pipeline: all but the transformer runs here, in numpy and onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .scheduler import FlowMatchEulerScheduler
from .tokenizer import WordTokenizer
from .transformers import onnx_session

FRAMES, SIDE = 25, 64
LATENT_CHANNELS, SPACE_SCALE, TIME_SCALE = 16, 4, 4
MODELS = Path(__file__).resolve().parents[3] / "models/clips"


@dataclass
class ClipsOutput:
    """
    A clip and how it came about.

    Attributes
    ----------
    frames
        uint8 ``[frames, height, width, 3]``.
    clip
        The same before rounding: float32 ``[3, frames, height, width]`` in [0, 1].
    latents
        float32 ``[1, channels, frames, height, width]``, after the last step.
    first_velocity
        The guidance branches' predictions in the first step ``[2, channels, ...]``: on the
        same seed, their inputs are the same bits whatever transformer made them.
    seconds
        Wall time of the whole call.
    call_seconds
        Wall time of each call of the transformer.
    """

    frames: np.ndarray
    clip: np.ndarray
    latents: np.ndarray
    first_velocity: np.ndarray
    seconds: float
    call_seconds: list[float]


class ClipsPipeline:
    """
    Prompt in, frames out.

    Parameters
    ----------
    transformer
        ``TritonTransformer``, ``OnnxTransformer``, or what is called like them; may be
        replaced between runs, as in Diffusers.
    models
        Folder with ``tokenizer.json`` and, in ``onnx/``, text encoder and VAE decoder.
    """

    def __init__(
        self,
        transformer,
        models: str | Path = MODELS,
        scheduler: FlowMatchEulerScheduler | None = None,
    ):
        models = Path(models)
        self.transformer = transformer
        self.scheduler = scheduler or FlowMatchEulerScheduler()
        self.tokenizer = WordTokenizer.load(models / "tokenizer.json")
        self._text_encoder = onnx_session(models / "onnx/text_encoder.onnx")
        self._vae_decoder = onnx_session(models / "onnx/vae_decoder.onnx")

    def encode_prompt(self, prompt: str) -> np.ndarray:
        """``[1, text_len, dim]`` of a prompt; the empty prompt is the unconditional one."""
        return self._text_encoder.run(None, {"input_ids": self.tokenizer([prompt])})[0]

    def prepare_latents(
        self, seed: int, frames: int = FRAMES, height: int = SIDE, width: int = SIDE
    ) -> np.ndarray:
        """Noise of a seed, in the latents' shape."""
        if (frames - 1) % TIME_SCALE or height % SPACE_SCALE or width % SPACE_SCALE:
            raise ValueError(
                f"[pipeline] {frames} frames of {height}x{width}: expected 4n+1 frames, sides of 4n"
            )
        shape = (
            1,
            LATENT_CHANNELS,
            (frames - 1) // TIME_SCALE + 1,
            height // SPACE_SCALE,
            width // SPACE_SCALE,
        )
        return np.random.default_rng(seed).standard_normal(shape, np.float32)

    def decode_latents(self, latents: np.ndarray) -> np.ndarray:
        """float32 ``[3, frames, height, width]`` in [0, 1] of one clip's latents."""
        clip = self._vae_decoder.run(None, {"latents": latents})[0][0]
        return np.clip(clip * np.float32(0.5) + np.float32(0.5), 0, 1)

    def __call__(
        self,
        prompt: str,
        num_inference_steps: int = 20,
        guidance_scale: float = 4.0,
        seed: int = 0,
        negative_prompt: str = "",
        num_frames: int = FRAMES,
        height: int = SIDE,
        width: int = SIDE,
        callback_on_step_end: Callable[[int, int], None] | None = None,
    ) -> ClipsOutput:
        """
        Make a clip.

        Parameters
        ----------
        guidance_scale
            1 or less switches guidance, and with it each step's second call, off.
        callback_on_step_end
            Called with the steps done and their total.
        """
        start, first_call = time.perf_counter(), len(self.transformer.call_seconds)
        texts = [self.encode_prompt(prompt)]
        if guidance_scale > 1:
            texts.append(self.encode_prompt(negative_prompt))
        latents = self.prepare_latents(seed, num_frames, height, width)
        self.scheduler.set_timesteps(num_inference_steps)
        first_velocity = None
        for index, timestep in enumerate(self.scheduler.timesteps):
            when = np.array([timestep], np.float32)
            branches = [self.transformer(latents, when, text)[0] for text in texts]
            if first_velocity is None:
                first_velocity = np.concatenate(branches)
            velocity = branches[-1] + np.float32(guidance_scale) * (branches[0] - branches[-1])
            if len(branches) == 1:
                velocity = branches[0]
            (latents,) = self.scheduler.step(velocity, timestep, latents)
            if callback_on_step_end:
                callback_on_step_end(index + 1, num_inference_steps)
        clip = self.decode_latents(latents)
        frames = np.rint(clip * 255).astype(np.uint8).transpose(1, 2, 3, 0)
        seconds = time.perf_counter() - start
        return ClipsOutput(
            frames,
            clip,
            latents,
            first_velocity,
            seconds,
            self.transformer.call_seconds[first_call:],
        )
