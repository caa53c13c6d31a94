"""`QuaternionTensor`: a tensor whose elements are quaternions.

A network is revised by changing its number system, not its code: its own ``forward`` runs on a tensor that looks like
the one it was written for, (B, C, N) say, and holds a quaternion in every place. The components stand on a hidden first
axis, so that negative dims keep their meaning, positive ones shift by one, and a convolution is the ordinary one on a
batch of 3·B. The real part of the paper's features is 0 and is not stored (leading axis 3: i, j, k); where declared
scalars travel in the same tensor it is (leading axis 4: 1, i, j, k).

Every torch function called on such a tensor is looked up in the rule set of its `Context`; what has no rule raises
`NoRuleError` with the line of the user's code.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from reqnn.errors import InputError, NoRuleError
from reqnn.kernels.rows import safe_sqrt
from reqnn.tensor import layout as lay
from reqnn.tensor.context import Context, default_context
from reqnn.tensor.protocols import Deferred
from reqnn.tensor.trace import user_frame


@dataclass(frozen=True)
class GradMode:
    """Whether gradients were recorded when something was put off."""

    grad: bool = field(default_factory=torch.is_grad_enabled)
    inference: bool = field(default_factory=torch.is_inference_mode_enabled)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Compute as if it were then."""
        if self.inference == torch.is_inference_mode_enabled():
            with torch.set_grad_enabled(self.grad):
                yield
        else:
            with torch.inference_mode(self.inference), torch.set_grad_enabled(self.grad):
                yield


