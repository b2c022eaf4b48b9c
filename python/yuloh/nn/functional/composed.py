# SPDX-License-Identifier: Apache-2.0
"""Functional room: losses and activations written with other public functions.

A function here is used only where the op table has no row of its name; the plan fuses what they record.
"""
import math

from ...framework.dtype import dtype_name

__all__ = ["alpha_dropout", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu",
           "channel_shuffle", "cosine_embedding_loss", "cosine_similarity", "dice_loss", "dropout1d",
           "dropout2d", "dropout3d", "feature_alpha_dropout", "gaussian_nll_loss", "glu", "gumbel_softmax",
           "hinge_embedding_loss", "kl_div", "l1_loss", "label_smooth", "log_loss", "margin_ranking_loss",
           "maxout", "mse_loss", "multi_label_margin_loss", "multi_label_soft_margin_loss",
           "multi_margin_loss", "nll_loss", "npair_loss", "pairwise_distance", "pixel_shuffle",
           "pixel_unshuffle", "poisson_nll_loss", "prelu", "rrelu", "sequence_mask", "sigmoid_focal_loss",
           "smooth_l1_loss", "soft_margin_loss", "softmax_with_cross_entropy", "square_error_cost", "swiglu",
           "temporal_shift", "triplet_margin_loss", "triplet_margin_with_distance_loss", "zeropad2d"]


def _f():
    """The functional module itself: table rows and wrappers under their public names."""
    from .. import functional
    return functional


def _reduce(loss, reduction, what):
    import yuloh
    if reduction == "mean":
        return yuloh.mean(loss)
    if reduction == "sum":
        return yuloh.sum(loss)
    if reduction == "none":
        return loss
    raise ValueError(f"{what}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}.")


# ---- losses ------------------------------------------------------------------------------------------------
def square_error_cost(input, label):
    """(input - label)^2."""
    difference = input - label
    return difference * difference


def mse_loss(input, label, reduction="mean", name=None):
    """(input - label)^2."""
    return _reduce(square_error_cost(input, label), reduction, "mse_loss")


def l1_loss(input, label, reduction="mean", name=None):
    """|input - label|."""
    import yuloh
    return _reduce(yuloh.abs(input - label), reduction, "l1_loss")


def smooth_l1_loss(input, label, reduction="mean", delta=1.0, is_huber=True, name=None):
    """0.5 d^2 below ``delta``, delta (|d| - 0.5 delta) above; divided by delta unless ``is_huber``."""
    import yuloh
    distance = yuloh.abs(input - label)
    loss = yuloh.where(distance <= delta, distance * distance * 0.5, distance * delta - 0.5 * delta * delta)
    return _reduce(loss if is_huber else loss / delta, reduction, "smooth_l1_loss")


def nll_loss(input, label, weight=None, ignore_index=-100, reduction="mean", name=None):
    """-input at the label of [N, C] or [N, C, d1, ...]; the mean is over the weights of the labels kept."""
    import yuloh
    if len(input.shape) < 2:
        raise ValueError(f"nll_loss: input must have at least 2 dimensions, got shape {list(input.shape)}.")
    kept = label != ignore_index
    safe = yuloh.where(kept, label, yuloh.zeros_like(label))
    picked = yuloh.squeeze(yuloh.take_along_axis(input, yuloh.unsqueeze(safe, 1), 1), 1)
    factor = kept.astype(input.dtype)
    if weight is not None:
        factor = factor * yuloh.gather(weight, safe.reshape([-1])).reshape(list(safe.shape))
    loss = -(yuloh.where(kept, picked, yuloh.zeros_like(picked)) * factor)
    if reduction == "mean":
        total = yuloh.sum(factor)
        return yuloh.sum(loss) / yuloh.where(total == 0, yuloh.ones_like(total), total)
    return _reduce(loss, reduction, "nll_loss")


def softmax_with_cross_entropy(logits, label, soft_label=False, ignore_index=-100, numeric_stable_mode=True,
                               return_softmax=False, axis=-1):
    """Cross entropy for each position, the class axis kept with size 1."""
    import yuloh
    loss = _f().cross_entropy(logits, label, soft_label=soft_label, ignore_index=ignore_index,
                              reduction="none", axis=axis)
    if len(loss.shape) < len(logits.shape):
        loss = yuloh.unsqueeze(loss, axis)
    return (loss, _f().softmax(logits, axis=axis)) if return_softmax else loss


