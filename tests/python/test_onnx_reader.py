# SPDX-License-Identifier: Apache-2.0
"""Reading ONNX files: what they may hold, and what is refused with a place and a reason, quickly and without memory."""
import os
import resource

import numpy as np
import pytest

import yuloh
from onnx_writer import attribute, field, function, graph, graph_attribute, model, node, port, tensor

X, Y = port("x"), port("y", ())
RELU = node("Relu", ["x"], ["y"], name="first")
A = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def load(tmp_path):
    def f(data, name="m.onnx"):
        path = tmp_path / name
        path.write_bytes(data)
        return yuloh.onnx.load(path)
    return f


def refused(load, data, *words):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((ValueError, OSError)) as e:
        load(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB
    text = str(e.value)
    assert "m.onnx" in text
    for w in words:
        assert w in text, text


def test_ports_and_values(load):
    m = load(model(graph([node("MatMul", ["x", "w"], ["y"])], [X], [Y], [tensor("w", A)])))
    assert m.inputs == [("x", "float32", ["N", 4])] and m.outputs == [("y", "float32", [])] or m.outputs[0][0] == "y"
    x = np.ones((3, 4), np.float32)
    assert (m(x)[0].numpy() == x @ A).all() and (m(x=x)[0].numpy() == x @ A).all() and (m({"x": x})[0].numpy() == x @ A).all()
    with pytest.raises(TypeError, match="missing"):
        m()
    with pytest.raises(ValueError, match=r"'x' of .*m.onnx has shape \[3, 5\]; expected \[N, 4\]"):
        m(np.ones((3, 5), np.float32))
    with pytest.raises(TypeError, match="dtype int64; expected float32"):
        m(np.ones((3, 4), np.int64))


def test_nodes_in_any_order(load):
    m = load(model(graph([node("Neg", ["a"], ["y"]), node("Relu", ["x"], ["a"])], [X], [Y])))
    assert m(np.array([[1, -1, 2, -2]], np.float32))[0].numpy().tolist() == [[-1, 0, -2, 0]]


def test_weights_are_not_copied(load, tmp_path):
    big = np.ones((2000, 5000), np.float32)  # 40 MB
    before = yuloh._core.memory_stats()["allocated"]
    w = tensor("wx", big)
    data = model(graph([node("Gather", ["wx", "i"], ["y"])], [port("i", (1,), 7)], [Y], [w]))
    while data.index(big.tobytes()[:64]) % 4:  # elements on their own boundary
        w = field(12, "x") + w
        data = model(graph([node("Gather", ["wx", "i"], ["y"])], [port("i", (1,), 7)], [Y], [w]))
    m = load(data)
    assert yuloh._core.memory_stats()["allocated"] - before < 1 << 20
    assert m(np.array([3]))[0].numpy().tolist() == big[3:4].tolist()


def test_external_data(load, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"\0" * 4 + A.tobytes())

    def with_data(**where):
        return model(graph([node("MatMul", ["x", "w"], ["y"])], [X], [Y], [tensor("w", dims=(4, 2), external=where)]))
    m = load(with_data(location="sub/w.bin", offset="4", length="32"))
    assert (m(np.eye(4, dtype=np.float32))[0].numpy() == A).all()
    os.symlink("/etc/passwd", tmp_path / "link")
    for where, word in [({"location": "../w.bin"}, "outside"), ({"location": "/etc/passwd"}, "relative"), ({"location": "link"}, "outside"),
                        ({"location": "sub/w.bin", "offset": "8"}, "expected 32"), ({"location": "sub/w.bin", "length": "31"}, "expected 32"),
                        ({"location": "sub/w.bin", "offset": "-4"}, "expected a number"), ({"location": "sub/w.bin", "offset": "9" * 30}, "number"),
                        ({}, "relative"), ({"location": "sub/none"}, "m.onnx" if False else "none")]:
        with pytest.raises((ValueError, OSError), match=word):
            load(with_data(**where))


def test_cut_off_files(load):
    data = model(graph([node("MatMul", ["x", "w"], ["y"], [attribute("a", [1, 2])])], [X], [Y], [tensor("w", A)]))
    for n in range(0, len(data)):
        try:
            load(data[:n])
        except (ValueError, OSError) as e:
            assert "m.onnx" in str(e)
        else:
            pytest.fail(f"{n} of {len(data)} bytes were taken for a model")


@pytest.mark.parametrize("data, words", [
    (b"", ["empty"]),
    (b"hello", ['text, "hello"']),
    (field(1, 9), ["no graph"]),
    (field(7, graph([RELU], [X], [Y])), ["no IR version"]),
    (model(graph([RELU, node("Neg", ["x"], ["y"], name="second")], [X], [Y])), ["'y'", "made twice", "second"]),
    (model(graph([node("Add", ["x", "b"], ["a"], name="p"), node("Neg", ["a"], ["b"]), node("Neg", ["a"], ["y"])], [X], [Y])), ["cycle"]),
    (model(graph([node("Relu", ["z"], ["y"], name="n7")], [X], [Y])), ["n7", "'z'", "nothing makes"]),
    (model(graph([RELU], [X], [port("q", ())])), ["'q'", "never made"]),
    (model(graph([RELU], [X, X], [Y])), ["two inputs"]),
    (model(graph([RELU], [X], [Y], [tensor("w", dims=(1 << 40, 1 << 40), raw=b"abcd")])), ["'w'", "no file can hold"]),
    (model(graph([RELU], [X], [Y], [tensor("w", dims=(1 << 30,), raw=b"abcd")])), ["'w'", "4 bytes of data", "4294967296"]),
    (model(graph([RELU], [X], [Y], [tensor("w", dims=(-3,), raw=b"")])), ["'w'", "dimension of -3"]),
    (model(graph([RELU], [X], [Y], [tensor("w", dims=(1,), raw=b"abcd", kind=77)])), ["element type 77"]),
    (model(graph([RELU], [X], [Y], [tensor("w", A), tensor("w", A)])), ["two weights", "'w'"]),
    (model(graph([node("Relu", ["x"], ["y"], [attribute("a", 1), attribute("a", 2)])], [X], [Y])), ["two attributes"]),
    (model(graph([RELU], [X], [Y], sparse=[field(1, tensor("w", np.ones(1, np.float32))) + field(2, tensor("", np.zeros(1, np.int64), kind=7))
                                           + field(3, 1 << 20) + field(3, 1 << 19)])), ["out of proportion"]),
    (model(graph([node("f", ["x"], ["y"], domain="local")], [X], [Y]),
           functions=[function("f", ["a"], ["b"], [node("g", ["a"], ["b"], domain="local")]),
                      function("g", ["a"], ["b"], [node("f", ["a"], ["b"], domain="local")])]), ["calls itself"]),
])
def test_refused(load, data, words):
    refused(load, data, *words)


def test_deep_nesting(load):
    body = graph([RELU], [], [Y])
    for _ in range(3000):
        body = graph([node("If", ["x"], ["y"], [graph_attribute("then_branch", body)])], [], [Y])
    refused(load, model(body), "nested")
    calls = [function(f"f{k}", ["a"], ["b"], [node(f"f{k + 1}", ["a"], ["b"], domain="local")]) for k in range(20000)]
    refused(load, model(graph([node("f0", ["x"], ["y"], domain="local")], [X], [Y]), functions=calls), "deep")


def test_functions_that_explode(load):
    """Each calls the next twice: 2^60 nodes from 60 functions."""
    calls = [function(f"f{k}", ["a"], ["b"], [node(f"f{k + 1}", ["a"], ["c"], domain="local"), node(f"f{k + 1}", ["c"], ["b"], domain="local")])
             for k in range(60)] + [function("f60", ["a"], ["b"], [node("Identity", ["a"], ["b"])])]
    m = load(model(graph([node("f0", ["x"], ["y"], domain="local")], [X], [Y]), functions=calls))
    with pytest.raises(ValueError, match="nodes come out"):
        m(np.ones((1, 4), np.float32))


def test_unsupported_are_listed_and_added(load):
    m = load(model(graph([node("Twist", ["x"], ["a"], [attribute("by", 3.0)], name="t1"), node("Twist", ["a"], ["y"], [attribute("by", 2.0)], domain="")], [X], [Y])))
    assert m.unsupported() == [("Twist", 2, "Twist 't1'")]
    with pytest.raises(NotImplementedError, match="Twist .*mapping"):
        m(np.ones((1, 4), np.float32))

    @yuloh.onnx.mapping("Twist")
    def twist(attrs, x):
        return x * attrs["by"]
    assert m.unsupported() == [] and m(np.ones((1, 4), np.float32))[0].numpy().tolist() == [[6.0] * 4]

    @yuloh.onnx.mapping("Twist")
    def broken(attrs, x):
        raise KeyError("from the mapping")
    with pytest.raises(KeyError, match="from the mapping"):
        m(np.ones((1, 4), np.float32))


def test_function_attributes(load):
    """A function's node takes its attribute from the caller."""
    ref = field(1, "alpha") + field(20, 1) + field(21, "slope")
    f = function("Lr", ["a"], ["b"], [node("LeakyRelu", ["a"], ["b"], [ref])])
    m = load(model(graph([node("Lr", ["x"], ["y"], [attribute("slope", 0.5)], domain="local")], [X], [Y]), functions=[f]))
    assert m(np.array([[-2, 1, -4, 0]], np.float32))[0].numpy().tolist() == [[-1, 1, -2, 0]]


def test_loops_with_absurd_trip_counts(load):
    body = graph([node("Identity", ["c"], ["c1"]), node("Identity", ["s"], ["s1"])], [port("i", (), 7), port("c", (), 9), port("s")],
                 [port("c1", (), 9), port("s1", ())])
    nodes = [node("Loop", ["n", "", "x"], ["y"], [graph_attribute("body", body)])]
    m = load(model(graph(nodes, [X], [Y], [tensor("n", np.array(10**15), kind=7)])))
    with pytest.raises(ValueError, match="nodes come out"):
        m(np.ones((1, 4), np.float32))


def test_shapes_without_data(load):
    """Shape -> Gather -> Concat -> Reshape is known from the input's type; NonZero is not."""
    weights = [tensor("zero", np.array(0), kind=7), tensor("rest", np.array([-1]), kind=7), tensor("axes", np.array([0]), kind=7)]
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Unsqueeze", ["n", "axes"], ["n1"]),
             node("Concat", ["n1", "rest"], ["t"], [attribute("axis", 0)]), node("Reshape", ["x", "t"], ["y"])]
    m = load(model(graph(nodes, [port("x", ("N", 2, 3))], [Y], weights)))
    assert m.infer_types([5, 2, 3]) == [("float32", [5, 6])] and m.infer_types([7, 2, 3]) == [("float32", [7, 6])]
    m = load(model(graph([node("NonZero", ["x"], ["y"], name="nz")], [X], [port("y", (), 7)])))
    with pytest.raises(ValueError, match="NonZero 'nz' needs the value of 'x'"):
        m.infer_types([2, 4])
    assert m(np.array([[0, 1, 0, 2]], np.float32))[0].numpy().tolist() == [[0, 0], [1, 3]]
    branches = [graph_attribute(k, graph([node(op, ["x"], ["r"])], [], [port("r", ())])) for k, op in (("then_branch", "Neg"), ("else_branch", "Relu"))]
    m = load(model(graph([node("If", ["c"], ["y"], branches)], [X, port("c", (), 9)], [Y])))
    x = np.array([[-1, 1, -2, 2]], np.float32)
    assert m(x, np.array(True))[0].numpy().tolist() == [[1, -1, 2, -2]] and m(x, np.array(False))[0].numpy().tolist() == [[0, 1, 0, 2]]
    with pytest.raises(ValueError, match="If 'y' needs the value of 'c'"):
        m.infer_types([1, 4], [])


