"""Clouds that are not normalised, in another precision, or out of range."""

import pytest
import torch
from torch import nn

import reqnn
from equivariance import generator
from reqnn.models import DGCNN


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return reqnn.revise(DGCNN(num_classes=4, k=5, width=0.25), torch.randn(1, 30, 3, generator=generator(0)))


def cloud(seed=1):
    points = torch.randn(2, 40, 3, generator=generator(seed))
    points = points - points.mean(1, keepdim=True)
    return points / points.norm(dim=-1).amax(1)[:, None, None]


def test_predict_normalises_and_leaves_the_mode_alone(net):
    points = cloud()
    with torch.no_grad():
        expected = net.eval()(points)
    net.train()
    for moved in (
        points,
        1000 * points.double() + 1e4,
        1e150 * points.double() + 1e151,
        1e155 * points.double(),
        1e300 * points.double(),
        1e-30 * points,
    ):
        torch.testing.assert_close(net.predict(moved), expected, rtol=1e-3, atol=1e-4)
    assert all(module.training for module in net.modules())
    found = reqnn.predict([1000 * points[0] + 1e4, points[1, :30]], net)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-3, atol=1e-4)


def test_a_stray_point_spoils_a_cloud_unless_robust(net):
    points = cloud()
    points[:, 0] = torch.tensor([900.0, -500.0, 40.0])
    clean = torch.cat([points[:, 1:], points[:, :1] * 0], 1)
    wanted, spoiled = net.predict(clean), net.predict(points)
    robust = net.predict(points, robust=True)
    assert (robust - wanted).abs().max() < 0.3 * (spoiled - wanted).abs().max()
    turn = reqnn.quaternion.random_matrix((), generator(3), torch.float32)
    torch.testing.assert_close(net.predict(points @ turn.T, robust=True), robust, rtol=1e-3, atol=1e-4)
    without = reqnn.predict(points[:, 1:], net)
    torch.testing.assert_close(reqnn.predict(points, net, robust=True), without, rtol=1e-3, atol=1e-4)


def test_predict_takes_whole_numbers_and_says_what_is_missing(net):
    points = (1000 * cloud()).round()
    torch.testing.assert_close(net.predict(points.int()), net.predict(points), rtol=0, atol=0)
    with pytest.raises(reqnn.InputError, match="is empty; at least one cloud"):
        net.predict(points[:0])
    with pytest.raises(reqnn.InputError, match="is empty; at least one cloud"):
        net.predict(points[:, :0])


@pytest.mark.parametrize("size", [1e18, 1e-30])
def test_numbers_out_of_range_are_refused(net, size):
    with pytest.raises(reqnn.InputError, match=r"out of the range .* net.predict"):
        net.eval()(cloud() * size)
    assert net(cloud() * 1e8).isfinite().all()


def test_other_precisions_are_refused_with_advice(net):
    with pytest.raises(reqnn.InputError, match=r"float64, the network torch.float32: .*predict"):
        net(cloud().double())
    for dtype in (torch.float16, torch.bfloat16):
        low = reqnn.revise(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), cloud()).to(dtype)
        with pytest.raises(reqnn.InputError, match=r"float32: call \.float\(\)"):
            low(cloud().to(dtype))


def test_autocast_is_for_training(net):
    expected = net.eval()(cloud())
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(net(cloud()), expected, rtol=0, atol=0)
        assert torch.nn.Linear(3, 2)(cloud()).dtype == torch.bfloat16  # not switched off behind the call
        with pytest.raises(reqnn.InputError, match=r"bfloat16, the network torch\.float32"):
            net(cloud().bfloat16())
        found = net.train()(cloud())
    assert found.isfinite().all()
    assert (found.float() - net(cloud())).abs().max() > 1e-3
