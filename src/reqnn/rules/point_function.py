"""Functions on points that published networks call by well-known names, and what a revised copy does with them.

The code of a network is full of ``farthest_point_sample(xyz, npoint)`` and ``query_ball_point(radius, nsample, xyz,
new_xyz)``. In the revised copy such a function becomes a `PointFunction`: the dry run compares it with our
permutation-invariant one and, where arguments and result fit, ours is called from then on. Functions that need no rule
(density, graph construction) are only noted, so that the report knows Table 3's rows.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reqnn.errors import InputError, NoRuleError
from reqnn.nn.coordinates import frame_under_way
from reqnn.tensor import Context, QuaternionTensor, from_real, quaternions
from reqnn.tensor.nested import leaves, map_leaves
from reqnn.tensor.trace import user_frame

Adapter = Callable[[dict[str, Any]], Tensor | None]
Fits = Callable[[dict[str, Any], Tensor, Any], bool]


@dataclass(frozen=True)
class Known:
    """A family of well-known functions.

    Attributes:
        row: the row of Table 1.
        names: what people call it.
        adapt: bound arguments → what ours returns for them, None where they do not fit; None: nothing to replace.
        fits: (bound arguments, ours, what the original gives) → whether both are of the same kind.
        shows: the same, for an index tensor of ours' shape from a function under another name; None: it is known by its name.
        chooses: it chooses points of its only cloud, and may return those, also beside their indices.
    """

    row: str
    names: tuple[str, ...]
    adapt: Adapter | None = None
    fits: Fits | None = None
    shows: Fits | None = None
    chooses: bool = False


def tensors_and_numbers(arguments: dict[str, Any]) -> tuple[list[tuple[str, Tensor]], list[tuple[str, float]]]:
    """The tensor and the numeric arguments, in order; booleans are switches and do not count."""
    tensors = [(name, value) for name, value in arguments.items() if isinstance(value, Tensor)]
    numbers = [(n, v) for n, v in arguments.items() if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return tensors, numbers


def roles(names: Iterable[str]) -> tuple[str, str]:
    """Which of two tensors is the cloud, and which the centres: by a telling name, or the second."""
    first, second = names
    centres = [any(word in name for word in ("new", "cent", "query", "node", "key", "tgt", "dst")) for name in (first, second)]
    return (second, first) if centres[0] else (first, second)


def points_last(x: Any) -> Any:
    """(B, N, C) from (B, N, C) or (B, C, N), where an axis of coordinates tells which it is; None where it is no cloud."""
    if not isinstance(x, QuaternionTensor) or x.rank != 3 or (x.axis is not None and "s" in x.vectors):
        return None
    return x.transpose(1, 2) if x.axis == 1 else x


class PointFunction:
    """A well-known function in a revised copy.

    Args:
        name: what the network calls it.
        known: the family, None where the user asked for the replacement.
        original: the function as the network has it.
        replacement: the user's own replacement.
        families: what it may turn out to be in the dry run, if its name is not well known.
    """

    def __init__(
        self,
        name: str,
        known: Known | None,
        original: Callable,
        replacement: Callable | None = None,
        families: Sequence[Known] = (),
    ) -> None:
        self.known, self.original, self.replacement, self.families = known, original, replacement, families
        self.ours: bool | None = None
        self.form: Any = as_indices  # what stands where in its result: indices, or the points themselves
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ours, the user's, or the original, as the dry run decided."""
        operands = list(quaternions(*args, **kwargs))
        frame = None if operands else frame_under_way()
        plan = operands[0].context.plan if operands else None
        if plan is not None and self.known is None and self.replacement is None:
            return self._recognised(args, kwargs)
        if plan is not None:
            plan.met_function(self)
        if self.replacement is not None:
            return self.replacement(*args, **kwargs)
        adapt = self.known.adapt if self.known is not None and (operands or frame is not None) else None
        if adapt is None or self.ours is False:
            return self.original(*args, **kwargs)
        # a submodule in the PCA frame has real coordinates (B, N, 3) or (B, 3, N)
        given = (args, kwargs) if frame is None else map_leaves(lambda leaf: _as_points(leaf, frame), (args, kwargs))
        bound = self._bind(*given)
        result = adapt(bound)
        if self.ours is None and (result is not None or frame is None):
            self.ours = result is not None and self._agrees(bound, result, args, kwargs)
        return self._result(result, args, kwargs) if self.ours and result is not None else self.original(*args, **kwargs)

    def _result(self, index: Tensor, args: tuple, kwargs: dict) -> Any:
        """Our indices in the form in which the original gives its result."""
        return index if self.form is as_indices else map_leaves(lambda part: part(index, self._bind(args, kwargs)), self.form)

    def _agrees(self, bound: dict[str, Any], ours: Tensor, args: tuple, kwargs: dict) -> bool:
        """Whether the original, run on the same arguments, gives a result of the same kind."""
        assert self.known is not None
        assert self.known.fits is not None
        try:
            theirs = self.original(*args, **kwargs)
        except Exception:  # it has no quaternion form; on the same points as plain numbers it ran in the original network
            try:
                theirs = self._on_numbers(args, kwargs)
            except Exception as error:
                raise NoRuleError(
                    f"the function {self.__name__} would be replaced by ours, but cannot be compared with it: it fails on the "
                    f"example ({type(error).__name__}: {error}). Say what replaces it: replace={{'{self.__name__}': function}}",
                    self.__name__,
                    None,
                    user_frame(),
                ) from error
        return self._is_one_of(self.known, self.known.fits, bound, ours, theirs)

    def _is_one_of(self, family: Known, fits: Fits, bound: dict[str, Any], ours: Tensor, theirs: Any) -> bool:
        """Whether a result is of a family, as it is or, if points were chosen, by their indices; its form is remembered."""
        form, index = _chosen(bound, ours, theirs) if family.chooses else (as_indices, theirs)
        if form is not as_indices:
            assert family.shows is not None
            fits = family.shows
        if index is None or not same_kind(bound, ours, index) or not fits(bound, ours, index):
            return False
        self.form = form
        return True

    def _on_numbers(self, args: tuple, kwargs: dict) -> Any:
        """The original's result for quaternions as plain real coordinates, which have the same distances."""
        return self.original(*map_leaves(as_numbers, args), **map_leaves(as_numbers, kwargs))

    def _recognised(self, args: tuple, kwargs: dict) -> Any:
        """Ours, if what the original gives shows that it is one of the families; else the original's result."""
        failure, theirs = None, None
        try:
            found = theirs = self.original(*args, **kwargs)
        except NoRuleError as error:
            failure, found = error, None
            with contextlib.suppress(Exception):
                found = self._on_numbers(args, kwargs)
        bound = self._bind(args, kwargs)
        for family in self.families:
            if found is None or family.adapt is None or family.shows is None or not (family.chooses or _is_index(found)):
                continue
            ours = None
            with contextlib.suppress(InputError):  # its number is not how many points are wanted
                ours = family.adapt(bound)
            if ours is not None and self._is_one_of(family, family.shows, bound, ours, found):
                self.known, self.ours = family, True
                next(quaternions(args, kwargs)).context.plan.met_function(self)  # type: ignore[union-attr]
                return self._result(ours, args, kwargs)
        if failure is not None:
            raise failure
        return theirs

    def _bind(self, args: tuple, kwargs: dict) -> dict[str, Any]:
        """Arguments by name; by place, where the function does not tell its names (a compiled one)."""
        try:
            signature = inspect.signature(self.original)
        except (TypeError, ValueError):
            signature = None
        if signature is None or any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            return {f"argument{place}": value for place, value in enumerate(args)} | kwargs
        return dict(signature.bind(*args, **kwargs).arguments)


