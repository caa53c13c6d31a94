"""The layers of full quaternions one by one: against their formulas, turned, mirrored, and at zero."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from equivariance import assert_equivariant, assert_not_equivariant, cloud, draw, features, rotation_matrix, rotations, seeds
from reqnn.errors import InputError
from reqnn.kernels.full_rows import gate
from reqnn.rules.full.base import EPS
from reqnn.tensor import QuaternionTensor
from rules.full.layers import general, on_quaternions

LAYERS = {
    "nn.Conv1d": lambda: nn.Conv1d(4, 6, 1),
    "wide kernel": lambda: nn.Conv1d(4, 6, 3, padding=1, bias=False),
    "strided": lambda: nn.Conv1d(4, 6, 2, stride=2),
    "transposed": lambda: nn.ConvTranspose1d(4, 6, 2),
    "batch-norm": lambda: nn.BatchNorm1d(4),
    "group-norm": lambda: nn.GroupNorm(2, 4),
    "instance-norm": lambda: nn.InstanceNorm1d(4, affine=True),
    "relu": lambda: nn.ReLU(),
    "leaky": lambda: nn.LeakyReLU(0.2),
    "prelu": lambda: nn.PReLU(4),
    "gelu": lambda: nn.GELU(),
    "relu6": lambda: nn.ReLU6(),
    "max": lambda: lambda x: x.max(dim=-1)[0],
    "amax": lambda: lambda x: x.amax(2),
    "window": lambda: nn.MaxPool1d(2),
    "adaptive": lambda: nn.AdaptiveMaxPool1d(2),
    "two": lambda: lambda x: torch.maximum(x, x * 2),
    "all": lambda: lambda x: x.max(),
    "dropout in eval mode": lambda: nn.Dropout().eval(),
    "chain": lambda: nn.Sequential(nn.Conv1d(4, 6, 1), nn.BatchNorm1d(6), nn.ReLU(), nn.Conv1d(6, 5, 1)),
}


def with_real_parts(x, seed):
    """Features with real parts, some zero, some equal."""
    real = torch.randn(x.components.shape[1:], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return QuaternionTensor(torch.cat([real[None] * (x.components[:1] != 0), x.components]))


def spread(x):
    """Parameters and statistics that are not those of the start."""
    with torch.no_grad():
        for parameter in x.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return x


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", [{}, {"pooling": "winner"}, {"handed": False, "unit": "pool"}], ids=str)
def test_equivariant(name, options):
    """With trained weights, where vectors are zero, where they are parallel."""
    x = general(0, 3, 4, 6)
    x.components[..., 0] = 0
    x.components[1:, ..., 1] *= 1e-9
    x.components[..., 2] = x.components[..., 3]
    net, run = on_quaternions(LAYERS[name](), x, **options)
    spread(net)
    for seed in range(3):
        assert_equivariant(run, x, rotation_matrix(seed))
    out = run(x)
    assert out.components.shape[0] == 4
    assert out.components.isfinite().all()


@given(features(rank=3, least=2), rotations, seeds)
def test_a_network_of_them_is_equivariant(x, rotation, seed):
    x = with_real_parts(x, seed)
    channels = x.shape[1]
    _, run = on_quaternions(
        nn.Sequential(nn.Conv1d(channels, 4, 1), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 3, 1)), x, products=3
    )
    assert_equivariant(run, x, rotation, tolerance=1e-9)


@pytest.mark.parametrize("handed", [True, False])
def test_linear_formula(handed):
    x, layer = general(0, 2, 5, 4), nn.Linear(4, 3)
    net, run = on_quaternions(layer, x, products=2, handed=handed)
    w = net.part
    real, v = x.components[0], x.components[1:]
    maps = torch.einsum("oc,dbnc->dbno", w.full_maps_0, v)
    p, q = maps[..., :2], maps[..., 2:4]
    found = [p.square().sum(0).sqrt(), (p * q).sum(0)]
    if handed:
        found.append((torch.linalg.cross(p, q, dim=0) * maps[..., 4:]).sum(0))
    scalars = F.linear(real, w.weight, w.bias) + F.linear(torch.cat(found, -1), w.full_invariants_0)
    torch.testing.assert_close(run(x).components[0], scalars)
    torch.testing.assert_close(run(x).components[1:], torch.einsum("oc,dbnc->dbno", w.full_vectors_0, v))


def test_coordinates_need_no_second_map():
    """Pure quaternions: the layer's own weights act on them, and its bias on the real part that begins there."""
    x = cloud(0, 2, 5, 3)
    net, run = on_quaternions(nn.Linear(3, 4), x)
    assert not hasattr(net.part, "full_vectors_0")
    assert net.part.weight.shape == (4, 1)
    torch.testing.assert_close(run(x).components[1:], torch.einsum("oc,dbnc->dbno", net.part.weight, x.components))
    with torch.no_grad():
        net.part.full_invariants_0.zero_()
    torch.testing.assert_close(run(x).components[0], net.part.bias.expand(2, 5, 4))


def test_mirror_images_differ_only_where_handed():
    x = general(0, 2, 4, 6)
    mirrored = QuaternionTensor(x.components * torch.tensor([1.0, -1, 1, 1]).double().reshape(4, 1, 1, 1))
    for handed in (True, False):
        _, run = on_quaternions(nn.Conv1d(4, 6, 1), x, handed=handed)
        change = (run(x).components[0] - run(mirrored).components[0]).abs().max()
        assert (change > 1e-2) == handed
        assert handed or change < 1e-12