def test_reads_in_the_middle_keep_other_values(load):
    """A condition that hangs on data runs what was recorded; values from before are still there afterwards."""
    branches = [graph_attribute(k, graph([node(op, ["big"], ["r"])], [], [port("r", ())])) for k, op in (("then_branch", "Neg"), ("else_branch", "Relu"))]
    nodes = [node("Exp", ["x"], ["big"]), node("ReduceSum", ["big"], ["s"], [attribute("keepdims", 0)]), node("Greater", ["s", "lim"], ["c"]),
             node("If", ["c"], ["b"], branches), node("Add", ["b", "big"], ["y"])]
    m = load(model(graph(nodes, [port("x", (100, 100))], [Y], [tensor("lim", np.array(1e9, np.float32))])))
    x = np.random.default_rng(0).standard_normal((100, 100)).astype(np.float32)
    np.testing.assert_allclose(m(x)[0].numpy(), 2 * np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(m(x + 20)[0].numpy(), np.zeros((100, 100)), atol=1e-6)


def test_what_is_made_of_weights_is_made_once(load):
    m = load(model(graph([node("Transpose", ["w"], ["t"]), node("Exp", ["t"], ["e"]), node("MatMul", ["x", "e"], ["y"])], [X], [Y], [tensor("w", A.T.copy())])))
    x = yuloh.ones([1, 4])
    want = (np.ones((1, 4)) @ np.exp(A)).astype(np.float32)
    kernels = []
    for _ in range(3):
        before = yuloh._core.stats()["kernels"]
        np.testing.assert_allclose(m(x)[0].numpy(), want, rtol=1e-5)
        kernels.append(yuloh._core.stats()["kernels"] - before)
    assert kernels[1] == kernels[2] == 1


def test_threads_share_one_model(load):
    from concurrent.futures import ThreadPoolExecutor
    m = load(model(graph([node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])], [X], [Y], [tensor("w", A)])))

    def run(n):
        x = np.full((n, 4), n, np.float32)
        return (m(x)[0].numpy() == np.maximum(x @ A, 0)).all()
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, list(range(1, 17)) * 4))
