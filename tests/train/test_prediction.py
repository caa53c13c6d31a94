from collections.abc import Callable

import pytest
import torch
from torch import nn

from reqnn.train.prediction import recalibrate, tracking_norms
from reqnn.train.run import build_network


def network(settings: Callable, equivariant: bool) -> nn.Module:
    return build_network(settings(model="dgcnn", equivariant=equivariant, options={"width": 0.0625, "k": 4}), 10)


def clouds(seed: int, size: float = 1.0, count: int = 8) -> torch.Tensor:
    return size * torch.randn(count, 20, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("equivariant", [False, True])
def test_one_batch_gives_the_answers_that_its_own_statistics_give(settings: Callable, equivariant: bool) -> None:
    net = network(settings, equivariant).double()
    points = clouds(0, size=3.0, count=64).double()
    before = net.eval()(points)
    recalibrate(net, [points])
    with_running = net(points)
    for norm in tracking_norms(net):
        norm.training = True
    with_own = net(points)
    # Not equal: torch's running variance is unbiased, that of a batch is not.
    assert (with_running - with_own).abs().max() < 0.1 * (before - with_own).abs().max()


@pytest.mark.parametrize("equivariant", [False, True])
def test_statistics_are_means_over_the_batches(settings: Callable, equivariant: bool) -> None:
    net = network(settings, equivariant)
    first = tracking_norms(net)[0]
    buffer = "running_power" if equivariant else "running_var"
    each = []
    for seed in (0, 1, 2):
        assert recalibrate(net, [clouds(seed)]) == 1
        each.append(getattr(first, buffer).clone())
    assert recalibrate(net, (clouds(seed) for seed in (0, 1, 2))) == 3
    torch.testing.assert_close(getattr(first, buffer), torch.stack(each).mean(0))
    assert first.num_batches_tracked == 3


@pytest.mark.parametrize("equivariant", [False, True])
def test_modes_momenta_and_weights_are_as_before(settings: Callable, equivariant: bool) -> None:
    net = network(settings, equivariant).train()
    net.get_submodule("head").eval()
    modes = [module.training for module in net.modules()]
    momenta = [norm.momentum for norm in tracking_norms(net)]
    weights = [parameter.clone() for parameter in net.parameters()]
    recalibrate(net, [clouds(0)])
    assert [module.training for module in net.modules()] == modes
    assert [norm.momentum for norm in tracking_norms(net)] == momenta
    assert all(a.equal(b) for a, b in zip(weights, net.parameters(), strict=True))


def test_dropout_does_not_enter(settings: Callable) -> None:
    net = network(settings, True)
    state = torch.get_rng_state()
    recalibrate(net, [clouds(0)])
    assert torch.get_rng_state().equal(state)


def test_without_batches_nothing_changes(settings: Callable) -> None:
    net = network(settings, True)
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    assert recalibrate(net, []) == 0
    assert all(buffer.equal(before[name]) for name, buffer in net.named_buffers())


def test_running_statistics_lag_behind_moving_weights_and_recalibration_mends_it(settings: Callable) -> None:
    """Weights that grow by 5 % a step: the running power is far below that of the last batch."""
    net = network(settings, True).train()
    layer, norm = net.get_submodule("conv5")[0], net.get_submodule("conv5")[1]
    points = clouds(0)
    for _ in range(60):
        with torch.no_grad():
            net(points)
            layer.weight.mul_(1.05)
    lagging = norm.running_power.clone()
    recalibrate(net, [points])
    ratio = (lagging / norm.running_power).mean()
    assert ratio < 0.6
