# SPDX-License-Identifier: Apache-2.0
"""Functional room: rarer losses and samplers, written with other public functions.

Like ``composed.py``, a function here steps back where the op table has a row of its name.
"""
import math

from ... import _core

__all__ = ["adaptive_log_softmax_with_loss", "affine_grid", "ctc_loss", "gather_tree", "grid_sample",
           "hsigmoid_loss", "margin_cross_entropy", "rnnt_loss"]

_FAR = -1.0e30  # log of "impossible", finite so that differences of two of them are 0 and not NaN


def _f():
    from .. import functional
    return functional


# ---- losses over trees and clusters of classes -------------------------------------------------------------
def adaptive_log_softmax_with_loss(input, label, head_weight, tail_weights, cutoffs, head_bias=None,
                                   name=None):
    """(log probability of each row's label, its negative mean) of a softmax with a head and clusters of rare
    classes.

    ``cutoffs`` ends with the number of classes. Every cluster is computed for every row and selected by the
    label, so nothing is read.
    """
    import yuloh
    F = _f()
    single = len(input.shape) == 1
    if single:
        input, label = yuloh.unsqueeze(input, 0), label.reshape([1])
    if len(input.shape) != 2 or list(label.shape) != [input.shape[0]]:
        raise ValueError(f"adaptive_log_softmax_with_loss: expected input [N, in] and label [N], got "
                         f"{list(input.shape)} and {list(label.shape)}.")
    shortlist = cutoffs[0]
    head = F.log_softmax(F.linear(input, head_weight, head_bias), axis=1)
    output = _picked(head, yuloh.clip(label, 0, shortlist - 1))
    for number, (first, second) in enumerate(tail_weights):
        low, high = cutoffs[number], cutoffs[number + 1]
        tail = F.log_softmax(yuloh.matmul(yuloh.matmul(input, first), second), axis=1)
        inside = _picked(tail, yuloh.clip(label - low, 0, high - low - 1)) + head[:, shortlist + number]
        output = yuloh.where(yuloh.logical_and(label >= low, label < high), inside, output)
    loss = -yuloh.mean(output)
    return (yuloh.squeeze(output, 0) if single else output), loss


def _picked(x, index):
    """x[i, index[i]] for each row i."""
    import yuloh
    return yuloh.squeeze(yuloh.take_along_axis(x, yuloh.unsqueeze(index, 1), 1), 1)


def hsigmoid_loss(input, label, num_classes, weight, bias=None, path_table=None, path_code=None,
                  is_sparse=False, name=None):
    """Hierarchical sigmoid loss [N, 1] over a binary tree: complete by default, or given by paths and codes.

    In the complete tree class c is the leaf num_classes + c; its inner nodes are the prefixes of that number.
    """
    import yuloh
    label = label.reshape([-1])
    total = None
    steps = path_table.shape[1] if path_table is not None else int(math.floor(math.log2(2 * num_classes - 1)))
    leaf = label + num_classes
    for step in range(steps):
        if path_table is not None:
            node, bit = path_table[:, step], path_code[:, step]
            used = node >= 0
        else:
            node = yuloh.floor_divide(leaf, yuloh.full_like(leaf, 2 ** (step + 1))) - 1
            bit = yuloh.remainder(yuloh.floor_divide(leaf, yuloh.full_like(leaf, 2 ** step)),
                                  yuloh.full_like(leaf, 2))
            used = node >= 0
        safe = yuloh.where(used, node, yuloh.zeros_like(node))
        score = yuloh.sum(yuloh.index_select(weight, safe, 0) * input, axis=1)
        if bias is not None:
            score = score + yuloh.index_select(bias.reshape([-1]), safe, 0)
        score = yuloh.clip(score, -40.0, 40.0)
        part = _f().softplus(score) - bit.astype(score.dtype) * score
        # Paddle counts a step beyond a class's path as a score of 0, which adds log 2 and no gradient; losses
        # agree.
        part = yuloh.where(used, part, yuloh.full_like(part, math.log(2.0)))
        total = part if total is None else total + part
    return yuloh.unsqueeze(total, 1)


