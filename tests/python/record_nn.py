# SPDX-License-Identifier: Apache-2.0
"""NN tests: records what PaddlePaddle does on the cases of ``nn_cases.py``.

Usage, with an interpreter that has PaddlePaddle: ``<oracle python> tests/python/record_nn.py``. Writes
``data/nn_reference.pkl.xz`` beside this file: plain dicts of NumPy arrays.
"""
import lzma
import pathlib
import pickle
import warnings

import numpy as np
import paddle
from nn_cases import cases, functional_cases
from paddle import nn

OUT = pathlib.Path(__file__).parent / "data" / "nn_reference.pkl.xz"


def flat(value):
    """Tensors of nested tuples and lists."""
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in flat(item)]
    return [value]


def weighted_sum(outputs):
    """One number that depends on every element of the differentiable outputs in its own way; None without
    any.
    """
    total = None
    for t in outputs:
        if "float" in str(t.dtype) and not t.stop_gradient:
            weights = np.cos(np.arange(int(t.size))).astype("float32").reshape(t.shape)
            part = (t * paddle.to_tensor(weights)).sum()
            total = part if total is None else total + part
    return total


def record(expression, inputs, train):
    """State, printing, outputs and gradients of one case."""
    layer = eval(expression, {"nn": nn, "paddle": paddle})
    layer.train() if train else layer.eval()
    row = {"expression": expression, "state": {k: v.numpy().copy() for k, v in layer.state_dict().items()},
           "parameters": [name for name, _ in layer.named_parameters()], "repr": repr(layer)}
    if inputs is None:
        return row
    tensors = [paddle.to_tensor(i) if isinstance(i, np.ndarray) else i for i in inputs]
    for t in tensors:
        if isinstance(t, paddle.Tensor) and "float" in str(t.dtype):
            t.stop_gradient = False
    outputs = flat(layer(*tensors))
    row["outputs"] = [t.numpy() for t in outputs]
    loss = weighted_sum(outputs)
    if loss is not None:
        loss.backward()
        row["gradients"] = {n: p.grad.numpy() for n, p in layer.named_parameters() if p.grad is not None}
        row["input_gradients"] = [t.grad.numpy() if isinstance(t, paddle.Tensor) and t.grad is not None
                                  else None
                                  for t in tensors]
    row["state_after"] = {k: v.numpy() for k, v in layer.state_dict().items() if k in ("_mean", "_variance")}
    return row


def record_function(expression, inputs):
    """Outputs and gradients of one functional case."""
    tensors = [paddle.to_tensor(i) for i in inputs]
    for t in tensors:
        t.stop_gradient = "float" not in str(t.dtype)
    outputs = flat(eval(expression, {"F": nn.functional, **dict(zip("abcdefg", tensors))}))
    row = {"expression": expression, "outputs": [t.numpy() for t in outputs],
           "gradients": [None] * len(tensors)}
    loss = weighted_sum(outputs)
    if loss is not None:
        loss.backward()
        row["gradients"] = [None if t.grad is None else t.grad.numpy() for t in tensors]
    return row


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    paddle.seed(7)
    rows = {"layers": [record(*case) for case in cases()],
            "functions": [record_function(*case) for case in functional_cases()]}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(lzma.compress(pickle.dumps(rows, protocol=4), preset=9))
    print(f"{len(rows['layers'])} + {len(rows['functions'])} cases, {OUT.stat().st_size} bytes, "
          f"paddle {paddle.__version__}")