class QuaternionTensor(torch.Tensor):
    """A tensor of quaternions with the shape that the user's code expects.

    Args:
        components: (3, *shape) imaginary parts, or (4, *shape) with the real part first.
        axis: the axis whose channels are counted by `layout`, if there is one.
        layout: what the entries of that axis stand for (`reqnn.tensor.layout`).
        context: what belongs to one forward pass: the rule set, the cloud's frame, the plan of a dry run.

    Attributes:
        source: in a dry run, the layer with weights that made it.
        fed_by: in a dry run, the last layer with weights before it, whatever came between.
        channel_axis: the axis that the last linear map mixed, where it is still known.
        deferred: what is still to be done to get its components, where a layer has left that to the next one.
        unscaled: the components before a batch-norm gave each element another length, where it was the last operation.
        waiting: tensors whose deferred components are computed from the ones here.
        grad_mode: whether gradients were recorded when components were deferred; they are computed in the same mode.
        view_of: makes this view anew from the ordinary tensor that it is a view of, if both are deferred.
        unwritten: where it still holds the numbers of a real buffer that features are written into, place by place.
    """

    dispatch: ClassVar[Callable[..., Any]]
    """From a torch call to its rule; `reqnn.tensor.dispatch`, which needs this class, puts it here."""

    _components: Tensor | None
    deferred: Deferred | None
    unscaled: Tensor | None
    waiting: weakref.WeakValueDictionary[int, QuaternionTensor]
    view_of: Callable[[], QuaternionTensor] | None
    grad_mode: GradMode
    axis: int | None
    vectors: str
    context: Context
    source: str | None
    fed_by: str | None
    channel_axis: int | None
    _aliases: weakref.WeakValueDictionary[int, QuaternionTensor]
    _stale: str | None
    unwritten: Tensor | None

    @staticmethod
    def __new__(
        cls, components: Tensor, axis: int | None = None, layout: str = "", context: Context | None = None
    ) -> QuaternionTensor:
        """Wrap components; an axis of nothing but features needs no layout."""
        if components.dim() < 1 or components.shape[0] not in (3, 4):
            raise InputError(
                f"a QuaternionTensor needs components of shape (3, *shape) or (4, *shape), not {tuple(components.shape)}"
            )
        if set(layout) <= {"f"}:
            axis, layout = None, ""
        shape = list(components.shape[1:])
        if axis is not None:
            axis = axis % len(shape)
            assert shape[axis] == len(layout), (shape, axis, layout)
            shape[axis] = lay.width(layout)
        self: QuaternionTensor = torch.Tensor._make_wrapper_subclass(
            cls, shape, dtype=components.dtype, device=components.device, requires_grad=False
        )
        self._components, self.deferred, self.unscaled, self.axis, self.vectors = components, None, None, axis, layout
        self.waiting = weakref.WeakValueDictionary()
        self.context = default_context() if context is None else context
        self.source, self.channel_axis, self._stale, self.view_of = None, None, None, None
        self.fed_by, self.unwritten = None, None
        self.grad_mode = GradMode()
        self._aliases = weakref.WeakValueDictionary({id(self): self})
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Everything is set by `__new__`, which torch's subclasses need."""

    # -- what the rules use ----------------------------------------------------------------------------------------

    @property
    def components(self) -> Tensor:
        """The stored parts, (3, *shape) or (4, *shape)."""
        self.settle()
        assert self._components is not None
        return self._components

    @components.setter
    def components(self, value: Tensor) -> None:
        self._components, self.deferred, self.view_of = value, None, None

    def settle(self) -> None:
        """Take the values of deferred components now, from the numbers as they are."""
        if self._components is None:
            assert self.deferred is not None
            with self.grad_mode():  # a view shares the memory of what it is a view of
                self._components = self.deferred.components() if self.view_of is None else self.view_of().components

    @property
    def stored_shape(self) -> torch.Size:
        """The shape of the components, known also while they are deferred."""
        kept = self.still_deferred
        return self.components.shape if kept is None else kept.raw.shape

    @property
    def still_deferred(self) -> Deferred | None:
        """What the components are to be computed from, as long as they are not."""
        return self.deferred if self._components is None else None

    def defer(self, deferred: Deferred) -> QuaternionTensor:
        """A tensor of the same logical shape whose components are computed when they are asked for."""
        out = self.same(deferred.raw)
        out.channel_axis = self.channel_axis
        return out.wait_for(deferred)

    def wait_for(self, deferred: Deferred) -> QuaternionTensor:
        """Compute the components only when they are asked for."""
        self._components, self.deferred, self.grad_mode = None, deferred, GradMode()
        for source in deferred.sources:
            source[id(self)] = self
        return self

    @property
    def user_shape(self) -> torch.Size:
        """The shape that the user's code sees: vectors count as three channels."""
        shape = list(self.stored_shape[1:])
        if self.axis is not None:
            shape[self.axis] = lay.width(self.vectors)
        return torch.Size(shape)

    @property
    def rank(self) -> int:
        """The number of logical axes."""
        return len(self.stored_shape) - 1

    def dims(self, dim: int | Sequence[int]) -> tuple[int, ...]:
        """Logical axes, made non-negative."""
        wanted = (dim,) if isinstance(dim, int) else tuple(dim)
        for d in wanted:
            if not -self.rank <= d < self.rank:
                raise IndexError(f"Dimension out of range (expected to be in [{-self.rank}, {self.rank - 1}], got {d})")
        return tuple(d % self.rank for d in wanted)

    def like(self, components: Tensor, axis: int | None = None, layout: str = "") -> QuaternionTensor:
        """New components in the same context; the axis has to be named anew."""
        out = QuaternionTensor(components, axis, layout, self.context)
        out.fed_by = self.fed_by
        return out

    def same(self, components: Tensor) -> QuaternionTensor:
        """New components of the same logical shape."""
        return self.like(components, self.axis, self.vectors)

    def layout_on(self, dim: int) -> str:
        """The layout of an axis; features, where none was set."""
        dim = dim % self.rank
        return self.vectors if dim == self.axis else "f" * self.stored_shape[dim + 1]

    def holds_vectors(self, dim: int) -> bool:
        """Whether the axis holds coordinates, three channels a vector."""
        return self.axis is not None and dim % self.rank == self.axis and lay.has_vectors(self.vectors)

    @property
    def only_scalars(self) -> bool:
        """Whether nothing but declared scalars is left in it: then it is as good as a real tensor."""
        return self.axis is not None and set(self.vectors) == {"s"}

    def squared_norm(self) -> Tensor:
        """‖q‖² of each element, real and invariant to rotation; one number a vector."""
        kept = self.still_deferred
        return self.components.square().sum(0) if kept is None else kept.squared_norm()

    def norm_of_elements(self) -> Tensor:
        """‖q‖ of each element, with gradient 0 at 0."""
        return safe_sqrt(self.squared_norm())

    def imaginary(self) -> Tensor:
        """The three imaginary parts (3, *shape)."""
        return self.components[-3:]

    def general(self) -> QuaternionTensor:
        """The same quaternions with the real part stored."""
        if self.components.shape[0] == 4:
            return self
        return self.same(torch.cat([torch.zeros_like(self.components[:1]), self.components]))

    def as_real(self) -> Tensor:
        """The plain real tensor that the user's code would have: coordinates side by side, scalars as they are.

        Only for axes that stand for channels of the input (vectors, scalars), not for features.
        """
        if self.axis is None or "f" in self.vectors or "i" in self.vectors:
            raise NoRuleError(
                f"features of shape {tuple(self.user_shape)} are quaternions: they have no plain real form. "
                "Quaternion2Real (`to_real=`) gives their squared norms"
            )
        parts = [
            self.imaginary().select(self.axis + 1, index).movedim(0, self.axis)
            if entry in "vl"
            else self.components[0].narrow(self.axis, index, 1)
            for index, entry in enumerate(self.vectors)
        ]
        return torch.cat(parts, dim=self.axis)

    def as_real_coordinates(self) -> Tensor:
        """(B, N, D) real coordinates for neighbour searches: features count as points of R^3C, all x before all y and z."""
        vectors = self.axis is not None and set(self.vectors) <= {"v", "l"}  # their real part, if stored, is zero
        return (self.imaginary() if vectors else self.components).movedim(0, -2).flatten(-2)

    # -- in-place operations ---------------------------------------------------------------------------------------

    def share_memory_of(self, other: QuaternionTensor) -> None:
        """Remember that both look at the same numbers, so that in-place operations on one can tell the other."""
        other._aliases[id(self)] = self
        self._aliases, self.waiting = other._aliases, other.waiting

    def about_to_change(self) -> None:
        """Call before the memory is written to: what is computed from it takes its values now, as they still are."""
        for alias in list(self._aliases.values()):
            alias.unscaled = None
            for tensor in list(alias.waiting.values()):
                tensor.settle()
            alias.settle()
            alias.deferred = alias.view_of = None  # from here on the components are what holds

    def become(self, other: QuaternionTensor, linear: bool) -> QuaternionTensor:
        """Take the value of `other` under this name, as an in-place operation does.

        Live views of the same memory see the change where torch can write it there (`linear`); otherwise they are marked
        stale, and using one raises.
        """
        if other is self or (other.deferred is None and other.components is self.components):
            return self
        if other.user_shape != self.user_shape:
            raise RuntimeError(f"output with shape {list(self.user_shape)} doesn't match {list(other.user_shape)}")
        self.unscaled = None
        views = [alias for alias in self._aliases.values() if alias is not self]
        if views and linear and self.stored_shape == other.stored_shape:
            values = other.components
            self.about_to_change()
            self.components.copy_(values)
            return self
        for alias in views:
            alias._stale = user_frame()
        self._components, self.deferred, self.grad_mode = other._components, other.deferred, other.grad_mode
        self.axis, self.vectors = other.axis, other.vectors
        self.view_of = None
        if self.deferred is not None:
            for source in self.deferred.sources:
                source[id(self)] = self
        self._aliases = weakref.WeakValueDictionary({id(self): self})
        return self

    def reshaped_to(self, other: QuaternionTensor) -> QuaternionTensor:
        """Take another shape of the same numbers under this name, as ``unsqueeze_`` does."""
        self.components, self.axis, self.vectors = other.components, other.axis, other.vectors
        return self

    def _check_fresh(self) -> None:
        if self._stale is not None:
            raise NoRuleError(
                f"this tensor shares memory with one that was changed in place at {self._stale}; a quaternion tensor cannot "
                "follow that. Use the out-of-place form there (inplace=False), or clone() first"
            )

    def check_written(self) -> None:
        """A buffer that was not 0 may be read once features stand everywhere in it."""
        if self.unwritten is not None:
            if bool(self.unwritten.any()):
                raise NoRuleError(NOT_ZEROS)
            self.unwritten = None

    # -- dispatch --------------------------------------------------------------------------------------------------

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: dict | None = None
    ) -> Any:
        return cls.dispatch(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: dict | None = None
    ) -> Any:
        raise NoRuleError(
            f"{func} reached the kernels with a quaternion tensor; no rule was asked. Code under torch.vmap or "
            "torch.jit.script does not ask: call the plain Python function, or loop"
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """Shape, layout and components."""
        held = f", {lay.describe(self.vectors)} on axis {self.axis}" if self.axis is not None else ""
        return f"QuaternionTensor(shape={tuple(self.user_shape)}{held},\n{self.components})"

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict) -> QuaternionTensor:
        return self.same(self.components.detach().clone())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (self.components, self.axis, self.vectors)


