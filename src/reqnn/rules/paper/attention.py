"""Extension: softmax attention. Scores Σ_c ⟨q_c, k_c⟩ are invariant, the values are quaternions, so the result rotates."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reqnn.errors import NoRuleError
from reqnn.rules.algebra.base import refuse_over_vectors
from reqnn.rules.algebra.products import matmul
from reqnn.rules.paper.base import paper
from reqnn.tensor import QuaternionTensor as Q

ROW = "Softmax attention"


@paper.rule("scaled_dot_product_attention", row=ROW, extension=True)
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(⟨q, k⟩ / √d)·v."""
    if enable_gqa:
        raise NoRuleError(
            "attention with fewer heads for keys than for queries; repeat the keys and values (repeat_interleave)"
        )
    if isinstance(query, Q) != isinstance(key, Q):
        raise NoRuleError("attention between quaternion and real features")
    scores = matmul(query, key.transpose(-2, -1)) if isinstance(query, Q) else query @ key.transpose(-2, -1)
    scores = scores * (scale if scale is not None else 1 / math.sqrt(query.shape[-1]))
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights = F.dropout(scores.softmax(-1), dropout_p, training=dropout_p > 0)
    return weights @ value


@paper.rule("multi_head_attention_forward", row=ROW, extension=True)
def multi_head_attention(
    query: Q,
    key: Q,
    value: Q,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    **named: Any,
) -> tuple[Any, Tensor | None]:
    """``nn.MultiheadAttention``: projections without bias; queries (L, B, E), as its functional form has them."""
    if bias_k is not None or bias_v is not None or add_zero_attn:
        raise NoRuleError("attention with learned extra keys is not equivariant; build it without bias_kv")
    for bias in (in_proj_bias, out_proj_bias):
        query.context.drop_bias(bias)
    layouts = [x.layout_on(-1) for x in (query, key, value)]
    if use_separate_proj_weight or in_proj_weight is None:
        given = [weight for weight in (q_proj_weight, k_proj_weight, v_proj_weight) if weight is not None]
        weights = [query.context.fit(weight, 1, layout) for weight, layout in zip(given, layouts, strict=True)]
    elif len(set(layouts)) > 1:
        raise NoRuleError("attention between coordinates and features by one projection")
    else:
        weights = list(query.context.fit(in_proj_weight, 1, layouts[0]).chunk(3))
    unbatched = query.rank == 2
    q, k, v = (
        _heads(_project(x.unsqueeze(1) if unbatched else x, w), num_heads)
        for x, w in zip((query, key, value), weights, strict=True)
    )
    scores = matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    if key_padding_mask is not None:
        key_padding_mask = key_padding_mask.reshape(-1, 1, 1, key_padding_mask.shape[-1])
    for mask in (attn_mask, key_padding_mask):
        if mask is not None:
            mask = mask.reshape(-1, num_heads, *mask.shape[1:]) if mask.dim() == 3 else mask
            scores = scores.masked_fill(mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    attention = scores.softmax(-1)
    mixed = F.dropout(attention, dropout_p, training) @ v
    out = _project(mixed.permute(2, 0, 1, 3).flatten(2), out_proj_weight)
    shown = (attention.mean(1) if average_attn_weights else attention) if need_weights else None
    if unbatched:
        return out.squeeze(1), None if shown is None else shown.squeeze(0)
    return out, shown


def _project(x: Any, weight: Tensor) -> Q:
    refuse_over_vectors(x, range(x.rank - 1), "the projection of an attention layer")
    return x.like(F.linear(x.components, weight))


def _heads(x: Q, heads: int) -> Q:
    """(L, B, E) → (B, heads, L, E / heads)."""
    return x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
