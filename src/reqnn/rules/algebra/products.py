"""Matrix products and einsum: real with quaternion gives quaternion, quaternion with quaternion gives invariants."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reqnn.errors import MatrixError, NoRuleError
from reqnn.kernels.products import pairs
from reqnn.nn.coordinates import map_in_frames
from reqnn.rules.algebra.base import algebra, align, rule, same_parts
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor import layout as lay
from reqnn.tensor.markers import RemovedTransform


@rule("matmul", "bmm", "mm", "mv")
def matmul(a: Any, b: Any, **named: Any) -> Any:
    """Σ_c a_nc·b_cm: Q·real and real·Q are Q, Q·Q is Σ_c ⟨a_nc, b_cm⟩, real and invariant."""
    for x, other, along, dim in ((a, b, -1, -2), (b, a, -2, -1)):
        if isinstance(other, RemovedTransform) or _traced_transform(x, along, other, dim):
            return x
    if a.dim() == 1 and b.dim() == 1:
        return torch.einsum("c,c->", a, b)
    if a.dim() == 1:
        return torch.matmul(a.unsqueeze(0), b).squeeze(-2)
    if b.dim() == 1:
        return torch.matmul(a, b.unsqueeze(-1)).squeeze(-1)
    if isinstance(a, Q) and isinstance(b, Q):
        return _invariant_product(a, b)
    x, matrix, along, dim = (a, b, -1, -2) if isinstance(a, Q) else (b, a, -2, -1)
    if x.context.matrices_in_frame and x.holds_vectors(along) and matrix.shape[-2:] == (3, 3) and x.vectors == "v":
        return map_in_frames(x, lambda seen: torch.matmul(seen, b) if x is a else torch.matmul(a, seen), along)
    weight = _contracted(matrix, matrix.dim() + dim, x, x.rank + along)
    parts = align(x.components, max(a.dim(), b.dim()))
    axis = None if x.axis is None or x.axis == x.rank + along else x.axis - x.rank
    out = x.like(_real_product(parts, weight, x is a), axis, x.vectors if axis is not None else "")
    out.channel_axis = out.rank + along if _is_layer(x, matrix) else None
    return out


def _real_product(parts: Tensor, weight: Tensor, first: bool) -> Tensor:
    """parts @ weight or weight @ parts; the three parts side by side, so that a stack of matrices is not repeated for them."""
    if weight.dim() == 2 or parts.dim() < 4:
        return parts @ weight if first else weight @ parts
    rows = parts.movedim((0, -2), (-2, -1))  # as layers leave them, (*, N, 3, C)
    if first and rows.is_contiguous():
        return (weight.mT @ rows.flatten(-2)).unflatten(-1, rows.shape[-2:]).movedim((-2, -1), (0, -2))
    rows = parts.movedim(0, -2)
    if first:
        return (rows.flatten(-3, -2) @ weight).unflatten(-2, (-1, len(parts))).movedim(-2, 0)
    return (weight @ rows.flatten(-2)).unflatten(-1, (len(parts), -1)).movedim(-2, 0)


def _is_layer(x: Q, weight: Tensor) -> bool:
    """In the dry run, whether a matrix is a parameter: its product mixes channels, as a linear layer does."""
    return x.context.plan is not None and x.context.plan.owner(weight) is not None


def _traced_transform(x: Any, along: int, other: Any, dim: int) -> bool:
    """While a graph is traced removed transforms are not marked; what still has 3 rows for each vector is one."""
    if not torch.compiler.is_compiling() or not isinstance(x, Q) or x.rank < 2 or not x.holds_vectors(along):
        return False
    return not isinstance(other, Q) and bool(other.shape[dim] == lay.width(x.vectors))


def _contracted(weight: Tensor, dim: int, x: Q, along: int) -> Tensor:
    """A real matrix whose axis `dim` is summed against x's axis `along`."""
    if not x.holds_vectors(along):
        return weight
    if weight.shape[dim] == len(x.vectors):
        return weight
    found = x.context.plan.owner(weight) is not None if x.context.plan is not None else weight.dim() == 2 and x.context.names
    if not found:
        maker = x.context.plan.maker_of(weight) if x.context.plan is not None else ""
        raise MatrixError(
            f"a real matrix of shape {tuple(weight.shape)} multiplies the coordinates x, y, z. If it comes from a spatial "
            f"transformer (STN), drop that submodule with remove={f'({maker!r},)' if maker else ''}: equivariance makes it "
            "superfluous; coordinates='auto' keeps it, in the PCA frame"
        )
    return x.context.fit(weight, dim, x.vectors)