def binary_cross_entropy(input, label, weight=None, reduction="mean", name=None):
    """-(label log input + (1 - label) log(1 - input)); each log is at least -100."""
    import yuloh
    log_p = yuloh.clip(yuloh.log(input), min=-100.0)
    log_q = yuloh.clip(yuloh.log(1.0 - input), min=-100.0)
    loss = -(label * log_p + (1.0 - label) * log_q)
    return _reduce(loss if weight is None else loss * weight, reduction, "binary_cross_entropy")


def binary_cross_entropy_with_logits(logit, label, weight=None, reduction="mean", pos_weight=None, name=None):
    """binary_cross_entropy of sigmoid(logit), computed without overflow; ``pos_weight`` counts positives
    more.
    """
    # log(1 + exp(-|x|)) + max(-x, 0) is -log(sigmoid(x)) for every x.
    import yuloh
    falling = _f().softplus(-yuloh.abs(logit)) + yuloh.clip(-logit, min=0.0)
    if pos_weight is not None:
        falling = falling * ((pos_weight - 1.0) * label + 1.0)
    loss = (1.0 - label) * logit + falling
    return _reduce(loss if weight is None else loss * weight, reduction, "binary_cross_entropy_with_logits")


def kl_div(input, label, reduction="mean", log_target=False, name=None):
    """label (log label - input), 0 where the label is 0; with ``log_target`` the label is a logarithm."""
    import yuloh
    if log_target:
        loss = yuloh.exp(label) * (label - input)
    else:
        positive = label > 0
        safe = yuloh.where(positive, label, yuloh.ones_like(label))
        loss = yuloh.where(positive, label * (yuloh.log(safe) - input), yuloh.zeros_like(label))
    if reduction == "batchmean":
        return yuloh.sum(loss) / max(input.shape[0], 1) if len(input.shape) else loss
    return _reduce(loss, reduction, "kl_div")


def margin_ranking_loss(input, other, label, margin=0.0, reduction="mean", name=None):
    """max(0, -label (input - other) + margin)."""
    import yuloh
    return _reduce(yuloh.clip((other - input) * label + margin, min=0.0), reduction, "margin_ranking_loss")


def hinge_embedding_loss(input, label, margin=1.0, reduction="mean", name=None):
    """input where the label is 1, max(0, margin - input) where it is -1."""
    import yuloh
    zero = yuloh.zeros_like(input)
    far = yuloh.where(label == -1.0, yuloh.clip(margin - input, min=0.0), zero)
    loss = yuloh.where(label == 1.0, input, zero) + far
    return _reduce(loss, reduction, "hinge_embedding_loss")


def cosine_embedding_loss(input1, input2, label, margin=0, reduction="mean", name=None):
    """1 - cos where the label is 1, max(0, cos - margin) where it is -1."""
    import yuloh
    product = yuloh.sum(input1 * input2, axis=-1)
    lengths = (yuloh.sum(input1 * input1, axis=-1) + 1e-12) * (yuloh.sum(input2 * input2, axis=-1) + 1e-12)
    cosine = product / yuloh.sqrt(lengths)
    zero = yuloh.zeros_like(cosine)
    loss = (yuloh.where(label == 1, 1.0 - cosine, zero)
            + yuloh.where(label == -1, yuloh.clip(cosine - float(margin), min=0.0), zero))
    return _reduce(loss, reduction, "cosine_embedding_loss")


