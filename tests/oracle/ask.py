# SPDX-License-Identifier: Apache-2.0
"""Asks the oracle: runs Python in Paddle terms with the real Paddle and prints what the expressions are.

Oracle room, for whoever writes an op. Usage, with an interpreter that has PaddlePaddle::

    <oracle python> tests/oracle/ask.py 'F.softmax(T([[1., 2.]]), axis=0)' 'paddle.arange(3) // 2'
    echo 'x = T([2., 0., 3.], grad=1); paddle.prod(x).backward(); x.grad' | <oracle python> tests/oracle/ask.py

Each argument (or each line of standard input) may hold statements separated by ``;``; the value of the last one is
printed. Names at hand: paddle, np, nn, F, T(data, dtype=None, grad=False) -> tensor. An error is printed as its
type and text. Lines share their variables.
"""
import ast
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


def make_tensor(data, dtype=None, grad=False):
    """Tensor of ``data``; ``grad=True`` makes it ask for a gradient."""
    return paddle.to_tensor(data, dtype=dtype, stop_gradient=not grad)


def show(value):
    if isinstance(value, paddle.Tensor):
        with np.printoptions(precision=9, threshold=200, linewidth=110):
            if value.dtype in (paddle.bfloat16,):
                data = value.astype("float32").numpy()
            else:
                data = value.numpy()
            return f"{value.dtype} {list(value.shape)} stop_gradient={value.stop_gradient}\n{data!r}"
    if isinstance(value, (list, tuple)) and any(isinstance(v, paddle.Tensor) for v in value):
        return "\n".join(f"[{i}] {show(v)}" for i, v in enumerate(value))
    return repr(value)


def ask(line, scope):
    tree = ast.parse(line.strip())
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<ask>", "exec"), scope)
    if last is not None:
        print(show(eval(compile(ast.Expression(last.value), "<ask>", "eval"), scope)), flush=True)


def main():
    scope = dict(paddle=paddle, np=np, nn=nn, F=F, T=make_tensor)
    for line in sys.argv[1:] or sys.stdin:
        if line.strip():
            try:
                ask(line, scope)
            except Exception as e:  # noqa: BLE001  (any error is an answer here)
                text = [t for t in str(e).splitlines() if t.strip()]
                print(f"{type(e).__name__}: " + " | ".join(text[-3:]), flush=True)


if __name__ == "__main__":
    main()
