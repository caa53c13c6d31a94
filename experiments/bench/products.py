"""Matrix products: those of a call, those that a network needs at least, and their time alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from reqnn.models.dgcnn import DGCNN
from reqnn.points.kernels import TREE_DIMENSION


class Product(NamedTuple):
    """(batch, rows, inner) × (batch, inner, columns)."""

    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def multiply_adds(self) -> int:
        """rows · inner · columns, for each of the batch."""
        return math.prod(self)


def dgcnn_products(model: DGCNN, batch: int, points: int) -> list[Product]:
    """The products that inference of a REQNN-DGCNN, revised from this network, needs at least.

    An edge convolution from C to O quaternions: A and B − A on the 3·B·N imaginary parts, and the (N, N) inner products of its
    k-NN search in R^3C, the first aside, where a tree in R³ needs none. Then conv5 on quaternions, and conv6 and the head on
    real numbers.
    """
    rows, channels, products = 3 * batch * points, 1, []
    blocks: list[Any] = [model.conv1, model.conv2, model.conv3, model.conv4]
    for block in blocks:
        if 3 * channels > TREE_DIMENSION:
            products.append(Product(batch, points, 3 * channels, points))
        products += 2 * [Product(1, rows, channels, block[0].out_channels)]
        channels = block[0].out_channels
    conv5: Any = model.conv5
    products.append(Product(1, rows, conv5[0].in_channels, conv5[0].out_channels))
    if isinstance(model.conv6, torch.nn.Sequential):
        conv6: Any = model.conv6
        products.append(Product(1, batch * points, conv6[0].in_channels, conv6[0].out_channels))
    head = model.head
    return products + [Product(1, batch, fc.in_features, fc.out_features) for fc in (head.fc1, head.fc2, head.fc3)]


def replay(products: list[Product], seed: int = 0) -> Callable[[], None]:
    """A call of these products only: float32, into preallocated memory."""
    generator = torch.Generator().manual_seed(seed)
    ready = []
    shared: dict[tuple[int, ...], Tensor] = {}

    def tensor(name: int, *shape: int) -> Tensor:
        if (name, *shape) not in shared:
            shared[name, *shape] = torch.randn(*shape, generator=generator)
        return shared[name, *shape]

    for b, m, k, n in products:
        if b == 1:
            ready.append((torch.mm, tensor(0, m, k), tensor(1, n, k).T, tensor(2, m, n)))
        else:
            ready.append((torch.bmm, tensor(0, b, m, k), tensor(1, b, n, k).mT, tensor(2, b, m, n)))

    def run() -> None:
        with torch.no_grad():
            for multiply, left, right, out in ready:
                multiply(left, right, out=out)

    return run


class _Recorder(TorchDispatchMode):
    """Records the shapes of products."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.name().partition("::")[2].partition(".")[0]
        if name in ("mm", "addmm"):
            left, right = args[-2:]
            self.products.append(Product(1, left.shape[0], left.shape[1], right.shape[1]))
        elif name in ("bmm", "baddbmm"):
            left, right = args[-2:]
            self.products.append(Product(left.shape[0], left.shape[1], left.shape[2], right.shape[2]))
        elif name == "convolution":
            weight, groups = args[1], args[8]
            places = out.shape[0] * math.prod(out.shape[2:])
            self.products.append(Product(groups, places, weight[0].numel(), weight.shape[0] // groups))
        return out


def record_products(call: Callable[[], Any]) -> list[Product]:
    """The matrix products and convolutions of a call, in order; those inside our kernels are not seen."""
    with _Recorder() as recorder:
        call()
    return recorder.products
