# SPDX-License-Identifier: Apache-2.0
"""Functional room: scaled dot-product attention: one op, or other public functions where a mask or dropout takes part."""
import math

from ... import _core
from ...framework.dtype import dtype_name

__all__ = ["scaled_dot_product_attention"]

_LOWEST = -3.0e38  # below every score, and still finite: exp of it minus any maximum is 0, never NaN


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                 training=True, backend=None, scale=None, enable_gqa=True, name=None):
    """softmax(query key' * scale + mask) value over [batch, length, heads, head_dim] (or without batch).

    A bool ``attn_mask`` selects (True takes part): a masked key cannot leak, and a row with every key masked
    gives 0 with finite gradients. Fewer key heads than query heads are repeated with ``enable_gqa``.
    """
    import yuloh

    from . import common
    if len(query.shape) not in (3, 4):
        raise ValueError(f"scaled_dot_product_attention: query must have 3 or 4 dimensions, got shape "
                         f"{list(query.shape)}.")
    single = len(query.shape) == 3
    if single:
        query, key, value = (yuloh.unsqueeze(t, 0) for t in (query, key, value))
    if key.shape[2] != query.shape[2]:
        key, value = (_repeat_heads(t, query.shape[2], enable_gqa) for t in (key, value))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    if attn_mask is None and not (dropout_p and training) and 0 not in key.shape:
        out = _core.ops.scaled_dot_product_attention(query, key, value, factor, is_causal)[0]
        return yuloh.squeeze(out, 0) if single else out
    q, k, v = (yuloh.transpose(t, [0, 2, 1, 3]) for t in (query, key, value))
    if attn_mask is not None and dtype_name(attn_mask.dtype) == "bool":
        # 0 * NaN is NaN: what a key holds that no query may see must not reach the products or their gradients.
        seen = yuloh.swapaxes(yuloh.any(attn_mask, -2, True), -1, -2)
        k, v = (yuloh.where(seen, t, 0.0) for t in (k, v))
    scores = yuloh.matmul(q * factor, k, transpose_y=True)
    allowed = None
    if is_causal:
        rows, columns = scores.shape[-2:]
        row = yuloh.unsqueeze(_core.ops.iota([rows], 0, "int64"), 1)
        allowed = _core.ops.iota([columns], 0, "int64") <= row
    if attn_mask is not None:
        if dtype_name(attn_mask.dtype) == "bool":
            allowed = attn_mask if allowed is None else yuloh.logical_and(allowed, attn_mask)
        else:
            scores = scores + attn_mask.astype(scores.dtype)
    if allowed is not None:
        scores = yuloh.where(allowed, scores, yuloh.full_like(scores, _LOWEST))
    weights = _core.ops.softmax(scores, -1)
    if allowed is not None:
        weights = yuloh.where(allowed, weights, yuloh.zeros_like(weights))
    if dropout_p:
        weights = common.dropout(weights, dropout_p, training=training)
    out = yuloh.transpose(yuloh.matmul(weights, v), [0, 2, 1, 3])
    return yuloh.squeeze(out, 0) if single else out


def _repeat_heads(x, heads, allowed):
    """[batch, length, h, d] with each head repeated so that there are ``heads``."""
    import yuloh
    b, n, h, d = x.shape
    if not allowed or heads % h:
        raise ValueError(f"scaled_dot_product_attention: got {h} key heads for {heads} query heads; expected "
                         "a divisor.")
    wide = yuloh.expand(yuloh.unsqueeze(x, 3), [b, n, h, heads // h, d])
    return wide.reshape([b, n, heads, d])
