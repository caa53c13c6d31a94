"""The terms of gathered features: rows of a small tensor that an index spreads over places, and products of them.

value[place] = Σ_t factor_t · rows_t[index_t[place]]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from reqnn.kernels.products import times
from reqnn.kernels.run import loops_run_on


@dataclass(frozen=True, eq=False)
class Term:
    """factor·rows[index]. Shapes: rows (M, parts, C), index int64 with the shape of the places"""

    rows: Tensor
    index: Tensor
    factor: float = 1.0

    def value(self) -> Tensor:
        """(*places, parts, C); what is repeated along an axis is gathered once and broadcasts."""
        index = self.index
        for axis, stride in enumerate(index.stride()):
            if stride == 0 and index.shape[axis] > 1:
                index = index.narrow(axis, 0, 1)
        out = self.rows.index_select(0, index.reshape(-1)).view(*index.shape, *self.rows.shape[1:])
        return out if self.factor == 1 else out * self.factor

    def scaled_rows(self) -> Tensor:
        """factor·rows."""
        return self.rows if self.factor == 1 else self.rows * self.factor

    def same_rows(self, other: Term) -> bool:
        """Whether both read the same memory with the same gradient."""
        a, b = self.rows, other.rows
        return a is b or (
            a.device == b.device
            and a.device.type != "meta"
            and (a.data_ptr(), a.shape, a.stride(), a.requires_grad) == (b.data_ptr(), b.shape, b.stride(), b.requires_grad)
        )


Block = tuple[Term, ...]
"""The terms of some channels that lie side by side."""


def same_index(a: Tensor, b: Tensor) -> bool:
    """Whether two indices are the same: by identity, on the CPU also by their values."""
    if a is b or a.shape != b.shape:
        return a is b
    if a.device.type != "cpu":
        return a.device.type != "meta" and (a.data_ptr(), a.stride()) == (b.data_ptr(), b.stride())
    return (a.data_ptr(), a.stride()) == (b.data_ptr(), b.stride()) or torch.equal(a, b)


def constant_along(index: Tensor, axis: int) -> bool:
    """Whether an index does not change along an axis: by its strides, on the CPU also by its values."""
    if index.stride(axis) == 0 or index.device.type != "cpu":
        return index.stride(axis) == 0
    return bool((index == index.narrow(axis, 0, 1)).all())


def counts_up(index: Tensor, rows: int) -> bool:
    """Whether an index is 0, 1, …, rows − 1; only looked up on the CPU."""
    return index.device.type == "cpu" and len(index) == rows and torch.equal(index, torch.arange(rows))


def products(blocks: tuple[Block, ...], weight: Tensor, parts: slice = slice(None)) -> Block:
    """W·value as terms: a product per row, one for all blocks that read the same rows. Shapes: weight (O, C)

    The mean m of a cloud is subtracted from rows that are summed with others, and W·m added once: f_j − f_i keeps its digits
    far from the origin, where W·f_j − W·f_i would lose them.
    """
    clouds = _clouds(blocks)
    shifts = _shifts(blocks, parts, clouds)
    found: list[tuple[Term, Tensor]] = []  # a term, and the weights of all blocks that read it
    constant: Tensor | None = None
    first = 0
    for block in blocks:
        width = block[0].rows.shape[2]
        own = weight[:, first : first + width]
        first += width
        for term in block:
            mine = own if term.factor == 1 else own * term.factor
            shift = shifts.get(id(term.rows))
            if shift is not None:
                there = shift @ mine.T
                constant = there if constant is None else constant + there
            for place, (other, total) in enumerate(found):
                alike = shifts.get(id(other.rows)) is shift and other.same_rows(term)
                if alike and same_index(other.index, term.index):
                    found[place] = (other, total + mine)
                    break
            else:
                found.append((term, mine))
    terms: list[Term] = []
    for term, total in found:
        rows, shift = term.rows[:, parts], shifts.get(id(term.rows))
        product = times((rows if shift is None else _per_cloud(rows, -shift)).contiguous(), total.contiguous())
        for place, other in enumerate(terms):
            if other.rows.shape == product.shape and same_index(other.index, term.index):
                terms[place] = replace(other, rows=other.rows + product)
                break
        else:
            terms.append(Term(product, term.index))
    if constant is not None:
        last = min(range(len(terms)), key=lambda i: terms[i].rows.shape[0])
        terms[last] = replace(terms[last], rows=_per_cloud(terms[last].rows, constant))
    return tuple(terms)


def _clouds(blocks: tuple[Block, ...]) -> int:
    """The number of clouds if the rows of every term are one cloud after the other, each read by its own places; else 1."""
    terms = [term for block in blocks for term in block]
    if all(len(block) == 1 for block in blocks) or not loops_run_on(terms[0].rows):
        return 1
    count = terms[0].index.shape[0] if terms[0].index.dim() > 1 else 1
    return count if count > 1 and all(_apart(term, count) for term in terms) else 1


def _apart(term: Term, count: int) -> bool:
    """Whether place b on the first axis reads only the b-th of `count` equal parts of the rows."""
    index, rows = term.index, term.rows.shape[0]
    if rows % count or index.shape[0] != count or not index.numel():
        return False
    for axis in range(1, index.dim()):
        index = index.narrow(axis, 0, 1) if index.stride(axis) == 0 else index
    lowest, highest = index.reshape(count, -1).aminmax(dim=1)
    first = torch.arange(count, device=index.device) * (rows // count)
    return bool(((lowest >= first) & (highest < first + rows // count)).all())


def _per_cloud(rows: Tensor, constant: Tensor) -> Tensor:
    """Add a constant of each cloud. Shapes: rows (B·n, parts, C), constant (B, parts, C)"""
    return (rows.unflatten(0, (len(constant), -1)) + constant[:, None]).flatten(0, 1)


def _shifts(blocks: tuple[Block, ...], parts: slice, clouds: int) -> dict[int, Tensor]:
    """For blocks of several terms the mean (B, parts, C) of the first one's rows per cloud, by the identity of the rows."""
    shifts: dict[int, Tensor] = {}
    for block in blocks:
        if len(block) > 1:
            mean = shifts.get(id(block[0].rows))
            if mean is None:
                mean = block[0].rows.detach()[:, parts].unflatten(0, (clouds, -1)).mean(1)
            for term in block:
                if len(term.rows) > clouds:
                    shifts.setdefault(id(term.rows), mean)
    return shifts