def margin_cross_entropy(logits, label, margin1=1.0, margin2=0.5, margin3=0.0, scale=64.0, group=None,
                         return_softmax=False, reduction="mean"):
    """Cross entropy of cosines whose right class is made harder: cos(margin1 t + margin2) - margin3, times
    ``scale``.
    """
    import yuloh
    F = _f()
    label = label.reshape([-1])
    right = yuloh.take_along_axis(logits, yuloh.unsqueeze(label, 1), 1)
    harder = yuloh.cos(yuloh.acos(right) * margin1 + margin2) - margin3
    hot = F.one_hot(label, logits.shape[1]).astype(logits.dtype)
    scores = (logits + hot * (harder - right)) * scale
    loss = F.cross_entropy(scores, label, reduction="none").reshape([-1, 1])
    loss = yuloh.mean(loss) if reduction == "mean" else yuloh.sum(loss) if reduction == "sum" else loss
    return (loss, F.softmax(scores)) if return_softmax else loss


# ---- sequences ---------------------------------------------------------------------------------------------
def ctc_loss(log_probs, labels, input_lengths, label_lengths, blank=0, reduction="mean", norm_by_times=False,
             zero_infinity=False):
    """Connectionist temporal classification of scores [T, N, C] (softmax is taken here) and labels [N, L].

    'mean' divides each loss by its label's length first. The forward recursion over T is recorded step by
    step; steps beyond a sequence's length leave its state.
    """
    import yuloh
    steps, batch, _ = log_probs.shape
    most = labels.shape[1]
    log_p = _f().log_softmax(log_probs.astype("float32"), axis=-1)
    labels = labels.astype("int64")
    input_lengths, label_lengths = (t.astype("int64").reshape([batch])
                                    for t in (input_lengths, label_lengths))
    # Blanks around every label: state 2k + 1 is label k, even states are blanks.
    blanks = yuloh.full_like(labels, blank)
    states = yuloh.stack([blanks, labels], axis=2).reshape([batch, 2 * most])
    states = yuloh.concat([states, blanks[:, :1] if most else yuloh.full([batch, 1], blank, dtype="int64")],
                          axis=1)
    count = 2 * most + 1
    place = _core.ops.iota([count], 0, "int64").reshape([1, count])
    far = yuloh.full([batch, count], _FAR, dtype="float32")
    # A state may be entered from two before it unless it is a blank or repeats the label before.
    before = yuloh.concat([yuloh.full([batch, min(2, count)], blank, dtype="int64"), states[:, :-2]],
                          axis=1)[:, :count]
    skip = yuloh.logical_and(states != blank, states != before)
    alive = place < yuloh.unsqueeze(label_lengths, 1) * 2 + 1

    def at(t):
        return yuloh.take_along_axis(log_p[t], states, 1)

    alpha = yuloh.where(yuloh.logical_and(place < 2, alive), at(0), far)
    for t in range(1, steps):
        one = yuloh.concat([far[:, :1], alpha[:, :-1]], axis=1)
        two = yuloh.concat([far[:, :min(2, count)], alpha[:, :-2]], axis=1)[:, :count]
        two = yuloh.where(skip, two, far)
        top = yuloh.maximum(yuloh.maximum(alpha, one), two).detach()
        total = yuloh.exp(alpha - top) + yuloh.exp(one - top) + yuloh.exp(two - top)
        new = yuloh.clip(top + yuloh.log(total) + at(t), min=_FAR)
        new = yuloh.where(alive, new, far)
        alpha = yuloh.where(yuloh.unsqueeze(input_lengths, 1) > t, new, alpha)
    last = yuloh.unsqueeze(label_lengths * 2, 1)
    ends = yuloh.logical_or(place == last, place == last - 1)
    loss = -yuloh.logsumexp(yuloh.where(ends, alpha, far), axis=1)
    possible = loss < -_FAR / 2
    if zero_infinity:
        loss = yuloh.where(possible, loss, yuloh.zeros_like(loss))
    else:
        loss = yuloh.where(possible, loss, yuloh.full_like(loss, float("inf")))
    if norm_by_times:
        loss = loss / input_lengths.astype("float32")
    if reduction == "mean":
        return yuloh.mean(loss / yuloh.clip(label_lengths.astype("float32"), min=1.0))
    return yuloh.sum(loss) if reduction == "sum" else loss


