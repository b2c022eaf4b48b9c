# SPDX-License-Identifier: Apache-2.0
"""Test room: models that ask for endless work. Constants and loops are refused at once, and Ctrl-C acts within a kernel."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from onnx_writer import graph, graph_attribute, attribute, model, node, port, tensor

import yuloh as paddle

X, Y = port("x", (2,)), port("y", (2,))


def ints(name, values):
    return tensor(name, np.array(values, np.int64), kind=7)


def constants(*nodes, weight=(1.0,), shape=(2**38,)):
    """A graph whose nodes make `r` of weight `w` and shape `n`; `y` is x + r."""
    weights = [tensor("w", np.array(weight, np.float32)), ints("n", shape), ints("zero", 0), ints("one", 1)]
    return model(graph([*nodes, node("Add", ["x", "r"], ["y"])], [X], [Y], weights))


def total(name):
    return node("ReduceSum", [name], ["r"], [attribute("keepdims", 0)])


def loop(trips, body, condition=True):
    inputs = [port("i", (), 7), port("c", (), 9), port("s", (2,))]
    made = graph(body, inputs, [port("c", (), 9), port("t" if body else "s", (2,))])
    weights = [ints("n", trips), tensor("go", np.array(True), kind=9)]
    return model(graph([node("Loop", ["n", "go" if condition else "", "x"], ["y"], [graph_attribute("body", made)])], [X], [Y], weights))


ENDLESS = {
    "expand": constants(node("Expand", ["w", "n"], ["e"]), total("e")),
    "tile": constants(node("Tile", ["w", "n"], ["e"]), total("e")),
    "fill": constants(node("ConstantOfShape", ["n"], ["e"]), total("e"), shape=(2**20, 2**18)),
    "range": constants(node("Range", ["zero", "n", "one"], ["e"]), node("Cast", ["e"], ["f"], [attribute("to", 1)]), total("f"), shape=2**38),
    "relu": constants(node("Expand", ["w", "n"], ["e"]), node("Relu", ["e"], ["r"])),
    "a shape": model(graph([node("Expand", ["w", "n"], ["e"]), node("ReduceSum", ["e"], ["r"]), node("Reshape", ["x", "r"], ["y"])],
                           [X], [Y], [ints("w", [0]), ints("n", [2**38])])),
    "loop, no nodes": loop(2**62, []),
    "loop": loop(2**62, [node("Add", ["s", "s"], ["t"])]),
    "loop without condition": loop(2**62, [node("Add", ["s", "s"], ["t"])], False),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("how", ["call", "predictor"])
def test_endless_constants_and_loops_are_refused_at_once(tmp_path, name, how):
    path = tmp_path / "m.onnx"
    path.write_bytes(ENDLESS[name])
    with pytest.raises((ValueError, MemoryError), match="Hint|too many elements") as caught:
        if how == "call":
            paddle.onnx.load(str(path))(paddle.ones([2]))[0].numpy()
        else:
            paddle.inference.create_predictor(paddle.inference.Config(str(path))).run([paddle.ones([2])])
    assert "m.onnx" in str(caught.value)


def test_a_program_of_our_own_cannot_ask_for_endless_constants_either(tmp_path):
    net = paddle.nn.Linear(1, 1)

    def forward(x):
        return x + net.weight.expand([2**19, 2**19]).exp().sum()

    paddle.jit.save(paddle.jit.to_static(forward), str(tmp_path / "m.yuloh"), input_spec=[paddle.static.InputSpec([2])])
    with pytest.raises(ValueError, match="elements would be computed"):
        paddle.inference.create_predictor(paddle.inference.Config(str(tmp_path / "m.yuloh"))).run([paddle.ones([2])])


def test_what_is_large_and_honest_still_folds(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(constants(node("Expand", ["w", "n"], ["e"]), total("e"), shape=(2**20,)))
    assert paddle.onnx.load(str(path))(paddle.ones([2]))[0].numpy().tolist() == [2**20 + 1] * 2
    path.write_bytes(loop(1000, [node("Add", ["s", "x"], ["t"])]))
    assert paddle.onnx.load(str(path))(paddle.ones([2]))[0].numpy().tolist() == [1001] * 2


@pytest.mark.parametrize("work", [
    "x.expand([2**37, 2]).sum().numpy()",  # one kernel
    "paddle.onnx.load('loop.onnx')(x)",  # recording: two million empty iterations that nobody can foresee, again and again
])
def test_ctrl_c_acts_within_a_kernel_and_within_a_loop(tmp_path, work):
    (tmp_path / "loop.onnx").write_bytes(loop(1_900_000, []))
    source = textwrap.dedent(f"""
        import os, signal, threading
        import yuloh as paddle
        x = paddle.rand([1, 2])[0]
        x.numpy()
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True: {work}
        except KeyboardInterrupt:
            print("interrupted", float(paddle.ones([3]).sum()))
    """)
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.strip() == "interrupted 3.0", done.stderr[-1000:]