def predicted_vectors(*operands: Q) -> None:
    """In the dry run: features as wide as coordinates that they meet are predicted ones; their layer makes vectors."""
    widths = {lay.width(x.vectors) for x in operands if x.axis is not None and lay.has_vectors(x.vectors)}
    for x in operands:
        if x.axis is None and x.context.plan is not None and widths & set(x.components.shape[1:]):
            x.context.plan.output_vectors(x)


def _invariant_product(a: Q, b: Q) -> Tensor:
    if a.holds_vectors(a.rank - 2) or b.holds_vectors(b.rank - 1):
        raise NoRuleError("a product of coordinates with coordinates (such as a covariance matrix) rotates with the cloud")
    if a.layout_on(-1) != b.layout_on(-2) and (a.holds_vectors(a.rank - 1) or b.holds_vectors(b.rank - 2)):
        predicted_vectors(a, b)
        raise NoRuleError("coordinates are multiplied with quaternion features")
    a, b = same_parts(a, b)
    rank = max(a.rank, b.rank)
    left, right = (align(parts, rank).movedim(0, -2).flatten(-2) for parts in (a.components, b.components.mT))
    return pairs(left, right)


@algebra.each("addmm", "addmv", "addbmm", "baddbmm", row="algebra")
def add_product(name: str, *given: Any, beta: float = 1, alpha: float = 1) -> Any:
    """β·x + α·a·b, for addbmm summed over the batch; also in the old order, (β, x, α, a, b), ``x.addmm_(1, -2, a, b)``."""
    x, a, b = (value for value in given if isinstance(value, Tensor))
    numbers = [value for value in given if not isinstance(value, Tensor)]
    factors = [*numbers, *[beta, alpha][len(numbers) :]]
    beta, alpha = factors[0], factors[1]
    product = (matmul(a, b).sum(0) if name == "addbmm" else matmul(a, b)) * alpha
    return product if beta == 0 else (x if beta == 1 else x * beta) + product


@rule("dot", "inner", "vdot")
def dot(a: Any, b: Any) -> Any:
    """Σ_c ⟨a_c, b_c⟩ over the last axis."""
    if a.dim() == 1 and b.dim() == 1:
        return torch.einsum("c,c->", a, b)
    return torch.matmul(a, b.transpose(-1, -2))


@rule("einsum")
def einsum(equation: str, *operands: Any) -> Any:
    """Einstein sums with one quaternion operand (result Q) or two (their inner products: real and invariant)."""
    items = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    if not isinstance(equation, str):
        raise NoRuleError("einsum with lists of axes; write the equation as text")
    inputs, output = _parse(equation)
    quaternion = [i for i, item in enumerate(items) if isinstance(item, Q)]
    if len(quaternion) > 2:
        raise NoRuleError("a product of more than two quaternion operands; multiply two at a time")
    hidden = next(letter for letter in "hHxXyYzZqQwW" if letter not in equation)
    letters = {i: _axis_letter(items[i], inputs[i]) for i in quaternion}
    tensors: list[Tensor] = []
    parts = dict(zip(quaternion, same_parts(*[items[i] for i in quaternion]), strict=True))
    for i, item in enumerate(items):
        tensors.append(parts[i].components if i in parts else _einsum_real(item, inputs[i], items, letters))
    terms = [hidden + text if i in parts else text for i, text in enumerate(inputs)]
    if len(quaternion) == 1:
        x = items[quaternion[0]]
        letter = letters[quaternion[0]]
        out = torch.einsum(",".join(terms) + "->" + hidden + output, *tensors)
        if letter is None or letter not in output:
            if letter is not None and not any(letter in text for i, text in enumerate(inputs) if i != quaternion[0]):
                raise NoRuleError("einsum sums over the coordinates x, y, z, which turn into one another")
            made = x.like(out)
            mixed = [
                mark
                for i, text in enumerate(inputs)
                if _is_layer(x, items[i])
                for mark in text
                if mark not in terms[quaternion[0]]
            ]
            if len(mixed) == 1 and mixed[0] in output and "..." not in output:
                made.channel_axis = output.index(mixed[0])
            return made
        after = len(output.split(letter)[1].replace("...", ""))
        if "..." in output.split(letter)[1]:
            raise NoRuleError("einsum with '...' after the axis of coordinates")
        return x.like(out, -1 - after, x.vectors)
    first, second = (items[i] for i in quaternion)
    if len(set(letters.values())) > 1 or (letters[quaternion[0]] is not None and first.vectors != second.vectors):
        raise NoRuleError(
            "einsum of two quaternion operands needs the coordinates x, y, z of both under one letter: anything else "
            "(a covariance, coordinates with features) rotates with the cloud"
        )
    return torch.einsum(",".join(terms) + "->" + output, *tensors)


