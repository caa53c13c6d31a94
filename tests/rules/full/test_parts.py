"""Parts that are kept apart, and the loops on them: the same numbers as joined quaternions and plain torch."""

import pytest
import torch
from torch import nn

from reqnn.context import Context
from reqnn.nn.full_parts import Parts, join, parts
from rules.full.layers import general, rules
from rules.zoo import small
from surfaces import surfaces


@pytest.mark.parametrize("name", ["pointnet", "pointnet2", "pointconv"])
@pytest.mark.parametrize("training", [True, False])
def test_loops_and_plain_torch(name, training):
    points, results = surfaces().double(), []
    weights = small("full", name).state_dict()
    for fused in (True, False):
        net = small("full", name, fused=fused).double()
        net.load_state_dict(weights)
        net.train()(points)  # running statistics that are not those of the start
        torch.manual_seed(0)
        out = net.train(training)(points)
        out.square().sum().backward()
        results.append({"out": out, **{key: p.grad for key, p in net.named_parameters()}, **dict(net.named_buffers())})
    for key, expected in results[1].items():
        torch.testing.assert_close(results[0][key], expected, rtol=1e-8, atol=1e-9, msg=key)


def test_joined_when_asked_for():
    x = general(0, 2, 5, 7)
    real, imaginary = parts(x)
    out = join(x, 2 * real, 3 * imaginary, axis=1)
    assert isinstance(out.still_deferred, Parts)
    assert (out.shape, out.stored_shape, out.rank) == (torch.Size([2, 5, 7]), torch.Size([4, 2, 5, 7]), 3)
    torch.testing.assert_close(out.squared_norm(), 4 * real.square() + 9 * imaginary.square().sum(0))
    assert isinstance(out.still_deferred, Parts)
    torch.testing.assert_close(out.components, torch.cat([2 * real[None], 3 * imaginary]))
    assert out.still_deferred is None
    torch.testing.assert_close(parts(out)[1], 3 * imaginary)


@pytest.mark.parametrize("layers", [1, 2])
def test_what_is_overwritten_in_place_was_taken_before(layers):
    """A batch-norm that leaves unit size to the pooling shares the imaginary parts of its input."""
    norm, found = nn.BatchNorm1d(3).double().eval(), []
    for joined in (False, True):
        x = general(0, 2, 3, 4)
        x.context = Context(rules(unit="pool"))
        out, view = x, x.flatten(1)
        for _ in range(layers):
            out = norm(out)
        assert isinstance(out.still_deferred, Parts)
        assert not joined or out.components is not None  # joined before, or only behind what changes the memory
        view.mul_(3.0)
        found.append(out.components)
        assert not torch.equal(out.components[1:], x.components[1:])
    assert torch.equal(*found)
