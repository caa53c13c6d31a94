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
from reqnn.rules.registry import arguments
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
        x = query if isinstance(query, Q) else key
        _become_real(x, x.source or x.fed_by)
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
def multi_head_attention(*args: Any, **kwargs: Any) -> tuple[Any, Tensor | None]:
    """``nn.MultiheadAttention``: projections without bias; queries (L, B, E), as its functional form has them."""
    call = arguments(F.multi_head_attention_forward, args, kwargs)
    query, key, value = call.query, call.key, call.value
    mixed = [x for x in (query, key, value) if isinstance(x, Q)]
    if len(mixed) < 3:
        plan = mixed[0].context.plan
        _become_real(mixed[0], None if plan is None else plan.layer())
    if call.bias_k is not None or call.bias_v is not None or call.add_zero_attn:
        raise NoRuleError("attention with learned extra keys is not equivariant; build it without bias_kv")
    for bias in (call.in_proj_bias, call.out_proj_bias):
        query.context.drop_bias(bias)
    layouts = [x.layout_on(-1) for x in (query, key, value)]
    if call.use_separate_proj_weight or call.in_proj_weight is None:
        given = [weight for weight in (call.q_proj_weight, call.k_proj_weight, call.v_proj_weight) if weight is not None]
        weights = [query.context.fit(weight, 1, layout) for weight, layout in zip(given, layouts, strict=True)]
    elif len(set(layouts)) > 1:
        raise NoRuleError("attention between coordinates and features by one projection")
    else:
        weights = list(query.context.fit(call.in_proj_weight, 1, layouts[0]).chunk(3))
    unbatched, heads = query.rank == 2, call.num_heads
    q, k, v = (  # (B, heads, L, E / heads)
        _project(x.unsqueeze(1) if unbatched else x, w).unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
        for x, w in zip((query, key, value), weights, strict=True)
    )
    scores = matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    padding = call.key_padding_mask
    padding = None if padding is None else padding.reshape(-1, 1, 1, padding.shape[-1])
    for mask in (call.attn_mask, padding):
        if mask is not None:
            mask = mask.reshape(-1, heads, *mask.shape[1:]) if mask.dim() == 3 else mask
            scores = scores.masked_fill(mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    attention = scores.softmax(-1)
    found = F.dropout(attention, call.dropout_p, call.training) @ v
    out = _project(found.permute(2, 0, 1, 3).flatten(2), call.out_proj_weight)
    shown = (attention.mean(1) if call.average_attn_weights else attention) if call.need_weights else None
    if unbatched:
        return out.squeeze(1), None if shown is None else shown.squeeze(0)
    return out, shown


def _become_real(x: Q, layer: str | None) -> None:
    """Learned queries, or invariants, meet quaternion features: these become real before a layer, as heads do."""
    if x.context.plan is not None and layer:
        x.context.plan.real_before(layer, "attention")
    raise NoRuleError("attention between quaternion and real features, such as learned queries")


def _project(x: Any, weight: Tensor) -> Q:
    refuse_over_vectors(x, range(x.rank - 1), "the projection of an attention layer")
    return x.like(F.linear(x.components, weight))
