# SPDX-License-Identifier: Apache-2.0
"""Mixed-precision room: which ops compute in half precision (white) and which in float32 (black), by row
name.

Ops in neither list take what they are given. The choice is Paddle's; its old op names are understood too.
"""

__all__ = ["BLACK", "WHITE", "black_list", "row_name", "white_list"]

# Contractions: most of the time is theirs, and they add up in float32 whatever their inputs are.
WHITE = frozenset({"matmul", "conv", "conv_transpose", "einsum", "linear", "scaled_dot_product_attention"})

# Sums, exponentials and powers, whose results leave the range or lose the digits of half precision.
BLACK = frozenset({"acos", "asin", "atanh", "binary_cross_entropy", "binary_cross_entropy_with_logits",
                   "cosh", "cross_entropy", "cumprod", "cumsum", "dist", "embedding", "erfinv", "exp",
                   "expm1", "group_norm", "interpolate", "kl_div", "layer_norm", "log", "log10", "log1p",
                   "log2", "log_softmax", "logsumexp", "mean", "nll_loss", "norm2", "p_norm", "pow", "prod",
                   "reciprocal", "rms_norm", "rsqrt", "scatter", "sinh", "smooth_l1_loss", "softmax",
                   "softplus", "square", "squared_l2_norm", "std", "sum", "tan", "tanhshrink", "var",})
# Paddle lets losses be half precision at O2; here they keep their digits.
BLACK_O2 = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy",
                      "embedding", "interpolate", "kl_div", "nll_loss", "scatter"})

_ALIASES = {"conv1d": "conv", "conv2d": "conv", "conv3d": "conv", "depthwise_conv2d": "conv",
            "conv2d_transpose": "conv_transpose", "conv1d_transpose": "conv_transpose",
            "conv3d_transpose": "conv_transpose", "matmul_v2": "matmul", "mul": "matmul",
            "linear_v2": "matmul", "bmm": "matmul", "mm": "matmul",
            "flash_attn": "scaled_dot_product_attention", "elementwise_add": "add",
            "elementwise_sub": "subtract", "elementwise_mul": "multiply", "elementwise_div": "divide",
            "elementwise_pow": "pow", "reduce_mean": "mean", "reduce_sum": "sum", "reduce_prod": "prod",
            "softmax_with_cross_entropy": "cross_entropy", "cross_entropy2": "cross_entropy",
            "lookup_table": "embedding", "lookup_table_v2": "embedding", "pnorm": "p_norm",
            "huber_loss": "smooth_l1_loss",
            "sigmoid_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
            "tanh_shrink": "tanhshrink", "flatten_contiguous_range": "flatten", "reshape2": "reshape",
            "transpose2": "transpose",}


def row_name(name):
    """The op table's name for a name of Paddle's."""
    return _ALIASES.get(name, name)


def chosen(level, custom_white, custom_black):
    """(white, black) sets of row names for a level, with the user's ops moved from one to the other."""
    white = {row_name(n) for n in custom_white}
    black = {row_name(n) for n in custom_black}
    base = frozenset() if level == "OD" else BLACK_O2 if level == "O2" else BLACK
    return (WHITE | white) - black, (base | black) - white


def white_list():
    """Names of the white list per dtype and level, as Paddle's ``amp.white_list`` gives them."""
    return {dtype: {level: set(WHITE) for level in ("OD", "O1", "O2")} for dtype in ("float16", "bfloat16")}


def black_list():
    """Names of the black list per dtype and level."""
    return {dtype: {"OD": set(), "O1": set(BLACK), "O2": set(BLACK_O2)} for dtype in ("float16", "bfloat16")}
