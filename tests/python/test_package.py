# SPDX-License-Identifier: Apache-2.0
"""Packages: one verified file of a model of any format."""
import pathlib
import resource
import time

import numpy as np
import pytest

import yuloh as paddle
from onnx_writer import graph, graph_attribute, model, node, port, tensor
from package_edit import edit, number, text
from yuloh import _core
from yuloh.cli import main
from yuloh.inference import Config, create_predictor, pack, package_info, verify_package
from yuloh.inference.samples import draw_inputs
from yuloh.jit.save_load import function_of, program_of

MODELS = pathlib.Path(__file__).resolve().parent.parent / "data" / "paddle_models"


@pytest.fixture
def lenet(tmp_path):
    path = str(tmp_path / "lenet.yuloh")
    pack(str(MODELS / "lenet.json"), path, samples=str(MODELS / "lenet.npz"))
    return path


@pytest.mark.parametrize("file", sorted(p.name for p in MODELS.glob("*.json")) + ["lenet.pdmodel", "unet.pdmodel"])
def test_paddle_files_give_the_same_bits(file, tmp_path):
    source, path = str(MODELS / file), str(tmp_path / "m.yuloh")
    info = pack(source, path, samples=str(MODELS / (pathlib.Path(file).stem + ".npz")))
    assert info["golden"] == 1 and info["about"] == file and not info["traced"] and len(info["warm"]) == 1
    assert all(r[4] and r[2] == 0 for r in verify_package(path))
    x = np.load(MODELS / (pathlib.Path(file).stem + ".npz"))["x0"]
    params = str(MODELS / file.replace(".json", ".pdiparams").replace(".pdmodel", ".pdiparams"))
    want = create_predictor(Config(source, params if pathlib.Path(params).exists() else "")).run([x])
    for got, w in zip(create_predictor(Config(path)).run([x]), want):
        np.testing.assert_array_equal(got.numpy(), w.numpy())


def branchy():
    """An If with bodies that read outer values, a string-free subgraph attribute, an open size."""
    then = graph([node("Add", ["x", "w"], ["t"])], outputs=[port("t")])
    other = graph([node("Sub", ["x", "w"], ["e"])], outputs=[port("e")])
    return model(graph([node("ReduceSum", ["x"], ["s"], name="sum"), node("Greater", ["s", "zero"], ["c"]),
                        node("Reshape", ["c", "one"], ["c1"]),
                        node("If", ["c1"], ["y"], [graph_attribute("then_branch", then), graph_attribute("else_branch", other)])],
                       [port("x")], [port("y")],
                       [tensor("w", np.arange(4, dtype="float32")), tensor("zero", np.zeros((1, 1), "float32")),
                        tensor("one", np.array([1]), kind=7)]))


def test_onnx_files_with_bodies(tmp_path):
    (tmp_path / "m.onnx").write_bytes(branchy())
    path = str(tmp_path / "m.yuloh")
    pack(str(tmp_path / "m.onnx"), path, golden=3, sizes={"N": 5})
    assert len(verify_package(path)) == 3
    run = create_predictor(Config(path)).run
    x = np.ones((2, 4), "float32")
    np.testing.assert_array_equal(run([x])[0].numpy(), x + np.arange(4, dtype="float32"))
    np.testing.assert_array_equal(run([-x])[0].numpy(), -x - np.arange(4, dtype="float32"))


def test_functions_saved_here_can_be_packed_again(tmp_path):
    net = paddle.nn.Linear(4, 3)
    paddle.jit.save(net, str(tmp_path / "net.yuloh"), input_spec=[paddle.static.InputSpec([None, 4], name="x")])
    path = str(tmp_path / "packed.yuloh")
    info = pack(str(tmp_path / "net.yuloh"), path, golden=2, sizes={"x.0": 7}, shapes=[{"x": [1, 4]}, {"x": [8, 4]}])
    assert info["traced"] and info["golden"] == 2 and [list(w[0][0]) for w in info["warm"]] == [[1, 4], [8, 4]]
    x = paddle.randn([5, 4])
    np.testing.assert_array_equal(paddle.jit.load(path)(x).numpy(), net(x).numpy())


def test_jit_load_runs_a_package_of_a_paddle_file(lenet):
    z = np.load(MODELS / "lenet.npz")
    np.testing.assert_allclose(paddle.jit.load(lenet)(paddle.to_tensor(z["x0"])).numpy(), z["y0"], rtol=1e-4, atol=1e-5)


