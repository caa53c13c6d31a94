"""What `revise` promises, tried once on the network that it returns: rotated and reordered clouds give the same outputs.

One pass on three clouds: a bumpy one, the same rotated and reordered, and another bumpy one; of fewer points than the example
if it has many and the network takes them. Errors are relative to how far the outputs of the two bumpy clouds lie apart.
Normalisation layers that were never trained use the statistics of the batch. It runs in float64, where neighbours at nearly the
same distance do not change places by rounding.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from reqnn import quaternion
from reqnn.errors import NoRuleError, SelfCheckError
from reqnn.revision.clouds import Clouds, bumpy_cloud
from reqnn.revision.compare import Value, relative_error, scale_of, ways_to_reorder, ways_to_rotate
from reqnn.revision.culprit import Culprit, find_culprit
from reqnn.revision.inputs import cloud_of, convert, device_of, is_numbers
from reqnn.revision.module import RevisedModel
from reqnn.revision.watched import WatchedCopy
from reqnn.tensor.markers import RemovedTransform
from reqnn.tensor.nested import leaves

_FEWER = 4  # times, if there are at least _MANY points
_MANY = 512
_TOLERANCE = 1e-6  # of the spread
_ROUNDING = 1e-3  # of the spread; a smaller error may be amplified rounding
_CONSTANT = 1e-5  # outputs of two clouds that agree to this differ by little more than rounding in float32


@dataclass(frozen=True)
class Motion:
    """What is done to the second cloud: rotated, its points in another order, or both."""

    rotation: Tensor | None
    orders: dict[int, Tensor] | None

    def apply(self, args: tuple[Any, ...], clouds: Clouds) -> tuple[Any, ...]:
        """The moved cloud."""
        moved = clouds.rotated(self.rotation[None]) if self.rotation is not None else args
        if self.orders is None:
            return moved
        return Clouds(moved, clouds.inputs, clouds.batch).reordered(self.orders)

    def error(self, value: Tensor, reference: Tensor, scale: float, sizes: list[int]) -> float:
        """How far an output is from the reference moved alike: the smallest over what it may do (stay, rotate, follow)."""
        one, best = Value(reference, False), math.inf
        rotations = ways_to_rotate(one, 1, free=True) if self.rotation is not None else {"": lambda x, _: x}
        orders = ways_to_reorder(one, 1, sizes) if self.orders is not None else {"": lambda x, _: x}
        for rotate in rotations.values():
            rotated = rotate(reference, self.rotation[None] if self.rotation is not None else None)
            for reorder in orders.values():
                best = min(best, relative_error(value, reorder(rotated, self.orders), scale))
        return best


@dataclass(frozen=True)
class Verdict:
    """What was measured of the outputs: the largest error, and which of them are the same for both bumpy clouds."""

    error: float
    constant: frozenset[int]


def self_check(net: RevisedModel, model: nn.Module, args: tuple[Any, ...]) -> list[str]:
    """Raise `SelfCheckError` if outputs change with the orientation or the order of the points, or with nothing at all.

    Args:
        net: the revised network; it is left as it is.
        model: the original.
        args: the example inputs.

    Returns:
        Notes for the report.
    """
    exact = WatchedCopy(net, torch.float64, 0)
    for trial in _trials(net, args):
        motion = Motion(trial.rotation, trial.orders)
        try:
            verdict, failure = trial.verdict(exact, motion), None
            break
        except Exception as error:  # sizes that are written out in the code, say
            verdict, failure = None, error
    if isinstance(failure, NoRuleError):
        raise failure
    if failure is not None:
        return [f"the self-check was left out: the network fails on other clouds ({type(failure).__name__}: {failure})"]
    if verdict is None:
        return ["the self-check was left out: no output belongs to single clouds"]
    if verdict.error <= _TOLERANCE:
        constant = verdict.constant - trial.constant_in(model) if verdict.constant else frozenset()
        return _judge_constant(net, trial.same_on_example(exact, constant)) if constant else []
    parts = {"place": Motion(None, None), "order": Motion(None, trial.orders), "orientation": Motion(trial.rotation, None)}
    for what, alone in parts.items():
        part = trial.verdict(exact, alone)
        if part is not None and part.error > _TOLERANCE:
            if what == "order" and not net.sorts:
                net.sorts = True
                with suppress(SelfCheckError):
                    return [*self_check(net, model, args), "topk(sorted=False) sorts, as the order of its values matters"]
                net.sorts = False
            culprit = find_culprit(exact, trial.batch(alone), alone.error, trial.sizes)
            raise _refusal(what, part.error, culprit)
    raise _refusal("order", verdict.error, None)


def _trials(net: RevisedModel, args: tuple[Any, ...]) -> Iterator[_Trial]:
    """Clouds of fewer points than the example first, if it has many."""
    trial = _Trial(net, args, fewer=False)
    if trial.sizes and min(trial.sizes) >= _MANY:
        yield _Trial(net, args, fewer=True)
    yield trial


class _Trial:
    """The clouds of the check, and what is done to them."""

    def __init__(self, net: RevisedModel, args: tuple[Any, ...], fewer: bool) -> None:
        generator = torch.Generator().manual_seed(0)
        first = args[net.inputs.first[0]]
        self.args, self.rows = args, first.shape[0] if first.dim() > 2 else None
        batch = 1 if self.rows else None
        example = Clouds(tuple(x[:1] if self._batched(x) else x for x in args), net.inputs, batch)
        if fewer:  # by one more than a fourth: no power of two, which may be the width of a layer
            example = replace(example, args=example.reordered({n: torch.arange(n // _FEWER + 1)[None] for n in example.sizes}))
        self.cloud, self.other = (replace(example, args=bumpy_cloud(example.args, net.inputs, generator)) for _ in range(2))
        self.rotation = quaternion.random_matrix((), generator, torch.float64)
        self.orders, self.sizes = self._orders(net, generator), self.cloud.sizes

    def _orders(self, net: RevisedModel, generator: torch.Generator) -> dict[int, Tensor]:
        """Orders in which the farthest points move to the other half of the places, and between odd and even ones.

        By the paper's rules the farthest point may decide alone.
        """
        position, axis = net.inputs.first
        norms = cloud_of(self.cloud.args[position], axis).norm(dim=-1)[0]
        far, half = norms.topk(min(3, len(norms)))[1], len(norms) // 2
        for _ in range(500):
            orders = self.cloud.random_orders(generator)
            now = orders[len(norms)][0].argsort()[far] if len(norms) in orders else far
            if (((now < half) != (far < half)) & ((now - far) % 2 == 1)).all():
                break
        return orders

    def clouds(self, motion: Motion) -> list[tuple[Any, ...]]:
        """The bumpy cloud, the same moved, and another one."""
        return [self.cloud.args, motion.apply(self.cloud.args, self.cloud), self.other.args]

    def batch(self, motion: Motion, count: int = 3) -> tuple[Any, ...]:
        """The clouds, or the first ones, as one batch."""
        columns = zip(*self.clouds(motion)[:count], strict=True)
        return tuple(torch.cat(x) if self._batched(x[0], 1) else x[0] for x in columns)

    def verdict(self, watched: WatchedCopy, motion: Motion) -> Verdict | None:
        """What the outputs of a copy do; None if no output depends on the cloud."""
        outputs = self._outputs(watched, motion)
        if not outputs:
            return None
        errors, constant = [0.0], set()
        for place, (first, moved, other) in outputs.items():
            spread, scale = scale_of(first.double() - other.double()), scale_of(first.double())
            if spread <= _CONSTANT * scale:
                constant.add(place)
                spread = scale
            errors.append(motion.error(moved, first, spread, self.sizes))
        return Verdict(max(errors), frozenset(constant))

    def same_on_example(self, watched: WatchedCopy, places: frozenset[int]) -> bool:
        """Whether these outputs are the same for all clouds of the example."""
        watched.net.eval()
        outputs = leaves(watched.run(convert(self.args, device_of(watched.net), watched.dtype)))
        return all(scale_of(outputs[i] - outputs[i][:1]) <= _CONSTANT * scale_of(outputs[i]) for i in places)

    def constant_in(self, model: nn.Module) -> frozenset[int]:
        """Which outputs of the original do not depend on the cloud either."""
        verdict = self.verdict(WatchedCopy(model, torch.float64, 0), Motion(None, None))
        return frozenset() if verdict is None else verdict.constant

    def _outputs(self, watched: WatchedCopy, motion: Motion) -> dict[int, list[Tensor]]:
        """For each output its values on the three clouds, in one batch if the code takes it, or two in one, or each alone."""

        def run(args: tuple[Any, ...], forward: Callable[..., Any] = watched.run) -> dict[int, Tensor]:
            out = leaves(forward(convert(args, device_of(watched.net), watched.dtype)))
            raw = leaves(watched.raw_output)
            removed = [isinstance(leaf, RemovedTransform) for leaf in raw] if len(raw) == len(out) else [False] * len(out)
            return {i: x for i, x in enumerate(out) if is_numbers(x) and not removed[i]}

        for count in (3, 2) if self.rows else ():
            try:
                together = run(self.batch(motion, count), watched.run_to_calibrate)
                watched.net.eval()
                third = run(self.other.args) if count == 2 else {}
            except Exception:  # the code takes no such batch
                continue
            found = {i: [*x.chunk(count), *([third[i]] if third else [])] for i, x in together.items() if x.dim()}
            found = {i: values for i, values in found.items() if len({x.shape for x in values}) == 1}
            if found and not watched.draws_elsewhere:
                return found
        watched.net.eval()
        count = self.rows or 1
        alone = ([x.repeat_interleave(count, 0) if self._batched(x, 1) else x for x in a] for a in self.clouds(motion))
        outputs = [run(tuple(args)) for args in alone]
        return {i: [out[i] for out in outputs] for i in outputs[0] if outputs[0][i].shape == outputs[2][i].shape}

    def _batched(self, x: Any, rows: int | None = None) -> bool:
        return self.rows is not None and isinstance(x, Tensor) and x.shape[:1] == (rows or self.rows,)


def _refusal(what: str, error: float, culprit: Culprit | None) -> SelfCheckError:
    of = {"place": "cloud in the batch", "order": "points", "orientation": "cloud"}[what]
    reason = f"the outputs depend on the {what} of the {of}: "
    reason += f"they change by {error:.1g} times what lies between two different clouds"
    advice = {
        "place": "treat all clouds alike: what runs for each cloud by itself and has learned parameters belongs into a module "
        "of its own; a function that begins at a random point or draws other numbers for each cloud needs a replacement that "
        "does not (replace={'name': function})",
        "order": "treat all points alike: kernel size 1 along the points, pooling over all of them, sampling by the shape of "
        "the cloud (replace={'name': reqnn.points.farthest_point_sample}) instead of by place or at random, topk sorted",
        "orientation": "use torch functions on the features themselves (numbers that leave them as numpy or .item() are not "
        "followed), or name the submodule in coordinates= or to_real=",
    }[what]
    advice += "; check=False revises the network nevertheless, without that promise"
    if culprit is None:
        if error < _ROUNDING:
            reason += ". So little may be rounding, where a batch-norm divides by differences that nearly vanish between clouds"
            advice = "let the features depend more on the cloud (rules='full', or features of neighbours); " + advice
        return SelfCheckError(f"{reason}\n  what to do: {advice}")
    where = f"in layer '{culprit.layer}'" if culprit.layer else "in the model's own forward"
    first = f"first: {culprit.operation}, {where}\n  at {culprit.location}"
    return SelfCheckError(f"{reason}\n  {first}\n  what to do: {advice}", culprit.layer, culprit.location)


def _judge_constant(net: RevisedModel, on_example: bool) -> list[str]:
    """An output is the same for two bumpy clouds of one size.

    An error if it is for all clouds of the example, too; a warning if those differ (in size), or if normalised layers can
    still learn to depend on the cloud.
    """
    reason = "before any training an output does not depend on the cloud, as far as float32 can tell: "
    reason += "it is the same for " + ("all clouds of the example" if on_example else "two clouds of one size")
    if net.rules.name == "paper":
        reason += (
            ". By the paper's rules, layers on single points give multiples of each point's own vector; while these grow with "
            "the distance from the origin, max-pooling always takes the farthest point. What to do: rules='full'; batch-norm "
            "or another norm layer behind each layer; a smaller c of the ReLU rule (rules=reqnn.get_rules('paper').with_options"
            "(c=0.1)); or features of neighbours, normals or the centroid beside the points"
        )
    else:
        reason += ". What to do: to_real= before an earlier layer, or other rules="
    if on_example and not any("normalization" in row.row and row.kind == "quaternion" for row in net.report.rows):
        raise SelfCheckError(f"{reason}. check=False revises it nevertheless")
    warnings.warn(reason, UserWarning, stacklevel=4)
    return [reason]
