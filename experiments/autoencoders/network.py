"""An autoencoder with one latent for the whole cloud (an extension: the paper's reconstruction has no bottleneck)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from reqnn.errors import InputError
from reqnn.models.layers import check_points, scaled
from reqnn.models.registry import build_model, model_entry

ENCODER_OPTIONS: dict[str, dict[str, Any]] = {"dgcnn": {"k": 16, "extra_conv": False}}
"""Options of an encoder where none are given."""


class Latent(nn.Linear):
    """The bottleneck: a linear map from global features to the latent. Shapes: (B, features) → (B, numbers).

    It is revised to `FramedLatent`, without `cross_product` to a linear map of quaternions.
    """

    def __init__(self, features: int, numbers: int, cross_product: bool = True) -> None:
        super().__init__(features, numbers)
        self.cross_product = cross_product


class Decoder(nn.Module):
    """Fully connected layers from a latent to the coordinates of a cloud: numbers → hidden → hidden → 3·num_points.

    Shapes: (B, numbers) → (B, num_points, 3). It is revised to `FrameDecoder`, without `cross_product` by the paper's
    rules alone: then every point is a combination of latent vectors.
    """

    def __init__(self, numbers: int, num_points: int, hidden: int, cross_product: bool = True) -> None:
        super().__init__()
        self.num_points, self.hidden, self.cross_product = num_points, hidden, cross_product
        self.fc1, self.bn1 = nn.Linear(numbers, hidden), nn.BatchNorm1d(hidden)
        self.fc2, self.bn2 = nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden)
        self.fc3 = nn.Linear(hidden, 3 * num_points)

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        """Clouds (B, num_points, 3) of latents (B, numbers)."""
        x = F.relu(self.bn1(self.fc1(latent)))
        x = F.relu(self.bn2(self.fc2(x)))
        return self.fc3(x).view(-1, self.num_points, 3)


class Autoencoder(nn.Module):
    """A network of the zoo as the encoder, one latent for the cloud, and a decoder: clouds to clouds through a bottleneck.

    | part | ordinary | revised |
    |---|---|---|
    | encoder | a network of the zoo without its head: (B, features) | the same by the paper's rules: quaternions |
    | latent | Linear: features → 3·latent numbers | Linear: features → latent quaternions, and three axes of the cloud |
    | decoder | fully connected: 3·latent → hidden → hidden → 3·num_points | the same, in a frame made from the latent |

    The learned latent holds as many numbers in both, and the decoders are the same but for the frame. `parts` is how many
    numbers a latent entry has before revision: 3, and 1 in the network to be revised.

    Args:
        num_points: of the clouds that come out; those that go in may have any number.
        latent: how many vectors the latent holds.
        width: multiplies the encoder's widths, and 2048 for the decoder's hidden ones.
        encoder: a network of the zoo by its name, or any module from clouds (B, N, 3) to global features (B, `features`).
        encoder_options: what the named network is built with.
        features: the number of features of an encoder that is a module.
        cross_product: revise with a frame, whose third axis is a cross product; False: by the paper's rules alone.

    Shapes: points (B, N, 3) → (B, num_points, 3).
    """

    def __init__(
        self,
        num_points: int = 512,
        latent: int = 64,
        width: float = 0.25,
        encoder: str | nn.Module = "dgcnn",
        encoder_options: dict[str, Any] | None = None,
        features: int | None = None,
        cross_product: bool = True,
        parts: int = 3,
    ) -> None:
        super().__init__()
        if min(num_points, latent) < 1:
            raise InputError(f"num_points is {num_points} and latent {latent}; both must be at least 1")
        self.encoder, count = _encoder(encoder, encoder_options, width, features)
        self.min_points = int(getattr(self.encoder, "min_points", 1))
        self.latent = Latent(count, parts * latent, cross_product)
        self.decoder = Decoder(parts * latent, num_points, scaled(2048, width), cross_product)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Reconstructed clouds (B, num_points, 3) of clouds (B, N, 3)."""
        check_points(points, self.min_points, f"the encoder takes {self.min_points} points or more", "encoder_options")
        return self.decoder(self.latent(self.encoder(points)))


def _encoder(
    encoder: str | nn.Module, options: dict[str, Any] | None, width: float, features: int | None
) -> tuple[nn.Module, int]:
    """The encoder, and how many features it gives."""
    if isinstance(encoder, nn.Module):
        if features is None:
            raise InputError("features= is missing: how many global features the encoder gives for a cloud")
        return encoder, features
    if "num_classes" not in model_entry(encoder).options:
        raise InputError(f"encoder is {encoder!r}, which gives no global features; take dgcnn, pointnet or pointnet2")
    given = ENCODER_OPTIONS.get(encoder, {}) if options is None else options
    network: Any = build_model(encoder, **{"width": width, **given})
    count = network.head.fc1.in_features
    network.head = nn.Identity()
    return network, count
