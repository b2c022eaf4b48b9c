# SPDX-License-Identifier: Apache-2.0
"""Test room: generated view x write x read cases, run alike by Paddle (recording) and by Yuloh (checking).

``run_all(paddle)`` gives {case: [values of base, first view, second view after the write] or "error"}.
"""
import warnings

VIEWS = {
    "row": "x[1]", "columns": "x[:, 1:3]", "step": "x[::2]", "none": "x[None]", "ellipsis": "x[..., 0]",
    "reshape": "x.reshape([2, 6])", "flatten": "x.flatten()", "transpose": "x.transpose([1, 0])", "t": "x.T",
    "unsqueeze": "x.unsqueeze(1)", "squeeze": "x.unsqueeze(0).squeeze(0)", "detach": "x.detach()", "clone": "x.clone()",
    "split": "paddle.split(x, 2, axis=1)[1]", "chunk": "paddle.chunk(x, 2, axis=1)[0]", "unbind": "paddle.unbind(x)[2]",
    "diagonal": "paddle.diagonal(x)", "row_of_t": "x.transpose([1, 0])[1]", "flat_part": "x.flatten()[2:7]",
    "t_flat": "x.transpose([1, 0]).reshape([-1])", "expand": "x.expand([2, 3, 4])", "cast": "x.astype('float32')",
    "view": "x.view([4, 3])", "tile": "x.tile([1, 1])", "slice": "paddle.slice(x, [0], [0], [2])", "index": "x[[0, 2]]",
    "add0": "x + 0", "assign": "paddle.assign(x)", "strided": "paddle.strided_slice(x, [1], [3], [0], [-2])",
}
WRITES = {
    "add_": "v.add_(paddle.full([], 1.0))", "scale_": "v.scale_(2.0)", "zero_": "v.zero_()", "fill_": "v.fill_(7.0)",
    "set_first": "v[0] = 9.0", "set_all": "v[...] = 5.0", "base_add_": "x.add_(paddle.full([], 1.0))", "base_set": "x[1, 1] = 9.0",
    "base_zero_": "x.zero_()", "clip_": "v.clip_(2.0, 6.0)", "exp_": "v.exp_()", "multiply_view": "v *= 3.0",
    "set_value": "v.set_value(v.numpy() * 0 + 4)", "base_set_value": "x.set_value(x.numpy() * 0 + 4)",
}


def run_case(paddle, view, second, write):
    """Values of the base, the view and a second view that was made before the write."""
    scope = {"paddle": paddle, "x": paddle.arange(12, dtype="float32").reshape([3, 4]).clone()}
    try:
        exec(f"v = {VIEWS[view]}\nw = {VIEWS[second]}\n{WRITES[write]}", scope)
        return [scope[n].numpy().astype(float).round(4).tolist() for n in "xvw"]
    except Exception:  # noqa: BLE001  (an error is an answer)
        return "error"


def run_all(paddle):
    """All cases; the second view is the next one in the list, so that every view is read beside others."""
    warnings.simplefilter("ignore")
    names = list(VIEWS)
    return {f"{v} {names[(k + 3) % len(names)]} {w}": run_case(paddle, v, names[(k + 3) % len(names)], w)
            for k, v in enumerate(names) for w in WRITES}
