"""Latents of an autoencoder, ordinary or revised: taken out, decoded, and mixed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from experiments.autoencoders.frame import FrameDecoder
from reqnn.errors import InputError
from reqnn.revision.module import RevisedModel
from reqnn.revision.outputs import to_outputs
from reqnn.tensor import QuaternionTensor


def encode(net: Any, points: Tensor) -> Tensor:
    """The latents of clouds: (B, N, 3) → (B, numbers), or quaternions (B, L + 3) of a revised network, its axes last."""
    return net.features(points, at="latent") if isinstance(net, RevisedModel) else net.latent(net.encoder(points))


def decode(net: Any, latent: Tensor) -> Tensor:
    """Clouds (B, num_points, 3) of latents that `encode` gave."""
    cloud: Tensor = to_outputs(net.decoder(latent))
    return cloud


def interpolate(net: nn.Module, first: Tensor, second: Tensor, steps: int) -> Tensor:
    """Latents on the way from one cloud's latent to another's: (1, ·), (1, ·) → (steps, ·), both ends included.

    Numbers of an ordinary network are mixed as they are. Quaternions are read in the frame of their own latent, mixed there,
    and rotated into a frame on the shortest way from the first to the second: shape and orientation change one by one, and
    two rotated copies of an object have nothing but copies of it between them.
    """
    import roma

    if steps < 2 or len(first) != 1 or len(second) != 1:
        raise InputError(f"one latent each and at least 2 steps are needed; given {len(first)}, {len(second)} and {steps}")
    share = torch.linspace(0, 1, steps, dtype=first.dtype, device=first.device)
    if not isinstance(first, QuaternionTensor):
        return torch.lerp(first, second, share[:, None])
    decoder: Any = getattr(net, "decoder")  # noqa: B009 - a revised network hands the name on
    if not isinstance(decoder, FrameDecoder) or not isinstance(second, QuaternionTensor):
        return first * (1 - share)[:, None] + second * share[:, None]
    frames, within = zip(*(_read(decoder, latent) for latent in (first, second)), strict=True)
    rotations = roma.rotmat_slerp(frames[0], frames[1], share)  # (steps, 1, 3, 3)
    mixed = torch.lerp(within[0], within[1], share[:, None, None])  # (steps, L + 3, 3)
    return first.like((mixed @ rotations.squeeze(1).mT).movedim(-1, 0))


def _read(decoder: FrameDecoder, latent: QuaternionTensor) -> tuple[Tensor, Tensor]:
    """The frame of a latent, (1, 3, 3) with the axes as columns, and the latent's vectors in it, (1, L + 3, 3)."""
    axes = decoder.frame(latent).components.movedim(0, 1)
    return axes, latent.components.movedim(0, -1) @ axes
