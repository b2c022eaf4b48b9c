# SPDX-License-Identifier: Apache-2.0
"""Both of Paddle's formats as `write_model` writes them, read back by our own readers; PaddlePaddle itself reads them in
tests/oracle/check_saved.py."""
import numpy as np
import pytest
from test_onnx_export import MODELS, export_models

import yuloh as paddle
from yuloh import _core, nn
from yuloh.jit.save_load import function_of, program_of
from yuloh.static import InputSpec

# Rows that Paddle has no operator for stand in these.
REFUSED = {"shapes", "index", "products", "pool_fixed"}


def written(net, spec, path, **options):
    program = program_of(function_of(net, "test"), spec)
    _core.write_model(program, str(path), **options)
    return _core.Session(_core.load_program(str(path)))


@pytest.mark.parametrize("suffix", [".json", ".pdmodel"])
@pytest.mark.parametrize("name", sorted(set(MODELS) - set(export_models.ZOO) - REFUSED))
def test_round_trip(name, suffix, tmp_path):
    make, spec, sizes = MODELS[name]
    paddle.seed(1)
    net = make()
    if isinstance(net, nn.Layer):
        net.eval()
    session = written(net, spec, tmp_path / ("m" + suffix))
    for xs in sizes:
        want = net(*[paddle.to_tensor(x) for x in xs])
        want = want if isinstance(want, (list, tuple)) else [want]
        got = session.run(list(xs))
        assert [list(g.shape) for g in got] == [list(w.shape) for w in want]
        for g, w in zip(got, want):
            scale = max(1e-6, float(np.abs(np.nan_to_num(w.numpy().astype("float64"), posinf=0, neginf=0)).max()) if w.size else 1)
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-5, atol=2e-6 * scale)


def test_names_in_a_program_desc(tmp_path):
    net = nn.Linear(3, 2)
    written(net, [InputSpec([None, 3], "float32", "features")], tmp_path / "m.pdmodel", output_names=["scores"])
    model = _core.FileModel(str(tmp_path / "m.pdmodel"), str(tmp_path / "m.pdiparams"))
    assert model.inputs == [("features", "float32", [None, 3])] and model.outputs[0][0] == "scores"
    assert {n for n, _ in model.weights} == {net.weight.name, net.bias.name}
    assert model.op_types == ["matmul", "add"]


def test_no_weights_is_no_file(tmp_path):
    (tmp_path / "m.pdiparams").write_bytes(b"of another program")
    for suffix in (".json", ".pdmodel"):
        session = written(lambda x: x + 1, [InputSpec([None], "float32")], tmp_path / ("m" + suffix))
        assert not (tmp_path / "m.pdiparams").exists()
        np.testing.assert_array_equal(session.run([np.ones(3, "float32")])[0].numpy(), [2, 2, 2])


def test_a_number_that_follows_from_an_open_size(tmp_path):
    for suffix in (".json", ".pdmodel", ".onnx"):  # var divides by n - 1, std and norm by others
        session = written(lambda x: (x.var(1), x.std(1), x / x.shape[1]), [InputSpec([None, None], "float32")], tmp_path / ("m" + suffix))
        for n in (5, 9):
            x = np.random.RandomState(0).rand(2, n).astype("float32")
            got = session.run([x])
            np.testing.assert_allclose(got[0].numpy(), x.var(1, ddof=1), rtol=1e-5)
            np.testing.assert_allclose(got[1].numpy(), x.std(1, ddof=1), rtol=1e-5)
            np.testing.assert_allclose(got[2].numpy(), x / n, rtol=1e-6)


def test_indices_that_broadcast(tmp_path):
    def rows(x):
        return paddle.take_along_axis(x, x.max(-1, keepdim=True).argsort(1), 1)

    x = np.random.RandomState(0).rand(2, 6, 4).astype("float32")
    for suffix in (".json", ".pdmodel"):
        got = written(rows, [InputSpec([None, None, 4], "float32")], tmp_path / ("m" + suffix)).run([x])[0].numpy()
        np.testing.assert_array_equal(got, np.take_along_axis(x, x.max(-1, keepdims=True).argsort(1), 1))


