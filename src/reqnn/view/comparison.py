"""What networks say about the cloud on the page, beside what they say about it upright; and a feature that rotates with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reqnn.errors import InputError
from reqnn.pretrained import load
from reqnn.revision.module import RevisedModel
from reqnn.train.prediction import predict
from reqnn.view.features import point_features
from reqnn.view.shown import Shown

LENGTH = 0.22
"""Of a long arrow, in radii of the object."""


@dataclass(frozen=True)
class Answer:
    """What a network says.

    Attributes:
        network, source: what the network is, and the name or run that it comes from.
        top: the most probable classes and their probabilities.
        right: whether the first is what the object is; None if the network does not know that class, or nobody does.
        kept: whether the first is the same as for the whole upright cloud.
        change: the largest change of a probability against the whole upright cloud.
        error: why there is no answer.
    """

    network: str
    source: str
    top: tuple[tuple[str, float], ...] = ()
    right: bool | None = None
    kept: bool = True
    change: float = 0.0
    error: str = ""


class Arrows(NamedTuple):
    """One channel of equivariant features: arrows (M, 2, 3) from points to tips, how many channels there are, and the largest
    difference between the features of the rotated cloud and the rotated features, relative to their length."""

    segments: Tensor
    channels: int
    deviation: float


class Comparison:
    """Some networks of `reqnn.load`, all given the same cloud of `points` points."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.networks: dict[str, Any] = {source: load(source) for source in sources}
        self.points = max(net.card["points"] for net in self.networks.values())
        self._upright: tuple[Tensor | None, list[Tensor | None]] = None, []

    def answers(self, shown: Shown, top: int = 4) -> list[Answer]:
        """The answers of all networks."""
        if self._upright[0] is not shown.points:
            self._upright = shown.points, [_probabilities(net, shown.whole().upright())[0] for net in self.networks.values()]
        found = []
        for (source, net), before in zip(self.networks.items(), self._upright[1], strict=True):
            title = ("REQNN of " if net.card["equivariant"] else "ordinary ") + net.card["network"].rpartition(":")[2]
            now, error = _probabilities(net, shown)
            if now is None or before is None:
                found.append(Answer(title, source, error=error))
                continue
            best = int(now.argmax())
            values, labels = now.topk(min(top, len(now)))
            listed = tuple((net.classes[label], value) for label, value in zip(labels.tolist(), values.tolist(), strict=True))
            right = net.classes[best] == shown.label if shown.label in net.classes else None
            change = float((now - before).abs().max())
            found.append(Answer(title, source, listed, right, best == int(before.argmax()), change))
        return found

    def layers(self, shown: Shown) -> dict[str, tuple[str, str]]:
        """Places whose features can be shown: what they are called → (network, submodule); the last layers come first."""
        found: dict[str, tuple[str, str]] = {}
        for source, net in self.networks.items():
            if isinstance(net, RevisedModel):
                names = reversed(point_features(net, shown.given()))
                found |= {f"{Path(source).name}: {name}": (source, name) for name in names}
        return found

    def arrows(self, shown: Shown, layer: tuple[str, str], channel: int = 0) -> Arrows:
        """A channel of the features of the cloud as it is shown, computed anew from its rotated points."""
        source, name = layer
        now, upright = (point_features(self.networks[source], one.given())[name] for one in (shown, shown.upright()))
        places, vectors = (x @ shown.rotation.float() for x in now)  # rows: x R is the inverse rotation
        deviation = (vectors - upright[1]).abs().max() / upright[1].norm(dim=-1).max()
        one = vectors[min(channel, len(vectors) - 1)]
        tips = places + one * (LENGTH / one.norm(dim=-1).quantile(0.9).clamp(min=1e-12))
        return Arrows(torch.stack([places, tips], dim=1), len(vectors), float(deviation))


def _probabilities(net: Any, shown: Shown) -> tuple[Tensor | None, str]:
    try:
        return predict(net, shown.given())[0].double().softmax(-1), ""
    except InputError as error:  # too few points
        return None, str(error)
