"""Clouds with symmetries, rotated and reordered: no answer changes, and in float64 no logit."""

import pytest
import torch

import reqnn
from experiments import symmetric


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
            assert record["change"] < 1e-8, record
            assert record["spread"] > 1e-6, record


def test_dense_and_fused_agree_on_ties(clouds):
    points = clouds["pyramid"][None]
    torch.manual_seed(0)
    model = reqnn.create_model("dgcnn", num_classes=5, k=8, width=0.25, dropout=0.0).double()
    outputs: list[tuple[torch.Tensor, torch.Tensor]] = []
    state: dict[str, torch.Tensor] = {}
    for fused in (True, False):
        torch.manual_seed(0)
        net = reqnn.revise(model, points, rules=reqnn.get_rules("paper").with_options(fused=fused))
        state = {name: value.clone() for name, value in net.state_dict().items()} if fused else state
        net.load_state_dict(state)
        net.train()
        given = points.clone().requires_grad_()
        out = net(torch.cat([given, 0.9 * given.flip(-1)]))
        (gradient,) = torch.autograd.grad(out.square().sum(), given)
        outputs.append((out, gradient))
    torch.testing.assert_close(outputs[0][0], outputs[1][0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(outputs[0][1], outputs[1][1], rtol=1e-8, atol=1e-9)