def as_indices(index: Tensor, arguments: dict[str, Any]) -> Tensor:
    """Indices as they are."""
    return index


def as_chosen_points(index: Tensor, arguments: dict[str, Any]) -> Any:
    """The chosen points (B, n, 3) or (B, 3, n), as the cloud stands in the arguments."""
    xyz = next(value for value in arguments.values() if isinstance(value, Tensor))
    rows = torch.arange(len(index), device=index.device)[:, None]
    return xyz[rows, index] if xyz.shape[2] == 3 else xyz.transpose(1, 2)[rows, index].transpose(1, 2)


def _is_index(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, QuaternionTensor) and not value.is_floating_point()


def _chosen(bound: dict[str, Any], ours: Tensor, theirs: Any) -> tuple[Any, Tensor | None]:
    """The form of a result that names points of the cloud, and their indices; (as_indices, None) for any other result."""
    xyz = as_numbers(next(value for value in bound.values() if isinstance(value, Tensor)))
    cloud = xyz if xyz.shape[2] == 3 else xyz.transpose(1, 2)
    forms, found = [], []
    for leaf in leaves(theirs):
        if _is_index(leaf) and leaf.shape == ours.shape:
            forms.append(as_indices)
            found.append(leaf)
            continue
        points = as_numbers(leaf) if isinstance(leaf, Tensor) else None
        points = points.transpose(1, 2) if points is not None and points.dim() == 3 and xyz.shape[2] != 3 else points
        if points is None or points.shape != (*ours.shape, 3):
            return as_indices, None
        distance, index = torch.cdist(points.to(cloud), cloud, compute_mode="donot_use_mm_for_euclid_dist").min(-1)
        if not bool((distance <= 1e-5 * cloud.abs().max()).all()):  # moved, or means of points
            return as_indices, None
        forms.append(as_chosen_points)
        found.append(index)
    if not found:
        return as_indices, None
    left = iter(forms)
    return map_leaves(lambda _: next(left), theirs), found[0]


def _as_points(value: Any, context: Context) -> Any:
    axis = next((d for d in (2, 1) if isinstance(value, Tensor) and value.dim() == 3 and value.shape[d] == 3), None)
    return value if axis is None or not value.is_floating_point() else from_real(value, axis, context)


def as_numbers(value: Any) -> Any:
    """Quaternions as the real tensor of coordinates that they are, features as points of R^3C; anything else as it is."""
    if not isinstance(value, QuaternionTensor):
        return value
    if value.axis is not None and set(value.vectors) <= {"v", "l", "s"}:
        return value.as_real()
    channels = value.channel_axis if value.channel_axis is not None else 1
    return torch.cat(value.components.unbind(), channels)


def may_choose_points(function: Callable) -> bool:
    """Whether a function's code could choose points: it takes something and a number, and orders or compares."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount < 2:
        return False
    names = set(code.co_names)
    for constant in code.co_consts:
        names |= set(getattr(constant, "co_names", ()))
    return bool(names & {"argmax", "max", "topk", "sort", "argsort"})


def same_kind(arguments: dict[str, Any], ours: Tensor, theirs: Any) -> bool:
    """An index tensor of the same shape."""
    return isinstance(theirs, Tensor) and not theirs.is_floating_point() and theirs.shape == ours.shape
