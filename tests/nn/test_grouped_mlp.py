"""The fused MLPs on groups against the generic rules: outputs, gradients, statistics, trained parameters."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reqnn
from equivariance import generator
from reqnn.nn import group_layers
from reqnn.nn.grouped_mlp import QuaternionGroupedMLP
from reqnn.nn.groups import Groups, from_index, of_all
from reqnn.kernels.power import Power
from reqnn.kernels.rows import relu_reference

PLAIN = reqnn.get_rules("paper").with_options(fused=False)
OPTIONS = {
    "pointnet2": {"npoint": (20, 9), "radius": (0.35, 0.7), "nsample": (8, 7)},
    "pointnet2_msg": {"npoint": (20, 9), "radius": ((0.1, 0.3, 0.5), (0.3, 0.6, 0.9)), "nsample": ((5, 6, 7), (6, 7, 8))},
    "pointconv": {"npoint": (20, 9), "nsample": (8, 7)},
}


def padded_index(seed, batch, centres, size, points):
    """Neighbours as a ball query gives them: the first ones differ, the rest repeat the nearest."""
    g = generator(seed)
    idx = torch.stack([torch.stack([torch.randperm(points, generator=g)[:size] for _ in range(centres)]) for _ in range(batch)])
    found = torch.randint(1, size + 1, (batch, centres, 1), generator=g)
    return torch.where(torch.arange(size) < found, idx, idx[..., :1])


@given(seed=st.integers(0, 1000), b=st.integers(1, 3), s=st.integers(1, 5), k=st.integers(1, 7))
def test_groups_hold_each_neighbour_once_and_count_its_repeats(seed, b, s, k):
    idx = padded_index(seed, b, s, k, 9)
    groups = from_index(idx, 9, torch.float64)
    assert groups.count == idx.numel() == groups.weight.sum()
    for i in range(groups.centres):
        rows = slice(int(groups.start[i]), int(groups.start[i + 1]))
        cloud, centre = divmod(i, s)
        expected = torch.bincount(idx[cloud, centre], minlength=9).double()
        counted = torch.zeros(9, dtype=torch.float64)
        counted[groups.neighbour[rows].long() - 9 * cloud] += groups.weight[rows]
        assert torch.equal(counted, expected)
    covered = [(first, last) for first, last, _ in groups.chunks()]
    assert [i for first, last in covered for i in range(first, last)] == list(range(groups.centres))


def layer_inputs(seed, b=2, s=3, k=4, n=6, c=5, o=7):
    g = generator(seed)
    groups = from_index(padded_index(seed, b, s, k, n), n, torch.float64)
    rows = torch.randn(groups.rows, 3, c, generator=g, dtype=torch.float64)
    weight = torch.randn(o, c, generator=g, dtype=torch.float64)
    return groups, rows, weight, torch.rand(c, generator=g, dtype=torch.float64) + 0.5


def mean_of(rows, groups: Groups):
    return (rows.square().sum(1) * groups.weight[:, None]).sum(0) / groups.count


@pytest.mark.parametrize("own", [True, False])
@settings(max_examples=25)
@given(seed=st.integers(0, 1000), c=st.integers(1, 40), o=st.integers(1, 40))
def test_longest_linear(own, seed, c, o):
    groups, x, weight, mean = layer_inputs(seed, c=c, o=o)
    results = []
    for fused in (True, False):
        a, w, m = x.clone().requires_grad_(), weight.clone().requires_grad_(), mean.clone().requires_grad_(not own)
        if fused:
            power = Power(mean_of(x, groups), 1e-5, groups.count) if own else Power(m, 1e-5)
            out, sums = group_layers.longest_linear(a, w, power, 1.0, groups)
        else:
            h = relu_reference(a, ((mean_of(a, groups) if own else m) + 1e-5).rsqrt(), 1.0) @ w.T
            sums = (h.square().sum(1) * groups.weight[:, None]).sum(0)
            pieces = [h[groups.start[i] : groups.start[i + 1]] for i in range(groups.centres)]
            best = [p.square().sum(1).argmax(0) for p in pieces]
            out = torch.stack([p.gather(0, i[None, None].expand(1, 3, -1))[0] for p, i in zip(pieces, best, strict=True)])
        g = generator(seed + 1)
        u, v = (torch.randn(t.shape, generator=g, dtype=torch.float64) for t in (out, sums))
        ((out * u).sum() + (sums * v).sum()).backward()
        results.append((out.detach(), sums.detach(), a.grad, w.grad, torch.zeros(1) if own else m.grad))
    for fast, slow in zip(*results, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10 * float(slow.abs().max() + 1))


@pytest.mark.parametrize("own", [True, False])
def test_gradcheck_of_the_layers(own):
    groups, x, weight, mean = layer_inputs(5)
    y, z = x[:12].clone(), x[: groups.centres].clone()
    power = Power(mean, 1e-5)
    full = of_all(2, 4, torch.float64)
    rows, w = x[:8].clone(), torch.randn(8, 3, dtype=torch.float64)

    def edges(y, z, weight):
        measured = Power(group_layers.edge_power(y, z, groups) / groups.count, 1e-5, groups.count) if own else power
        return group_layers.edge_linear(y, z, weight, measured, 1.0, groups)

    def linear(x, weight):
        measured = Power(group_layers.row_power(x.detach(), groups) / groups.count, 1e-5, groups.count) if own else power
        return group_layers.row_linear(x, weight, measured, 1.0, groups)

    def weighted(rows, w):
        measured = Power(group_layers.row_power(rows.detach(), full) / full.count, 1e-5, full.count) if own else power
        return group_layers.weighted_sum(rows, w, measured, 1.0, full)

    for function, inputs in ((edges, (y, z, weight)), (linear, (x, weight)), (weighted, (rows, w))):
        assert torch.autograd.gradcheck(function, [t.clone().requires_grad_() for t in inputs])


def both(name, clouds, seed=0):
    torch.manual_seed(seed)
    options = {"width": 0.125, "dropout": 0.0, "num_classes": 5, "points": clouds.float(), **OPTIONS[name]}
    fused = reqnn.create_model(name, equivariant=True, **options).double()
    plain = reqnn.create_model(name, equivariant=True, rules=PLAIN, **options).double()
    assert any(isinstance(m, QuaternionGroupedMLP) for m in fused.modules())
    assert not any(isinstance(m, QuaternionGroupedMLP) for m in plain.modules())
    optimizer, labels = torch.optim.SGD(fused.parameters(), 0.05, momentum=0.9), torch.arange(len(clouds)) % 5
    for _ in range(3):  # trained, not initial, parameters
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(fused(clouds), labels).backward()
        optimizer.step()
    plain.load_state_dict(fused.state_dict())
    return fused, plain


@pytest.mark.parametrize("name", sorted(OPTIONS))
@pytest.mark.parametrize("training", [True, False])
def test_a_trained_network_agrees_with_the_generic_rules(name, training):
    clouds = reqnn.data.surfaces(4, 50, seed=1)[0]
    results = []
    for net in both(name, clouds):
        net.train(training).zero_grad()
        x = clouds.clone().requires_grad_()
        out = net(x)
        (out * torch.randn(out.shape, generator=generator(3), dtype=out.dtype)).sum().backward()
        gradients = {key: value.grad for key, value in net.named_parameters()}
        results.append({"out": out.detach(), "x": x.grad, **gradients, **dict(net.named_buffers())})
    fast, slow = results
    assert fast.keys() == slow.keys()
    for key, expected in slow.items():
        torch.testing.assert_close(fast[key], expected, rtol=1e-10, atol=1e-10 * float(expected.abs().max() + 1), msg=key)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_generic_rules_run_where_the_loops_cannot(name, monkeypatch):
    clouds = reqnn.data.surfaces(4, 50, seed=2)[0]
    fused, plain = both(name, clouds)
    monkeypatch.setenv("REQNN_KERNELS", "off")
    torch.testing.assert_close(fused(clouds), plain(clouds), rtol=1e-11, atol=1e-11)


def test_a_mean_norm_in_the_relu_goes_the_generic_way():
    rules = reqnn.get_rules("paper").with_options(c="mean")
    net = reqnn.create_model("pointnet2", equivariant=True, rules=rules, width=0.125, **OPTIONS["pointnet2"])
    assert not any(isinstance(m, QuaternionGroupedMLP) for m in net.modules())