@pytest.mark.parametrize("suffix", [".json", ".pdmodel", ".onnx"])
@pytest.mark.parametrize("number", [2 ** 53 + 1, -(2 ** 62) - 1, 2 ** 63 - 1])
def test_integers_that_no_double_holds(suffix, number, tmp_path):
    session = written(lambda x: x + number, [InputSpec([None], "int64")], tmp_path / ("m" + suffix))
    x = np.array([0, -1], "int64") if number > 0 else np.array([0, 1], "int64")
    np.testing.assert_array_equal(session.run([x])[0].numpy(), x + number)


def test_whole_numbers_are_written_whole(tmp_path):
    """As text: PaddlePaddle's fill_constant reads an integer, of which 4.6e+18 has one digit."""
    written(lambda x: x + paddle.full([2], 2 ** 62, "int64"), [InputSpec([2], "int64")], tmp_path / "m.pdmodel")
    assert str(2 ** 62).encode() in (tmp_path / "m.pdmodel").read_bytes()


def test_rows_without_a_counterpart_are_said_to_have_none():
    support = _core.writable_rows()
    for name, function in (("bitwise_left_shift", paddle.bitwise_left_shift), ("bitwise_right_shift", paddle.bitwise_right_shift)):
        program = program_of(function_of(function, name), [InputSpec([3], "int32"), InputSpec([3], "int32")])
        assert (support[name][1] == "none") == bool(_core.unwritable(program, "m.json")) is True, name


def test_everything_without_a_counterpart_is_listed_at_once(tmp_path):
    program = program_of(function_of(lambda x: (paddle.linalg.eigh(x)[0], paddle.kthvalue(x, 1)[0]), "test"), [InputSpec([4, 4], "float32")])
    for suffix in (".json", ".pdmodel"):
        with pytest.raises(NotImplementedError, match=r"(?s)2 ops.*eigh x1, first at .*test_paddle_write.py:\d+.*kthvalue_core x1.*Hint"):
            _core.write_model(program, str(tmp_path / ("m" + suffix)))
        assert [(op, n) for op, n, _, _ in _core.unwritable(program, "m" + suffix)] == [("eigh", 1), ("kthvalue_core", 1)]
    assert not list(tmp_path.iterdir())


def test_what_paddle_computes_otherwise_is_refused(tmp_path):
    cases = {
        "statistics": (lambda x: _core.ops.layer_norm(x, None, None, 1, 1e-5), "its output 2 has no counterpart"),
        "first axis": (lambda x: paddle.nn.functional.layer_norm(x, [2, 3, 8]), "over the first axis"),
        "means": (lambda x: paddle.nn.functional.avg_pool1d(x, 3, 2, 1, exclusive=False, ceil_mode=True), "divides by another number"),
    }
    for name, (function, text) in cases.items():
        program = program_of(function_of(function, name), [InputSpec([2, 3, 8], "float32")])
        with pytest.raises(NotImplementedError, match=text):
            _core.write_model(program, str(tmp_path / "m.json"))


def test_a_program_desc_suits_paddles_translator(tmp_path):
    """What Paddle 3.3.1's predictor and jit.load ask for when they turn a .pdmodel into PIR."""
    def net(first, second):
        return paddle.reshape(first + second, [paddle.shape(first)[0], -1]).sum()

    spec = [InputSpec([None, 2, 3], "float32", n) for n in ("first", "second")]
    session = written(net, spec, tmp_path / "m.pdmodel")
    x = np.ones([4, 2, 3], "float32")
    assert session.run([x, 2 * x])[0].numpy() == 72
    raw = (tmp_path / "m.pdmodel").read_bytes()
    feeds = [raw.index(b"\n\x03Out\x12" + bytes([len(n)]) + n) for n in (b"second", b"first")]
    assert feeds == sorted(feeds)  # the last first, as Paddle writes them
    assert b"\n\x04axis\x10" in raw and b"\n\x05shape\x10" in raw and b"\n\x0areduce_all\x10" in raw
