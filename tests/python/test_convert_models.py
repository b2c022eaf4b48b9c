# SPDX-License-Identifier: Apache-2.0
"""`yuloh convert`: models and weights on the command line."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx_writer as w
import pytest

import yuloh as paddle
from yuloh import cli
from yuloh.convert.compare import Difference, bindings, open_sizes
from yuloh.convert.sources import ModelSource, layer_named, parse_spec

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"


def run(capsys, *args):
    status = cli.main([str(a) for a in args])
    out = capsys.readouterr()
    return status, out.out, out.err


def command(*args, cwd=None):
    return subprocess.run([sys.executable, "-m", "yuloh.cli", *map(str, args)],
                          capture_output=True,
                          text=True,
                          cwd=cwd,
                          timeout=300)


@pytest.fixture
def onnx_file(tmp_path):

    def write(nodes, name="m.onnx", outputs=("y", ), inputs=("x", ), weights=()):
        path = tmp_path / name
        path.write_bytes(w.model(w.graph(nodes, [w.port(n) for n in inputs], [w.port(n) for n in outputs], weights)))
        return path

    return write


def test_a_model_is_written_and_compared_at_two_sizes(capsys, onnx_file, tmp_path):
    weight = np.arange(16, dtype="float32").reshape(4, 4) / 10
    source = onnx_file(
        [w.node("MatMul", ["x", "w"], ["h"]), w.node("Relu", ["h"], ["y"])], weights=[w.tensor("w", weight)])
    for suffix in (".yuloh", ".json", ".onnx"):
        out = tmp_path / ("out" + suffix)
        status, text, _ = run(capsys, "convert", source, out)
        assert status == 0 and "N=2" in text and "N=3" in text and "Same" in text and out.exists()
        x = np.random.RandomState(0).randn(5, 4).astype("float32")
        config = paddle.inference.Config(str(out), *([str(tmp_path / "out.pdiparams")] if suffix == ".json" else []))
        y = paddle.inference.create_predictor(config).run([x])[0].numpy()
        np.testing.assert_allclose(y, np.maximum(x @ weight, 0), rtol=1e-5, atol=1e-6)
    status, text, _ = run(capsys, "convert", source, tmp_path / "again.yuloh", "--json", "--size", "batch=1,9")
    report = json.loads(text)
    assert status == 0 and report["same"] and [d["sizes"]["N"] for d in report["differences"]] == [1, 9]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "again.yuloh", "m.onnx", "out.json", "out.onnx", "out.pdiparams", "out.yuloh"
    ]


def test_unsupported_operators_are_listed_before_anything_is_written(capsys, onnx_file, tmp_path):
    source = onnx_file([
        w.node("Bend", ["x"], ["a"], name="first"),
        w.node("Bend", ["a"], ["b"]),
        w.node("Fold", ["b"], ["y"], domain="local", name="third")
    ])
    out = tmp_path / "out.yuloh"
    status, text, _ = run(capsys, "convert", source, out)
    assert status == 1 and not out.exists()
    assert "2 operators are not supported" in text and "Bend" in text and "x2" in text and "first" in text and "local.Fold" in text
    assert "--hook" in text
    hook = tmp_path / "hook.py"
    hook.write_text("import yuloh\n@yuloh.onnx.mapping('Bend')\ndef bend(attrs, x): return x + 1\n"
                    "@yuloh.onnx.mapping('local.Fold')\ndef fold(attrs, x): return x * 2\n")
    done = command("convert", source, out, "--hook", hook)
    assert done.returncode == 0 and "Same" in done.stdout, done.stdout + done.stderr
    x = np.ones((2, 4), "float32")
    assert (paddle.inference.create_predictor(paddle.inference.Config(str(out))).run([x])[0].numpy() == 6).all()


def test_a_difference_is_found_and_the_file_not_put_in_place(onnx_file, tmp_path):
    source, out, hook = onnx_file([w.node("Drift", ["x"], ["y"])]), tmp_path / "out.yuloh", tmp_path / "hook.py"
    hook.write_text(
        "import yuloh\n@yuloh.onnx.mapping('Drift')\ndef drift(attrs, x): return x * (2 if x.shape[0] == 2 else 1)\n")
    done = command("convert", source, out, "--hook", hook)
    assert done.returncode == 1 and "DIFFERENT" in done.stdout and not out.exists(), done.stdout + done.stderr
    done = command("convert", source, out, "--hook", hook, "--keep", "--json")
    assert done.returncode == 1 and out.exists() and not json.loads(done.stdout)["same"]
    assert command("convert", source, out, "--hook", hook, "--rtol", "1").returncode == 0


@pytest.mark.parametrize("args, text", [(["none.onnx", "x.json"], "no file"), (["m.onnx", "x.foo"], "suffix"),
                                        (["m.onnx", "x.pdparams"], "weight file"),
                                        (["m.onnx", "x.json", "--size", "q=3"], "no open size 'q'"),
                                        (["m.onnx", "x.json", "--size", "N=zero"], "DIM=N"),
                                        (["m.onnx", "x.json", "--shape", "q=3"], "q"),
                                        (["m.onnx", "x.json", "--hook", "none.py"], "hook"),
                                        (["a.b:C", "x.json"], "a.b"),
                                        (["m.onnx", "x.json", "--input-spec", "[1]"], "Layer"),
                                        (["bad.onnx", "x.json"], "bad.onnx")])
def test_bad_input_is_one_line_and_status_2(args, text, capsys, onnx_file, tmp_path, monkeypatch):
    onnx_file([w.node("Relu", ["x"], ["y"])])
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x07garbage")
    monkeypatch.chdir(tmp_path)
    if ":" in args[0]:
        done = command("convert", *args, cwd=tmp_path)
        status, err = done.returncode, done.stderr
    else:
        status, _, err = run(capsys, "convert", *args)
    assert status == 2 and text in err and len(err.strip().splitlines()) == 1 and "Traceback" not in err
    assert sorted(os.listdir(tmp_path)) == ["bad.onnx", "m.onnx"]


def test_a_layer_with_weights_of_pytorchs(tmp_path):
    (tmp_path / "net.py").write_text(
        "import paddle\nclass Net(paddle.nn.Layer):\n    def __init__(self, out=4):\n        super().__init__()\n"
        "        self.l = paddle.nn.Linear(3, out)\n    def forward(self, x):\n        return self.l(x)\n")
    paddle.save({"module.l.weight": np.ones((5, 3), "float32"), "module.l.bias": np.zeros(5, "float32")},
                str(tmp_path / "w.safetensors"))
    done = command("convert",
                   "net.py:Net(out=5)",
                   "o.yuloh",
                   "--input-spec",
                   "x=float32[N,3]",
                   "--weights",
                   "w.safetensors",
                   "--from",
                   "pytorch",
                   cwd=tmp_path)
    assert done.returncode == 0 and "transposed" not in done.stderr and "Same" in done.stdout, done.stdout + done.stderr
    out = paddle.inference.create_predictor(paddle.inference.Config(str(tmp_path / "o.yuloh"))).run(
        [np.ones((1, 3), "float32")])
    assert (out[0].numpy() == 3).all()
    done = command("convert",
                   "w.safetensors",
                   "w.pdparams",
                   "--model",
                   "net.py:Net",
                   "--from",
                   "pytorch",
                   cwd=tmp_path)
    assert done.returncode == 1 and "Nothing was written" in done.stdout and not (tmp_path / "w.pdparams").exists()
    done = command("convert",
                   "w.safetensors",
                   "w.pdparams",
                   "--model",
                   "net.py:Net(5)",
                   "--from",
                   "pytorch",
                   cwd=tmp_path)
    assert done.returncode == 0 and "l.weight" in done.stdout and "transposed" in done.stdout
    assert list(paddle.load(str(tmp_path / "w.pdparams"))) == ["l.weight", "l.bias"]
    done = command("convert", "w.safetensors", "v.pdparams", cwd=tmp_path)
    assert done.returncode == 0 and list(paddle.load(str(
        tmp_path / "v.pdparams"))) == ["module.l.weight", "module.l.bias"]


def test_an_input_that_decides_the_graph_can_be_set(capsys, tmp_path):
    def branch(op):
        return w.graph([w.node(op, ["x", "x"], ["r"])], outputs=[w.port("r")])
    choose = w.node("If", ["flag"], ["y"], [w.graph_attribute("then_branch", branch("Add")),
                                            w.graph_attribute("else_branch", branch("Sub"))])
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    path.write_bytes(w.model(w.graph([choose], [w.port("x"), w.port("flag", (), 9)], [w.port("y")])))
    status, text, _ = run(capsys, "convert", path, out)
    assert status == 1 and "--set" in text and not out.exists()
    for value, want in (("True", 2), ("False", 0)):
        status, text, err = run(capsys, "convert", path, out, "--set", f"flag={value}")
        assert status == 0 and "N=2" in text, text + err
        model = paddle.onnx.load(str(out))
        assert [p[0] for p in model.inputs] == ["x"] and [p[0] for p in model.outputs] == ["y"]
        assert (model(np.ones((3, 4), "float32"))[0].numpy() == want).all()
    for bad in ("flags=True", "flag=what"):
        status, _, err = run(capsys, "convert", path, out, "--set", bad)
        assert status == 2 and "flag" in err


def test_a_hook_maps_operators_of_paddles_files(tmp_path):
    hook, out = tmp_path / "hook.py", tmp_path / "o.onnx"
    hook.write_text(
        "import yuloh\n@yuloh.onnx.mapping('relu', dialect='paddle')\ndef f(attrs, x): return x * 0 + 1\n")
    plain = command("convert", DATA / "paddle_models" / "lenet.json", tmp_path / "p.yuloh")
    done = command("convert", DATA / "paddle_models" / "lenet.json", out, "--hook", hook, "--external-data", 1000)
    assert plain.returncode == 0 and done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "o.onnx.data").stat().st_size > out.stat().st_size

    def answers(path):
        predictor = paddle.inference.create_predictor(paddle.inference.Config(str(path)))
        return [predictor.run([np.full((1, 1, 28, 28), v, "float32")])[0].numpy() for v in (0, 3)]

    same, other = answers(out), answers(tmp_path / "p.yuloh")
    assert (same[0] == same[1]).all() and not (other[0] == other[1]).all()
    with pytest.raises(ValueError, match="dialect"):
        paddle.onnx.mapping("relu", dialect="torch")


@pytest.mark.parametrize("code, text", [
    ("import paddle\nclass Net(paddle.nn.Layer):\n    def forward(self, x):\n        return x.nothing()\n",
     "nothing.*net.py:4"), ("class Net:\n    def __init__(self, a):\n        pass\n", "TypeError"),
    ("class Net(:\n", "SyntaxError.*net.py:1"), ("", "no 'Net'"),
    ("import paddle\nclass Net(paddle.nn.Layer):\n    def forward(self, x):\n        return x if x.sum() > 0 else -x\n",
     "value of a tensor")
])
def test_errors_of_the_users_code_are_one_sentence(code, text, tmp_path):
    import re
    (tmp_path / "net.py").write_text(code)
    done = command("convert", "net.py:Net", "o.yuloh", "--input-spec", "[2,3]", cwd=tmp_path)
    assert done.returncode == 2 and re.search(text, done.stderr) and len(
        done.stderr.strip().splitlines()) == 1, done.stderr


def test_paddles_models_keep_their_answers(capsys, tmp_path):
    for name, out in (("lenet.pdmodel", "a.json"), ("encoder.json", "b.yuloh")):
        status, text, err = run(capsys, "convert", DATA / "paddle_models" / name, tmp_path / out, "--no-others")
        assert status == 0, text + err
    status, text, _ = run(capsys, "convert", DATA / "paddle_models" / "control.json", tmp_path / "c.yuloh")
    assert status == 1 and "depends on the data" in text


def test_specs_names_and_sizes():
    spec = parse_spec("ids=int64[N, 128]")
    assert (spec.name, list(spec.shape), str(spec.dtype)) == ("ids", [-1, 128], "paddle.int64")
    assert list(parse_spec("[]").shape) == [] and parse_spec("bfloat16[?]").dtype == paddle.bfloat16
    for bad in ("x", "x=[1.5]", "[1", "a=b=[1]"):
        with pytest.raises(ValueError):
            parse_spec(bad)
    for bad in ("Net", "os:getcwd(1+1)", "yuloh.vision:nothing"):
        with pytest.raises(ValueError):
            layer_named(bad)
    program = ModelSource.of_file(DATA / "paddle_models" / "encoder.json").program
    assert list(open_sizes(program).values()) == ["ids.0", "ids.1"]
    assert bindings(program, {"ids.0": [5], "ids.1": [6]}) == [[{"ids.0": 5, "ids.1": 6}]]
    assert bindings(program)[0] == [{"ids.0": 2, "ids.1": 64}, {"ids.0": 3, "ids.1": 96}]


def test_differences():

    def differ(a, b):
        return Difference({}, "y", np.asarray(a), np.asarray(b), 1e-4, 1e-5)

    assert differ([1.0, 2], [1.0, 2.0001]).ok and not differ([1.0, 2], [1.0, 2.01]).ok
    assert differ([np.nan, np.inf], [np.nan, np.inf]).ok and not differ([np.nan, 1], [1, 1.0]).ok
    assert not differ([np.inf], [-np.inf]).ok and not differ([1, 2], [1, 3]).ok and differ([1, 2], [1, 2]).ok
    assert "shapes differ" in differ([1.0], [[1.0]]).why and differ(np.zeros((0, 3)), np.zeros((0, 3))).ok
