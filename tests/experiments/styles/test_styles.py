"""Networks in other people's styles: as wide as published, and invariant once revised."""

import pytest
import torch

import reqnn
from experiments.styles import RULES, SMALL_POINTS, STYLES, calibrate, logits

PARAMETERS = {  # at 40 classes
    "dgcnn": 1_809_576,
    "dgcnn_gather": 1_809_576,
    "pointnet2_ssg": 1_475_688,
    "pointnet2_msg": 1_747_368,
    "pointconv": 19_569_177,
    "pct": 2_876_136,
    "residual_mlp": 13_238_504,
    "two_branch": 936_616,
}


@pytest.mark.parametrize("name", STYLES)
def test_published_width(name):
    assert sum(p.numel() for p in STYLES[name].build().parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", STYLES)
def test_the_original_depends_on_the_orientation(name):
    network, points = small(name)
    rotated, _ = moved(points, STYLES[name].channels_first)
    calibrate(network, points)
    network.eval()
    with torch.no_grad():
        torch.manual_seed(0)
        before = logits(network(points))
        torch.manual_seed(0)
        after = logits(network(rotated))
    assert before.shape == (3, 5)
    assert (before - after).abs().max() > 1e-2


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", STYLES)
def test_revised_is_invariant_and_learns(name, rules):
    network, points = small(name)
    net = reqnn.revise(network, points, rules=rules, **STYLES[name].revise[rules]).train()
    logits(net(points)).square().sum().backward()
    assert [n for n, p in net.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []
    calibrate(net, points)
    net.eval()
    with torch.no_grad():
        expected = logits(net(points))
        for changed in moved(points, STYLES[name].channels_first):
            torch.testing.assert_close(logits(net(changed)), expected, rtol=0, atol=1e-8)
        assert expected.std(dim=0).max() > 1e-2  # different clouds differ


def small(name):
    torch.manual_seed(0)
    style = STYLES[name]
    return style.build(small=True).double(), style.points(3, SMALL_POINTS, dtype=torch.float64)


def moved(points, channels_first):
    """The same clouds rotated, and with their points in another order."""
    generator = torch.Generator().manual_seed(1)
    rotation = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=points.dtype))[0]
    rotation = rotation * torch.linalg.det(rotation)
    order = torch.randperm(SMALL_POINTS, generator=generator)
    if channels_first:
        return rotation @ points, points[:, :, order]
    return points @ rotation.T, points[:, order]
