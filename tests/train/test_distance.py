"""Distances between clouds against loops that spell them out."""

from itertools import permutations

import pytest
import torch
from torch import Tensor

from reqnn.errors import InputError
from reqnn.train import distance
from reqnn.train.distance import chamfer_distance, earth_movers_distance


def clouds(n: int, m: int, batch: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n + m)
    return tuple(torch.randn(batch, k, 3, generator=generator, dtype=torch.float64) for k in (n, m))  # type: ignore[return-value]


def test_chamfer_by_loops() -> None:
    a, b = clouds(7, 5)
    for i, found in enumerate(chamfer_distance(a, b)):
        there = sum(min(float((p - q).square().sum()) for q in b[i]) for p in a[i]) / 7
        back = sum(min(float((p - q).square().sum()) for p in a[i]) for q in b[i]) / 5
        assert float(found) == pytest.approx(there + back)


def test_chamfer_knows_no_order_and_no_orientation() -> None:
    from reqnn import quaternion

    a, b = clouds(40, 40)
    turn = quaternion.random_matrix((), torch.Generator().manual_seed(0), torch.float64)
    torch.testing.assert_close(chamfer_distance(a @ turn.T, b.flip(1) @ turn.T), chamfer_distance(a, b))
    assert chamfer_distance(a, a.flip(1)).abs().max() == 0


def test_chamfer_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = clouds(9, 11, batch=5)
    whole = chamfer_distance(a, b)
    monkeypatch.setattr(distance, "PAIRS", 200)
    assert chamfer_distance(a, b).equal(whole)


def test_gradients_of_chamfer() -> None:
    a, b = clouds(6, 4)
    assert torch.autograd.gradcheck(lambda x: chamfer_distance(x, b), (a.requires_grad_(),))
    same = b.clone().requires_grad_()
    chamfer_distance(same, b).sum().backward()
    assert same.grad is not None
    assert same.grad.abs().max() == 0


def test_emd_is_the_best_of_all_pairings() -> None:
    a, b = clouds(5, 5)
    for i, found in enumerate(earth_movers_distance(a, b)):
        best = min((a[i] - b[i][list(order)]).norm(dim=-1).mean() for order in permutations(range(5)))
        assert float(found) == pytest.approx(float(best))
    assert earth_movers_distance(a, a.flip(1)).max() == 0


def test_what_is_no_pair_of_clouds_is_refused() -> None:
    a, b = clouds(5, 4)
    with pytest.raises(InputError, match="one to one; the clouds have 5 and 4"):
        earth_movers_distance(a, b)
    for wrong in (a[0], a[..., :2], a[:1], a[:, :0]):
        with pytest.raises(InputError, match="two batches of clouds"):
            chamfer_distance(wrong, b)
