# SPDX-License-Identifier: Apache-2.0
"""NN tests: layers against PaddlePaddle's recorded names, printing, values and gradients (see
``nn_cases.py``).
"""
import lzma
import pathlib
import pickle
import sys
import warnings

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from nn_cases import cases, functional_cases  # noqa: E402

RECORDED = pathlib.Path(__file__).parent / "data" / "nn_reference.pkl.xz"
REFERENCE = pickle.loads(lzma.decompress(RECORDED.read_bytes()))
FUNCTIONS, REFERENCE = REFERENCE["functions"], REFERENCE["layers"]
CASES, FUNCTION_CASES = cases(), functional_cases()


def flat(value):
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in flat(item)]
    return [value]


def close(wanted, got, what):
    got = got.numpy()
    assert wanted.shape == got.shape, f"{what}: shape {got.shape}, Paddle's {wanted.shape}"
    finite = np.abs(wanted[np.isfinite(wanted)]) if wanted.dtype.kind == "f" else np.abs(wanted)
    scale = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5 * max(scale, 0.1), err_msg=what)


def test_the_reference_belongs_to_the_cases():
    assert [row["expression"] for row in REFERENCE] == [case[0] for case in CASES]
    assert [row["expression"] for row in FUNCTIONS] == [case[0] for case in FUNCTION_CASES]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{i}-{c[0][3:60]}" for i, c in enumerate(CASES)])
def test_layer(number):
    (expression, inputs, train), row = CASES[number], REFERENCE[number]
    layer = eval(expression, {"nn": nn, "paddle": paddle})
    layer.train() if train else layer.eval()
    state = layer.state_dict()
    assert list(state) == list(row["state"])
    assert [list(v.shape) for v in state.values()] == [list(v.shape) for v in row["state"].values()]
    assert [name for name, _ in layer.named_parameters()] == row["parameters"]
    assert repr(layer) == row["repr"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert layer.set_state_dict(row["state"]) == ([], [])
    if inputs is None:
        return
    tensors = [paddle.to_tensor(i) if isinstance(i, np.ndarray) else i for i in inputs]
    for t in tensors:
        if isinstance(t, paddle.Tensor) and "float" in str(t.dtype):
            t.stop_gradient = False
    outputs = flat(layer(*tensors))
    assert len(outputs) == len(row["outputs"])
    total = None
    for t in outputs:
        if "float" in str(t.dtype) and not t.stop_gradient:
            weights = np.cos(np.arange(int(t.size))).astype("float32").reshape(t.shape)
            part = (t * paddle.to_tensor(weights)).sum()
            total = part if total is None else total + part
    assert (total is not None) == ("gradients" in row)
    if total is not None:
        total.backward()
    for place, (wanted, got) in enumerate(zip(row["outputs"], outputs)):
        close(wanted, got, f"output {place}")
    parameters = dict(layer.named_parameters())
    for name, wanted in row.get("gradients", {}).items():
        close(wanted, parameters[name].grad, f"gradient of {name}")
    for place, wanted in enumerate(row.get("input_gradients", [])):
        if wanted is not None:
            close(wanted, tensors[place].grad, f"gradient of input {place}")
    after = layer.state_dict()
    for name, wanted in row["state_after"].items():
        close(wanted, after[name], name)


@pytest.mark.parametrize("number", range(len(FUNCTION_CASES)),
                         ids=[f"{i}-{c[0][2:60]}" for i, c in enumerate(FUNCTION_CASES)])
def test_function(number):
    (expression, inputs), row = FUNCTION_CASES[number], FUNCTIONS[number]
    tensors = [paddle.to_tensor(i) for i in inputs]
    for t in tensors:
        t.stop_gradient = "float" not in str(t.dtype)
    outputs = flat(eval(expression, {"F": nn.functional, **dict(zip("abcdefg", tensors))}))
    assert len(outputs) == len(row["outputs"])
    total = None
    for t in outputs:
        if "float" in str(t.dtype) and not t.stop_gradient:
            weights = np.cos(np.arange(int(t.size))).astype("float32").reshape(t.shape)
            part = (t * paddle.to_tensor(weights)).sum()
            total = part if total is None else total + part
    if total is not None:
        total.backward()
    for place, (wanted, got) in enumerate(zip(row["outputs"], outputs)):
        close(wanted, got, f"output {place}")
    for place, wanted in enumerate(row["gradients"]):
        if wanted is not None and np.abs(wanted).max(initial=0) > 0:
            close(wanted, tensors[place].grad, f"gradient of input {place}")