def triplet_margin_loss(input, positive, negative, margin=1.0, p=2, epsilon=1e-06, swap=False,
                        reduction="mean", name=None):
    """max(0, distance to the positive - distance to the negative + margin), p-norm distances."""
    def distance(a, b):
        return pairwise_distance(a, b, p, epsilon)
    return triplet_margin_with_distance_loss(input, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(input, positive, negative, distance_function=None, margin=1.0,
                                      swap=False, reduction="mean", name=None):
    """triplet_margin_loss with a distance function of the user's."""
    import yuloh
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(input, positive), distance(input, negative)
    if swap:
        far = yuloh.minimum(far, distance(positive, negative))
    return _reduce(yuloh.clip(near - far + margin, min=0.0), reduction, "triplet_margin_with_distance_loss")


def soft_margin_loss(input, label, reduction="mean", name=None):
    """log(1 + exp(-label input))."""
    return _reduce(_f().softplus(-(label.astype(input.dtype) * input)), reduction, "soft_margin_loss")


def multi_label_soft_margin_loss(input, label, weight=None, reduction="mean", name=None):
    """Mean over the last axis of the logistic loss of 0/1 labels."""
    import yuloh
    F = _f()
    loss = -(label * F.log_sigmoid(input) + (1.0 - label) * F.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduce(yuloh.mean(loss, axis=-1), reduction, "multi_label_soft_margin_loss")


def multi_margin_loss(input, label, p=1, margin=1.0, weight=None, reduction="mean", name=None):
    """Mean over the wrong classes of max(0, margin - x[label] + x)^p, for [N, C] and labels [N]."""
    import yuloh
    classes = input.shape[1]
    index = label.reshape([-1, 1])
    right = yuloh.take_along_axis(input, index, 1)
    loss = yuloh.clip(margin - right + input, min=0.0)
    loss = loss if p == 1 else loss ** p
    if weight is not None:
        loss = loss * yuloh.gather(weight, label.reshape([-1])).reshape([-1, 1])
    others = 1.0 - _f().one_hot(label.reshape([-1]), classes).astype(input.dtype)
    return _reduce(yuloh.sum(loss * others, axis=1) / classes, reduction, "multi_margin_loss")


def multi_label_margin_loss(input, label, reduction="mean", name=None):
    """Sum over right classes r and wrong classes w of max(0, 1 - x[r] + x[w]) / C; a label row ends at its
    first -1.
    """
    import yuloh
    classes = input.shape[1]
    valid = yuloh.cumsum((label < 0).astype("int32"), axis=1) == 0
    safe = yuloh.where(valid, label, yuloh.zeros_like(label))
    hot = _f().one_hot(safe, classes).astype(input.dtype) * yuloh.unsqueeze(valid.astype(input.dtype), -1)
    target = yuloh.max(hot, axis=1)
    right = yuloh.take_along_axis(input, safe, 1)
    gap = yuloh.clip(1.0 - yuloh.unsqueeze(right, 2) + yuloh.unsqueeze(input, 1), min=0.0)
    loss = gap * yuloh.unsqueeze(valid.astype(input.dtype), 2) * yuloh.unsqueeze(1.0 - target, 1)
    return _reduce(yuloh.sum(loss, axis=[1, 2]) / classes, reduction, "multi_label_margin_loss")


def poisson_nll_loss(input, label, log_input=True, full=False, epsilon=1e-08, reduction="mean", name=None):
    """exp(input) - label input (or input - label log(input)); ``full`` adds Stirling's term for labels above
    1.
    """
    import yuloh
    if log_input:
        loss = yuloh.exp(input) - label * input
    else:
        loss = input - label * yuloh.log(input + epsilon)
    if full:
        safe = yuloh.clip(label, min=1.0)
        stirling = safe * yuloh.log(safe) - safe + 0.5 * yuloh.log(safe * (2.0 * math.pi))
        loss = loss + yuloh.where(label > 1, stirling, yuloh.zeros_like(stirling))
    return _reduce(loss, reduction, "poisson_nll_loss")


def gaussian_nll_loss(input, label, variance, full=False, epsilon=1e-06, reduction="mean", name=None):
    """(log variance + (input - label)^2 / variance) / 2; ``full`` adds log(2 pi) / 2."""
    import yuloh
    if list(variance.shape) != list(input.shape):
        if list(variance.shape) == list(input.shape)[:-1]:
            variance = yuloh.unsqueeze(variance, -1)
        elif list(variance.shape) != [*list(input.shape)[:-1], 1]:
            raise ValueError(f"gaussian_nll_loss: variance has shape {list(variance.shape)}; expected that "
                             "of input, " f"{list(input.shape)}, or one number per row.")
    variance = yuloh.clip(variance, min=epsilon)
    loss = (yuloh.log(variance) + square_error_cost(input, label) / variance) * 0.5
    return _reduce(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, "gaussian_nll_loss")


def log_loss(input, label, epsilon=0.0001, name=None):
    """-label log(input + epsilon) - (1 - label) log(1 - input + epsilon)."""
    import yuloh
    return -(label * yuloh.log(input + epsilon)) - (1.0 - label) * yuloh.log(1.0 - input + epsilon)


def dice_loss(input, label, epsilon=1e-05, name=None):
    """1 - 2 |overlap| / |both|, per sample over class probabilities [N, ..., C] and labels [N, ..., 1]."""
    import yuloh
    hot = _f().one_hot(yuloh.squeeze(label, -1), input.shape[-1]).astype(input.dtype)
    axes = list(range(1, len(input.shape)))
    overlap = yuloh.sum(input * hot, axis=axes)
    both = yuloh.sum(input, axis=axes) + yuloh.sum(hot, axis=axes)
    return yuloh.mean(1.0 - overlap * 2.0 / (both + epsilon))


def sigmoid_focal_loss(logit, label, normalizer=None, alpha=0.25, gamma=2.0, reduction="sum", name=None):
    """Binary cross entropy weighted by (1 - probability of the truth)^gamma;
    ``alpha`` balances the classes.
    """
    p = _f().sigmoid(logit)
    loss = _f().binary_cross_entropy_with_logits(logit, label, reduction="none")
    truth = p * label + (1.0 - p) * (1.0 - label)
    loss = loss * (1.0 - truth) ** gamma * (label * alpha + (1.0 - label) * (1.0 - alpha))
    return _reduce(loss if normalizer is None else loss / normalizer, reduction, "sigmoid_focal_loss")


def npair_loss(anchor, positive, labels, l2_reg=0.002):
    """Soft cross entropy of all anchor-positive products, targets shared by equal labels, plus L2."""
    import yuloh
    count = labels.shape[0]
    same = (labels.reshape([count, 1]) == labels.reshape([1, count])).astype(anchor.dtype)
    target = same / yuloh.sum(same, axis=1, keepdim=True)
    squares = (yuloh.mean(yuloh.sum(anchor * anchor, axis=1))
               + yuloh.mean(yuloh.sum(positive * positive, axis=1)))
    scores = yuloh.matmul(anchor, positive, transpose_y=True)
    cross = -yuloh.sum(target * _f().log_softmax(scores, axis=-1), axis=1)
    return squares * (0.25 * l2_reg) + yuloh.mean(cross)


def label_smooth(label, prior_dist=None, epsilon=0.1, name=None):
    """(1 - epsilon) label + epsilon prior; the prior is uniform by default."""
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"label_smooth: epsilon must be from 0 to 1, got {epsilon}.")
    return label * (1.0 - epsilon) + (epsilon / label.shape[-1] if prior_dist is None
                                      else prior_dist * epsilon)


# ---- distances ---------------------------------------------------------------------------------------------
def cosine_similarity(x1, x2, axis=1, eps=1e-08):
    """Cosine of the angle along ``axis``; the product of the lengths is at least ``eps``."""
    import yuloh
    product = yuloh.sum(x1 * x2, axis=axis)
    lengths = yuloh.sqrt(yuloh.sum(x1 * x1, axis=axis)) * yuloh.sqrt(yuloh.sum(x2 * x2, axis=axis))
    return product / yuloh.clip(lengths, min=eps)


def pairwise_distance(x, y, p=2.0, epsilon=1e-06, keepdim=False, name=None):
    """p-norm of x - y + epsilon along the last axis."""
    import yuloh
    difference = yuloh.abs(x - y + epsilon)
    if p == float("inf"):
        return yuloh.max(difference, axis=-1, keepdim=keepdim)
    if p == float("-inf"):
        return yuloh.min(difference, axis=-1, keepdim=keepdim)
    if p == 0:
        return yuloh.sum((difference != 0).astype(x.dtype), axis=-1, keepdim=keepdim)
    if p == 2:
        return yuloh.sqrt(yuloh.sum(difference * difference, axis=-1, keepdim=keepdim))
    return yuloh.sum(difference ** p, axis=-1, keepdim=keepdim) ** (1.0 / p)


def bilinear(x1, x2, weight, bias=None, name=None):
    """x1 [N, in1], x2 [N, in2], weight [out, in1, in2] -> [N, out]."""
    import yuloh
    out_size, in1, in2 = weight.shape
    # [N, in1] @ [in1, out * in2] leaves one row of in2 factors for each output.
    mixed = yuloh.matmul(x1, yuloh.transpose(weight, [1, 0, 2]).reshape([in1, out_size * in2]))
    out = yuloh.sum(mixed.reshape([-1, out_size, in2]) * yuloh.unsqueeze(x2, 1), axis=-1)
    return out if bias is None else out + bias


# ---- activations -------------------------------------------------------------------------------------------
def celu(x, alpha=1.0, name=None):
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    import yuloh
    if alpha == 0:
        raise ValueError("celu: alpha must not be 0.")
    low = yuloh.clip(x / alpha, max=0.0) if alpha > 0 else yuloh.clip(x / alpha, min=0.0)
    return yuloh.clip(x, min=0.0) + yuloh.clip(yuloh.expm1(low) * alpha, max=0.0)


def glu(x, axis=-1, name=None):
    """First half of ``axis`` times the sigmoid of the second."""
    import yuloh
    value, gate = yuloh.chunk(x, 2, axis=axis)
    return value * _f().sigmoid(gate)


def swiglu(x, y=None, name=None):
    """silu(x) * y; without ``y`` the halves of the last axis."""
    import yuloh
    if y is None:
        x, y = yuloh.chunk(x, 2, axis=-1)
    return _f().silu(x) * y


def maxout(x, groups, axis=1, name=None):
    """Maximum over ``groups`` neighbouring channels; the channels become fewer by that factor."""
    import yuloh
    shape = list(x.shape)
    axis %= len(shape)
    if groups < 1 or shape[axis] % groups:
        raise ValueError(f"maxout: the size of axis {axis} must be a multiple of groups, got {shape[axis]} "
                         f"and {groups}.")
    return yuloh.max(x.reshape(shape[:axis] + [shape[axis] // groups, groups] + shape[axis + 1:]), axis=axis
                     + 1)


def prelu(x, weight, data_format="NCHW", name=None):
    """x above 0, weight x below; ``weight`` has one element or one per channel."""
    import yuloh
    if weight.shape[0] != 1:
        channel = len(x.shape) - 1 if data_format in ("NLC", "NHWC", "NDHWC") else 1
        if x.shape[channel] != weight.shape[0]:
            raise ValueError(f"prelu: weight has {weight.shape[0]} elements; expected 1 or "
                             f"{x.shape[channel]}.")
        weight = weight.reshape([-1 if a == channel else 1 for a in range(len(x.shape))])
    return yuloh.where(x > 0, x, x * weight)


def rrelu(x, lower=0.125, upper=1.0 / 3.0, training=True, name=None):
    """x above 0, a x below; a is drawn from lower..upper in training, their mean otherwise."""
    import yuloh
    if not 0 <= lower <= upper <= 1:
        raise ValueError(f"rrelu: expected 0 <= lower <= upper <= 1, got {lower} and {upper}.")
    slope = (lower + upper) / 2
    if training:
        slope = yuloh.uniform(list(x.shape), dtype=x.dtype, min=lower, max=upper)
    return yuloh.where(x >= 0, x, x * slope)


def gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name=None):
    """softmax((x + Gumbel noise) / temperature); ``hard`` gives one-hot values with the soft gradient."""
    import yuloh
    if temperature <= 0:
        raise ValueError(f"gumbel_softmax: temperature must be positive, got {temperature}.")
    uniform = yuloh.uniform(list(x.shape), dtype=x.dtype, min=1e-10, max=1.0)
    soft = _f().softmax((x - yuloh.log(-yuloh.log(uniform) + 1e-20)) / temperature, axis=axis)
    if not hard:
        return soft
    axis %= len(x.shape)
    hot = _f().one_hot(yuloh.argmax(soft, axis=axis), x.shape[axis]).astype(x.dtype)
    if axis != len(x.shape) - 1:
        hot = yuloh.moveaxis(hot, -1, axis)
    return hot - soft.detach() + soft


# ---- dropout of whole channels and with fixed moments ------------------------------------------------------
def _plane_dropout(x, p, training, axes):
    return _f().dropout(x, p=p, axis=axes, training=training, mode="upscale_in_train")


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of [N, C, L] or [C, L]."""
    return _plane_dropout(input, p, training, [0, 1] if len(input.shape) == 3 else [0])


def dropout2d(x, p=0.5, training=True, data_format="NCHW", name=None):
    """Zeroes whole channel planes of [N, C, H, W]."""
    if len(x.shape) != 4:
        raise ValueError(f"dropout2d: x must have 4 dimensions, got shape {list(x.shape)}.")
    return _plane_dropout(x, p, training, [0, 1] if data_format == "NCHW" else [0, 3])


def dropout3d(x, p=0.5, training=True, data_format="NCDHW", name=None):
    """Zeroes whole channel volumes of [N, C, D, H, W]."""
    if len(x.shape) != 5:
        raise ValueError(f"dropout3d: x must have 5 dimensions, got shape {list(x.shape)}.")
    return _plane_dropout(x, p, training, [0, 1] if data_format == "NCDHW" else [0, 4])


def _alpha_dropout(x, p, training, shape, what):
    import yuloh
    if not 0 <= p <= 1:
        raise ValueError(f"{what}: p must be from 0 to 1, got {p}.")
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0.0
    low = -1.6732632423543772 * 1.0507009873554805  # SELU's value far below 0
    scale = ((1 - p) * (1 + p * low * low)) ** -0.5
    keep = (yuloh.uniform(shape, dtype="float32", min=0.0, max=1.0) >= p).astype(x.dtype)
    return (x * keep + (1.0 - keep) * low) * scale - scale * p * low


def alpha_dropout(x, p=0.5, training=True, name=None):
    """Sets elements to SELU's low value and rescales, so that mean and variance stay."""
    return _alpha_dropout(x, p, training, list(x.shape), "alpha_dropout")


def feature_alpha_dropout(x, p=0.5, training=True, name=None):
    """alpha_dropout of whole channels."""
    shape = list(x.shape)
    return _alpha_dropout(x, p, training, shape[:2] + [1] * (len(shape) - 2), "feature_alpha_dropout")


# ---- rearranging -------------------------------------------------------------------------------------------
def pixel_shuffle(x, upscale_factor, data_format="NCHW", name=None):
    """[N, C r^2, H, W] -> [N, C, H r, W r]."""
    r = upscale_factor
    if data_format == "NHWC":
        n, h, w, c = x.shape
        x = x.reshape([n, h, w, c // (r * r), r, r]).transpose([0, 1, 4, 2, 5, 3])
        return x.reshape([n, h * r, w * r, -1])
    n, c, h, w = x.shape
    x = x.reshape([n, c // (r * r), r, r, h, w]).transpose([0, 1, 4, 2, 5, 3])
    return x.reshape([n, -1, h * r, w * r])


def pixel_unshuffle(x, downscale_factor, data_format="NCHW", name=None):
    """[N, C, H r, W r] -> [N, C r^2, H, W]."""
    r = downscale_factor
    if data_format == "NHWC":
        n, h, w, c = x.shape
        x = x.reshape([n, h // r, r, w // r, r, c]).transpose([0, 1, 3, 5, 2, 4])
        return x.reshape([n, h // r, w // r, -1])
    n, c, h, w = x.shape
    x = x.reshape([n, c, h // r, r, w // r, r]).transpose([0, 1, 3, 5, 2, 4])
    return x.reshape([n, -1, h // r, w // r])


def channel_shuffle(x, groups, data_format="NCHW", name=None):
    """Channel g * k + i goes to i * groups + g."""
    if data_format == "NHWC":
        n, h, w, c = x.shape
        return x.reshape([n, h, w, groups, c // groups]).transpose([0, 1, 2, 4, 3]).reshape([n, h, w, c])
    n, c, h, w = x.shape
    return x.reshape([n, groups, c // groups, h, w]).transpose([0, 2, 1, 3, 4]).reshape([n, c, h, w])


def zeropad2d(x, padding, data_format="NCHW", name=None):
    """Zeros around [N, C, H, W]; padding is (left, right, top, bottom)."""
    return _f().pad(x, pad=padding, mode="constant", value=0.0, data_format=data_format)


def sequence_mask(x, maxlen=None, dtype="int64", name=None):
    """1 at positions below each length of ``x``: [..., maxlen]; without ``maxlen`` the longest (which reads
    x).
    """
    import yuloh
    if maxlen is None:
        maxlen = int(yuloh.max(x))
    steps = yuloh.arange(int(maxlen), dtype=x.dtype)
    return (steps < yuloh.unsqueeze(x, -1)).astype(dtype_name(dtype))


def temporal_shift(x, seg_num, shift_ratio=0.25, name=None, data_format="NCHW"):
    """Moves a share of the channels one frame back and a share one frame on, within clips of ``seg_num``
    frames.
    """
    import yuloh
    if data_format == "NHWC":
        x = yuloh.transpose(x, [0, 3, 1, 2])
    n, c, h, w = x.shape
    clips = x.reshape([-1, seg_num, c, h, w])
    first, second = int(c * shift_ratio), int(c * 2 * shift_ratio)
    blank = yuloh.zeros_like(clips[:, :1])
    back = yuloh.concat([blank, clips[:, :-1]], axis=1)[:, :, :first]
    on = yuloh.concat([clips[:, 1:], blank], axis=1)[:, :, first:second]
    out = yuloh.concat([back, on, clips[:, :, second:]], axis=2).reshape([n, c, h, w])
    return yuloh.transpose(out, [0, 2, 3, 1]) if data_format == "NHWC" else out
