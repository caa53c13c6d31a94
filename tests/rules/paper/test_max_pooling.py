"""Table 1, "Max-pooling": the longest quaternion over an axis, over windows, element by element."""

import einops
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import nn

from equivariance import (
    assert_equivariant,
    assert_finite_gradients,
    assert_gradients,
    assert_not_equivariant,
    cloud,
    draw,
    features,
    gradient,
    rotation_matrix,
    rotations,
)
from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor


def longest(x, dim, keepdim=False):
    """The definition: f_v̂ with v̂ = argmax_v ‖f_v‖."""
    index = x.squared_norm().argmax(dim, keepdim=True)
    out = torch.take_along_dim(x.components, index[None], dim + 1 if dim >= 0 else dim)
    return out if keepdim else out.squeeze(dim + 1 if dim >= 0 else dim)


AXIS = {
    "max": (lambda x: x.max(2)[0], 2, False),
    "max values": (lambda x: torch.max(x, dim=-1).values, -1, False),
    "max keepdim": (lambda x: torch.max(x, 1, keepdim=True)[0], 1, True),
    "max positional": (lambda x: torch.max(x, 1, True)[0], 1, True),
    "max by axis": (lambda x: torch.max(x, axis=1, keepdims=True)[0], 1, True),
    "max unpacked": (lambda x: (lambda values, index: values)(*x.max(dim=0)), 0, False),
    "amax": (lambda x: x.amax(2), 2, False),
    "amax keepdim": (lambda x: torch.amax(x, dim=(1,), keepdim=True), 1, True),
    "topk": (lambda x: x.topk(1, dim=1)[0], 1, True),
    "sort": (lambda x: x.sort(dim=1, descending=True)[0][:, :1], 1, True),
    "max_pool1d of everything": (lambda x: F.max_pool1d(x, x.shape[-1]), -1, True),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 1), -1, True),
    "nn.AdaptiveMaxPool1d": (nn.AdaptiveMaxPool1d(1), -1, True),
    "einops.reduce": (lambda x: einops.reduce(x, "b c n -> b c", "max"), -1, False),
}


@pytest.mark.parametrize("name", AXIS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_over_an_axis(name, dtype):
    operation, dim, keepdim = AXIS[name]
    x = draw(0, 2, 4, 5, dtype=dtype)
    assert torch.equal(operation(x).components, longest(x, dim, keepdim))
    assert_equivariant(operation, x, rotation_matrix(1), tolerance=1e-10 if dtype == torch.float64 else 1e-5)


def test_indices():
    x = draw(0, 2, 4, 5)
    values, index = x.max(2)
    assert torch.equal(index, x.squared_norm().argmax(2))
    assert torch.equal(values.components, x.gather(2, index[..., None]).squeeze(-1).components)
    assert torch.equal(x.max(1, keepdim=True).indices, x.argmax(1, keepdim=True))
    assert torch.equal(torch.argmax(x, dim=1), x.max(1).indices)
    assert torch.equal(x.topk(2, dim=1).indices, x.squared_norm().topk(2, dim=1).indices)
    assert torch.equal(x.sort(dim=1).indices, x.squared_norm().argsort(dim=1))


def test_of_everything_and_shortest():
    x = draw(0, 2, 4, 5)
    norms = x.abs()
    torch.testing.assert_close(x.max().abs(), norms.max())
    torch.testing.assert_close(x.min().abs(), norms.min())
    torch.testing.assert_close(x.amax().abs(), norms.max())
    torch.testing.assert_close(x.amax((1, 2)).abs(), norms.amax((1, 2)))
    torch.testing.assert_close(x.amax(dim=(0, 2), keepdim=True).abs(), norms.amax((0, 2), keepdim=True))
    torch.testing.assert_close(x.min(1)[0].abs(), norms.min(1)[0])
    torch.testing.assert_close(x.topk(2, dim=1, largest=False)[0].abs(), norms.topk(2, dim=1, largest=False)[0])
    assert x.max().shape == ()


def test_element_by_element():
    """Appendix D: the longer of the two, channel by channel."""
    x, y = draw(0, 2, 4), draw(1, 4)
    longer = torch.where(x.abs() >= y.abs(), x.components, y.components[:, None])
    for result in (torch.maximum(x, y), torch.max(x, y), x.max(y), torch.max(x, other=y), torch.fmax(x, y)):
        assert torch.equal(result.components, longer)
    torch.testing.assert_close(torch.min(x, y).abs(), torch.minimum(x.abs(), y.abs()))
    assert_equivariant(lambda both: torch.maximum(*both), [x, y], rotation_matrix(1))


WINDOWS = {
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), (2, 4, 6)),
    "max_pool1d, stride": (lambda x: F.max_pool1d(x, 3, stride=1, padding=1), (2, 4, 6)),
    "max_pool1d, dilation": (lambda x: F.max_pool1d(x, 2, 1, 0, 2), (2, 4, 6)),
    "max_pool1d, ceil": (lambda x: F.max_pool1d(x, 4, ceil_mode=True), (2, 4, 6)),
    "nn.MaxPool1d": (nn.MaxPool1d(3, 2), (2, 4, 6)),
    "nn.MaxPool1d without batch": (nn.MaxPool1d(3, 2), (4, 6)),
    "nn.MaxPool2d": (nn.MaxPool2d((2, 3)), (2, 4, 4, 6)),
    "max_pool2d, keywords": (lambda x: F.max_pool2d(x, kernel_size=[1, x.size(3)]), (2, 4, 4, 6)),
    "nn.MaxPool2d, padding": (nn.MaxPool2d(3, stride=2, padding=1), (2, 4, 4, 6)),
    "nn.MaxPool3d": (nn.MaxPool3d(2), (2, 3, 2, 4, 2)),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 4), (2, 4, 6)),
    "nn.AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d((2, None)), (2, 4, 4, 6)),
    "nn.AdaptiveMaxPool2d(3)": (nn.AdaptiveMaxPool2d(3), (2, 4, 4, 6)),
    "nn.AdaptiveMaxPool3d": (nn.AdaptiveMaxPool3d(1), (2, 3, 2, 4, 2)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_over_windows(name):
    """The norms of the result are the pooled norms, and each result is one of the inputs."""
    operation, shape = WINDOWS[name]
    x = draw(0, *shape)
    out = operation(x)
    torch.testing.assert_close(out.squared_norm(), operation(x.squared_norm()))
    candidates = x.components.flatten(1).T
    assert all((candidates == row).all(1).any() for row in out.components.flatten(1).T)
    assert_equivariant(operation, x, rotation_matrix(1))


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: F.max_pool1d(x, 2, return_indices=True),
        nn.MaxPool1d(2, return_indices=True),
        lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True),
        nn.AdaptiveMaxPool1d(3, return_indices=True),
    ],
)
def test_windows_with_indices(operation):
    x = draw(0, 2, 4, 6)
    values, index = operation(x)
    assert torch.equal(values.components, x.gather(2, index).components)
    assert torch.equal(index, operation(x.squared_norm())[1])


