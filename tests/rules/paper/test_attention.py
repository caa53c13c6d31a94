"""Extension: softmax attention; invariant scores, quaternion values."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import nn

from equivariance import (
    assert_equivariant,
    assert_finite_gradients,
    assert_gradients,
    cloud,
    draw,
    equivariance_error,
    features,
    rotation_matrix,
    rotations,
    strict,
)
from reqnn.errors import NoRuleError
from reqnn.tensor import QuaternionTensor


def attention(**options):
    torch.manual_seed(0)
    return nn.MultiheadAttention(4, 2, bias=False, dtype=torch.float64, **options)


def reference(q, k, v, mask=None):
    """softmax(Σ_c ⟨q_c, k_c⟩ / √d)·v on components."""
    scores = torch.einsum("h...nc,h...mc->...nm", q.components, k.components) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ v.components


def test_scaled_dot_product():
    q, k, v = draw(0, 2, 3, 4), draw(1, 2, 5, 4), draw(2, 2, 5, 6)
    torch.testing.assert_close(F.scaled_dot_product_attention(q, k, v).components, reference(q, k, v))
    real = torch.ones(2, 5, 6).double()
    torch.testing.assert_close(F.scaled_dot_product_attention(q, k, real), torch.ones(2, 3, 6).double())


def test_masks():
    q, mask = draw(0, 2, 5, 4), torch.ones(5, 5).tril().bool()
    bias = torch.zeros(5, 5).double().masked_fill(~mask, float("-inf"))
    expected = reference(q, q, q, bias)
    for options in ({"is_causal": True}, {"attn_mask": mask}, {"attn_mask": bias}):
        torch.testing.assert_close(F.scaled_dot_product_attention(q, q, q, **options).components, expected)
    scaled = F.scaled_dot_product_attention(q, q, q, scale=1.0).components
    torch.testing.assert_close(scaled, reference(q * 2**0.5, q * 2**0.5, q))
    torch.manual_seed(0)
    assert not torch.equal(F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).components, reference(q, q, q))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"kdim": 6, "vdim": 5}, {"dropout": 0.5}])
def test_multihead(options, dtype):
    layer = attention(**options).to(dtype).eval()
    q = draw(0, 3, 2, 4, dtype=dtype)
    k, v = draw(1, 5, 2, layer.kdim, dtype=dtype), draw(2, 5, 2, layer.vdim, dtype=dtype)
    if layer.batch_first:
        q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
    out, weights = layer(q, k, v)
    assert out.shape == q.shape
    assert weights.shape == (2, 3, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, dtype=dtype))
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    assert_equivariant(lambda both: layer(*both), [q, k, v], rotation_matrix(1), tolerance=tolerance)
    assert layer(q, k, v, need_weights=False)[1] is None
    assert layer(q, k, v, average_attn_weights=False)[1].shape == (2, 2, 3, 5)


def test_multihead_against_the_real_one():
    """With one imaginary part filled, the quaternion layer is the real layer on that part."""
    layer, x = attention().eval(), torch.randn(5, 2, 4, dtype=torch.float64)
    q = QuaternionTensor(torch.stack([x, 0 * x, 0 * x]))
    mask = torch.ones(5, 5).triu(1).bool()
    padding = torch.tensor([[False] * 4 + [True], [False] * 5])
    cases = ({}, {"attn_mask": mask}, {"key_padding_mask": padding}, {"attn_mask": mask.expand(4, 5, 5)})
    for options in cases:
        out, weights = layer(q, q, q, **options)
        expected, expected_weights = layer(x, x, x, **options)
        torch.testing.assert_close(out.components[0], expected)
        torch.testing.assert_close(weights, expected_weights)


def test_multihead_without_batch():
    layer, x = attention().eval(), torch.randn(5, 4, dtype=torch.float64)
    q = QuaternionTensor(torch.stack([x, 0 * x, 0 * x]))
    padding = torch.tensor([False] * 4 + [True])
    for options in ({}, {"key_padding_mask": padding}, {"attn_mask": torch.ones(5, 5).triu(1).bool()}):
        out, weights = layer(q, q, q, **options)
        expected, expected_weights = layer(x, x, x, **options)
        torch.testing.assert_close(out.components[0], expected)
        torch.testing.assert_close(weights, expected_weights)


@given(features(), rotations)
def test_equivariant(x, rotation):
    assert_equivariant(lambda x: F.scaled_dot_product_attention(x, x, x), x, rotation)


def test_the_original_fails():
    """Real attention with its projections on 3·C channels."""
    layer = nn.MultiheadAttention(6, 2, dtype=torch.float64)
    x = torch.randn(5, 2, 6, dtype=torch.float64)
    assert equivariance_error(lambda x: layer(x, x, x)[0], x, rotation_matrix(1), axis=2) > 1e-3


def test_gradients():
    layer = attention()
    assert_gradients(lambda x: layer(x, x, x), 3, 2, 4)
    assert_finite_gradients(lambda x: layer(x, x, x), 3, 2, 4)
    assert_finite_gradients(lambda x: F.scaled_dot_product_attention(x, x, x), 3, 2, 4)


@pytest.mark.parametrize("options", [{"bias": True}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_fixed_directions_are_refused(options):
    layer = nn.MultiheadAttention(4, 2, dtype=torch.float64, **{"bias": False, **options})
    with pytest.raises(NoRuleError):
        layer(*[draw(0, 3, 2, 4)] * 3)


def test_kinds_do_not_mix():
    with pytest.raises(NoRuleError, match="between quaternion and real"):
        F.scaled_dot_product_attention(draw(0, 2, 3, 4), torch.ones(2, 3, 4).double(), draw(0, 2, 3, 4))


def test_raw_coordinates_are_refused():
    layer = nn.MultiheadAttention(3, 1, bias=False, dtype=torch.float64)
    with pytest.raises(NoRuleError, match="coordinates"):
        layer(*[cloud(0, 5, 2, 3)] * 3)


def test_strict_refuses():
    x = strict(draw(0, 2, 3, 4))
    with pytest.raises(NoRuleError, match="strict=True refuses"):
        F.scaled_dot_product_attention(x, x, x)
