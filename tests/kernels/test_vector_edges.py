"""Vector Neurons' layers on groups of neighbours: loops against plain torch, and put-off layers against the rules."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import reqnn
from reqnn.kernels import run, vector_edges
from reqnn.kernels.groups import from_index
from reqnn.kernels.vector_edges import Pending
from reqnn.nn.vector_grouped import VectorGrouped

POINTS, CENTRES, PLACES, CHANNELS = 9, 7, 5, 4


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def index_of(kind):
    """(P, K) rows of y: all different, padded with the first neighbour, or with other repeats."""
    index = torch.stack([torch.randperm(POINTS, generator=torch.Generator().manual_seed(i))[:PLACES] for i in range(CENTRES)])
    if kind == "padded":
        full = torch.arange(CENTRES)[:, None] % PLACES
        return torch.where(torch.arange(PLACES) > full, index[:, :1], index)
    if kind == "repeated":
        index[:, 3] = index[:, 2]
    return index


class Case:
    """Edges, directions and a batch-norm, with what is left out set to None."""

    def __init__(self, kind, normed=True, bent=True):
        index = index_of("padded" if kind == "stored and padded" else kind)
        groups = from_index(index, draw(1))
        stored = kind.startswith("stored")
        self.groups = groups.stored if stored else groups
        ends = (groups.rows if stored else POINTS, None if stored else CENTRES)
        self.y, self.z = (None if size is None else draw(size, 3, CHANNELS, seed=i) for i, size in enumerate(ends))
        self.yk, self.zk = (
            None if size is None or not bent else draw(size, 3, CHANNELS, seed=2 + i) for i, size in enumerate(ends)
        )
        self.scale, self.shift = (draw(CHANNELS, seed=4 + i) if normed else None for i in range(2))
        self.weight = draw(6, CHANNELS, seed=6)

    def leaves(self):
        names = ("y", "z", "yk", "zk", "scale", "shift", "weight")
        return {name: getattr(self, name).clone().requires_grad_() for name in names if getattr(self, name) is not None}

    def check(self, function):
        """function(leaves, pending, groups) with loops and in plain torch: values and gradients."""
        found = []
        for enabled in (True, False):
            leaves = self.leaves()
            parts = {name: leaves.get(name) for name in ("scale", "shift", "yk", "zk")}
            with run.switched(enabled):
                out = function(leaves, Pending(**parts, fade=1e-3, slope=0.2, tiny=1e-4), self.groups)
                out.mul(draw(*out.shape, seed=7)).sum().backward()
            found.append((out.detach(), {name: leaf.grad for name, leaf in leaves.items()}))
        (value, gradients), (expected, expected_gradients) = found
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
        for name, gradient in expected_gradients.items():
            torch.testing.assert_close(
                gradients[name], gradient, rtol=1e-11, atol=1e-11, msg=lambda text, name=name: f"{name}: {text}"
            )


KINDS = pytest.mark.parametrize("kind", ["full", "padded", "repeated", "stored", "stored and padded"])
STEPS = pytest.mark.parametrize(("normed", "bent"), [(True, True), (True, False), (False, True), (False, False)])


@KINDS
def test_lengths(kind):
    Case(kind).check(lambda leaves, pending, groups: vector_edges.lengths(leaves["y"], leaves.get("z"), groups))


@KINDS
@STEPS
def test_activated(kind, normed, bent):
    Case(kind, normed, bent).check(
        lambda leaves, pending, groups: vector_edges.activated(leaves["y"], leaves.get("z"), pending, groups)
    )


@KINDS
@STEPS
def test_linear(kind, normed, bent):
    Case(kind, normed, bent).check(
        lambda leaves, pending, groups: vector_edges.linear(leaves["y"], leaves.get("z"), leaves["weight"], pending, groups)
    )


@KINDS
@STEPS
def test_mean(kind, normed, bent):
    Case(kind, normed, bent).check(
        lambda leaves, pending, groups: vector_edges.mean(leaves["y"], leaves.get("z"), pending, groups)
    )


@pytest.mark.parametrize("kind", ["full", "padded"])
def test_chunks_of_rows_give_the_same(kind, monkeypatch):
    monkeypatch.setattr("reqnn.kernels.groups.ROWS", 6)
    assert len(list(Case(kind).groups.chunks())) > 1
    test_lengths(kind)
    test_linear(kind, True, True)
    test_mean(kind, True, True)


def test_gradients():
    case = Case("padded")
    leaves = case.leaves()

    def apply(y, z, yk, zk, scale, shift):
        return vector_edges.mean(y, z, Pending(scale, shift, 1e-3, yk, zk, 0.2, 1e-4), case.groups)

    assert torch.autograd.gradcheck(apply, [leaves[name] for name in ("y", "z", "yk", "zk", "scale", "shift")])
    assert torch.autograd.gradcheck(lambda y, z: vector_edges.lengths(y, z, case.groups), (leaves["y"], leaves["z"]))


@pytest.mark.parametrize("noise", [0.0, 1e-16])
def test_length_of_an_edge_that_vanishes_has_no_derivative(noise):
    groups = from_index(torch.tensor([[0, 1]]), draw(1))
    y = draw(2, 3, CHANNELS)
    z = -y[:1] * (1 + noise * draw(1, 3, CHANNELS, seed=1))  # the edge from the centre to itself
    y, z = y.requires_grad_(), z.requires_grad_()
    vector_edges.lengths(y, z, groups)[0].sum().backward()
    assert (y.grad[0] == 0).all()
    torch.testing.assert_close(y.grad[1].square().sum(0), torch.ones(CHANNELS, dtype=torch.float64))


# -- in networks -------------------------------------------------------------------------------------------------------


class Edges(nn.Module):
    """(B, 3, N) → (B, 5): layers on the edges [f_j − f_i, f_i] of a graph that some places fill up."""

    def __init__(self, layers):
        super().__init__()
        self.first, self.second = nn.Conv2d(6, 8, 1, bias=False), nn.Conv2d(8, 8, 1, bias=False)
        self.norm, self.other = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.layers, self.head = layers, nn.Linear(8, 5)

    def forward(self, x):
        points = x.transpose(2, 1) * 1
        self.features = points  # for who changes them while the edges are put off
        distances = ((points[:, :, None] - points[:, None]) ** 2).sum(-1)
        index = distances.topk(5, largest=False)[1]
        index = torch.where((torch.arange(5) > 2) & (torch.arange(index.shape[1])[:, None] > 4), index[:, :, :1], index)
        centre = points[:, :, None].expand(-1, -1, 5, -1)
        edges = torch.cat([points[torch.arange(len(points))[:, None, None], index] - centre, centre], -1).permute(0, 3, 1, 2)
        return self.head(self.layers(self, self.first(edges)).max(-1)[0])


def residual(net, edges):
    edges = F.relu(net.norm(edges))
    return F.relu(net.other(net.second(edges)) + edges).amax(-1)


def changed(net, edges):
    edges = net.norm(edges)
    net.features.mul_(2)
    return F.relu(edges).max(-1)[0]


def weighted(net, edges):
    weights = torch.softmax(edges.shape[1] - torch.arange(5, dtype=edges.dtype), 0).expand(len(edges), 1, edges.shape[2], 5)
    return (F.relu(net.norm(edges)) * weights).sum(-1)


NETWORKS = {
    "edge_conv": lambda net, edges: F.leaky_relu(net.norm(edges), 0.2).max(-1)[0],
    "relu alone": lambda net, edges: F.relu(edges).mean(-1),
    "batch-norm alone": lambda net, edges: net.norm(edges).amax(-1),
    "batch-norm last": lambda net, edges: net.norm(F.relu(edges)).max(-1, keepdim=True)[0].squeeze(-1),
    "permuted between": lambda net, edges: F.relu(net.norm(edges).permute(0, 2, 3, 1)).max(2)[0].permute(0, 2, 1),
    "copied between": lambda net, edges: F.relu(net.norm(edges).contiguous()).max(-1)[0],
    "two layers": lambda net, edges: F.relu(net.other(net.second(F.relu(net.norm(edges), inplace=True)))).max(-1)[0],
    "one batch-norm twice": lambda net, edges: F.relu(net.norm(net.second(F.relu(net.norm(edges))))).max(-1)[0],
    "input changed in place": changed,
    "window": lambda net, edges: F.max_pool2d(F.gelu(net.norm(edges)), (1, 5)).squeeze(-1),
    "residual": residual,
    "weighted": weighted,
}


def passed(net, points):
    """Outputs, gradients and running statistics in training, and outputs in eval mode."""
    net.zero_grad()
    points = points.clone().requires_grad_()
    out = net.train()(points)
    out.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in net.named_parameters() if parameter.grad is not None}
    state = {name: value.double() for name, value in net.state_dict().items()}
    return out, points.grad, gradients, state, net.eval()(points)


@pytest.mark.parametrize("options", [{}, {"direction": "shared"}])
@pytest.mark.parametrize("name", NETWORKS)
def test_put_off_layers_are_the_rules(name, options, monkeypatch):
    points, found = draw(2, 3, 8).float(), []
    net = Edges(NETWORKS[name])
    for norm in (net.norm, net.other):
        nn.init.uniform_(norm.bias, -1, 1)
    for fused in (False, True):
        torch.manual_seed(0)
        rules = reqnn.get_rules("vector-neurons").with_options(fused=fused, **options)
        found.append(reqnn.revise(net, points, rules=rules, check=False).double())
    found[1].load_state_dict(found[0].state_dict())

    def dense(form):
        raise AssertionError(f"features of shape {tuple(form.raw.shape)} are stored")

    if name != "input changed in place":  # where features take their values before the change
        monkeypatch.setattr(VectorGrouped, "components", dense)
    expected, results = (passed(revised, points.double()) for revised in found)
    torch.testing.assert_close(results, expected, rtol=1e-9, atol=1e-11)
