"""Networks for part segmentation: sizes as published, the category, interpolation, and outputs that follow their points."""

import pytest
import torch

from reqnn.auditing import audit
from reqnn.models.grouping import interpolate_features
from reqnn.models.registry import build_model
from reqnn.zoo import create_model
from surfaces import surfaces
from test_audit import OPTIONS, QUICK

NAMES = ["dgcnn_parts", "pointnet2_parts", "pointnet_parts"]


def test_sizes():
    """PointNet's 8.3 M and PointNet++'s 1.4 M are published; DGCNN's are counted by hand from its table."""
    counts = {name: sum(p.numel() for p in build_model(name, num_classes=50, categories=16).parameters()) for name in NAMES}
    assert counts["pointnet_parts"] == pytest.approx(8.34e6, rel=2e-3)
    assert counts["pointnet2_parts"] == pytest.approx(1.41e6, rel=2e-3)
    convolutions = [6 * 64, 64 * 64, 128 * 64, 64 * 64, 128 * 64, 192 * 1024, 16 * 64]
    convolutions += [1280 * 256, 256 * 256, 256 * 128, 128 * 50]
    assert counts["dgcnn_parts"] == sum(convolutions) + 2 * (5 * 64 + 1024 + 64 + 256 + 256 + 128)


@pytest.mark.parametrize("rules", ["paper", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_revised_with_a_category(name, rules):
    """Logits of points keep their values in any orientation, follow the order of the points, and depend on the category."""
    torch.manual_seed(0)
    net = create_model(name, True, num_classes=7, categories=5, width=1 / 8, rules=rules, **OPTIONS.get(name, {}))
    points = surfaces().double()
    category = torch.eye(5).double()[torch.arange(len(points)) % 5]
    report = audit(net, (points, category), **QUICK, modes=("eval",))
    assert report.ok, str(report)
    assert max(report.rotation_error, report.permutation_error, report.batch_error) <= 1e-9
    assert net.report.to_real == ["head"]
    net = net.double().train()
    net(points, category)
    out = net.eval()(points, category)
    assert out.shape == (*points.shape[:2], 7)
    assert (out - net(points, category.roll(1, 0))).abs().max() > 1e-3


def test_ordinary_networks_fail_the_audit_with_a_category():
    net = create_model("dgcnn_parts", num_classes=7, categories=5, width=1 / 8, k=8)
    category = torch.eye(5)[torch.arange(len(surfaces())) % 5]
    assert audit(net, (surfaces(), category), **QUICK, modes=("eval",)).rotation_error > 1e-2


def test_interpolation():
    """Against a loop; at a centre its own features, and one centre's features everywhere."""
    xyz, centres = surfaces()[:2, :20].double(), surfaces()[:2, 10:18].double()
    features = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0)).double()
    out = interpolate_features(xyz, centres, features)
    for b in range(2):
        for i in range(20):
            squared = (centres[b] - xyz[b, i]).square().sum(-1)
            near = squared.argsort()[:3]
            weights = 1 / (squared[near] + 1e-8)
            torch.testing.assert_close(out[b, i], (weights[:, None] * features[b, near]).sum(0) / weights.sum())
    torch.testing.assert_close(out[:, 10:18], features, rtol=1e-5, atol=1e-5)
    assert torch.equal(interpolate_features(xyz, centres[:, :1], features[:, :1]), features[:, :1].expand(2, 20, 5))
