# SPDX-License-Identifier: Apache-2.0
"""View x write x read: generated little programs about which tensors share memory, and what Paddle answers.

Parity room; written for ``import paddle``, whoever answers to it. With the real Paddle it records the reference::

    <oracle python> tests/parity/aliasing.py tests/parity/data/aliasing.json

A program makes a base ``b`` [2, 3, 4], a view ``v`` of it, a sibling ``s`` = b[:, 0:2] and a view of the view
``i``, then writes to ``b`` or to ``v``, and reads all four. The same program with a leaf ``x`` below b
(b = x * 1) reads the gradient of sum(b * cb) + sum(v * cv) by x. All values are small multiples of 1/4 and all
programs piecewise linear, so float32 differences of the loss give the true gradient exactly.
"""

import json
import os
import signal
import sys

import numpy as np
import paddle

VIEWS = {
    "itself": "b",
    "reshape": "b.reshape([6, 4])",
    "reshape_same": "b.reshape([2, 3, 4])",
    "reshape_of_transpose": "b.transpose([0, 2, 1]).reshape([2, 12])",
    "view": "b.view([4, 6])",
    "view_as": "b.view_as(paddle.zeros([12, 2]))",
    "flatten": "b.flatten()",
    "flatten_inner": "paddle.flatten(b, 1, 2)",
    "transpose": "b.transpose([2, 0, 1])",
    "moveaxis": "paddle.moveaxis(b, 0, 2)",
    "swapaxes": "paddle.swapaxes(b, 1, 2)",
    "t_of_row": "b[0].T",
    "index": "b[1]",
    "index_twice": "b[1][2]",
    "index_inner": "b[:, 1]",
    "index_last": "b[..., -1]",
    "index_all": "b[1, 2]",
    "slice": "b[:, :, 1:3]",
    "slice_outer": "b[0:1]",
    "slice_empty_range": "b[:]",
    "slice_step": "b[:, :, ::2]",
    "slice_back": "b[:, :, ::-1]",
    "slice_fn": "paddle.slice(b, [1], [0], [2])",
    "strided_slice_fn": "paddle.strided_slice(b, [2], [0], [4], [2])",
    "new_axis": "b[:, None]",
    "unsqueeze": "b.unsqueeze(1)",
    "squeeze": "b.unsqueeze(0).squeeze(0)",
    "squeeze_nothing": "b.squeeze()",
    "split": "paddle.split(b, 2, axis=2)[1]",
    "split_sections": "paddle.split(b, [1, 2], axis=1)[1]",
    "chunk": "paddle.chunk(b, 3, axis=1)[2]",
    "tensor_split": "paddle.tensor_split(b, 2, axis=1)[0]",
    "unbind": "paddle.unbind(b, axis=1)[1]",
    "unstack": "paddle.unstack(b, axis=0)[1]",
    "diagonal": "paddle.diagonal(b, axis1=1, axis2=2)",
    "expand_same": "b.expand([2, 3, 4])",
    "expand": "b[:, :1].expand([2, 3, 4])",
    "expand_outer": "b.expand([2, 2, 3, 4])",
    "broadcast_to": "paddle.broadcast_to(b[:, :1], [2, 3, 4])",
    "as_strided": "paddle.as_strided(b, [2, 4], [12, 1], 0)",
    "unfold": "b.unfold(2, 2, 2)",
    "detach": "b.detach()",
    "clone": "b.clone()",
    "assign": "paddle.assign(b)",
    "astype_same": "b.astype('float32')",
    "cast_same": "paddle.cast(b, 'float32')",
    "plus_zero": "b + 0",
    "take_list": "b[[0, 1]]",
    "take_mask": "b[b > 5.25]",
    "index_select": "paddle.index_select(b, paddle.to_tensor([0, 1]), axis=0)",
    "gather": "paddle.gather(b, paddle.to_tensor([1]), axis=0)",
    "flip": "paddle.flip(b, [2])",
    "roll": "paddle.roll(b, 1, axis=2)",
    "concat_one": "paddle.concat([b], axis=0)",
    "tile_one": "b.tile([1, 1, 1])",
    "contiguous": "b.contiguous()",
}
last_error = None  # text of the latest refusal, to be shown by a failing test
CUTS = (
    "b.detach()",
)  # views through which no gradient flows, and writes through which autograd does not see
WRITES = {
    "set_row": "t[0] = 50.0",
    "set_slice": "t[..., 1:] = 50.0",
    "set_step": "t[..., ::2] = 50.0",
    "set_tensor": "t[...] = paddle.full(t.shape, 50.0)",
    "set_list": "t[[0]] = 50.0",
    "set_mask": "t[t > 5.25] = 50.0",
    "set_scaled": "t[0] = t[0] * 2",
    "chained": "t[0][...] = 50.0",
    "row_add": "t[0] += 50.0",
    "view_then_add": "t[1:].add_(paddle.full(t[1:].shape, 50.0))",
    "reshape_then_scale": "t.reshape([-1]).scale_(3.0)",
    "add": "t.add_(paddle.full(t.shape, 50.0))",
    "add_scalar": "t += 50.0",
    "subtract": "t.subtract_(paddle.full(t.shape, 50.0))",
    "multiply": "t.multiply_(paddle.full(t.shape, 2.0))",
    "scale": "t.scale_(3.0)",
    "clip": "t.clip_(2.25, 9.25)",
    "fill": "t.fill_(7.0)",
    "zero": "t.zero_()",
    "masked_fill": "t.masked_fill_(t > 5.25, 50.0)",
    "set_value": "t.set_value(np.full(t.shape, 50.0, 'float32'))",
    "assign_out": "paddle.assign(paddle.full(t.shape, 50.0), t)",
}


