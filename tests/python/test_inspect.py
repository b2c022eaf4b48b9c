# SPDX-License-Identifier: Apache-2.0
"""`yuloh inspect` and `paddle.inference.summary`."""
import json
import pathlib

import numpy as np
import onnx_writer as w
import pytest

import yuloh as paddle
from yuloh import cli, nn
from yuloh.inference import Summary, summary

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"


@pytest.fixture
def net(tmp_path):
    paddle.jit.save(nn.Sequential(nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU(), nn.AdaptiveAvgPool2D(1),
                                  nn.Flatten(), nn.Linear(8, 5)),
                    str(tmp_path / "net"),
                    input_spec=[paddle.static.InputSpec([None, 3, 16, 16], name="image")])
    return tmp_path / "net"


def test_figures_are_those_of_the_plan(net, capsys):
    found = summary(str(net))  # a prefix, as jit.save takes it
    text = capsys.readouterr().out
    assert isinstance(found, Summary) and str(found) in text
    data = found.as_dict()
    assert data["format"] == "Yuloh" and data["operators"]["conv"] == 1 and not data["unsupported"]
    assert data["parameters"] == 8 * 3 * 9 + 8 + 4 * 8 + 8 * 5 + 5
    one, eight = data["bindings"]
    assert list(one["sizes"].values()) == [1] and list(eight["sizes"].values()) == [8]
    least = 2 * 8 * 14 * 14 * 3 * 9  # the convolution alone
    assert least < one["flops"] < 1.2 * least and 7.5 * one["flops"] < eight["flops"] < 8.5 * one["flops"]
    predictor = paddle.inference.create_predictor(paddle.inference.Config(
        str(net) + ".json",
        str(net) + ".pdiparams"))
    plan = predictor.prepare({"image": [8, 3, 16, 16]})
    file = summary(str(net) + ".json", sizes={"batch": 8}, show=False)
    assert [file["bindings"][0][k] for k in ("flops", "bytes", "peak_bytes", "steps")
            ] == [plan[k] for k in ("flops", "bytes", "peak_bytes", "steps")]
    assert data["fusion"]["batch_norms"] == 1 and data["fusion"]["batch_norms_folded"] == 1
    assert "int8 suits" in text and "kernels" not in one and json.loads(found.as_json()) == data
    assert capsys.readouterr().out == ""


def test_every_operator_with_its_shapes(net, capsys):
    for file in (f"{net}.yuloh", f"{net}.json"):
        assert cli.main(["inspect", file, "--ops", "--size", "batch=4", "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        found = {op["operator"].split(".")[-1]: op["outputs"] for op in data["details"]}
        assert found["conv" if file.endswith("yuloh") else "conv2d"] == ["float32[4, 8, 14, 14]"], found
        assert sum(k["flops"] for k in data["bindings"][0]["kernels"]) == pytest.approx(data["bindings"][0]["flops"])
        assert cli.main(["inspect", file, "--ops"]) == 0
        assert "float32[8, 8, 14, 14]" in capsys.readouterr().out


def test_files_of_others(capsys, tmp_path):
    assert cli.main(
        ["inspect", str(DATA / "paddle_models" / "encoder.json"), "--size", "ids.0=2", "--size", "ids.1=7"]) == 0
    text = capsys.readouterr().out
    assert "Paddle (PIR)" in text and "ids.0=2, ids.1=7" in text and "softmax" in text
    path = tmp_path / "m.onnx"
    path.write_bytes(
        w.model(
            w.graph([w.node("Bend", ["x"], ["a"], name="here"),
                     w.node("Relu", ["a"], ["y"])], [w.port("x")], [w.port("y")])))
    assert cli.main(["inspect", str(path)]) == 1
    text = capsys.readouterr().out
    assert "Bend x1, first at" in text and "hook" in text and "opset 17" in text
    assert cli.main(["inspect", str(DATA / "paddle_models" / "control.json")]) == 0
    assert "data that are fed" in capsys.readouterr().out
    assert cli.main(["inspect", str(DATA / "weights" / "zip.pt")]) == 0
    text = capsys.readouterr().out
    assert "state_dict.weight" in text and "float8_e4m3fn" in text and "lst.0" in text


@pytest.mark.parametrize("args, text", [(["none.onnx"], "no file"), (["net.yuloh", "--size", "z=3"], "no open size"),
                                        (["a:B"], "a"), (["net.yuloh", "--size", "z"], "DIM=N"),
                                        (["bad.json"], "bad.json")])
def test_bad_input_is_one_line(args, text, net, capsys, monkeypatch):
    monkeypatch.chdir(net.parent)
    (net.parent / "bad.json").write_text("{]")
    if args == ["a:B"]:
        import subprocess
        import sys
        done = subprocess.run([sys.executable, "-m", "yuloh.cli", "inspect", *args], capture_output=True, text=True)
        status, err = done.returncode, done.stderr
    else:
        status, err = cli.main(["inspect", *args]), capsys.readouterr().err
    assert status == 2 and text in err and len(err.strip().splitlines()) == 1


def test_advice_fits_the_model(tmp_path):

    def of(layer, shape):
        path = str(tmp_path / type(layer).__name__)
        paddle.jit.save(layer, path, input_spec=[paddle.static.InputSpec(shape)])
        return " ".join(summary(path, show=False)["advice"])

    class Elementwise(nn.Layer):

        def forward(self, x):
            return paddle.exp(x).sum(-1) + paddle.sin(x).mean(-1)

    assert "little time" in of(Elementwise(), [64, 4096])
    text = of(nn.TransformerEncoderLayer(32, 4, 64), [2, 16, 32])
    assert "int8 suits" in text and "layer_norm" in text
    assert np.isfinite(summary(str(tmp_path / "Elementwise"), show=False)["bindings"][0]["flops"])