def _rebuild(components: Tensor, axis: int | None, layout: str) -> QuaternionTensor:
    return QuaternionTensor(components, axis, layout)


NOT_ZEROS = (
    "quaternion features are written into parts of a real tensor that is not 0 everywhere; make it with "
    "features.new_zeros(…) or torch.zeros(…), or build the result with torch.cat / torch.stack"
)


def is_zeros(x: Any) -> bool:
    """Whether a real tensor holds zeros only, which are zero quaternions, too; graphs trust what the dry run has found."""
    if type(x) is not Tensor or x.requires_grad:
        return False
    return torch.compiler.is_compiling() or x.is_meta or not bool(x.any())


def adopt(target: Tensor, value: QuaternionTensor) -> QuaternionTensor:
    """Make a plain real tensor a quaternion tensor with this value, under the same name: zeros that are written to in place.

    Its class is exchanged, as torch does when a lazy parameter gets its shape.
    """
    if value.unwritten is None and not is_zeros(target):
        raise NoRuleError(NOT_ZEROS)
    if (
        target.requires_grad
        or torch.compiler.is_compiling()
        or type(target) is not Tensor
        or target._is_view()
        or _is_shared(target)
    ):
        raise NoRuleError(
            "quaternion features are written in place into real zeros that are, or have, a view, or are part of a graph: use "
            "the out-of-place form on torch.zeros_like(features)"
        )
    target.__class__ = QuaternionTensor
    target.__dict__.update(value.__dict__)
    target._aliases = weakref.WeakValueDictionary({id(target): target})  # type: ignore[attr-defined]
    return target  # type: ignore[return-value]


