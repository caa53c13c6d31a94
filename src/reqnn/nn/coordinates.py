"""Submodules that compute in the cloud's own PCA frame: they need real coordinates, such as PointConv's WeightNet.

    block(x) in the frame F:    F · block(Fᵀx)     for outputs that are coordinates,     block(Fᵀx) for all others

Paper, section 3.3, "3D coordinates weighting": the principal axes are the axes of the new coordinate system. Coordinates that
are rotated back, and features that enter the block (as Quaternion2Real gives them), go beyond the paper.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from reqnn.errors import NoRuleError
from reqnn.nn.quaternion_to_real import to_real
from reqnn.tensor import Context, QuaternionTensor, from_real, quaternions
from reqnn.tensor.nested import leaves, map_leaves
from reqnn.tensor.trace import user_frame

_ANOTHER_FRAME = torch.tensor([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])  # x → y → z → x: none of the four right-handed ones
_SAME = 1e-4  # of the largest entry, in float32


class _Thread(threading.local):
    context: Context | None = None
    inside: Context | None = None


_thread = _Thread()


@contextmanager
def frames_of(context: Context) -> Iterator[None]:
    """The pass whose clouds give the frames of blocks that are given nothing but real numbers."""
    before, _thread.context = _thread.context, context
    try:
        yield
    finally:
        _thread.context = before


def frame_under_way() -> Context | None:
    """The pass whose PCA frames the running submodule computes in, None outside of such submodules."""
    return _thread.inside


def in_principal_frames(x: QuaternionTensor, frames: Tensor | None = None) -> Tensor:
    """Rᵀx for every vector x and PCA frame R of its cloud: real coordinates that no rotation changes.

    Shapes:
        x: (B, *) with an axis of vectors → (B, *) real
        frames: (B, 3, 3), columns the axes; default: the first frame of each cloud
    """
    if x.axis is None or set(x.vectors) - {"v", "l", "s"}:
        raise NoRuleError("a PCA frame takes coordinates; this tensor holds features")
    frames = x.context.frames()[:, 0] if frames is None else frames
    seen = torch.einsum("bij,ib...->jb...", _per_row(frames, x.imaginary(), x.context), x.imaginary())
    return x.same(torch.cat([x.components[:-3], seen])).as_real()


def map_in_frames(x: QuaternionTensor, function: Callable[[Tensor], Tensor], axis: int) -> QuaternionTensor:
    """F · f(Fᵀx), an average over the frames F if there are four; f gives vectors on the same axis (from the end)."""
    context = x.context
    if context.plan is not None:
        context.plan.met("3D coordinates weighting", "matrix in the PCA frame", "quaternion", extension=True)
    frames = context.frames().unbind(1)
    results = [from_real(function(in_principal_frames(x, frame)), axis, context) for frame in frames]
    return _averaged(results, frames, context)


def _averaged(vectors: list[QuaternionTensor], frames: Sequence[Tensor], context: Context) -> QuaternionTensor:
    """The mean of vectors that are seen from frames, rotated back. Shapes: each frame (B, 3, 3)"""
    pairs = zip(vectors, frames, strict=True)
    back = [torch.einsum("bij,jb...->ib...", _per_row(frame, v.imaginary(), context), v.imaginary()) for v, frame in pairs]
    return vectors[0].same(torch.stack(back).mean(0))


def _per_row(frames: Tensor, vectors: Tensor, context: Context) -> Tensor:
    """The frame of each row of vectors (3, rows, *), which lie cloud after cloud."""
    rows, clouds = vectors.shape[1], frames.shape[0]
    if context.members is not None and rows != clouds:
        raise NoRuleError(
            f"a submodule in the PCA frame is given {rows} rows of coordinates from a list of {clouds} points in several clouds"
            "; it is not known to which cloud each belongs. Pass clouds one by one, or as a batch (B, N, 3), or rules='frames'"
        )
    if rows % clouds:
        raise NoRuleError(f"{rows} rows of coordinates do not belong to {clouds} clouds")
    return frames.to(vectors).repeat_interleave(rows // clouds, 0)


class InFrame:
    """Replaces a module's ``forward``: inputs are seen from the PCA frame, coordinates among the outputs rotated back.

    With the rule-set option ``frame="average"`` the block runs in all four right-handed frames, and outputs are averaged.

    Args:
        module: whose forward it is.
        axis: of the coordinates in the network's input; outputs have theirs on the same, if it is of size 3.
        extension: whether this use goes beyond the paper.
        rotate_back: whether outputs that may be coordinates are. Coordinates that the block only passes on (sampled points)
            always are: the dry run finds them by a second frame.
        stays: no output is rotated back; the code behind the block computes in the frame, too.

    Attributes:
        rotated: output, in the order of leaves → the axis of its coordinates.
        may_rotate: the same for outputs that look like coordinates and are returned as real numbers.
    """

    flat = True  # an output (B, 3·V) may be vectors, too

    def __init__(
        self, module: nn.Module, axis: int = -1, extension: bool = False, rotate_back: bool = False, stays: bool = False
    ) -> None:
        self.module, self.axis, self.extension, self.rotate_back, self.stays = module, axis, extension, rotate_back, stays
        self.rotated: dict[int, int] = {}
        self.may_rotate: dict[int, int] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The block's outputs: real, the same in every orientation; coordinates as vectors that rotate."""
        given = (args, kwargs)
        context = next((q.context for q in quaternions(given)), _thread.context)  # blocks may be given real numbers only
        if context is None:
            return self._forward(given)
        before, _thread.inside = _thread.inside, context
        try:
            return self._in_frames(given, context)
        except NoRuleError as error:
            name = getattr(self.module, "__name__", type(self.module).__name__)
            raise error.located(name, context.names.get(id(self.module)), user_frame()) from None
        finally:
            _thread.inside = before

    def _forward(self, given: tuple[tuple, dict]) -> Any:
        return type(self.module).forward(self.module, *given[0], **given[1])

    def _in_frames(self, given: Any, context: Context) -> Any:
        if context.plan is not None:
            context.plan.met("3D coordinates weighting", "PCA frame", extension=self.extension)
        parts = map_leaves(self._split, given)
        frames = self._frames(parts, context)
        outputs = [self._forward(_seen(parts, frame)) for frame in frames.unbind(1)]
        if context.plan is not None:
            other = frames[:, 0] @ _ANOTHER_FRAME.to(frames)
            self._find_coordinates(outputs[0], self._forward(_seen(parts, other)), strict=context.strict)
        columns = zip(*map(leaves, outputs), strict=True)
        means = iter([self._mean(column, frames, self.rotated.get(i), context) for i, column in enumerate(columns)])
        return map_leaves(lambda _: next(means), outputs[0])

    @staticmethod
    def _frames(parts: Any, context: Context) -> Tensor:
        """(B, F, 3, 3); a block that is given no coordinates has the same outputs in all frames: their average would vanish."""
        frames = context.frames()
        if frames.shape[1] == 1 or any(isinstance(leaf, _Parts) for leaf in leaves(parts)):
            return frames
        return frames[:, :1]

    def _split(self, leaf: Any) -> Any:
        """Quaternions as coordinates, which depend on the frame, and real features, which do not."""
        if not isinstance(leaf, QuaternionTensor):
            return leaf
        if leaf.axis is None:
            return to_real(leaf, self.module)
        if "i" in leaf.vectors:
            raise NoRuleError("coordinates that do not stand side by side enter a block in the PCA frame; use (B, N, 3)")
        pieces, start = [], 0
        for features, run in itertools.groupby(leaf.vectors, lambda entry: entry == "f"):
            layout = "".join(run)
            piece = leaf.like(leaf.components.narrow(leaf.axis + 1, start, len(layout)), leaf.axis, layout)
            piece.channel_axis = leaf.axis
            pieces.append(to_real(piece, self.module) if features else piece)
            start += len(layout)
        return _Parts(leaf.axis, pieces)

    def _find_coordinates(self, outputs: Any, others: Any, strict: bool) -> None:
        """Which outputs are coordinates, in the dry run: they rotate with the frame, or are wanted (`rotate_back`)."""
        self.rotated, self.may_rotate = {}, {}
        for i, (a, b) in enumerate(zip(leaves(outputs), leaves(others), strict=True)):
            axis = axis_of_vectors(a, self.axis, flat=self.rotate_back and self.flat) if not strict and not self.stays else None
            if axis is None:
                continue
            rotated = (a.movedim(axis, -1).unflatten(-1, (-1, 3)) @ _ANOTHER_FRAME.to(a)).flatten(-2).movedim(-1, axis)
            passed_on = b.shape == a.shape and bool((b - rotated).abs().max() <= _SAME * a.abs().max())
            matrices = a.shape[-2:] in ((3, 3), (3, 4))  # what becomes R·A·Rᵀ is no coordinates; see `outputs=`
            if passed_on or not matrices:
                (self.rotated if passed_on or self.rotate_back else self.may_rotate)[i] = axis

    def _mean(self, column: tuple[Any, ...], frames: Tensor, axis: int | None, context: Context) -> Any:
        """One output over all frames; what is no floating-point number as in the first frame."""
        first = column[0]
        if not isinstance(first, Tensor) or not first.is_floating_point():
            return first
        if axis is None:
            return first if len(column) == 1 else torch.stack(column).mean(0)
        return _averaged([from_real(value, axis, context) for value in column], frames.unbind(1), context)


