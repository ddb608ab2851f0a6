"""Muon for matrices with AdamW for the rest, and schedules of wall-clock time."""

from __future__ import annotations

import time
from collections import defaultdict

import torch
from torch import Tensor, nn


class Clock:
    """Progress from 0 to 1 over a number of seconds."""

    def __init__(self, seconds: float):
        self._start, self._seconds = time.monotonic(), max(seconds, 1e-3)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start

    @property
    def progress(self) -> float:
        return min(self.elapsed / self._seconds, 1.0)


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """The nearest orthogonal matrices, roughly, of ``[n, rows, columns]`` (Newton-Schulz of Muon)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).float()


class Muon:
    """
    Momentum orthogonalised for the given matrices (Jordan 2024), scaled to AdamW's step
    (Liu 2025, "Muon is scalable": 0.2 sqrt(max(rows, columns))).
    """

    def __init__(
        self, matrices: list[nn.Parameter], momentum: float = 0.95, weight_decay: float = 0.05
    ):
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for matrix in matrices:
            by_shape[matrix.shape].append(matrix)
        self._groups = [
            (group, torch.zeros_like(torch.stack(list(group)))) for group in by_shape.values()
        ]
        self._momentum, self._weight_decay = momentum, weight_decay

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for group, average in self._groups:
            gradient = torch.stack([matrix.grad for matrix in group])
            average.lerp_(gradient, 1 - self._momentum)
            # A convolution is a matrix of output channels by all else.
            update = orthogonalise(gradient.lerp(average, self._momentum).flatten(2))
            update *= rate * 0.2 * max(update.shape[1:]) ** 0.5
            torch._foreach_mul_(group, 1 - rate * self._weight_decay)
            torch._foreach_sub_(group, list(update.reshape(gradient.shape).unbind(0)))


class Optimiser:
    """Muon for the matrices and kernels of ``inside``, AdamW for every other parameter."""

    def __init__(self, module: nn.Module, inside: str = "blocks."):
        self.parameters = list(module.parameters())
        matrices = [p for name, p in module.named_parameters() if inside in name and p.ndim >= 2]
        chosen = {id(p) for p in matrices}
        rest = [p for p in self.parameters if id(p) not in chosen]
        self._muon = Muon(matrices)
        self._adam = torch.optim.AdamW(
            rest, 1e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=rest[0].is_cuda
        )

    def step(self, rate: float) -> None:
        """Update with ``rate`` for Muon and half of it for AdamW."""
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self._muon.step(rate)
        for group in self._adam.param_groups:
            group["lr"] = 0.5 * rate
        self._adam.step()
        for parameter in self.parameters:
            parameter.grad = None


class Average:
    """Exponential moving average of parameters, faster at the start."""

    def __init__(self, module: nn.Module, decay: float = 0.999):
        self._live = list(module.parameters())
        self.values = [p.detach().clone() for p in self._live]
        self._decay, self._steps = decay, 0

    @torch.no_grad()
    def update(self) -> None:
        self._steps += 1
        decay = min(self._decay, (1 + self._steps) / (10 + self._steps))
        torch._foreach_lerp_(self.values, self._live, 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the live and the averaged values."""
        for live, mean in zip(self._live, self.values, strict=False):
            live_copy = live.clone()
            live.copy_(mean)
            mean.copy_(live_copy)
