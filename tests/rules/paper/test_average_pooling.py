"""Average pooling and interpolation act on each part alike."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import nn

from equivariance import assert_equivariant, assert_gradients, cloud, draw, features, rotation_matrix, rotations, turned
from reqnn.errors import NoRuleError

AVERAGES = {
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), (2, 4, 6)),
    "nn.AvgPool1d": (nn.AvgPool1d(3, stride=2, padding=1, ceil_mode=True), (2, 4, 6)),
    "nn.AvgPool1d without batch": (nn.AvgPool1d(3), (4, 6)),
    "nn.AvgPool2d": (nn.AvgPool2d((2, 3), count_include_pad=False), (2, 4, 4, 6)),
    "nn.AvgPool3d": (nn.AvgPool3d(2), (2, 3, 2, 4, 2)),
    "nn.AdaptiveAvgPool1d": (nn.AdaptiveAvgPool1d(1), (2, 4, 6)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, output_size=4), (2, 4, 6)),
    "nn.AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d((1, None)), (2, 4, 4, 6)),
    "nn.AdaptiveAvgPool2d without batch": (nn.AdaptiveAvgPool2d(2), (4, 4, 6)),
    "nn.AdaptiveAvgPool3d": (nn.AdaptiveAvgPool3d(1), (2, 3, 2, 4, 2)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2), (2, 4, 6)),
    "interpolate linearly": (lambda x: F.interpolate(x, size=9, mode="linear", align_corners=True), (2, 4, 6)),
    "nn.Upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 4, 3, 2)),
}


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_on_each_part(name, dtype):
    operation, shape = AVERAGES[name]
    x = draw(0, *shape, dtype=dtype)
    torch.testing.assert_close(operation(x).components, torch.stack([operation(part) for part in x.components]))
    assert_equivariant(operation, x, rotation_matrix(1), tolerance=1e-10 if dtype == torch.float64 else 1e-5)


@given(features(least=2), rotations)
def test_equivariant(x, rotation):
    assert_equivariant(lambda x: (F.avg_pool1d(x, 2), F.adaptive_avg_pool1d(x, 1), x.mean(2)), x, rotation)


def test_the_original_needs_no_rule():
    x, rotation = torch.randn(2, 6, 4, dtype=torch.float64), rotation_matrix(1)
    torch.testing.assert_close(F.avg_pool1d(turned(x, rotation, 1), 2), turned(F.avg_pool1d(x, 2), rotation, 1))


def test_gradients():
    assert_gradients(lambda x: F.avg_pool1d(x, 2), 2, 3, 4)


def test_along_coordinates():
    with pytest.raises(NoRuleError, match="mix the coordinates"):
        F.avg_pool1d(cloud(0, 2, 5, 3), 3)
    with pytest.raises(NoRuleError, match="mix the coordinates"):
        F.interpolate(cloud(0, 2, 5, 3), scale_factor=2)
    assert F.avg_pool1d(cloud(0, 2, 6, 4, axis=1), 2).shape == (2, 6, 2)