def test_other_commands_take_it(lenet, capsys):
    assert main(["inspect", lenet]) == 0
    assert "conv2d" in capsys.readouterr().out
    assert main(["diff", str(MODELS / "lenet.json"), lenet]) == 0


def test_verification_on_request(lenet, tmp_path):
    config = Config(lenet)
    config.verify_golden_samples()
    create_predictor(config)
    config.enable_tensorrt_engine(precision_mode=paddle.inference.PrecisionType.Half)
    with pytest.raises(ValueError, match="fp32"):
        create_predictor(config)
    without = str(tmp_path / "none.yuloh")
    pack(str(MODELS / "lenet.json"), without, golden=0)
    config = Config(without)
    config.verify_golden_samples()
    with pytest.raises(ValueError, match="no golden samples"):
        create_predictor(config)
    # Samples of another model: what they promise does not come out.
    x = np.load(MODELS / "lenet.npz")["x0"]
    wrong = str(tmp_path / "wrong.yuloh")
    y = create_predictor(Config(lenet)).run([x])[0].numpy() + np.float32(1e-3)
    _core.write_package(str(MODELS / "lenet.json"), str(MODELS / "lenet.pdiparams"), wrong, [([x], [y], [1e-5])], [], "")
    config = Config(wrong)
    config.verify_golden_samples()
    with pytest.raises(RuntimeError, match="golden sample 0 is off by 0.001"):
        create_predictor(config)
    assert main(["pack", "--verify", wrong]) == 1


def test_a_flip_of_any_byte_is_found(tmp_path):
    (tmp_path / "m.onnx").write_bytes(branchy())
    path, bad = tmp_path / "m.yuloh", tmp_path / "bad.yuloh"
    pack(str(tmp_path / "m.onnx"), str(path), golden=1)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in (1, 128):
            damaged = bytearray(whole)
            damaged[at] ^= bit
            bad.write_bytes(bytes(damaged))
            with pytest.raises(ValueError):  # nothing else, and no signal
                package_info(str(bad))