def cases():
    """Yields (id, view expression, write statement, target name)."""
    for view, make in VIEWS.items():
        for write, do in WRITES.items():
            for target in ("b",) if view == "itself" else ("b", "v"):
                yield f"{view}.{write}.{target}", make, do, target


def _start():
    return np.arange(24, dtype="float32").reshape(2, 3, 4)


def _weights(n, k):
    return ((np.arange(n) * k) % 7 + 1).astype("float32")


def _execute(b, make, do, target):
    scope = {"paddle": paddle, "np": np, "b": b}
    exec("v = " + make, scope)
    exec("s = b[:, 0:2]\ni = v[..., 0:1] if v.ndim else v", scope)
    scope["t"] = scope[target]
    exec(do, scope)
    if "+=" in do and do.startswith("t +="):
        scope[target] = scope["t"]
    return scope


def _numbers(t):
    return [float(a) if a != int(a) else int(a) for a in t.numpy().ravel()]


def refused(e):
    global last_error
    last_error = f"{type(e).__name__}: {e}"
    return "error"


def read_values(make, do, target):
    """Values of b, v, s, i after the write, as lists; or "error" where the write is refused."""
    try:
        scope = _execute(paddle.to_tensor(_start()), make, do, target)
        return [_numbers(scope[k]) for k in "bvsi"]
    except Exception as e:  # noqa: BLE001  (which error is not compared)
        return refused(e)


def _loss(b, make, do, target, of_v=True):
    scope = _execute(b, make, do, target)
    b, v = scope["b"], scope["v"]
    cb = paddle.to_tensor(_weights(b.size, 3)).reshape(b.shape)
    cv = paddle.to_tensor(_weights(v.size, 5)).reshape(v.shape)
    return (b * cb).sum() + (v * cv).sum() if of_v else (b * cb).sum()


def read_gradient(make, do, target):
    """Gradient of the loss by x, as a list; or "error"."""
    try:
        x = paddle.to_tensor(_start(), stop_gradient=False)
        _loss(x * 1.0, make, do, target).backward()
        return _numbers(x.grad) if x.grad is not None else [0] * 24
    except Exception as e:  # noqa: BLE001
        return refused(e)


def true_gradient(make, do, target):
    """Central differences of the loss, exact here; or "error" where the program is refused.

    A cut view counts as a constant of the loss.
    """
    out = []
    try:
        for k in range(24):
            ends = []
            for step in (0.125, -0.125):
                x = _start()
                x.ravel()[k] += step
                ends.append(float(_loss(paddle.to_tensor(x), make, do, target, make not in CUTS)))
            out.append((ends[0] - ends[1]) * 4)
    except Exception as e:  # noqa: BLE001
        return refused(e)
    return [int(a) if a == int(a) else a for a in out]


def in_child(f, *args):
    """What ``f`` returns, or "crash" where it takes its process down (Paddle's unstack gradient does)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(10)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(write, json.dumps(f(*args)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        text = f.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else "crash"


def main(path):
    paddle.disable_signal_handler()
    programs, seen = {}, {}
    for name, make, do, target in cases():
        entry = [in_child(f, make, do, target) for f in (read_values, read_gradient)]
        unseen = make in CUTS and target == "v"
        entry.append(entry[1] if unseen else in_child(true_gradient, make, do, target))
        programs[name] = [seen.setdefault(json.dumps(e, separators=(",", ":")), len(seen)) for e in entry]
    write(path, programs, seen)


def write(path, programs, seen):
    """The file: ``programs`` {id: [values, Paddle's gradient, true gradient]} as places in the list ``results``."""
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"results":[\n' + ",\n".join(seen) + '\n],\n"programs":{\n')
        f.write(",\n".join(f"{json.dumps(k)}:{json.dumps(v)}" for k, v in programs.items()) + "\n}}\n")
    print(len(programs), "programs,", len(seen), "results")


if __name__ == "__main__":
    main(sys.argv[1])
