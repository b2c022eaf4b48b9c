# SPDX-License-Identifier: Apache-2.0
"""`yuloh diff`: with a fault planted in one op of a copy, exactly that op is named; without one, everything is rounding."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import yuloh as paddle
from onnx_writer import attribute, graph, model, node, port, tensor
from yuloh.cli import main
from yuloh.inference import diff

MODELS = pathlib.Path(__file__).resolve().parent.parent / "data" / "paddle_models"
RNG = np.random.default_rng(5)
W1 = (RNG.standard_normal((16, 8)) / 4).astype("float32")
W2 = (RNG.standard_normal((8, 8)) / 3).astype("float32")
B1 = RNG.standard_normal(8).astype("float32")


def write_net(path, w1=W1, w2=W2, bias=B1, alpha=0.1, axis=1, middle=None, scale=1.0):
    """x [N, 16] -> matmul -> add -> leaky relu -> (middle) -> matmul -> softmax."""
    nodes = [node("MatMul", ["x", "w1"], ["h0"], name="first"), node("Add", ["h0", "b"], ["h1"], name="bias"),
             node("LeakyRelu", ["h1"], ["h2"], [attribute("alpha", alpha)], name="leaky")]
    last = "h2"
    for op, attributes in middle or ():
        out = f"m{len(nodes)}"
        nodes.append(node(op, [last], [out], attributes, name=f"middle_{out}"))
        last = out
    nodes += [node("MatMul", [last, "w2"], ["h3"], name="second"), node("Softmax", ["h3"], ["y"], [attribute("axis", axis)], name="soft")]
    weights = [tensor("w1", w1 * np.float32(scale)), tensor("w2", w2), tensor("b", bias)]
    path.write_bytes(model(graph(nodes, [port("x", ("N", 16))], [port("y", ("N", 8))], weights)))
    return str(path)


@pytest.fixture
def net(tmp_path):
    return write_net(tmp_path / "a.onnx")


@pytest.fixture
def x():
    return [np.random.default_rng(1).standard_normal((5, 16)).astype("float32")]


def labels(report):
    return {v.label for row in report.rows for v in row.verdicts if v}


def test_no_fault_is_rounding_everywhere(net, tmp_path, x):
    for other in (write_net(tmp_path / "b.onnx"), net + "@reference", "@nofusion", "@nolibrary"):
        report = diff(net, other, x)
        assert report.equal and labels(report) == {"rounding"} and len(report.rows) == 5 and report.skipped == [0, 0]
        assert "agree" in report.sentence()


@pytest.mark.parametrize("name", sorted(p.stem for p in MODELS.glob("*.json")))
def test_real_files_are_rounding_everywhere(name):
    file = str(MODELS / f"{name}.json")
    report = diff(file, "@reference", str(MODELS / f"{name}.npz"))
    assert report.equal and labels(report) == {"rounding"} and len(report.rows) > 10


@pytest.mark.parametrize("name", ["lenet", "unet"])
def test_two_formats_of_one_net_match_value_by_value(name):
    report = diff(str(MODELS / f"{name}.json"), str(MODELS / f"{name}.pdmodel"), str(MODELS / f"{name}.npz"))
    assert report.equal and labels(report) == {"rounding"} and report.matched >= 12


def altered(array, at=(3, 2), factor=1.5):
    copy = array.copy()
    copy[at] *= factor
    return copy


FAULTS = {
    "first weight": ({"w1": altered(W1)}, "h0"),
    "a weight by a thousandth": ({"w1": altered(W1, factor=1.001)}, "h0"),
    "second weight": ({"w2": altered(W2)}, "h3"),
    "bias": ({"bias": altered(B1, at=(4,))}, "h1"),
    "attribute": ({"alpha": 0.11}, "h2"),
    "axis": ({"axis": 0}, "y"),
    "nan": ({"bias": np.where(np.arange(8) == 6, np.float32("nan"), B1)}, "h1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_planted_fault_is_named(net, tmp_path, x, fault):
    change, culprit = FAULTS[fault]
    report = diff(net, write_net(tmp_path / "b.onnx", **change), x)
    wrong = [row.name for row in report.rows if "wrong" in [v.label for v in row.verdicts if v]]
    assert wrong == [culprit]  # that op alone: what follows from it is right on what it was given
    assert report.first.name == culprit and report.bad_side == 1 and not report.equal
    assert [v.label for v in report.first.verdicts] == ["rounding", "wrong"]


def test_half_precision_that_saturates_in_between(tmp_path, x):
    """A copy that goes through fp16 in the middle, where 1e5 does not fit; clipping hides it from the end."""
    def middle(*casts):
        return [("Exp", ()), *casts, ("Tanh", ())]
    x = [np.abs(x[0]) * 8]
    wide = write_net(tmp_path / "a.onnx", middle=middle())
    half = write_net(tmp_path / "b.onnx", middle=middle(("Cast", [attribute("to", 10)]), ("Cast", [attribute("to", 1)])))
    report = diff(wide, half, x)
    assert report.first.op == "Cast" and report.bad_side == 1 and "overflow of float16" in report.sentence()
    # Within the copy itself the op is the cast.
    report = diff(half, "@reference", x)
    assert report.first.op == "Cast" and "overflow of float16" in report.first.verdicts[0].why


def test_half_precision_in_the_file_is_reduced_precision_not_wrong(tmp_path, x):
    casts = [("Cast", [attribute("to", 10)]), ("Tanh", ()), ("Cast", [attribute("to", 1)])]
    report = diff(write_net(tmp_path / "b.onnx", middle=casts), "@reference", x)
    assert report.equal and {r.op for r in report.rows if r.verdicts[0].label == "reduced precision"} <= {"Cast", "Tanh"}
    assert "reduced precision" in labels(report)


def test_bf16_is_reduced_precision_where_products_are(net, x):
    report = diff(net, "@bf16", x)
    assert report.equal
    assert {r.name for r in report.rows if r.verdicts[1].label == "reduced precision"} == {"h0", "h3"}


def test_bf16_that_overflows_is_named(tmp_path):
    """3.395e38 fits fp32 and rounds to infinity in bf16."""
    w1 = np.eye(16, 8, dtype="float32")
    path = write_net(tmp_path / "a.onnx", w1=w1, bias=np.zeros(8, "float32"), alpha=0.0)
    x = np.zeros((2, 16), "float32")
    x[0, 3] = 3.4e38
    report = diff(path, "@bf16", [x])
    assert report.first.name == "h0" and report.bad_side == 1 and report.first.verdicts[1].measured["not_finite"]


def test_rounded_weights_are_reduced_precision_that_nothing_declares(net, tmp_path, x):
    half = write_net(tmp_path / "b.onnx", w1=W1.astype("float16").astype("float32"))
    report = diff(net, half, x)
    assert report.first.name == "h0" and report.first.verdicts[1].label == "reduced precision" and not report.equal
    assert "fp16" in report.sentence()


def test_paddle_weights_file_with_one_number_changed(tmp_path):
    for suffix in (".json", ".pdiparams"):
        (tmp_path / f"unet{suffix}").write_bytes((MODELS / f"unet{suffix}").read_bytes())
    from yuloh import _core
    subject = _core.Subject.read(str(MODELS / "unet.json"), str(MODELS / "unet.pdiparams"))
    x = np.load(MODELS / "unet.npz")["x0"]
    convs = [s for s in subject.spots([x]) if s["op"] == "conv2d"]
    data = bytearray((tmp_path / "unet.pdiparams").read_bytes())
    weights = dict(_core.FileModel(str(MODELS / "unet.json"), str(MODELS / "unet.pdiparams")).weights)
    culprit = convs[4]
    wanted = weights[culprit["weights"][0]].numpy().tobytes()
    at = bytes(data).index(wanted)
    number = np.frombuffer(data[at + 40:at + 44], "float32") * np.float32(3)
    data[at + 40:at + 44] = number.tobytes()
    (tmp_path / "unet.pdiparams").write_bytes(bytes(data))
    report = diff(str(MODELS / "unet.json"), str(tmp_path / "unet.json"), [x])
    assert report.first.name == culprit["name"] and report.first.layer == culprit["weights"][0].rpartition(".")[0]
    assert [r.name for r in report.rows if r.verdicts[1].label == "wrong"] == [culprit["name"]]


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.features = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3, padding=1), paddle.nn.BatchNorm2D(8), paddle.nn.ReLU())
        self.head = paddle.nn.Linear(8, 5)

    def forward(self, image):
        return paddle.nn.functional.softmax(self.head(self.features(image).mean(axis=[2, 3])))


@pytest.fixture
def saved(tmp_path):
    paddle.seed(3)
    net = Net()
    spec = [paddle.static.InputSpec([None, 3, 12, 12], name="image")]
    paddle.jit.save(net, str(tmp_path / "a"), input_spec=spec)
    weight = net.head.weight.numpy()
    weight[2, 3] += 0.25
    net.head.weight.set_value(weight)
    paddle.jit.save(net, str(tmp_path / "b"), input_spec=spec)
    return tmp_path


def test_packages_name_the_layer_and_the_line(saved):
    report = diff(str(saved / "a.yuloh"), str(saved / "b.yuloh"), sizes={"image.0": 3})
    assert report.first.layer == "head" and "test_diff.py" in report.first.where and report.bad_side == 1
    assert diff(str(saved / "a.yuloh"), "@reference").equal


def test_a_package_against_paddles_form_of_it(saved):
    report = diff(str(saved / "a.yuloh"), str(saved / "a.json"), sizes={"image.0": 3})
    assert report.equal and report.matched >= 4
    report = diff(str(saved / "a.yuloh"), str(saved / "b.json"), sizes={"image.0": 3})
    assert report.first.layer == "head"


def test_a_value_without_counterpart_is_skipped_and_counted(net, tmp_path, x):
    other = write_net(tmp_path / "b.onnx", middle=[("Identity", ())])  # one more value, which is skipped
    report = diff(net, other, x)
    assert report.equal and report.skipped[1] == 1


def test_command_line(net, tmp_path, capsys, x):
    np.savez(tmp_path / "x.npz", x=x[0])
    out = str(tmp_path / "repro")
    assert main(["diff", net, write_net(tmp_path / "same.onnx"), "--input", str(tmp_path / "x.npz"), "--out", out]) == 0
    assert "agree" in capsys.readouterr().out
    bad = write_net(tmp_path / "b.onnx", w2=altered(W2))
    assert main(["diff", net, bad, "--input", str(tmp_path / "x.npz"), "--out", out]) == 1
    text = capsys.readouterr().out
    assert "First bad op: MatMul" in text and "second" in text and "<-- first" in text
    assert main(["diff", net, bad, "--size", "x.0=3", "--all", "--json", "--out", out]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["first"] == "h3" and facts["side"] == 1 and len(facts["rows"]) == 5
    done = subprocess.run([sys.executable, str(tmp_path / "repro" / "reproduce.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    a, b = (float(line.split("float64: ")[1].split(",")[0]) for line in done.stdout.splitlines())
    assert a < 1e-5 < 1e-3 < b


@pytest.mark.parametrize("arguments, text", [
    (["no_such.onnx", "@bf16"], "no file"),
    (["NET", "@warp"], "unknown option"),
    (["NET", "@bf16", "--size", "z=3"], "no size"),
    (["NET", "@bf16", "--size", "3"], "DIM=N"),
    (["NET", "@bf16", "--input", "EMPTY"], "npz"),
])
def test_bad_usage_is_one_sentence(net, tmp_path, capsys, arguments, text):
    (tmp_path / "empty").write_bytes(b"nothing")
    words = [{"NET": net, "EMPTY": str(tmp_path / "empty")}.get(a, a) for a in arguments]
    assert main(["diff", *words]) == 2
    err = capsys.readouterr().err
    assert text in err and err.count("\n") == 1


def test_two_exports_of_one_net_onnx_and_paddle(tmp_path):
    """Names, operators and their number differ; values are found by what they are, and behind a fault by order."""
    def export(path, change=0.0):
        paddle.seed(3)
        net = Net()
        weight = net.features[0].weight.numpy()
        weight[1, 2, 0, 1] += change
        net.features[0].weight.set_value(weight)
        spec = [paddle.static.InputSpec([2, 3, 12, 12], name="image")]
        paddle.onnx.export(net, str(path), input_spec=spec)
        paddle.jit.save(net, str(path), input_spec=spec)
    export(tmp_path / "a")
    export(tmp_path / "b", 0.25)
    report = diff(str(tmp_path / "a.json"), str(tmp_path / "a.onnx"))
    assert report.equal and report.matched >= 5 and "wrong" not in labels(report)
    report = diff(str(tmp_path / "a.json"), str(tmp_path / "b.onnx"))
    assert report.first.op == "conv2d" and report.bad_side == 1
    assert [r.op for r in report.rows if any(v and v.label == "wrong" for v in r.verdicts)] == ["conv2d"]
    assert report.matched >= 5  # what follows was found, too, and is right


def test_an_optimisation_across_ops_is_found_by_bisection(net, x, monkeypatch):
    """Every value is right while all are kept, and `h3` is not where nothing before it is."""
    from yuloh.inference.divergence import Side
    honest = Side.run

    def run(self, values, names=None):
        found = honest(self, values, names)
        if self.words == ["reference"] and len(found) == 1 and set(found) & {"h3", "y"}:
            found = {k: v * 1.01 for k, v in found.items()}
        return found
    monkeypatch.setattr(Side, "run", run)
    report = diff(net, "@reference", x)
    assert report.first.name == "h3" and report.bad_side == 1 and "optimisation across ops" in report.sentence()


def test_measure_by_hand():
    from yuloh import _core
    expected, nudged = np.array([1.0, 2.0, -4.0]), np.array([1.0, 2.0, -4.0])
    m = _core.measure(np.array([1, 2, -4], "float32"), expected, nudged, 2.0 ** -24, "float32")
    assert m["units"] == 0 and m["max_error"] == 0 and m["largest"] == 4
    m = _core.measure(np.array([1, 2.5, -4], "float32"), expected, nudged, 2.0 ** -24, "float32")
    assert m["at"] == 1 and m["got"] == 2.5 and m["max_error"] == 0.5 and m["units"] == pytest.approx(0.25 * 2 ** 24, rel=1e-6)
    m = _core.measure(np.array([1, np.nan, np.inf], "float32"), expected, nudged, 2.0 ** -24, "float32")
    assert m["not_finite"] == 2 and not m["overflow"]
    m = _core.measure(np.array([np.inf, 2, -4], "float32"), np.array([7e4, 2, -4]), np.array([7e4, 2, -4]), 2.0 ** -11, "float16")
    assert m["overflow"] and m["not_finite"] == 1
    m = _core.measure(np.array([3, 4, 5]), np.array([3, 9, 5]), np.array([3, 4, 5]), 2.0 ** -24, "int64")
    assert m["differing"] == 1 and m["sensitive"] == 1


def _saved(folder, name, forward, *specs):
    paddle.jit.save(paddle.jit.to_static(forward), str(folder / name), input_spec=[paddle.static.InputSpec(*s) for s in specs])
    return str(folder / f"{name}.json"), str(folder / f"{name}.yuloh")


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize("specs, words", [
    ([([2, 5],)], r"`x` float32\[2, 3\] of a.* and `x` float32\[2, 5\] of b"),
    ([([2, 3], "int64")], r"and `x` int64\[2, 3\] of b"),
    ([([2, 3],), ([2, 3],)], r"and `x` float32\[2, 3\], `y` float32\[2, 3\] of b"),
])
def test_models_with_other_inputs_are_refused_by_their_names(tmp_path, form, specs, words):
    a = _saved(tmp_path, "a", lambda x: x * 2 + 1, ([2, 3],))
    b = _saved(tmp_path, "b", (lambda x, y: x * 2 + y) if len(specs) > 1 else lambda x: x * 2 + 1, *specs)
    with pytest.raises(ValueError, match="the inputs differ, got .*" + words):
        paddle.inference.diff(a[form], b[form])


def test_a_paddle_file_is_named_when_its_inputs_do_not_suit(tmp_path):
    path, _ = _saved(tmp_path, "net", lambda x: x * 2 + 1, ([2, 3],))
    with pytest.raises(ValueError, match="input 'x' of .*net.json has shape"):
        paddle._core.FileModel(path, "").record([paddle.ones([4, 3])])