def test_batch_norm_is_the_ordinary_one():
    x, norm, twin = general(0, 4, 3, 5), nn.BatchNorm1d(3), nn.BatchNorm1d(3).double()
    with torch.no_grad():
        for one in (norm, twin):
            one.weight.copy_(torch.tensor([0.5, -1.0, 2.0]))
            one.bias.copy_(torch.tensor([0.1, 0.2, 0.3]))
    net, run = on_quaternions(norm, x)
    norm.reset_running_stats()
    out = run(x)
    torch.testing.assert_close(out.components[0], twin(x.components[0]))
    torch.testing.assert_close(norm.running_var, twin.running_var)
    size = (x.components[1:].square().sum(0).mean(1, keepdim=True) + EPS).sqrt()
    torch.testing.assert_close(out.components[1:], x.components[1:] / size)
    net.eval()
    torch.testing.assert_close(run(x[:1]).components, run(x)[:1].components)


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (nn.ReLU(), F.relu),
        (nn.LeakyReLU(0.2), lambda s: F.leaky_relu(s, 0.2)),
        (nn.ReLU(inplace=True), F.relu),
        (nn.SiLU(), F.silu),
        (lambda x: x.clamp(min=0), F.relu),
        (lambda x: torch.relu_(x.clone()), F.relu),
    ],
    ids=["relu", "leaky", "in place", "silu", "clamp", "relu_"],
)
def test_activation_of_the_real_part_gates_the_imaginary(module, function):
    x = general(0, 2, 4, 5)
    before = x.components.clone()
    _, run = on_quaternions(module, x)
    out = run(x)
    torch.testing.assert_close(out.components[0], function(before[0]))
    torch.testing.assert_close(out.components[1:], before[1:] * gate(before[0]))


def test_the_gate_is_a_sigmoid():
    s = torch.linspace(-50, 50, 101, dtype=torch.float64)
    assert bool((gate(s).diff() > 0).all())
    torch.testing.assert_close(gate(s) + gate(-s), torch.ones_like(s))
    assert float(gate(s)[0]) < 1e-3
    assert float(gate(s)[-1]) > 1 - 1e-3


@pytest.mark.parametrize("way", [lambda x: x.max(-1)[0], lambda x: x.amax(2), lambda x: nn.AdaptiveMaxPool1d(1)(x).squeeze(-1)])
def test_pooling(way):
    x = general(0, 2, 4, 5)
    _, run = on_quaternions(way, x, unit="norm")
    torch.testing.assert_close(run(x).components[0], x.components[0].amax(-1))
    torch.testing.assert_close(run(x).components[1:], x.components[1:].mean(-1))
    _, run = on_quaternions(way, x, pooling="winner", unit="norm")
    index = x.components[0].argmax(-1, keepdim=True)
    torch.testing.assert_close(run(x).components, x.components.gather(-1, index.expand(4, -1, -1, -1)).squeeze(-1))


def test_pooled_vectors_have_unit_size():
    x = general(0, 2, 4, 5)
    _, run = on_quaternions(nn.Sequential(nn.Conv1d(4, 6, 1), nn.AdaptiveMaxPool1d(1)), x)
    size = run(x).components[1:].square().sum(0).mean(1)
    torch.testing.assert_close(size, torch.ones_like(size), rtol=0.05, atol=0)


def test_pure_quaternions_are_pooled_by_their_norms():
    x = draw(0, 2, 4, 5)
    _, run = on_quaternions(lambda x: x.max(-1)[0], x)
    longest = x.components.square().sum(0).argmax(-1, keepdim=True)
    torch.testing.assert_close(run(x).components, x.components.gather(-1, longest.expand(3, -1, -1, -1)).squeeze(-1))


@pytest.mark.parametrize("layer", [nn.ReLU(), nn.BatchNorm1d(4), nn.GroupNorm(2, 4)], ids=["relu", "batch-norm", "group-norm"])
def test_pure_quaternions_follow_the_paper(layer):
    x = draw(0, 2, 4, 5)
    _, run = on_quaternions(layer, x)
    assert run(x).stored_shape[0] == 3
    assert_equivariant(run, x, rotation_matrix(1))


@given(st.sampled_from(["conv", "norm", "relu", "max"]))
def test_the_originals_fail(name):
    originals = {"conv": nn.Conv1d(6, 6, 1), "norm": nn.BatchNorm1d(6), "relu": nn.ReLU(), "max": nn.MaxPool1d(5)}
    assert_not_equivariant(originals[name].double())


def test_gradients():
    x = general(0, 2, 3, 4)
    net, run = on_quaternions(
        nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.LeakyReLU(0.2), nn.Conv1d(4, 2, 1)), x, products=2
    )
    spread(net)

    def on_components(parts):
        return run(QuaternionTensor(parts)).components

    assert torch.autograd.gradcheck(on_components, (x.components.requires_grad_(),))


def test_gradients_at_zero_are_finite():
    x = general(0, 2, 3, 4)
    _, run = on_quaternions(nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 2, 1)), x)
    leaf = torch.zeros_like(x.components).requires_grad_()
    run(QuaternionTensor(leaf)).components.square().sum().backward()
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"products": 0}, "whole number of at least 1"),
        ({"products": True}, "whole number of at least 1"),
        ({"handed": "left"}, "must be True or False"),
    ],
)
def test_wrong_options(options, said):
    with pytest.raises(InputError, match=said):
        on_quaternions(nn.Conv1d(4, 6, 1), general(0, 2, 4, 5), **options)


@pytest.mark.parametrize("options", [{"pooling": "sum"}, {"unit": "never"}])
def test_wrong_options_of_pooling(options):
    with pytest.raises(InputError, match="must be"):
        on_quaternions(lambda x: x.max(-1)[0], general(0, 2, 4, 5), **options)