def rnnt_loss(input, label, input_lengths, label_lengths, blank=0, fastemit_lambda=0.001, reduction="mean",
              name=None):
    """Transducer loss of log probabilities [N, T, U + 1, C] and labels [N, U].

    The forward recursion over T and U is recorded step by step. ``fastemit_lambda`` makes gradients towards
    emitting labels larger by that share; the loss itself stays.
    """
    import yuloh
    batch, steps, rows, _ = input.shape
    log_p = input.astype("float32")
    label = label.astype("int64")
    stay = log_p[:, :, :, blank]
    index = yuloh.expand(label.reshape([batch, 1, rows - 1, 1]), [batch, steps, rows - 1, 1])
    emit = yuloh.squeeze(yuloh.take_along_axis(log_p[:, :, :rows - 1], index, 3), 3)
    if fastemit_lambda:
        emit = emit * (1.0 + fastemit_lambda) - (emit * fastemit_lambda).detach()
    input_lengths, label_lengths = (t.astype("int64").reshape([batch])
                                    for t in (input_lengths, label_lengths))
    ends = _core.ops.iota([rows], 0, "int64").reshape([1, rows]) == yuloh.unsqueeze(label_lengths, 1)
    far = yuloh.full([batch], _FAR, dtype="float32")
    alpha, loss = None, None
    for t in range(steps):
        line = []
        for u in range(rows):
            came = far if t == 0 else alpha[u] + stay[:, t - 1, u]
            if t == 0 and u == 0:
                came = far * 0.0
            if u:
                came = yuloh.logaddexp(came, line[u - 1] + emit[:, t, u - 1])
            line.append(came)
        alpha = line
        done = yuloh.sum(yuloh.where(ends, yuloh.stack(alpha, axis=1) + stay[:, t],
                                     yuloh.zeros_like(stay[:, t])), axis=1)
        last = input_lengths == t + 1
        loss = yuloh.where(last, -done, yuloh.zeros_like(done) if loss is None else loss)
    return yuloh.mean(loss) if reduction == "mean" else yuloh.sum(loss) if reduction == "sum" else loss


def gather_tree(ids, parents):
    """Whole sequences [T, N, beams] of a beam search from the ids and parent beams of each step."""
    import yuloh
    steps = ids.shape[0]
    out = [ids[steps - 1]]
    beam = parents[steps - 1]
    for t in range(steps - 2, -1, -1):
        out.append(yuloh.take_along_axis(ids[t], beam, 1))
        beam = yuloh.take_along_axis(parents[t], beam, 1)
    return yuloh.stack(out[::-1], axis=0)


# ---- sampling a picture along a grid -----------------------------------------------------------------------
def affine_grid(theta, out_shape, align_corners=True, name=None):
    """Sampling positions [N, H, W, 2] in -1..1 of an affine map ``theta`` [N, 2, 3] over an output [N, C, H,
    W].
    """
    import yuloh
    if isinstance(out_shape, _core.Tensor):
        out_shape = out_shape.numpy().tolist()
    if len(out_shape) != 4 or list(theta.shape[1:]) != [2, 3]:
        raise ValueError("affine_grid: expected theta [N, 2, 3] and an out_shape of 4 sizes, got "
                         f"{list(theta.shape)} " f"and {list(out_shape)}.")
    n, _, h, w = (int(v) for v in out_shape)

    def line(count, shape):
        places = _core.ops.iota([count], 0, theta.dtype)
        if align_corners:
            places = places * (2.0 / max(count - 1, 1)) - (1.0 if count > 1 else 0.0)
        else:
            places = (places * 2.0 + 1.0) / float(count) - 1.0
        return yuloh.expand(places.reshape(shape), [h, w])

    ones = yuloh.ones([h, w], dtype=theta.dtype)
    base = yuloh.stack([line(w, [1, w]), line(h, [h, 1]), ones], axis=-1).reshape([1, h * w, 3])
    grid = yuloh.matmul(yuloh.expand(base, [n, h * w, 3]), theta, transpose_y=True)
    return grid.reshape([n, h, w, 2])


