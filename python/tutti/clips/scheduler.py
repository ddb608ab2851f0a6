"""Euler's method for flow matching, with the names of Diffusers' scheduler."""

from __future__ import annotations

import numpy as np


class FlowMatchEulerScheduler:
    """
    ``FlowMatchEulerDiscreteScheduler`` of Diffusers, for numpy.

    A sample at noise level ``sigma`` is ``(1 - sigma) * clean + sigma * noise``; the model
    predicts ``noise - clean`` and is told ``timestep = 1000 * sigma``.

    Parameters
    ----------
    num_train_timesteps
        What a noise level of 1 is called as a time step.
    shift
        Moves the levels towards noise: ``shift * s / (1 + (shift - 1) * s)``.
    """

    order = 1

    def __init__(self, num_train_timesteps: int = 1000, shift: float = 3.0):
        self.num_train_timesteps = num_train_timesteps
        self.shift = shift
        levels = self._shifted(
            np.linspace(1, num_train_timesteps, num_train_timesteps)[::-1] / num_train_timesteps
        )
        self.sigma_max, self.sigma_min = float(levels[0]), float(levels[-1])
        self.sigmas = np.append(levels, 0.0)
        self.timesteps = levels * num_train_timesteps
        self.step_index = 0

    def _shifted(self, sigmas: np.ndarray) -> np.ndarray:
        return self.shift * sigmas / (1 + (self.shift - 1) * sigmas)

    def set_timesteps(self, num_inference_steps: int) -> None:
        """Choose the levels of a run: as many, from ``sigma_max`` down, and then 0."""
        if num_inference_steps < 1:
            raise ValueError(
                f"[scheduler] num_inference_steps is {num_inference_steps}, expected at least 1"
            )
        levels = self._shifted(np.linspace(self.sigma_max, self.sigma_min, num_inference_steps))
        self.timesteps = levels * self.num_train_timesteps
        self.sigmas = np.append(levels, 0.0)
        self.step_index = 0

    def scale_noise(self, sample: np.ndarray, timestep: float, noise: np.ndarray) -> np.ndarray:
        """Noise a clean sample to a time step."""
        sigma = np.float32(timestep / self.num_train_timesteps)
        return sigma * noise + (1 - sigma) * sample

    def step(
        self, model_output: np.ndarray, timestep: float, sample: np.ndarray
    ) -> tuple[np.ndarray]:
        """
        Go from one level to the next.

        Parameters
        ----------
        timestep
            Kept for Diffusers' signature; the levels are taken in their order.
        """
        change = np.float32(self.sigmas[self.step_index + 1] - self.sigmas[self.step_index])
        self.step_index += 1
        return (sample + change * model_output,)
