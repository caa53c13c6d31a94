"""Gathered storage against ordinary tensors: the same functions in both, values and gradients in float64."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reqnn.nn import QuaternionBatchNorm
from reqnn.nn.grouped import Grouped
from reqnn.rules import get_rules
from reqnn.tensor import Context, QuaternionTensor
from reqnn.tensor.gathered import Gathered, Repeated, Weighted

B, N, C, K = 2, 9, 5, 4


def generator(seed):
    return torch.Generator().manual_seed(seed)


def values(*shape, seed=0):
    return torch.randn(3, *shape, generator=generator(seed), dtype=torch.float64)


IDX = torch.randint(0, N, (B, N, K), generator=generator(1))
BALL = torch.cat([IDX[..., :2], IDX[..., :1], IDX[..., :1]], dim=-1)  # two neighbours, then padding
CLOUDS = torch.arange(B).view(-1, 1, 1)
WEIGHT = torch.randn(7, 2 * C, generator=generator(2), dtype=torch.float64)


def both(function, *inputs):
    """What a function gives on gathered storage and on ordinary tensors, with gradients of everything."""
    results = []
    for fused in (True, False):
        context = Context(get_rules("paper").with_options(fused=fused))
        leaves = [x.clone().requires_grad_() for x in inputs]
        out = function(*[QuaternionTensor(leaf, context=context) for leaf in leaves])
        kind = type(out.still_deferred) if isinstance(out, QuaternionTensor) else None
        dense = out.components if isinstance(out, QuaternionTensor) else out
        context.finish()
        weights = torch.randn(dense.shape, generator=generator(3), dtype=dense.dtype)
        found = torch.autograd.grad((dense * weights).sum() + dense.square().sum(), leaves, allow_unused=True)
        shape = out.shape
        results.append((dense.detach(), [g for g in found if g is not None], shape, kind))
    (ours, mine, shape, kind), (theirs, expected, same, none) = results
    assert not issubclass(none or object, (Gathered, Grouped))
    assert shape == same
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    for a, b in zip(mine, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    return kind


def flat(x, idx=IDX):
    return x.reshape(B * N, C)[(idx + CLOUDS * N).view(-1), :].view(B, N, K, C)


def batch_index(x, idx=IDX):
    return x[CLOUDS.expand_as(idx), idx, :]


GATHERS = {
    "flat": flat,
    "batch index": batch_index,
    "ellipsis": lambda x: x[CLOUDS, IDX, ...],
    "negative": lambda x: x[CLOUDS, IDX - N],
    "lists": lambda x: x.reshape(B * N, C)[(IDX + CLOUDS * N).view(-1).tolist()].view(B, N, K, C),
    "gather": lambda x: torch.gather(x, 1, IDX.view(B, N * K, 1).expand(-1, -1, C)).view(B, N, K, C),
    "gather from expanded": lambda x: torch.gather(
        x.unsqueeze(1).expand(-1, N, -1, -1), 2, IDX.unsqueeze(-1).expand(-1, -1, -1, C)
    ),
    "channels first": lambda x: torch.gather(
        x.transpose(1, 2).unsqueeze(-1).expand(-1, -1, -1, K), 2, IDX.unsqueeze(1).expand(-1, C, -1, -1)
    ).permute(0, 2, 3, 1),
    "take_along_dim": lambda x: torch.take_along_dim(x, IDX.view(B, N * K, 1), 1).view(B, N, K, C),
    "index_select": lambda x: x.reshape(B * N, C).index_select(0, (IDX + CLOUDS * N).view(-1)).view(B, N, K, C),
    "slice between": lambda x: x.transpose(1, 2)[CLOUDS, :, IDX],
}


@pytest.mark.parametrize("spelling", GATHERS)
def test_spellings_of_a_gather(spelling):
    assert both(GATHERS[spelling], values(B, N, C)) is Gathered


def repeated(x):
    return x.view(B, N, 1, C).repeat(1, 1, K, 1)


def edges(x, gather=flat):
    neighbours = gather(x)
    return torch.cat([neighbours - repeated(x), repeated(x)], dim=3)


STRUCTURE = {
    "cat": edges,
    "expand": lambda x: torch.cat([flat(x) - x.unsqueeze(2), x.unsqueeze(2).expand(-1, -1, K, -1)], -1),
    "permute": lambda x: edges(x).permute(0, 3, 1, 2).contiguous(),
    "transpose": lambda x: edges(x).transpose(1, 3).transpose(2, 3),
    "reshape": lambda x: edges(x).permute(0, 1, 3, 2).reshape(-1, 2 * C, K),
    "merged places": lambda x: edges(x).permute(0, 3, 1, 2).reshape(B, 2 * C, N * K),
    "flatten": lambda x: edges(x).flatten(0, 1).unflatten(0, (B, N)),
    "squeeze": lambda x: edges(x).unsqueeze(1).squeeze(1),
    "movedim": lambda x: edges(x).movedim(-1, 1),
    "slice of channels": lambda x: edges(x)[..., 2:8],
    "slice of places": lambda x: edges(x)[:, 1:, :2],
    "one neighbour": lambda x: edges(x)[:, :, 0],
    "gather of a gather": lambda x: edges(x)[torch.tensor([[0], [1]]), torch.tensor([[3, 1], [0, 0]])],
    "number": lambda x: 2 * edges(x) / 4,
    "per channel": lambda x: edges(x) * torch.arange(2.0 * C, dtype=torch.float64),
    "per cloud": lambda x: edges(x) / torch.tensor([2.0, 3.0], dtype=torch.float64).view(B, 1, 1, 1),
    "minus": lambda x: -edges(x) + edges(x, batch_index),
    "in place": lambda x: batch_index(x).sub_(x.unsqueeze(2)),
    "from other points": lambda x: flat(x) - x[:, :1].unsqueeze(2),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_structure_keeps_the_form(name):
    assert both(STRUCTURE[name], values(B, N, C)) is Gathered


def weights(*shape, seed=5):
    return torch.rand(*shape, generator=generator(seed), dtype=torch.float64)


REDUCED = {
    "sum": lambda x: edges(x).sum(2),
    "mean": lambda x: flat(x).mean(dim=2, keepdim=True),
    "weighted": lambda x: (edges(x) * weights(B, N, K, 1)).sum(dim=2),
    "weighted, channels first": lambda x: edges(x).permute(0, 3, 1, 2).mul(weights(B, 1, N, K)).sum(-1),
    "mapped": lambda x: F.linear(edges(x), WEIGHT).mean(2),
}


@pytest.mark.parametrize("name", REDUCED)
def test_sums_over_neighbours(name):
    both(REDUCED[name], values(B, N, C))


def spread(x, gather=flat):
    return gather(x) - x.unsqueeze(2)


SPREADS = {
    "of each cloud": lambda x: spread(x).reshape(B, -1).std(dim=-1, keepdim=True),
    "of each cloud, unbiased=False": lambda x: torch.var(spread(x).flatten(1), 1, unbiased=False),
    "of padded groups": lambda x: torch.std(spread(x, lambda x: batch_index(x, BALL)).reshape(B, -1), dim=-1),
    "of neighbours alone": lambda x: torch.var(torch.cat([spread(x), flat(x) + 5 * x.unsqueeze(2)], -1).reshape(B, -1), -1),
    "of all but the first axis": lambda x: spread(x).var((1, 2, 3), keepdim=True),
    "of everything": lambda x: spread(x).std(),
}


@pytest.mark.parametrize("name", SPREADS)
def test_spread(name, monkeypatch):
    both(SPREADS[name], values(B, N, C))
    both(SPREADS[name], values(B, N, C) + 100)
    monkeypatch.setattr(Gathered, "components", lambda self: pytest.fail("became an ordinary tensor"))
    SPREADS[name](QuaternionTensor(values(B, N, C), context=Context(get_rules("paper"))))


def test_merged_axes_that_are_not_for_a_spread():
    both(lambda x: spread(x).reshape(B, -1) * 2, values(B, N, C))
    both(lambda x: spread(x).reshape(B, -1).std(0), values(B, N, C))


def layers(count, seed=0):
    """1×1 convolutions with batch-norms, the same each time it is called."""
    torch.manual_seed(seed)
    widths = [2 * C, 8, 6, 7][: count + 1]
    return [(nn.Conv2d(a, b, 1, bias=False).double(), QuaternionBatchNorm(b).double()) for a, b in pairwise(widths)]


def shared_mlp(count, training=True, gather=flat, activation=F.relu, pool=lambda x: x.max(-1)[0]):
    def run(x):
        out = edges(x, gather).permute(0, 3, 1, 2)
        for convolution, norm in layers(count):
            out = activation(norm.train(training)(convolution(out)))
        return pool(out)

    return run


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("gather", [flat, lambda x: batch_index(x, BALL)], ids=["knn", "ball"])
def test_layers_on_neighbours(count, training, gather):
    both(shared_mlp(count, training, gather), values(B, N, C))


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: x.amax(dim=-1),
        lambda x: x.max(dim=3, keepdim=True).values,
        lambda x: F.max_pool2d(x, (1, K)).squeeze(-1),
        lambda x: F.adaptive_max_pool1d(x.permute(0, 2, 1, 3).reshape(B * N, -1, K), 1).view(B, N, -1),
        lambda x: x.mean(-1),
        lambda x: x.sum(-1),
        lambda x: torch.matmul(x.permute(0, 2, 1, 3), weights(B, N, K, 6)),
        lambda x: (x * weights(B, 1, N, K)).sum(-1),
        lambda x: x + x,
        lambda x: x[:, :3],
        lambda x: x.max(dim=2)[0],
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_what_may_follow(count, pool):
    both(shared_mlp(count, pool=pool), values(B, N, C))


def test_no_edge_is_stored():
    """The point of it all: convolutions, batch-norms, ReLUs and pooling in every spelling compute no tensor of edges."""
    seen = []
    for kind in (Gathered, Grouped, Repeated, Weighted):
        seen.append((kind, kind.components))
    with pytest.MonkeyPatch.context() as patch:
        for kind, _ in seen:
            patch.setattr(kind, "components", lambda self: pytest.fail("became an ordinary tensor"))
        context = Context(get_rules("paper"))
        x = QuaternionTensor(values(B, N, C), context=context)
        for count in (1, 2, 3):
            shared_mlp(count)(x).components
        context.finish()


def test_index_of_the_winner():
    for gather in (flat, lambda x: batch_index(x, BALL)):
        index = {}
        for fused in (True, False):
            x = QuaternionTensor(values(B, N, C), context=Context(get_rules("paper").with_options(fused=fused)))
            index[fused] = F.linear(edges(x, gather), WEIGHT).max(2).indices
        assert torch.equal(index[True], index[False])


def test_out_of_range():
    x = QuaternionTensor(values(B * N, C), context=Context(get_rules("paper")))
    for wrong in (B * N, -B * N - 1):
        with pytest.raises(IndexError, match="out of bounds"):
            x[torch.full((100,), wrong)]


def test_group_larger_than_the_cloud():
    idx = torch.randint(0, N, (B, 2, 3 * N), generator=generator(7))
    both(lambda x: F.linear(x[CLOUDS, idx] - x[:, :2].unsqueeze(2), WEIGHT[:, :C]).max(2)[0], values(B, N, C))


def test_repeated_points():
    """Equally long candidates have equal values, whichever wins."""
    cloud, out = values(B, 1, C).expand(3, B, N, C).contiguous(), []
    for fused in (True, False):
        context = Context(get_rules("paper").with_options(fused=fused))
        out.append(shared_mlp(2)(QuaternionTensor(cloud, context=context)).components)
    torch.testing.assert_close(*out, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("offset", [(0.0, 0.0), (10.0, 10.0), (100.0, 100.0), (100.0, -300.0)])
def test_far_from_the_origin(offset):
    """A product before the gather keeps the digits of a difference, also in float32 and if each cloud is elsewhere."""
    cloud = F.normalize(values(B, 200, 1), dim=0).float()
    cloud[0, :, :, 0] += torch.linspace(*offset, B)[:, None]
    idx = torch.cdist(cloud[..., 0].movedim(0, -1), cloud[..., 0].movedim(0, -1)).topk(8, largest=False)[1]
    weight = torch.randn(16, 1, generator=generator(2))

    def edge(x):
        return F.linear(x[CLOUDS, idx] - x.unsqueeze(2), weight.to(x.dtype))

    ours = edge(QuaternionTensor(cloud, context=Context(get_rules("paper")))).components.double()
    exact = edge(QuaternionTensor(cloud.double(), context=Context(get_rules("paper").with_options(fused=False)))).components
    scale = exact.square().sum(0).sqrt()
    error = (ours - exact).square().sum(0).sqrt() / scale.clamp(min=scale.median())
    assert float(error.max()) < 1e-4


def test_a_batch_norm_that_is_used_twice():
    """Running statistics follow the batches in their order, although both are measured late."""
    states = []
    for fused in (True, False):
        context = Context(get_rules("paper").with_options(fused=fused))
        x = QuaternionTensor(values(B, N, C), context=context)
        ((convolution, norm),) = layers(1)
        norm.train()
        first = norm(convolution(edges(x).permute(0, 3, 1, 2)))
        second = norm(convolution((3 * edges(x)).permute(0, 3, 1, 2)))
        out = F.relu(second).max(-1)[0] + F.relu(first).max(-1)[0]
        out.settle()
        context.finish()
        states.append((out.components, norm.running_power, norm.num_batches_tracked))
    for ours, theirs in zip(*states, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_statistic_that_nobody_asks_for():
    """The end of a pass measures what no layer has measured."""
    context = Context(get_rules("paper"))
    ((convolution, norm),) = layers(1)
    norm.train()(convolution(edges(QuaternionTensor(values(B, N, C), context=context)).permute(0, 3, 1, 2)))
    assert int(norm.num_batches_tracked) == 0
    context.finish()
    assert int(norm.num_batches_tracked) == 1
    assert not bool((norm.running_power == 1).any())


def residual(x, end, gather=flat, training=True):
    """Blocks with the activation behind the sum, and before the layer."""
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(a, 8, 1, bias=False).double() for a in (2 * C, 8, 8, 8)]
    norms = [QuaternionBatchNorm(8).double().train(training) for _ in range(4)]
    x = F.relu(norms[0](convolutions[0](edges(x, gather).permute(0, 3, 1, 2))))
    x = F.relu(norms[2](convolutions[2](F.relu(norms[1](convolutions[1](x))))) + x)
    return end(x - convolutions[3](F.relu(norms[3](x))))


ENDS = {
    "maximum": lambda x: x.max(-1)[0],
    "maximum and mean": lambda x: F.relu(x).max(-1)[0] + x.mean(-1),
    "twice": lambda x: (x + x).max(-1)[0],
    "other order": lambda x: x + x.transpose(2, 3).contiguous().transpose(2, 3),
    "in place": lambda x: x.add_(x).max(-1)[0],
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("gather", [flat, lambda x: batch_index(x, BALL)], ids=["knn", "ball"])
def test_residual_blocks(end, gather, monkeypatch):
    monkeypatch.setattr("reqnn.kernels.groups.ROWS", 7)
    for training in (True, False):
        both(lambda x: residual(x, ENDS[end], gather, training), values(B, N, C))
        out = []
        for fused in (True, False):
            context = Context(get_rules("paper").with_options(fused=fused))
            with torch.no_grad():
                out.append(residual(QuaternionTensor(values(B, N, C), context=context), ENDS[end], gather, training).components)
        torch.testing.assert_close(*out, rtol=1e-10, atol=1e-10)


def test_rows_are_computed_twice_at_most(monkeypatch):
    """Without gradients no layer is stored, until somebody asks for its rows again."""
    calls = []
    times = "reqnn.nn.grouped.times"
    monkeypatch.setattr(times, lambda rows, weight: calls.append(1) or rows @ weight.T)
    context, pool = Context(get_rules("paper")), lambda x: x.max(-1)[0].components
    with torch.no_grad():
        x = shared_mlp(3, training=False, pool=lambda x: x)(QuaternionTensor(values(B, N, C), context=context))
        assert pool(x).shape == (3, B, 7, N)
        assert len(calls) == 2
        assert torch.equal(pool(x), pool(x))
        assert len(calls) == 4


def test_the_source_of_deferred_layers_changes_in_place():
    """What waits for the memory, also behind a product and a sum, takes its values before."""
    rows = torch.randn(B, N, 3, C, generator=generator(0), dtype=torch.float64).movedim(2, 0)  # gathered without a copy

    def run(x):
        first = F.relu(flat(x) - x.unsqueeze(2))
        total = F.linear(first, WEIGHT[:C, :C]) + first
        view = x.transpose(1, 2)  # so that the memory itself is written to
        del first
        x.mul_(3)
        return total.max(2)[0] + view.transpose(1, 2)

    out = []
    for fused in (True, False):
        with torch.no_grad():
            out.append(
                run(QuaternionTensor(rows.clone(), context=Context(get_rules("paper").with_options(fused=fused)))).components
            )
    torch.testing.assert_close(*out, rtol=1e-10, atol=1e-10)