def test_cut_short_longer_and_foreign_files_are_refused_with_a_reason(lenet, tmp_path):
    whole, bad = pathlib.Path(lenet).read_bytes(), tmp_path / "bad.yuloh"
    cases = {"empty": b"", "short": whole[:7], "half": whole[: len(whole) // 2], "last byte": whole[:-1], "longer": whole + b"\0",
             "foreign": b"PK\3\4" + whole[4:], "older": whole[:7] + b"1" + whole[8:], "zeros": bytes(4096)}
    for name, data in cases.items():
        bad.write_bytes(data)
        for use in (package_info, lambda p: create_predictor(Config(p)), lambda p: paddle.jit.load(p)):
            with pytest.raises((ValueError, OSError)) as error:
                use(str(bad))
            assert str(bad) in str(error.value), name
    bad.write_bytes(cases["older"])
    with pytest.raises(ValueError, match="version 1"):
        package_info(str(bad))


def test_sizes_that_a_file_claims_are_not_believed(lenet, tmp_path):
    """Every word of the head and the table replaced by absurd numbers: refused, quickly, and without memory for them."""
    whole, bad = pathlib.Path(lenet).read_bytes(), tmp_path / "bad.yuloh"
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    for at in range(8, 200, 8):
        for number in (2 ** 63 - 1, 2 ** 40, 2 ** 64 - 1, 2 ** 32):
            damaged = whole[:at] + number.to_bytes(8, "little") + whole[at + 8:]
            if damaged != whole:
                bad.write_bytes(damaged)
                with pytest.raises(ValueError):
                    package_info(str(bad))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def traced(folder, function, dtype="float32", golden=(), warm=()):
    """A package of a function of one input of shape [any, 4]."""
    program = program_of(function_of(function, "test"), [paddle.static.InputSpec([None, 4], dtype)])
    _core.write_model(program, str(folder / "f.yuloh"))
    path = folder / "p.yuloh"
    _core.write_package(str(folder / "f.yuloh"), "", str(path), list(golden), list(warm), "")
    return path


@pytest.mark.parametrize("shape", [(2 ** 46, 2 ** 15), (2 ** 46, 0, 2 ** 46), (2 ** 44, 2 ** 44)])
def test_products_of_sizes_do_not_wrap(tmp_path, shape):
    nothing = np.zeros((0, 4), "float64")
    path = traced(tmp_path, lambda x: x * 2, "float64", [([nothing], [nothing], [1e-5])])
    edit(path, "golden", lambda data: data.replace(number(2, 0, 4), number(len(shape), *shape)))
    with pytest.raises(ValueError, match="larger than any machine"):  # 8 bytes times 2^61 elements are 2^64, which is 0
        package_info(str(path))


@pytest.mark.parametrize("argument", [text("axis") + number(1, 0, 0), text("x") + number(0)], ids=["number", "tensor"])
def test_an_argument_that_stands_there_twice_is_refused(tmp_path, argument):
    path = traced(tmp_path, lambda x: paddle.nn.functional.softmax(x, 1))
    head = text("softmax")

    def twice(graph):
        at = graph.index(head) + len(head)
        count = int.from_bytes(graph[at:at + 8], "little")
        return graph[:at] + number(count + 1) + argument + graph[at + 8:]

    edit(path, "graph", twice)
    with pytest.raises(ValueError, match="twice"):
        package_info(str(path))


@pytest.mark.parametrize("shape, text", [([2 ** 40, 2 ** 40], "no memory holds it"), ([2, -3], "cannot be drawn"), ([2 ** 62], "no memory holds it")])
def test_samples_that_cannot_be_drawn(shape, text):
    with pytest.raises(ValueError, match=text):
        draw_inputs([("x", paddle.float32, [-1] * len(shape), [])], {f"x.{axis}": n for axis, n in enumerate(shape)})


def test_a_file_does_not_decide_how_much_memory_is_touched(tmp_path, monkeypatch):
    path = str(traced(tmp_path, lambda x: x * 2, warm=[[([2 ** 20, 4], paddle.float32)]]))  # 16 MiB, and as much of results
    create_predictor(Config(path))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemAvailable: 8192 kB\n")
    monkeypatch.setenv("YULOH_SYSROOT", str(tmp_path))
    with pytest.raises(MemoryError, match=r"shape \[1048576, 4\] takes 16 MiB, got 8 MiB of available memory"):
        create_predictor(Config(path))
    (tmp_path / "proc" / "meminfo").write_text("MemAvailable: 20480 kB\n")
    with pytest.raises(MemoryError, match="takes 3[0-9] MiB, got 20 MiB"):  # with what the plan needs
        create_predictor(Config(path))


def test_command_line(tmp_path, capsys):
    out = str(tmp_path / "u.yuloh")
    assert main(["pack", str(MODELS / "unet.json"), "-o", out, "--golden", "2", "--size", "x.2=16", "--size", "x.3=24",
                 "--shapes", "x=1,3,16,24"]) == 0
    assert "2 golden samples, ready for [1, 3, 16, 24]" in capsys.readouterr().out
    assert main(["pack", "--verify", out]) == 0
    assert "All 2 outputs are as they were" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, text", [
    ([], "expected MODEL"), (["UNET"], "expected MODEL"), (["nothing.onnx", "-o", "x.yuloh"], "no file"),
    (["UNET", "-o", "x.bin"], "something.yuloh"), (["UNET", "-o", "OUT", "--shapes", "x"], "--shapes wants"),
    (["UNET", "-o", "OUT", "--shapes", "z=1"], "shapes are wanted"), (["--verify", "UNET"], "no Yuloh package"),
    (["UNET", "-o", "OUT", "--samples", "LENET"], "wrong shape"),
])
def test_bad_usage_is_one_sentence(tmp_path, capsys, arguments, text):
    words = [{"UNET": str(MODELS / "unet.json"), "OUT": str(tmp_path / "o.yuloh"), "LENET": str(MODELS / "lenet.npz")}.get(a, a)
             for a in arguments]
    assert main(["pack", *words]) == 2
    err = capsys.readouterr().err
    assert text in err and err.count("\n") == 1
    assert not (tmp_path / "o.yuloh").exists()


def test_batch_names_the_first_open_sizes():
    ports = [("x", paddle.float32, [-1, 3, -1], ["s0", "", "s1"]), ("y", paddle.int64, [-1], [])]
    assert [a.shape for a in draw_inputs(ports, {"batch": 5, "s1": 7})] == [(5, 3, 7), (5,)]
    with pytest.raises(ValueError, match=r"there is no size 'z'; expected one of \['s0', 's1', 'y.0'\]"):
        draw_inputs(ports, {"z": 1})