def _reflected(x, low, high):
    """``x`` folded back into low..high as between two mirrors."""
    import yuloh
    span = float(high - low)
    if span <= 0:
        return x * 0.0
    away = yuloh.abs(x - low)
    turns = yuloh.floor(away / span)
    rest = away - turns * span
    odd = turns - yuloh.floor(turns / 2.0) * 2.0
    return yuloh.where(odd == 0, rest, span - rest) + low


def _source(position, size, padding_mode, align_corners):
    import yuloh
    if align_corners:
        x = (position + 1.0) * (0.5 * (size - 1))
    else:
        x = ((position + 1.0) * float(size) - 1.0) * 0.5
    if padding_mode == "border":
        x = yuloh.clip(x, 0.0, float(size - 1))
    elif padding_mode == "reflection":
        x = _reflected(x, 0.0, size - 1.0) if align_corners else _reflected(x, -0.5, size - 0.5)
        x = yuloh.clip(x, 0.0, float(size - 1))
    return x


def grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=True, name=None):
    """Values of ``x`` [N, C, H, W] at the positions ``grid`` [N, h, w, 2] (x then y, -1..1 across the
    picture).
    """
    import yuloh
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError("grid_sample: mode must be 'bilinear' or 'nearest' and padding_mode 'zeros', "
                         "'border' or " f"'reflection', got {mode!r} and {padding_mode!r}.")
    if len(x.shape) != 4 or len(grid.shape) != 4 or grid.shape[3] != 2:
        raise ValueError(f"grid_sample: expected x [N, C, H, W] and grid [N, h, w, 2], got {list(x.shape)} "
                         "and " f"{list(grid.shape)}.")
    n, c, h, w = x.shape
    out_h, out_w = grid.shape[1:3]
    flat = x.reshape([n, c, h * w])
    column = _source(grid[:, :, :, 0], w, padding_mode, align_corners).reshape([n, out_h * out_w])
    row = _source(grid[:, :, :, 1], h, padding_mode, align_corners).reshape([n, out_h * out_w])

    def take(r, k):
        inside = yuloh.logical_and(yuloh.logical_and(r >= 0, r <= h - 1),
                                   yuloh.logical_and(k >= 0, k <= w - 1))
        place = yuloh.clip(r, 0.0, h - 1.0) * float(w) + yuloh.clip(k, 0.0, w - 1.0)
        index = yuloh.expand(yuloh.unsqueeze(place.astype("int64"), 1), [n, c, out_h * out_w])
        return yuloh.take_along_axis(flat, index, 2) * yuloh.unsqueeze(inside.astype(x.dtype), 1)

    if mode == "nearest":
        out = take(yuloh.round(row.detach()), yuloh.round(column.detach()))
    else:
        top, left = yuloh.floor(row.detach()), yuloh.floor(column.detach())
        dy, dx = yuloh.unsqueeze(row - top, 1), yuloh.unsqueeze(column - left, 1)
        out = (take(top, left) * (1.0 - dy) * (1.0 - dx) + take(top, left + 1.0) * (1.0 - dy) * dx
               + take(top + 1.0, left) * dy * (1.0 - dx) + take(top + 1.0, left + 1.0) * dy * dx)
    return out.reshape([n, c, out_h, out_w])
