"""Clouds with symmetries, rotated and reordered: no answer changes, and in float64 no logit."""

import pytest
import torch

import reqnn
from experiments import symmetric
from reqnn.quaternion import random_matrix


@pytest.fixture
def clouds(monkeypatch):
    axis = torch.arange(4, dtype=torch.float64) - 1.5
    grid = torch.cartesian_prod(axis, axis, axis)
    pyramid = torch.cat([grid[:, :2] * (2.5 - grid[:, 2:]), 3 * grid[:, 2:]], 1)
    pyramid = pyramid - pyramid.mean(0)
    found = {"grid": grid / grid.norm(dim=-1).amax(), "pyramid": pyramid / pyramid.norm(dim=-1).amax()}
    monkeypatch.setattr(symmetric, "clouds", lambda: found)
    return found


@pytest.mark.parametrize("name", ["dgcnn", "pointnet2"])
def test_answers_for_symmetric_clouds_do_not_change(name, clouds):
    for rules, net in symmetric.build(name, seed=0).items():
        for record in symmetric.measure(net.double(), rules, rotations=4, orders=2, seed=1):
            assert record["changed"] == 0, record
            # Vector Neurons' ReLU divides by the square of a direction, which a symmetry may make vanish
            assert record["change"] < (1e-6 if rules == "vector-neurons" else 1e-8), record
            assert record["spread"] > 1e-6, record


def grid(n: int) -> torch.Tensor:
    axis = torch.arange(n, dtype=torch.float64) - (n - 1) / 2
    return torch.cartesian_prod(axis, axis, axis)


def fibonacci(n: int) -> torch.Tensor:
    i = torch.arange(n, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * i / n, torch.pi * (1 + 5**0.5) * i
    ring = (1 - height * height).sqrt()
    return torch.stack([ring * angle.cos(), ring * angle.sin(), height], dim=1)


SOLIDS = {f"grid {n}": grid(n) for n in (2, 3, 4, 5)} | {"fibonacci": fibonacci(40)}
SOLIDS |= {name: x for name, x in symmetric.solids().items() if len(x) < 100}


@pytest.mark.parametrize("fused", [True, False])
def test_vectors_that_vanish_do_not_grow_by_full(fused):
    """In float32, too, by all options: on odd grids the vectors of the middle, and of the cloud, vanish."""
    for options in ({"unit": "both"}, {"unit": "pool"}):
        torch.manual_seed(0)
        model = reqnn.create_model("dgcnn", num_classes=5, k=8, width=0.25, dropout=0.0)
        rules = reqnn.get_rules("full").with_options(fused=fused, **options)
        net = reqnn.revise(model, grid(3)[None].float() / 3, rules=rules).eval()
        random = torch.Generator().manual_seed(0)
        for n in (2, 3, 5):
            x = grid(n) / grid(n).norm(dim=-1).amax()
            rotated = [x @ matrix.T for matrix in random_matrix(4, random, torch.float64)]
            copies = torch.stack([one[torch.randperm(len(x), generator=random)] for one in rotated])
            with torch.no_grad():
                first, others = net(x[None].float()), net(copies.float())
            assert float((others - first).abs().max()) < 1e-5 * float(first.abs().max()), (options, n)


@pytest.mark.parametrize("k", [4, 8, 12])
@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
def test_features_of_symmetric_clouds(rules, k):
    """The features of every layer rotate and are reordered with the cloud, and are the same on gathered and dense storage."""
    torch.manual_seed(0)
    model = reqnn.create_model("dgcnn", num_classes=5, k=k, width=0.125, dropout=0.0).double()
    example = grid(4)[None] / 3
    nets = [reqnn.revise(model, example, rules=reqnn.get_rules(rules).with_options(fused=fused)) for fused in (True, False)]
    nets[1].load_state_dict(nets[0].state_dict())
    names = ["conv1", "conv2", "conv3", "conv4", "conv5"]
    random = torch.Generator().manual_seed(k)
    for cloud, x in SOLIDS.items():
        if len(x) < k:
            continue
        x = x / x.norm(dim=-1).amax()
        (rotation,), order = random_matrix(1, random, torch.float64), torch.randperm(len(x), generator=random)
        given = x[None], (x @ rotation.T)[order][None]
        for net in nets:
            net.eval()
        for name in names:
            first, dense, *rotated = (net.features(points, at=name).components.detach() for points in given for net in nets)
            expected = torch.cat([first[:-3], torch.einsum("ij,j...->i...", rotation, first[-3:])])[..., order]
            bound = 1e-10 * float(first.abs().max())
            assert bound > 0
            for other in (dense - first, *(one - expected for one in rotated)):
                assert float(other.abs().max()) <= bound, (cloud, name)


@pytest.mark.parametrize(
    ("rules", "solid"), [("paper", "grid"), ("paper", "pyramid"), ("full", "pyramid"), ("vector-neurons", "pyramid")]
)
def test_dense_and_fused_agree_on_ties(clouds, rules, solid):
    """A grid makes vectors vanish, whose norms have no gradient; by the paper's rules they are exactly 0."""
    points = clouds[solid][None]
    torch.manual_seed(0)
    model = reqnn.create_model("dgcnn", num_classes=5, k=8, width=0.25, dropout=0.0).double()
    outputs: list[tuple[torch.Tensor, torch.Tensor]] = []
    state: dict[str, torch.Tensor] = {}
    for fused in (True, False):
        torch.manual_seed(0)
        net = reqnn.revise(model, points, rules=reqnn.get_rules(rules).with_options(fused=fused))
        state = {name: value.clone() for name, value in net.state_dict().items()} if fused else state
        net.load_state_dict(state)
        net.train()
        given = points.clone().requires_grad_()
        out = net(torch.cat([given, 0.9 * given.flip(-1)]))
        (gradient,) = torch.autograd.grad(out.square().sum(), given)
        outputs.append((out, gradient))
    torch.testing.assert_close(outputs[0][0], outputs[1][0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(outputs[0][1], outputs[1][1], rtol=1e-8, atol=1e-9)
