"""What replaces a removed submodule, such as PointNet's spatial transformer (paper, section 3.6, model 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from reqnn.tensor import QuaternionTensor
from reqnn.tensor.markers import RemovedTransform, companion


class Removed(nn.Module):
    """Returns its input, or, if the original returned a (B, k, k) transform, the identity of that `size` k."""

    def __init__(self, size: int | None = None, batched: bool = True) -> None:
        super().__init__()
        self.size, self.batched = size, batched

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The input, or an identity matrix for each cloud."""
        if self.size is None:
            return x
        like = x.components if isinstance(x, QuaternionTensor) else x
        eye = torch.eye(self.size, dtype=like.dtype, device=like.device)
        if self.batched:
            eye = eye.expand(x.shape[0], -1, -1)
        return companion(eye, RemovedTransform)

    def extra_repr(self) -> str:
        """The size of the transform."""
        return "identity" if self.size is None else f"identity transform {self.size}×{self.size}"


class RemovedSeveral(nn.Module):
    """Replaces a submodule that returned several tensors, such as its transform and the points behind that."""

    def __init__(self, parts: Sequence[Removed], kind: type) -> None:
        super().__init__()
        self.parts, self.kind = nn.ModuleList(parts), kind

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The input or an identity in each place, as a tuple, list or named tuple like the original's."""
        values = [part(x) for part in self.parts]
        return self.kind(*values) if hasattr(self.kind, "_fields") else self.kind(values)
