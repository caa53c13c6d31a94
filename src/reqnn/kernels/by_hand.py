"""Differentiable functions from a forward pass and a derivative by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class _Halves:
    forward: Callable[..., Any]
    backward: Callable[..., tuple]
    constants: tuple
    twin: Callable[..., Any] | None
    reuses: bool


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        *tensors, halves = inputs
        out = halves.forward(*tensors, *halves.constants)
        found = out if isinstance(out, tuple) else (out,)
        ctx.halves, ctx.real = halves, [x.is_floating_point() for x in found]
        numbers = [x for x in found if not x.is_floating_point()]
        ctx.mark_non_differentiable(*numbers)
        ctx.save_for_backward(*tensors, *numbers)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple:
        saved, halves = ctx.saved_tensors, ctx.halves
        given = [gradient.contiguous() for gradient, real in zip(gradients, ctx.real, strict=True) if real]
        if not torch.is_grad_enabled():
            own = {"own": given[0] is not gradients[0]} if halves.reuses else {}
            return *halves.backward(*given, *saved, *halves.constants, **own), None
        out = halves.twin(*saved, *halves.constants)
        pairs = zip(out if isinstance(out, tuple) else (out,), given, strict=True)
        ends, pulls = zip(*[pair for pair in pairs if pair[0].requires_grad], strict=True)
        wanted = [x for x in saved if x.requires_grad]
        found = iter(torch.autograd.grad(ends, wanted, pulls, create_graph=True, allow_unused=True))
        return *[next(found) if x.requires_grad else None for x in saved[: len(ctx.needs_input_grad) - 1]], None


class _Once(_Twice):
    backward = staticmethod(once_differentiable(_Twice.backward))  # type: ignore[assignment]


def by_hand(
    forward: Callable,
    backward: Callable,
    tensors: tuple[Tensor, ...],
    *constants: Any,
    twin: Callable | None = None,
    reuses: bool = False,
) -> Any:
    """forward(*tensors, *constants), whose gradients are backward(*gradients of real outputs, *saved, *constants).

    Args:
        forward: gives one tensor or several; integers among them, such as indices of winners, have no gradient.
        backward: gives the gradient of each of the tensors, or None. Saved are the tensors and the integers.
        twin: twin(*saved, *constants) gives the real outputs in plain torch, if gradients of gradients are wanted.
        reuses: whether `backward` takes `own`, which says that the gradient is a copy whose memory it may write to.
    """
    if not torch.is_grad_enabled():
        return forward(*tensors, *constants)
    return (_Once if twin is None else _Twice).apply(*tensors, _Halves(forward, backward, constants, twin, reuses))
