"""What a network is trained for: its loss, and the figure that the best weights are chosen by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from reqnn.errors import InputError
from reqnn.train.config import TrainConfig
from reqnn.train.distance import chamfer_distance
from reqnn.train.optimization import smoothed_cross_entropy


@dataclass(frozen=True)
class Task:
    """A task; `metric` is what log, curve and metrics.json call the figure that epochs are compared by.

    Attributes:
        name: as in the settings.
        metric: the column of the log, behind `train_` and `validation_`.
        higher: whether the metric grows with the quality.
    """

    name: str
    metric: str
    higher: bool

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """What is minimised: the mean over a batch, a scalar."""
        raise NotImplementedError

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The metric of each cloud, (B,)."""
        raise NotImplementedError

    def better(self, value: float, best: float) -> bool:
        """Whether a value of the metric is better than the best so far."""
        if math.isnan(best):
            return not math.isnan(value)
        return value > best if self.higher else value < best

    def show(self, value: float) -> str:
        """A value of the metric for people."""
        return f"{value:.5f}"

    def show_loss(self, value: float) -> str:
        """A loss for people."""
        return f"{value:.5f}"


@dataclass(frozen=True)
class Classification(Task):
    """Logits (B, classes); cross entropy, and the share of right answers."""

    name: str = "classification"
    metric: str = "accuracy"
    higher: bool = True
    smoothing: float = 0.0

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy with the settings' smoothing."""
        if outputs.dim() != 2:
            raise InputError(
                f"the network gives {tuple(outputs.shape)}; classification needs logits (B, classes). A network that gives "
                "clouds is trained with --task reconstruction"
            )
        return smoothed_cross_entropy(outputs, labels, self.smoothing)

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """1 for a right answer, 0 for a wrong one."""
        return outputs.argmax(1) == labels

    def show(self, value: float) -> str:
        """In per cent."""
        return f"{100 * value:.1f} %"

    def show_loss(self, value: float) -> str:
        """Three digits."""
        return f"{value:.3f}"


@dataclass(frozen=True)
class Reconstruction(Task):
    """Clouds (B, M, 3) that should be the input, as sets of points: Chamfer distance."""

    name: str = "reconstruction"
    metric: str = "chamfer"
    higher: bool = False

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The mean Chamfer distance."""
        return self.scores(outputs, points, labels).mean()

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The Chamfer distance of each cloud."""
        check_outputs(outputs)
        return chamfer_distance(outputs, points)


@dataclass(frozen=True)
class PointwiseReconstruction(Task):
    """Clouds (B, N, 3) whose point i should be point i of the input: mean squared error, and the mean distance."""

    name: str = "reconstruction"
    metric: str = "distance"
    higher: bool = False

    def loss(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """Mean ‖output_i − point_i‖²."""
        return self._offsets(outputs, points).square().sum(-1).mean()

    def scores(self, outputs: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """The mean distance of a point from where it belongs."""
        return self._offsets(outputs, points).norm(dim=-1).mean(1)

    def _offsets(self, outputs: Tensor, points: Tensor) -> Tensor:
        check_outputs(outputs)
        if outputs.shape != points.shape:
            raise InputError(
                f"the network gives {tuple(outputs.shape)} for clouds {tuple(points.shape)}: points that do not correspond "
                "are compared by --loss chamfer"
            )
        return outputs - points


def check_outputs(outputs: Tensor) -> None:
    """Raise `InputError` unless a network gives clouds."""
    if outputs.dim() != 3 or outputs.shape[-1] != 3:
        raise InputError(
            f"the network gives {tuple(outputs.shape)}; reconstruction needs clouds (B, N, 3), as autoencoder and "
            "pointnet_reconstruction give them (--model)"
        )


def make_task(config: TrainConfig) -> Task:
    """The task of the settings; without a loss, points are compared one by one where the network maps each by itself."""
    if config.task == "classification":
        return Classification(smoothing=config.smoothing)
    pointwise = config.model == "pointnet_reconstruction" if config.loss == "auto" else config.loss == "mse"
    return PointwiseReconstruction() if pointwise else Reconstruction()
