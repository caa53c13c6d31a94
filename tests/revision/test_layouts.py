"""Kernels that cover coordinates, and buffers that features are written into."""

import pytest
import torch

import reqnn
from experiments.styles.clouds import surfaces
from networks import turn
from networks.checks import ROTATIONS, calibrate, error
from networks.layouts import Buffer, KernelOverCoordinates
from reqnn import NoRuleError
from reqnn.rules import get_rules

POINTS = surfaces(4, 24, dtype=torch.float64)
ORDER = torch.randperm(24, generator=torch.Generator().manual_seed(1))
RULES = ("paper", "full")


def check(model, points, axis, scalars=0, **options):
    """Revised, calibrated: the errors under a rotation and another order are those of rounding."""
    net = calibrate(reqnn.revise(model, points.float(), scalars=scalars, **options).double(), (points,))
    with torch.no_grad():
        before, turned = net(points), net(turn(points, axis, ROTATIONS[0], scalars))
        moved = net(points.index_select(3 - axis, ORDER))
    assert error(before, before.flip(0)) > 1e-3
    assert max(error(before, turned), error(before, moved)) < 1e-9
    return net


@pytest.mark.parametrize("rules", RULES)
def test_a_kernel_over_x_y_and_z_is_a_map_of_each_point(rules):
    torch.manual_seed(0)
    net = check(KernelOverCoordinates(), POINTS, 2, rules=rules)
    assert net.model.first.weight.shape == (8, 1, 1, 1)
    plain = reqnn.revise(KernelOverCoordinates(), POINTS.float(), rules=get_rules(rules).with_options(fused=False))
    plain = plain.double()
    plain.load_state_dict(net.state_dict())
    torch.testing.assert_close(plain.eval()(POINTS), net(POINTS), rtol=0, atol=1e-10)


@pytest.mark.parametrize("rules", RULES)
def test_a_kernel_over_vectors_and_scalars(rules):
    torch.manual_seed(0)
    given = torch.cat([POINTS, POINTS.norm(dim=-1, keepdim=True).sin()], -1)
    check(KernelOverCoordinates(4), given, 2, scalars=1, rules=rules)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kernel", [1, 2])
def test_a_kernel_that_takes_coordinates_apart_is_refused(rules, kernel):
    with pytest.raises(NoRuleError, match="each coordinate would be treated by itself"):
        reqnn.revise(KernelOverCoordinates(kernel=kernel), POINTS.float(), rules=rules)


@pytest.mark.parametrize("rules", RULES)
def test_a_buffer_that_is_filled_everywhere(rules):
    torch.manual_seed(0)
    net = check(Buffer(), POINTS.mT.contiguous(), 1, rules=rules)
    net.train()(POINTS.mT.contiguous()).sum().backward()
    assert net.model.two.weight.grad.abs().max() > 0


@pytest.mark.parametrize("rules", RULES)
def test_a_buffer_that_keeps_other_numbers_is_refused(rules):
    with pytest.raises(NoRuleError, match="not 0 everywhere"):
        reqnn.revise(Buffer(written=8), POINTS.mT.float(), rules=rules)
