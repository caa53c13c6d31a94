"""Rotate test shapes and compare the answers of shipped weights; the counts grow from run to run."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

SIZE = 16  # shapes at a time
SAVED = 120.0  # seconds between two records
SMALL = 1e-3  # a probability that moves by more did so by a choice of neighbours or samples: rounding alone moves it by 1e-6
SUMS = "tried", "changed", "by_a_choice", "changed_in_float64"

Record = dict[str, Any]


def rotations(
    before: Record,
    count: int,
    weights: tuple[str, ...],
    data: str,
    votes: int | None,
    minutes: float | None,
    save: Callable[[Record], None],
) -> Record:
    """Continue a record until `count` rotated shapes were tried by each network, or the time is up.

    The network with the fewest goes first. `save` gets the record every two minutes.
    """
    record: Record = before if "networks" in before else {"networks": {}}
    named = {f"{name} with votes={votes}" if votes else name: name for name in weights}
    tested = {title: Rotated(name, data, votes, record["networks"].setdefault(title, {})) for title, name in named.items()}
    begun = saved = time.monotonic()
    while minutes is None or time.monotonic() < begun + 60 * minutes:
        title = min(tested, key=lambda title: tested[title].found["tried"])
        if tested[title].found["tried"] >= count:
            break
        tested[title].step()
        if time.monotonic() - saved > SAVED:
            save(_with_sums(record))
            saved = time.monotonic()
            print({title: [one.found[key] for key in SUMS] for title, one in tested.items()}, file=sys.stderr, flush=True)
    return _with_sums(record)


def _with_sums(record: Record) -> Record:
    every = record["networks"].values()
    sums = {key: sum(one[key] for one in every) for key in SUMS}
    return {**record, **sums, "largest_change": max((one["largest_change"] for one in every), default=0.0)}


class Rotated:
    """The rotated shapes of one network: number i is test shape i mod S, in an orientation by the seed i div SIZE.

    Args:
        weights: their name, or a folder.
        data: the data set.
        votes: of DGCNN, those of the weights if None.
        found: the record to continue.
    """

    def __init__(self, weights: str, data: str, votes: int | None, found: Record) -> None:
        import reqnn

        self.net: Any = reqnn.load(weights)
        if votes:
            self.net.model.votes = votes
        self.clouds = reqnn.data.load(data, "test", points=self.net.card["points"])
        self.found = found
        self.upright: dict[int, Tensor] = {}
        for key in SUMS:
            found.setdefault(key, 0)
        found.setdefault("largest_change", 0.0)
        found.setdefault("changes", [])
        found["data"] = f"{data} test"

    def step(self) -> None:
        """Rotate the next shapes and compare; what changed is tried again in float64."""
        import torch

        import reqnn

        first, found = self.found["tried"], self.found
        index = [i % len(self.clouds) for i in range(first, first + SIZE)]
        points = self.clouds.points[index].double()
        copies = reqnn.data.rotate(points, "AR", torch.Generator().manual_seed(first // SIZE))[0]
        new = [place for place, i in enumerate(index) if i not in self.upright]
        self.upright.update(zip((index[place] for place in new), _answers(self.net, points[new]), strict=True))
        upright, rotated = torch.stack([self.upright[i] for i in index]), _answers(self.net, copies)
        found["tried"] += SIZE
        moved = (upright - rotated).abs().amax(-1)
        found["largest_change"] = max(found["largest_change"], float(moved.max()))
        changed = (upright.argmax(-1) != rotated.argmax(-1)).nonzero()[:, 0].tolist()
        if not changed:
            return
        exact = copy.deepcopy(self.net).double()
        first_answers, others = _answers(exact, points[changed]), _answers(exact, copies[changed])
        for i, one, other in zip(changed, first_answers, others, strict=True):
            best, second = one.topk(2).values.tolist()
            differs = bool(one.argmax() != other.argmax())
            found["changed"] += 1
            found["by_a_choice"] += float(moved[i]) > SMALL
            found["changed_in_float64"] += differs
            lead = {"lead": best - second, "moved": float(moved[i])}
            found["changes"].append({"item": first + i, "shape": index[i], **lead, "float64": differs})


def _answers(net: Any, points: Tensor) -> Tensor:
    """Probabilities by a network in its precision: (B, N, 3) → (B, classes) float64."""
    from reqnn.train.prediction import predict

    return predict(net, points, SIZE).double().softmax(-1) if len(points) else points.new_empty(0, 0)
