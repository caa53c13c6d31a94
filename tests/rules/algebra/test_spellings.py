"""Other spellings give what the operation gives under its usual name."""

import pytest
import torch

from equivariance import cloud, draw, rotation_matrix, turned
from reqnn.tensor import QuaternionTensor

A, B = draw(0, 5, 4), draw(1, 5, 4)
ROWS = torch.tensor([[0, 2], [4, 1]])
INDEX = torch.tensor([[0, 1, 1, 0], [2, 2, 0, 1]])


def same(given, expected):
    """Whether two results agree in kind and value."""
    if isinstance(given, QuaternionTensor):
        return torch.allclose(given.components, expected.components)
    return torch.allclose(given, expected)


@pytest.mark.parametrize(
    ("spelled", "usual"),
    [
        (lambda a, b: torch.row_stack([a, b]), lambda a, b: torch.cat([a, b], 0)),
        (lambda a, b: torch.column_stack([a, b]), lambda a, b: torch.cat([a, b], 1)),
        (lambda a, b: torch.dstack([a, b]), lambda a, b: torch.stack([a, b], 2)),
        (lambda a, b: torch.vsplit(a, [2])[1], lambda a, b: a[2:]),
        (lambda a, b: torch.hsplit(a, 2)[1], lambda a, b: a[:, 2:]),
        (lambda a, b: torch.nansum(a, 1), lambda a, b: a.sum(1)),
        (lambda a, b: a.nanmean(0), lambda a, b: a.mean(0)),
        (lambda a, b: torch.embedding(a, ROWS), lambda a, b: a[ROWS]),
        (lambda a, b: torch.nn.functional.embedding(ROWS, a), lambda a, b: a[ROWS]),
        (lambda a, b: torch.pdist(a), lambda a, b: torch.cdist(a, a)[tuple(torch.triu_indices(5, 5, 1))]),
        (
            lambda a, b: torch.chain_matmul(a, b.T, torch.ones(5, 2, dtype=torch.float64)),
            lambda a, b: (a @ b.T).sum(1)[:, None].expand(5, 2),
        ),
        (lambda a, b: a.index_fill(0, torch.tensor([1]), 0.0), lambda a, b: torch.where(torch.arange(5)[:, None] == 1, 0, a)),
        (lambda a, b: torch.addmm(a @ b.T, a, b.T, alpha=-2), lambda a, b: -(a @ b.T)),
        (lambda a, b: (a @ b.T).addmm_(a, b.T, alpha=-2), lambda a, b: -(a @ b.T)),
        (lambda a, b: a.masked_fill(torch.arange(5)[:, None] > 2, float("-inf")).max(0)[0], lambda a, b: a[:3].max(0)[0]),
        (lambda a, b: a.index_put((torch.tensor([1]),), b[:1]), lambda a, b: torch.cat([a[:1], b[:1], a[2:]])),
        (lambda a, b: a.scatter_reduce(0, INDEX, b[:2], "sum"), lambda a, b: a.scatter_add(0, INDEX, b[:2])),
    ],
)
def test_other_spellings(spelled, usual):
    assert same(spelled(A, B), usual(A, B))
    rotation = rotation_matrix(3)
    assert same(spelled(turned(A, rotation), turned(B, rotation)), turned(spelled(A, B), rotation))


def test_means_of_what_goes_to_the_same_place():
    given = A.scatter_reduce(0, INDEX, B[:2], "mean", include_self=False)
    plain = A.components[0].scatter_reduce(0, INDEX, B.components[0, :2], "mean", include_self=False)
    reached = torch.zeros(5, 4, dtype=torch.bool).scatter(0, INDEX, True)
    assert torch.allclose(given.components[0][reached], plain[reached])


@pytest.mark.filterwarnings("ignore:This overload of")
def test_the_old_order_of_arguments():
    expected = torch.addmm(A @ B.T, A, B.T, alpha=-2)
    assert same((A @ B.T).addmm_(1, -2, A, B.T), expected)
    assert same(torch.addmm(1, A @ B.T, -2, A, B.T), expected)
    assert same(torch.add(A, -2, B), A - 2 * B)
    batch = draw(2, 2, 5, 4)
    products = batch @ batch.transpose(1, 2)
    assert same(torch.baddbmm(1, products, -2, batch, batch.transpose(1, 2)), -products)


def test_coordinates_stay_coordinates():
    points = cloud(0, 5, 3)
    near = torch.nn.functional.embedding(ROWS, points)
    assert (near.axis, near.vectors, tuple(near.shape)) == (2, "v", (2, 2, 3))
