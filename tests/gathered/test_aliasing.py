"""In-place changes of what was gathered, of views, and of gathered features themselves; modes of autograd."""

import pytest
import torch
import torch.nn.functional as F

from reqnn.rules import get_rules
from reqnn.tensor import Context, QuaternionTensor

B, N, C, K = 2, 8, 5, 4
IDX = torch.randint(0, N, (B, N, K), generator=torch.Generator().manual_seed(0))
CLOUDS = torch.arange(B).view(-1, 1, 1)


def tensor(fused, requires_grad=False):
    values = torch.randn(3, B, N, C, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    leaf = values.requires_grad_(requires_grad)
    context = Context(get_rules("paper").with_options(fused=fused))
    return leaf, QuaternionTensor(leaf * 1.0, context=context)


def same(function):
    """What a function of a tensor returns, on gathered storage and on ordinary tensors."""
    found = []
    for fused in (True, False):
        out = function(tensor(fused)[1])
        found.append([x.components for x in (out if isinstance(out, tuple) else (out,))])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_source_changed_after_a_gather():
    def run(x):
        neighbours = x[CLOUDS, IDX]
        x.mul_(2.0)
        return neighbours, x

    same(run)


def test_source_changed_while_a_view_is_alive():
    def run(x):
        view = x.view(B * N, C)
        neighbours = x[CLOUDS, IDX]
        x.mul_(2.0)
        return neighbours, view, x

    same(run)


def test_view_changed_after_a_gather():
    def run(x):
        view = x.view(B * N, C)
        neighbours, difference = x[CLOUDS, IDX], x[CLOUDS, IDX] - x.unsqueeze(2)
        view.add_(view)
        return neighbours, difference, x

    same(run)


def test_written_into_after_a_gather():
    def run(x):
        difference = x[CLOUDS, IDX] - x.unsqueeze(2)
        x[:, 0] = 0
        return difference, x

    same(run)


def test_written_into_a_repeat():
    def run(x):
        copies = x.view(B, N, 1, C).repeat(1, 1, K, 1)
        copies[:, :, 0] = 0
        return copies, x

    same(run)


def test_source_changed_after_a_repeat():
    def run(x):
        copies = x.view(B, N, 1, C).repeat(1, 1, K, 1)
        x.mul_(3.0)
        return copies, copies - x.unsqueeze(2)

    same(run)


def test_gathered_features_changed_under_a_view():
    def run(x):
        neighbours = x[CLOUDS, IDX]
        view = neighbours.permute(0, 3, 1, 2)
        neighbours -= x.unsqueeze(2)
        return neighbours, view

    same(run)


def test_view_of_gathered_features_changed():
    def run(x):
        neighbours = x[CLOUDS, IDX]
        view = neighbours.transpose(1, 2)
        view.mul_(2.0)
        return neighbours, view

    same(run)


def test_slice_of_gathered_features_written():
    def run(x):
        neighbours = x[CLOUDS, IDX]
        part = neighbours[..., :2]
        neighbours[:, :, 0] = 0
        return neighbours, part

    same(run)


def test_index_changed_after_a_gather():
    def run(x):
        index = IDX.clone()
        neighbours = x[CLOUDS, index]
        index.zero_()
        return neighbours

    same(run)


def test_in_place_activation_of_pending_features():
    weight = torch.randn(6, C, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def run(x):
        mapped = F.linear(x[CLOUDS, IDX] - x.unsqueeze(2), weight)
        kept = mapped.clone()
        F.relu(mapped, inplace=True)
        return mapped, kept, mapped.max(2)[0]

    same(run)


def gradients(function):
    found = []
    for fused in (True, False):
        leaf, x = tensor(fused, requires_grad=True)
        out = function(x)
        found.append(torch.autograd.grad(out.components.square().sum(), leaf, allow_unused=True)[0])
    ours, theirs = found
    if theirs is None:
        assert ours is None
    else:
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_detached_centres():
    gradients(lambda x: (x[CLOUDS, IDX] - x.detach().unsqueeze(2)).max(2)[0])


def test_looked_at_without_gradients():
    """Components that are first asked for under no_grad keep their gradient."""

    def run(x):
        difference = x[CLOUDS, IDX] - x.unsqueeze(2)
        with torch.no_grad():
            assert bool((difference.norm(dim=-1) >= 0).all())
        return difference.max(2)[0]

    gradients(run)


def test_computed_without_gradients():
    """What was computed under no_grad has no gradient, also if it is put off."""
    weight = torch.randn(6, C, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def run(x):
        with torch.no_grad():
            frozen = F.relu(F.linear(x[CLOUDS, IDX] - x.unsqueeze(2), weight))
        return frozen.max(2)[0] + F.linear(x, weight)

    gradients(run)


def test_gathered_without_gradients_first():
    """What was gathered under no_grad is not what is gathered later from the same memory."""

    def run(x):
        with torch.no_grad():
            assert (x[CLOUDS, IDX] - x.unsqueeze(2)).shape == (B, N, K, C)
        return (x[CLOUDS, IDX] - x.unsqueeze(2)).max(2)[0]

    gradients(run)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes(mode):
    def run(x):
        with mode():
            return (x[CLOUDS, IDX] - x.unsqueeze(2)).max(2)[0]

    same(run)