class _Parts:
    """A tensor in pieces along an axis: quaternions that are coordinates, and real features."""

    def __init__(self, axis: int, pieces: list[Any]) -> None:
        self.axis, self.pieces = axis, pieces

    def seen(self, frame: Tensor) -> Tensor:
        """The whole, in a frame."""
        real = [in_principal_frames(x, frame) if isinstance(x, QuaternionTensor) else x for x in self.pieces]
        return torch.cat(real, self.axis) if len(real) > 1 else real[0]


def _seen(parts: Any, frame: Tensor) -> Any:
    return map_leaves(lambda leaf: leaf.seen(frame) if isinstance(leaf, _Parts) else leaf, parts)


def axis_of_vectors(leaf: Any, first: int, flat: bool = False) -> int | None:
    """The axis of an output that may hold coordinates: of size 3, `first` before others; `flat`: also V vectors in (B, 3·V)."""
    if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or leaf.dim() < 2 or not leaf.numel():
        return None
    wanted = [*([first % leaf.dim()] if first < leaf.dim() else []), *range(leaf.dim() - 1, 0, -1)]
    found = next((axis for axis in wanted if axis and leaf.shape[axis] == 3), None)
    return 1 if flat and found is None and leaf.dim() == 2 and leaf.shape[1] % 3 == 0 else found


def frame_of(module: nn.Module) -> InFrame | None:
    """What makes a module compute in the PCA frame, if it does."""
    forward = module.__dict__.get("forward")
    return forward if isinstance(forward, InFrame) else None
