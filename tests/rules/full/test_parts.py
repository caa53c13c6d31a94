"""Parts that are kept apart, and the loops on them: the same numbers as joined quaternions and plain torch."""

import pytest
import torch
from torch import nn

from reqnn.auditing import audit
from reqnn.kernels.full_rows import gate
from reqnn.nn.full_parts import Parts, join, parts
from reqnn.revision import revise
from reqnn.tensor import QuaternionTensor
from reqnn.tensor.context import Context
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
        torch.testing.assert_close(results[0][key], expected, rtol=1e-9, atol=1e-9, msg=key)  # of a bias before BN it is 0


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


def test_written_by_index():
    norm, x = nn.BatchNorm1d(3).double().eval(), general(0, 2, 3, 4)
    x.context = Context(rules(unit="pool"))
    out, before = norm(x), x.components.clone()
    x[:, 0] = 0
    torch.testing.assert_close(out.components[1:], before[1:])


def test_waiting_for_a_view_that_nobody_holds():
    norm, x = nn.BatchNorm1d(4).double().eval(), general(0, 2, 3, 4)
    x.context = Context(rules(unit="pool"))
    out, before = norm(x.transpose(1, 2)), x.components.clone()
    x.transpose(0, 1).mul_(3.0)
    torch.testing.assert_close(out.components[1:], before[1:].transpose(2, 3))


class Unbatched(nn.Module):
    """One cloud at a time: features without an axis of places at the end."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.head = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, points):
        pooled = self.second(self.first(points).relu()).relu().max(0)[0]
        return self.head(self.third(pooled).relu())


def test_clouds_without_a_batch():
    points = surfaces()[0].double()
    found = []
    for fused in (True, False):
        torch.manual_seed(0)
        net = revise(Unbatched(), points.float(), vector_axis=-1, to_real="head", rules=rules(fused=fused)).double()
        found.append(net(points))
        assert audit(net, points, rotations=3, permutations=2, vector_axis=-1).ok
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


def test_a_single_quaternion():
    x = QuaternionTensor(torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    x.context = Context(rules())
    out = x.relu()
    torch.testing.assert_close(out.components[0], x.components[0].relu())
    torch.testing.assert_close(out.components[1:], x.components[1:] * gate(x.components[0]))


def test_reading_the_dtype_joins_nothing():
    x = general(0, 2, 5, 7)
    out = join(x, *parts(x), axis=1)
    assert (out.dtype, out.device, out.ndim) == (torch.float64, torch.device("cpu"), 3)
    assert isinstance(out.still_deferred, Parts)


class Pooled(nn.Module):
    """The same, with channels last or in the middle while it pools."""

    def __init__(self, transposed):
        super().__init__()
        self.layer, self.head, self.transposed = nn.Conv1d(3, 8, 1), nn.Linear(8, 4), transposed

    def forward(self, points):
        x = self.layer(points.transpose(1, 2)).relu()
        return self.head(x.transpose(1, 2).max(1)[0] if self.transposed else x.max(2)[0])


def test_pooling_knows_the_channels_wherever_they_are():
    """As many channels as points: sizes do not tell."""
    points = surfaces(points=8)[:, :8]
    nets = []
    for transposed in (False, True):
        torch.manual_seed(0)
        nets.append(revise(Pooled(transposed), points, vector_axis=-1, rules="full").double())
    nets[1].load_state_dict(nets[0].state_dict())
    torch.testing.assert_close(*(net(points.double()) for net in nets), rtol=1e-10, atol=1e-10)