def _is_shared(x: Tensor) -> bool:
    """Whether another tensor looks at the same memory."""
    return bool(torch._C._storage_Use_Count(x.untyped_storage()._cdata) > 2)  # x, and the storage that is asked


def from_real(x: Tensor, axis: int, context: Context | None = None, scalars: int = 0) -> QuaternionTensor:
    """A real tensor with 3·V (+ scalars) channels on `axis`, as quaternions: x = 0 + x·i + y·j + z·k (paper, section 3.1).

    Shapes:
        x: (*, 3·V + scalars, *) → components (3, *, V, *), or (4, *, V + scalars, *) where there are scalars
    """
    axis = axis % x.dim()
    channels = x.shape[axis]
    if (channels - scalars) % 3 or channels <= scalars:
        raise InputError(
            f"axis {axis} of shape {tuple(x.shape)} has {channels} channels"
            + (f", {scalars} of them scalars" if scalars else "")
            + ": the rest must be 3·V coordinates of V ≥ 1 vectors"
        )
    count = (channels - scalars) // 3
    vectors = x.narrow(axis, 0, 3 * count).unflatten(axis, (count, 3)).movedim(axis + 1, 0)
    if not scalars:
        return QuaternionTensor(vectors, axis, "v" * count, context)
    numbers = x.narrow(axis, 3 * count, scalars)
    imaginary = torch.cat([vectors, torch.zeros_like(numbers).expand(3, *numbers.shape)], dim=axis + 1)
    real = torch.cat([torch.zeros_like(vectors[0]), numbers], dim=axis)
    return QuaternionTensor(torch.cat([real[None], imaginary]), axis, "v" * count + "s" * scalars, context)