@given(features(least=2), rotations)
def test_equivariant(x, rotation):
    def pool(x):
        return (x.max(2)[0], x.amax(1), F.max_pool1d(x, 2), torch.maximum(x, x[:1]), x.max(1)[0].max(1)[0])

    assert_equivariant(pool, x, rotation)


@given(rotations)
def test_one_point_one_channel(rotation):
    assert_equivariant(lambda x: (x.max(2)[0], F.adaptive_max_pool1d(x, 1)), draw(0, 1, 1, 1), rotation)


def test_zeros_and_duplicates():
    zeros = QuaternionTensor(torch.zeros(3, 2, 4))
    assert zeros.max(1)[0].components.eq(0).all()
    x = draw(0, 2, 4)
    torch.testing.assert_close(torch.cat([x, x], 1).max(1)[0].components, x.max(1)[0].components, rtol=1e-14, atol=0)


@pytest.mark.parametrize("original", [lambda x: x.amax(2), lambda x: F.max_pool1d(x, 2), lambda x: torch.maximum(x, x[:1])])
def test_the_original_fails(original):
    assert_not_equivariant(original)


@pytest.mark.parametrize("name", ["max", "amax", "topk", "adaptive_max_pool1d"])
def test_gradients(name):
    assert_gradients(AXIS[name][0], 2, 3, 4)
    assert_finite_gradients(AXIS[name][0], 2, 3, 4)


def test_the_gradient_goes_to_the_winner():
    components = draw(0, 2, 5).components
    winners = F.one_hot(QuaternionTensor(components).squared_norm().argmax(1), 5).bool()
    torch.testing.assert_close(gradient(lambda x: x.max(1)[0], components), 2 * components * winners)
    for function in (lambda x: torch.maximum(x, x * 1), lambda x: F.max_pool1d(x, 2)):
        assert_finite_gradients(function, 2, 4)


COORDINATES = {
    "max": lambda x: x.max(-1),
    "max of all": lambda x: x.max(),
    "amax": lambda x: x.amax((1, 2)),
    "argmax": lambda x: x.argmax(-1),
    "argmax of all": lambda x: x.argmax(),
    "topk": lambda x: x.topk(1),
    "sort": lambda x: x.sort(),
    "max_pool1d": lambda x: F.max_pool1d(x, 3),
}


@pytest.mark.parametrize("name", COORDINATES)
def test_along_coordinates(name):
    with pytest.raises(NoRuleError, match="mix the coordinates"):
        COORDINATES[name](cloud(0, 2, 5, 3))


def test_points_with_coordinates():
    x = cloud(0, 2, 5, 3)
    assert x.max(1)[0].shape == (2, 3)
    assert x.max(1, keepdim=True)[0].shape == (2, 1, 3)
    assert F.max_pool1d(x.transpose(1, 2), 5).shape == (2, 3, 1)


def test_real_numbers_are_not_comparable():
    for operation in (torch.maximum, torch.max):
        with pytest.raises(NoRuleError, match="real numbers"):
            operation(draw(0, 2, 4), torch.zeros(2, 4).double())
