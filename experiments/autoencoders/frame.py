"""Latent and decoder of a revised autoencoder: the ordinary decoder, in a frame that rotates with the latent (an extension).

By the paper's rules alone every decoded point is a combination of latent vectors. Those of a mirror-symmetric cloud lie in
its mirror plane, and so would the points. The third axis of the frame here is a cross product, which leaves the plane.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn

from experiments.autoencoders.network import Decoder, Latent
from reqnn.rules import module_rule
from reqnn.rules.paper.cross_product import cross_product
from reqnn.tensor import QuaternionTensor

AXES = 3  # the last entries of a latent: the axes of the cloud
EPS = 1e-12  # of squared lengths: where a frame degenerates its axes shrink to 0 instead of jumping about


class FramedLatent(nn.Module):
    """Learned combinations of the global features, and beside them the principal axes of the cloud, as quaternions.

    A latent of vectors alone says where an object points; one with three mirror planes, a box, points nowhere. The axes of
    the PCA frame (paper, section 3.3, "3D coordinates weighting") rotate with the cloud too.

    Shapes: (B, F) quaternions → (B, L + 3) quaternions
    """

    def __init__(self, features: int, latent: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, latent, bias=False)

    def forward(self, features: QuaternionTensor) -> Any:
        """Latents of global features."""
        vectors = _precise(self.linear(features))
        axes = features.context.frames()[:, 0].to(vectors.components)  # (B, 3, 3), columns the axes
        return torch.cat([vectors, vectors.like(axes.movedim(1, 0))], 1)


class FrameAxes(nn.Linear):
    """Two learned combinations of a latent's vectors, at first the first two axes of the cloud. Shapes: (B, L + 3) → (B, 2)."""

    def __init__(self, latent: int) -> None:
        super().__init__(latent + AXES, 2, bias=False)

    def reset_parameters(self) -> None:
        """The cloud's own axes."""
        nn.init.zeros_(self.weight)
        with torch.no_grad():
            self.weight[0, -3] = self.weight[1, -2] = 1


class FrameDecoder(nn.Module):
    """Reads the latent in its own frame, decodes as an ordinary network does, and rotates the result back.

        u, v = combinations of the latent's vectors;  e₁ = u/‖u‖,  e₂ = v⊥/‖v⊥‖ with v⊥ = v − ⟨v, e₁⟩e₁,  e₃ = e₁ × e₂
        cloud = Σ_k decoder(⟨latent, e₁⟩, ⟨latent, e₂⟩, ⟨latent, e₃⟩)_k e_k

    The 3·L inner products of the learned vectors do not change when the cloud rotates, and hold all that these hold but their
    orientation, left and right included.

    Shapes: latent (B, L + 3) quaternions → (B, N, 1) quaternions, the coordinates of N points.
    """

    def __init__(self, latent: int, num_points: int, hidden: int) -> None:
        super().__init__()
        self.axes = FrameAxes(latent)
        self.coordinates = Decoder(3 * latent, num_points, hidden)

    def frame(self, latent: QuaternionTensor) -> QuaternionTensor:
        """e₁, e₂, e₃: (B, L + 3) → (B, 3), right-handed and orthonormal unless u and v lie on one line."""
        u, v = _precise(self.axes(latent)).split(1, 1)
        first = _unit(u)
        second = _unit(v - first * (v * first))
        frame: Any = torch.cat([first, second, cross_product(first, second)], 1)
        return frame

    def forward(self, latent: QuaternionTensor) -> QuaternionTensor:
        """Clouds of latents."""
        frame = self.frame(latent)
        inner = latent[:, :-AXES].unsqueeze(2) * frame.unsqueeze(1)  # ⟨·, ·⟩: (B, L, 3), real
        cloud: Any = self.coordinates(inner.flatten(1)) @ frame.unsqueeze(2)
        return cloud.like(cloud.components, 2, "v")


def _precise(x: Any) -> Any:
    """Axes are in float32 at least, under autocast, too: in bfloat16 they would not be perpendicular."""
    return x.float() if x.components.dtype in (torch.bfloat16, torch.float16) else x


def _unit(x: Any) -> Any:
    return x * (x.squared_norm() + EPS).rsqrt()


@module_rule(Latent)
def with_axes(latent: Latent, features: QuaternionTensor) -> FramedLatent | None:
    """The replacement of `Latent`."""
    return FramedLatent(features.components.shape[-1], latent.out_features) if _framed(latent, features) else None


@module_rule(Decoder)
def in_a_frame(decoder: Decoder, latent: QuaternionTensor) -> FrameDecoder | None:
    """The replacement of `Decoder`."""
    if not _framed(decoder, latent):
        return None
    return FrameDecoder(latent.components.shape[-1] - AXES, decoder.num_points, decoder.hidden)


def _framed(module: Latent | Decoder, x: QuaternionTensor) -> bool:
    """Whether more than the paper's rules may be used, and there are vectors to make a frame of."""
    return module.cross_product and not x.context.strict and x.components.shape[0] == 3