@algebra.each("det", "linalg_det", "svdvals", "linalg_svdvals", row="algebra", extension=True)
def of_matrices(name: str, x: Q) -> Tensor:
    """Invariant to rotations of the rows or columns of a matrix of coordinates."""
    name = name.removeprefix("linalg_")
    if not (x.rank > 1 and (x.holds_vectors(-1) or x.holds_vectors(-2))) or lay.width(x.vectors) != 3:
        raise NoRuleError(f"{name} of a matrix whose rows or columns are not single vectors")
    found: Tensor = getattr(torch.linalg, name)(x.as_real())
    return found


@rule("bilinear", extension=True)
def bilinear(a: Any, b: Any, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Σ_ij W_oij·⟨a_i, b_j⟩ + bias: inner products are invariant, so the result is real."""
    if not (isinstance(a, Q) and isinstance(b, Q)) or a.axis is not None or b.axis is not None:
        raise NoRuleError("a bilinear map needs two tensors of quaternion features")
    a, b = same_parts(a, b)
    products = torch.einsum("h...i,oij,h...j->...o", a.components, weight, b.components)
    return products if bias is None else products + bias


def _parse(equation: str) -> tuple[list[str], str]:
    left, arrow, output = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if not arrow:
        counts = {letter: left.count(letter) for letter in left if letter.isalpha()}
        output = ("..." if "..." in left else "") + "".join(sorted(k for k, count in counts.items() if count == 1))
    return inputs, output


def _axis_letter(x: Q, term: str) -> str | None:
    """The letter of the axis of coordinates."""
    if x.axis is None or not x.holds_vectors(x.axis):
        return None
    before, dots, after = term.partition("...")
    if not dots:
        return term[x.axis]
    if x.axis < len(before):
        return before[x.axis]
    from_end = x.axis - x.rank
    if -from_end <= len(after):
        return after[from_end]
    raise NoRuleError("einsum with the axis of coordinates inside '...'")


def _einsum_real(item: Tensor, term: str, items: list[Any], letters: dict[int, str | None]) -> Tensor:
    """A real operand that shares the letter of an axis of coordinates."""
    for i, letter in letters.items():
        if letter is not None and letter in term:
            if "..." in term:
                raise NoRuleError("einsum of coordinates with a real operand that has '...'")
            item = _contracted(item, term.index(letter), items[i], items[i].axis)
    return item


@rule("cross", "linalg_cross", extension=True)
def cross(a: Any, b: Any, *args: Any, dim: int | None = None) -> Q:
    """a × b rotates with a and b; along an axis of coordinates, one cross product for each vector."""
    along = args[0] if args else -1 if dim is None else dim
    if isinstance(a, Q) and (a.axis is None or a.dims(along) != (a.axis,)):
        raise NoRuleError("a cross product along an axis that holds no coordinates")
    return cross_of_elements(a, b)


def cross_of_elements(a: Any, b: Any) -> Q:
    """a × b of each pair of elements; scalars among them have no direction, and real numbers neither."""
    if not (isinstance(a, Q) and isinstance(b, Q)) or 4 in (a.stored_shape[0], b.stored_shape[0]):
        raise NoRuleError("a cross product needs two tensors of vectors")
    axes = [None if x.axis is None else x.axis - x.rank for x in (a, b)]
    if a.vectors != b.vectors or axes[0] != axes[1]:
        raise NoRuleError("a cross product of coordinates with features, or of coordinates on different axes")
    rank = max(a.rank, b.rank)
    return a.like(torch.linalg.cross(align(a.components, rank), align(b.components, rank), dim=0), axes[0], a.vectors)
