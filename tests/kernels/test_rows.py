"""Batch-norm, ReLU, Quaternion2Real and pooling in one pass, against plain torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equivariance import draw, generator
from reqnn.kernels import rows, tied
from reqnn.kernels.power import Power
from reqnn.nn.batch_norm import QuaternionBatchNorm, normalize_quaternions
from reqnn.rules.paper.relu import quaternion_relu
from reqnn.tensor import QuaternionTensor

shapes = given(
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(1, 40)),
    scale=st.sampled_from([1e-2, 1.0, 30.0]),
    c=st.sampled_from([0.0, 0.7, 1.0]),
)


def plain(x, power, c, reference):
    mean = x.square().sum(-2).flatten(0, -2).mean(0) if power is None else power.mean
    return reference(x, (mean + 1e-5).rsqrt(), c)


def draw_rows(seed, shape, scale, dtype=torch.float64):
    *outer, channels = shape
    x = torch.randn(*outer, 3, channels, generator=generator(seed), dtype=torch.float64) * scale
    x[0, 0, 0] = 0  # a place of zeros
    return x.to(dtype)


@pytest.mark.parametrize("name", ["relu", "to_real"])
@shapes
def test_values_and_gradients(name, seed, shape, scale, c):
    reference = getattr(rows, f"{name}_reference")
    x, own = draw_rows(seed, shape, scale), seed % 2 == 0
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    count = x.shape[:-2].numel()
    mean = (rows.total_power(x) / count if own else torch.rand(shape[-1], generator=generator(seed), dtype=x.dtype)).clone()
    mean_a, mean_b = mean.clone().requires_grad_(not own), mean.clone().requires_grad_(not own)
    fast = getattr(rows, name)(a, Power(mean_a, 1e-5, count if own else 0), c)
    slow = plain(b, None if own else Power(mean_b, 1e-5), c, reference)
    torch.testing.assert_close(fast, slow, rtol=1e-11, atol=1e-12)
    weights = torch.randn(fast.shape, generator=generator(seed + 1), dtype=x.dtype)
    (fast * weights).sum().backward()
    (slow * weights).sum().backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-10)
    if not own:
        torch.testing.assert_close(mean_a.grad, mean_b.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["relu", "to_real"])
@pytest.mark.parametrize("own", [True, False])
def test_gradients_of_gradients(name, own):
    x = draw_rows(3, (2, 3, 2, 4), 1.0)
    x[0, 0, 0] = 1
    mean = (rows.total_power(x) / 12) if own else torch.rand(4, dtype=torch.float64)
    power = Power(mean, 1e-5, 12 if own else 0)
    assert torch.autograd.gradgradcheck(lambda v: getattr(rows, name)(v, power, 0.9), (x.requires_grad_(),))


def test_a_gradient_that_is_a_view_is_not_written_to():
    """That of a sum over places is one number for all of them; the loop works in its own copy."""
    x = draw_rows(4, (2, 3, 5), 1.0)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    power, seen = Power(torch.rand(5, dtype=x.dtype), 1e-5), []
    out = rows.relu(a, power, 0.9)
    out.register_hook(lambda gradient: seen.append((gradient, gradient.clone())))
    out.sum((0, 1)).square().sum().backward()
    rows.relu_reference(b, power.scale(), 0.9).sum((0, 1)).square().sum().backward()
    assert seen[0][0].stride(0) == 0
    assert torch.equal(*seen[0])
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-11, atol=1e-11)


@shapes
def test_the_longest(seed, shape, scale, c):
    axis = seed % 3
    x = draw_rows(seed, shape, scale)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    count = x.shape[:-2].numel()
    out, power, winner = rows.longest(a, axis, Power(rows.total_power(x) / count, 1e-5, count))
    index = b.square().sum(-2).argmax(axis)
    expected = b.gather(axis, index.unsqueeze(axis).unsqueeze(-2).expand(*b.shape[:axis], 1, *b.shape[axis + 1 :]))
    assert torch.equal(winner.long(), index)
    assert torch.equal(out, expected.squeeze(axis))
    mean = b.square().sum(-2).flatten(0, -2).mean(0)
    torch.testing.assert_close(power.mean, mean)
    weights = torch.randn(out.shape, generator=generator(seed + 1), dtype=x.dtype)
    ((out * weights).sum() + (power.mean * weights.flatten(0, -2).sum(0)).sum()).backward()
    ((expected.squeeze(axis) * weights).sum() + (mean * weights.flatten(0, -2).sum(0)).sum()).backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("axis", [0, 1])
def test_ties_for_the_longest(axis):
    """Two vectors of one length, or three that cancel: values, gradients and gradients of gradients are those of the twin."""
    x = draw_rows(0, (3, 4, 5), 1.0)
    some = x.select(axis, 0) * 9
    for place, factor in enumerate(torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]], dtype=x.dtype)):
        x.select(axis, place).copy_(some * factor[:, None])
    x.select(axis, 0)[..., 0] = -(x.select(axis, 1) + x.select(axis, 2))[..., 0]  # here only two are left
    power = Power(torch.ones(5, dtype=x.dtype), 1e-5)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, _, winner = rows.longest(a, axis, power)
    expected, index = tied.longest(b.movedim(-2, 0), axis)
    assert torch.equal(winner.long(), index)
    torch.testing.assert_close(out, expected.movedim(0, -2), rtol=1e-13, atol=1e-13)
    weights = torch.randn(out.shape, generator=generator(1), dtype=x.dtype)
    (out * weights).sum().backward()
    (expected.movedim(0, -2) * weights).sum().backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-11, atol=1e-11)
    members = x.square().sum(-2)
    shared = members >= members.amax(axis, keepdim=True) * (1 - 1e-12)
    assert torch.equal((a.grad.square().sum(-2) > 0) & shared, a.grad.square().sum(-2) > 0)


def test_statistics_of_float32_are_added_up_in_float64():
    x = torch.full((200_000, 3, 2), 0.1)
    assert (rows.total_power(x) / len(x) / (3 * 0.1**2) - 1).abs().max() < 1e-6


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 5), (2, 6, 5, 7)])
@pytest.mark.parametrize("training", [True, False])
def test_a_layer_is_the_same_with_and_without_loops(shape, training, monkeypatch):
    """Batch-norm, ReLU, pooling behind one another, deferred and step by step, values and gradients."""

    def run(components):
        x = QuaternionTensor(components)
        norm = QuaternionBatchNorm(6).double().train(training)
        norm.running_power.fill_(0.8)
        out = quaternion_relu(norm(x))
        assert (out.deferred is not None) == rows.serves(components)
        if len(shape) > 2:
            out = out.max(-1)[0]
        return out, norm.running_power

    x = draw(0, *shape).components
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    fast, running = run(a)
    monkeypatch.setattr("reqnn.kernels.run.enabled", False)
    slow, expected = run(b)
    torch.testing.assert_close(fast.components, slow.components, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(running, expected)
    (fast.components**3).sum().backward()
    (slow.components**3).sum().backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-10)


def test_quaternion_to_real_of_a_deferred_layer_is_one_pass():
    x = draw(1, 3, 4, 5)
    out = quaternion_relu(QuaternionBatchNorm(4).double()(x))
    norms = out.squared_norm()
    assert out._components is None, "the features themselves were not needed"
    torch.testing.assert_close(norms, out.components.square().sum(0))


def test_numbers_that_someone_waits_for_are_not_overwritten():
    """In-place operations on the input of a batch-norm, with a view alive, reach memory that its output is computed from."""
    x = draw(2, 3, 4, 5)
    view = x.transpose(1, 2)
    expected = normalize_quaternions(draw(2, 3, 4, 5), None, True, 0.1, 1e-5).components
    out = normalize_quaternions(x, None, True, 0.1, 1e-5)
    x.mul_(2)
    torch.testing.assert_close(out.components, expected)
    torch.testing.assert_close(view.components, 2 * draw(2, 3, 4, 5).components.transpose(2, 3))


def test_relu_in_place_stays_deferred():
    out = QuaternionBatchNorm(4).double()(draw(3, 2, 4, 5))
    kept = torch.relu_(out)
    assert kept is out
    assert out.deferred is not None
    assert out.deferred.c == 1.0


@pytest.mark.parametrize("change", ["multiplied", "written by index"])
def test_what_changed_in_place_behind_a_batch_norm_is_not_computed_anew(change):
    """The next layer goes by the changed numbers, not by the ones that the batch-norm was given."""

    def run(changed):
        y = QuaternionBatchNorm(4).double().eval()(draw(4, 2, 4, 5))
        y = changed(y)
        return quaternion_relu(y).components, y.max(-1)[0].components

    def in_place(y):
        view = y.transpose(1, 2)  # whoever looks at the same memory sees the change
        if change == "multiplied":
            y.mul_(3.0)
        else:
            y[:, 0] = 0
        assert torch.equal(view.components, y.components.transpose(2, 3))
        return y

    def new(y):
        if change == "multiplied":
            return y * 3.0
        return torch.cat([y[:, :1] * 0.0, y[:, 1:]], dim=1)

    for mine, expected in zip(run(in_place), run(new), strict=True):
        torch.testing.assert_close(mine, expected)


def test_index_writing_into_what_someone_waits_for():
    x = draw(5, 3, 4, 5)
    expected = normalize_quaternions(draw(5, 3, 4, 5), None, True, 0.1, 1e-5).components
    out = normalize_quaternions(x, None, True, 0.1, 1e-5)
    x[:, 0] = 0
    torch.testing.assert_close(out.components, expected)


def test_the_second_gradient_of_the_longest():
    x = torch.randn(2, 3, 4, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    count = x.numel() // 6

    def longest(a):
        out, power, _ = rows.longest(a, 2, Power(rows.total_power(a) / count, 1e-5, count))
        return out, power.mean

    assert torch.autograd.gradgradcheck(longest, (x,))
