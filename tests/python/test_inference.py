# SPDX-License-Identifier: Apache-2.0
"""paddle.inference: configuration, handles, threads, memory, hostile inputs."""
import ctypes
import gc
import io
import json
import os
import pathlib
import threading
import time
import warnings
import zipfile

import numpy as np
import pytest

import yuloh as paddle
from yuloh import inference, nn
from yuloh.static import InputSpec

DIM = [None, 3, None, None]


def make_net():
    paddle.seed(7)
    net = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU(), nn.AdaptiveAvgPool2D(1), nn.Flatten(),
                        nn.Linear(8, 5))
    for _ in range(2):
        net(paddle.randn([2, 3, 8, 8]))
    net.eval()
    return net


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    net = make_net()
    path = str(tmp_path_factory.mktemp("inference") / "net")
    paddle.jit.save(net, path, input_spec=[InputSpec(DIM, name="image")])
    return net, path


def config_of(path):
    return inference.Config(path + ".json", path + ".pdiparams")


def array(shape, seed=0):
    return np.random.RandomState(seed).rand(*shape).astype("float32")


def test_handles_as_in_paddle(model):
    net, path = model
    predictor = inference.create_predictor(config_of(path))
    assert predictor.get_input_names() == ["image"] and len(predictor.get_output_names()) == 1
    handle = predictor.get_input_handle("image")
    assert handle.shape() == [0] and handle.type() == inference.DataType.FLOAT32 and handle.lod() == []
    x = array([2, 3, 8, 9])
    handle.reshape([2, 3, 8, 9])
    assert handle.shape() == [2, 3, 8, 9]
    handle.copy_from_cpu(x)
    x_then = x.copy()
    x[:] = 0  # the handle has its own copy
    assert predictor.run() is None
    out = predictor.get_output_handle(predictor.get_output_names()[0])
    want = net(paddle.to_tensor(x_then)).numpy()
    np.testing.assert_allclose(out.copy_to_cpu(), want, rtol=1e-4, atol=1e-5)
    assert out.shape() == [2, 5] and out.type() == inference.DataType.FLOAT32
    shared = paddle.to_tensor(x_then)
    handle.share_external_data(shared)
    predictor.run()
    np.testing.assert_allclose(out.copy_to_cpu(), want, rtol=1e-4, atol=1e-5)
    got = predictor.run([shared])
    assert isinstance(got, list) and isinstance(got[0], paddle.Tensor)
    np.testing.assert_array_equal(got[0].numpy(), out.copy_to_cpu())


def test_hostile_inputs_get_a_sentence(model):
    _, path = model
    predictor = inference.create_predictor(config_of(path))
    handle = predictor.get_input_handle("image")
    good = array([1, 3, 4, 4])
    cases = [
        (lambda: handle.copy_from_cpu([1, 2]), TypeError, "numpy.ndarray"),
        (lambda: handle.copy_from_cpu(good.astype("float64")), TypeError, "wrong dtype, got float64; expected float32"),
        (lambda: handle.copy_from_cpu(good.astype("complex64")), TypeError, "complex64"),
        (lambda: handle.share_external_data(good), TypeError, "expected a Tensor"),
        (lambda: handle.set_lod([[0, 1]]), NotImplementedError, "ragged"),
        (lambda: predictor.get_input_handle("zzz"), RuntimeError, "there is no input 'zzz'"),
        (lambda: predictor.run(), RuntimeError, "was not given"),
        (lambda: predictor.run([]), ValueError, "takes 1 inputs, got 0"),
        (lambda: predictor.run([paddle.to_tensor(good)] * 2), ValueError, "takes 1 inputs, got 2"),
        (lambda: predictor.run([good.astype("int64")]), TypeError, "`image` has the wrong dtype"),
        (lambda: predictor.run([good[0]]), ValueError, "`image` has the wrong shape"),
        (lambda: predictor.run([array([1, 4, 4, 4])]), ValueError, r"got \[1, 4, 4, 4\]; expected \[-1, 3, -1, -1\]"),
        (lambda: predictor.run([None]), TypeError, "NoneType"),
        (lambda: predictor.run(["a"]), TypeError, "expected Tensors or NumPy arrays, got an input of type str"),
        (lambda: predictor.run(3), TypeError, "expected a list of Tensors or arrays, one for each input, got int"),
        (lambda: predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu(), RuntimeError, "no value yet"),
        (lambda: predictor.prepare({}), ValueError, "no shape for input 'image'"),
        (lambda: inference.create_predictor(inference.Config("/no/such.json", "/no/such.pdiparams")), RuntimeError, "no file"),
        (lambda: inference.create_predictor(inference.Config()), ValueError, "names no model"),
        (lambda: inference.create_predictor("x"), TypeError, "expected a Config"),
        (lambda: inference.Config("a", "b", "c"), TypeError, "arguments"),
        (lambda: inference.Config().no_such_switch(), AttributeError, "no_such_switch"),
        (lambda: inference.PredictorPool(config_of(path), 0), ValueError, "at least one"),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()
    assert predictor.run([array([0, 3, 4, 4])])[0].shape == [0, 5]
    nan = good.copy()
    nan[0, 0, 0, 0] = np.nan
    assert np.isnan(predictor.run([nan])[0].numpy()).all()
    np.testing.assert_array_equal(predictor.run([np.asfortranarray(good)])[0].numpy(), predictor.run([good])[0].numpy())


def test_precision_and_ops_that_keep_theirs(model):
    net, path = model
    x = array([4, 3, 16, 16])
    want = net(paddle.to_tensor(x)).numpy()

    def run(**engine):
        config = config_of(path)
        config.enable_tensorrt_engine(1 << 30, 16, **{"min_subgraph_size": 1, **engine})
        assert config.tensorrt_engine_enabled()
        return inference.create_predictor(config).run([x])[0].numpy()

    exact = run(precision_mode=inference.PrecisionType.Float32)
    half = run(precision_mode=paddle.infer.PrecisionType.Half)
    kept = run(precision_mode=inference.PrecisionType.Bfloat16, disabled_ops=["conv2d", "matmul"])
    few = run(precision_mode=inference.PrecisionType.Half, min_subgraph_size=1000)
    np.testing.assert_allclose(exact, want, rtol=1e-4, atol=1e-5)
    assert 1e-5 < np.abs(half - want).max() < 0.05
    np.testing.assert_array_equal(kept, exact)
    np.testing.assert_array_equal(few, exact)
    with pytest.raises(NotImplementedError, match="quantise"):
        run(precision_mode=inference.PrecisionType.Int8)


def test_switch_off_paths_agree(model):
    net, path = model
    x = array([2, 3, 12, 10])
    want = net(paddle.to_tensor(x)).numpy()

    def variant(change):
        config = config_of(path)
        change(config)
        return inference.create_predictor(config).run([x])[0].numpy()

    for change in (lambda c: c.switch_ir_optim(False), lambda c: c.delete_pass("conv_bn_fuse_pass"),
                   lambda c: c.pass_builder().delete_pass("fusion")):
        np.testing.assert_allclose(variant(change), want, rtol=1e-4, atol=1e-5)
    config = config_of(path)
    assert "fold_batch_norm" in config.pass_builder().all_passes()
    config.switch_ir_optim(False)
    assert config.pass_builder().all_passes() == [] and not config.ir_optim()


def test_config_answers_what_it_was_told(model):
    _, path = model
    config = config_of(path)
    with pytest.warns(UserWarning, match="no GPU"):
        config.enable_use_gpu(100, 0)
    assert not config.use_gpu()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (config.enable_memory_optim, config.disable_glog_info, config.enable_mkldnn, config.switch_ir_optim,
                     config.disable_gpu):
            call()
    assert config.memory_optim_enabled() and config.glog_info_disabled() and config.mkldnn_enabled()
    with pytest.warns(UserWarning, match="no effect"):
        config.disable_garbage_collector()
    with pytest.warns(UserWarning, match="no effect.*XPU"):
        config.enable_xpu(100)
    config.set_cpu_math_library_num_threads(2)
    assert config.cpu_math_library_num_threads() == 2
    with pytest.raises(ValueError):
        config.set_cpu_math_library_num_threads(0)
    text = config.summary()
    assert "model_file" in text and "use_gpu" in text and "false" in text
    assert "version: 3.3.1" in inference.get_version()
    assert inference.get_num_bytes_of_data_type(inference.DataType.INT64) == 8
    assert config.prog_file().endswith(".json") and config.params_file().endswith(".pdiparams")


def test_model_in_a_folder_and_in_memory(model, tmp_path):
    net, path = model
    x = array([1, 3, 5, 5])
    want = inference.create_predictor(config_of(path)).run([x])[0].numpy()
    folder = os.path.dirname(path)
    np.testing.assert_array_equal(inference.create_predictor(inference.Config(folder)).run([x])[0].numpy(), want)
    file = next(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".yuloh"))
    with open(file, "rb") as f:
        data = f.read()
    config = inference.Config()
    with open(file[: -len(".yuloh")] + ".pdiparams", "rb") as f:
        weights = f.read()
    config.set_model_buffer(data, len(data), weights, len(weights))
    assert config.model_from_memory()
    np.testing.assert_array_equal(inference.create_predictor(config).run([x])[0].numpy(), want)
    for damaged in (data[:-1], data[: len(data) // 2], data[:50], b"", data[:100] + bytes([data[100] ^ 1]) + data[101:]):
        (tmp_path / "bad.yuloh").write_bytes(damaged)
        with pytest.raises((ValueError, RuntimeError, OSError)):
            inference.create_predictor(inference.Config(str(tmp_path / "bad.yuloh")))


def test_sixteen_threads_with_different_shapes(model):
    _, path = model
    predictor = inference.create_predictor(config_of(path))
    inputs = [array([1 + i % 3, 3, 6 + i, 7 + i % 5], seed=i) for i in range(16)]
    want = [predictor.run([x])[0].numpy() for x in inputs]
    fresh = inference.create_predictor(config_of(path))  # the threads compile, too
    wrong, errors = [], []

    def work(i):
        try:
            mine = fresh.clone() if i % 2 else fresh
            for k in range(12):
                j = (i + k) % 16
                if k % 3 == 2:  # handles keep threads apart even on one predictor
                    mine.get_input_handle("image").copy_from_cpu(inputs[j])
                    mine.run()
                    got = mine.get_output_handle(mine.get_output_names()[0]).copy_to_cpu()
                else:
                    got = mine.run([inputs[j]])[0].numpy()
                if not np.array_equal(got, want[j]):
                    wrong.append((i, k, j))
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors and not wrong


def rss():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_thousand_shapes_leave_memory_flat(model):
    _, path = model
    config = config_of(path)
    config.set_plan_cache_bytes(2 << 20)
    predictor = inference.create_predictor(config)
    sizes = [(4 + i % 40, 4 + i // 40) for i in range(1000)]
    marks = []
    for k, (h, w) in enumerate(sizes):
        predictor.run([array([1, 3, h, w])])
        if k in (300, 999):
            gc.collect()
            marks.append(rss())
    assert predictor.memory_report()["plans"] <= 2 << 20
    assert marks[1] < marks[0] * 1.05


def anonymous():
    """Bytes of this process that no file holds: what a leak grows, whatever pages of files come and go."""
    gc.collect()
    paddle._core.release_cached_memory()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))


def test_load_run_drop_does_not_grow(tmp_path):
    net = nn.Sequential(nn.Linear(512, 1024), nn.BatchNorm1D(1024), nn.ReLU(), nn.Linear(1024, 4))
    path = str(tmp_path / "net")
    paddle.jit.save(net, path, input_spec=[InputSpec([None, 512])])  # 2 MB of weights are folded for each predictor
    x = array([2, 512])
    kept = []

    def growth(keep):
        """Bytes of 50 cycles, and what the process held before."""
        before = anonymous()
        for _ in range(50):
            predictor = inference.create_predictor(config_of(path))
            predictor.run([x])
            if keep:
                kept.append(predictor)
        del predictor
        return anonymous() - before, before

    growth(False)  # what is made once
    grown, before = growth(False)
    assert grown < 0.05 * before
    # The measure sees predictors that stay, however much the process holds besides.
    assert growth(True)[0] > 0.8 * 50 * 4 * (512 * 1024 + 1024 * 4)


def test_memory_limit_is_a_typed_error_before_allocation(model):
    _, path = model
    config = config_of(path)
    config.set_memory_limit(4 << 20)
    predictor = inference.create_predictor(config)
    small = array([1, 3, 16, 16])
    want = predictor.run([small])[0].numpy()
    with pytest.raises(MemoryError, match="memory limit"):
        predictor.run([np.zeros([8, 3, 512, 512], "float32")])
    np.testing.assert_array_equal(predictor.run([small])[0].numpy(), want)
    report = predictor.memory_report()
    assert report["weights"] > 0 and report["workspace"] > 0 and report["limit"] == 4 << 20
    assert sum(report[k] for k in ("weights", "plans", "slack", "other")) == report["process"]
    assert abs(report["process"] - rss()) < 0.1 * rss()
    with pytest.raises(ValueError):
        config.set_memory_fraction(0)
    config.set_memory_fraction(0.7)
    assert inference.create_predictor(config).run([small])


def test_shapes_known_ahead_are_compiled_at_creation(model, tmp_path):
    _, path = model
    config = config_of(path)
    config.set_trt_dynamic_shape_info({"image": [1, 3, 8, 8]}, {"image": [4, 3, 32, 32]}, {"image": [2, 3, 24, 24]})
    predictor = inference.create_predictor(config)
    plans = predictor.memory_report()["plans"]
    assert plans > 0
    predictor.run([array([2, 3, 24, 24])])
    assert predictor.memory_report()["plans"] == plans  # nothing was left to compile
    shapes = str(tmp_path / "shapes.json")
    config = config_of(path)
    config.collect_shape_range_info(shapes)
    inference.create_predictor(config).run([array([1, 3, 10, 12])])
    config = config_of(path)
    config.enable_tuned_tensorrt_dynamic_shape(shapes)
    tuned = inference.create_predictor(config)
    plans = tuned.memory_report()["plans"]
    tuned.run([array([1, 3, 10, 12])])
    assert plans and tuned.memory_report()["plans"] == plans
    facts = tuned.prepare({"image": [1, 3, 10, 12]})
    assert facts["steps"] > 0 and facts["peak_bytes"] > 0 and facts["flops"] > 0


def held(predictor):
    """Bytes of weights, in memory or in their file."""
    report = predictor.memory_report()
    return report["weights"] + report["mapped"]


def test_pool_and_clone_share_weights(model):
    _, path = model
    pool = inference.PredictorPool(config_of(path), 3)
    x = array([1, 3, 6, 6])
    answers = [pool.retrieve(i).run([x])[0].numpy() for i in range(3)]
    assert all(np.array_equal(a, answers[0]) for a in answers)
    with pytest.raises(IndexError):
        pool.retrieve(3)
    assert held(pool.retrieve(0).clone()) == held(pool.retrieve(0)) > 0


def test_weights_are_shared_between_shapes(model):
    _, path = model
    predictor = inference.create_predictor(config_of(path))
    predictor.run([array([1, 3, 8, 8])])
    weights = held(predictor)
    for n in range(2, 9):
        predictor.run([array([n, 3, 8, 8])])
    assert held(predictor) == weights


PADDLE_MODELS = pathlib.Path(__file__).parents[1] / "data" / "paddle_models"


@pytest.mark.parametrize("file", sorted(p.name for p in PADDLE_MODELS.iterdir() if p.suffix in (".json", ".pdmodel")))
def test_models_of_paddle_give_its_answers(file):
    stem = file.split(".")[0]
    data = np.load(PADDLE_MODELS / f"{stem}.npz")
    params = PADDLE_MODELS / f"{stem}.pdiparams"
    predictor = inference.create_predictor(inference.Config(str(PADDLE_MODELS / file), str(params) if params.exists() else ""))
    inputs = [data[k] for k in sorted(data.files) if k[0] == "x"]
    for _ in range(2):  # the second run comes from the cache
        for i, got in enumerate(predictor.run(inputs)):
            assert got.numpy().dtype == data[f"y{i}"].dtype
            np.testing.assert_allclose(got.numpy(), data[f"y{i}"], rtol=1e-4, atol=1e-4)
    for name, value in zip(predictor.get_input_names(), inputs):
        predictor.get_input_handle(name).copy_from_cpu(value)
    predictor.run()
    first = predictor.get_output_handle(predictor.get_output_names()[0])
    np.testing.assert_allclose(first.copy_to_cpu(), data["y0"], rtol=1e-4, atol=1e-4)


def test_onnx_cases_give_their_answers_through_a_predictor(tmp_path):
    """Every 12th case that takes float32, int64 or bool: on placeholders where that goes, on data where it does not."""
    archive = zipfile.ZipFile(PADDLE_MODELS.parent / "onnx_cases.zip")
    cases = json.loads(archive.read("cases.json"))
    plain = sorted(n for n, c in cases.items() if set(c["types"].values()) <= {"float32", "int64", "bool"})
    for name in plain[::12]:
        arrays, case = np.load(io.BytesIO(archive.read(name + ".npz"))), cases[name]
        (tmp_path / "case.onnx").write_bytes(archive.read(name + ".onnx"))
        predictor = inference.create_predictor(inference.Config(str(tmp_path / "case.onnx")))
        inputs = [arrays[f"i{k}"] for k in range(case["inputs"])][:len(predictor.get_input_names())]
        for k, got in enumerate(predictor.run(inputs)):
            np.testing.assert_allclose(got.numpy(), arrays[f"o{k}"], rtol=max(case["rtol"], 1e-5), atol=case["atol"], err_msg=name)


def test_a_warmed_predictor_answers_in_a_forked_child(tmp_path, in_child):
    net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.ReLU(), paddle.nn.Flatten(), paddle.nn.Linear(8 * 30 * 30, 4))
    paddle.jit.save(net, str(tmp_path / "m"), input_spec=[paddle.static.InputSpec([None, 3, 32, 32], "float32")])
    predictor = paddle.inference.create_predictor(paddle.inference.Config(str(tmp_path)))
    x = paddle.to_tensor(np.ones([2, 3, 32, 32], "float32"))
    want = predictor.run([x])[0].numpy()
    assert in_child(lambda: np.allclose(predictor.run([x])[0].numpy(), want, atol=1e-5))


def _cut_off(x):
    data = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:]
    return data.view("float32").reshape(x.shape)


SAME_VALUES = {
    "read only": lambda x: np.broadcast_to(x, x.shape), "column order": np.asfortranarray, "backwards": lambda x: x[::-1, ::-1][::-1, ::-1],
    "strided": lambda x: np.repeat(x, 2, 1)[:, ::2], "other byte order": lambda x: x.astype(">f4"), "unaligned": _cut_off,
    "masked, nothing hidden": lambda x: np.ma.masked_array(x), "subclass": lambda x: x.view(type("A", (np.ndarray,), {})),
}
REFUSED = {
    "object": (lambda x: x.astype(object), "array of object; expected numbers"), "text": (lambda x: x.astype(str), "array of <U"),
    "dates": (lambda x: x.astype("M8[s]"), "array of datetime64"), "records": (lambda x: x.view([("a", "f4")]), "array of "),
    "masked": (lambda x: np.ma.masked_array(x, x > 5), "6 of its elements are masked"), "wide": (lambda x: x.astype("f8"), "got float64; expected float32"),
    "bool": (lambda x: x > 3, "got bool"), "complex": (lambda x: x + 0j, "not supported|got complex64"), "long": (lambda x: x.astype(np.longdouble), "element type"),
    "another rank": (lambda x: x[0], "wrong shape"), "another size": (lambda x: x[:, :2], "wrong shape"),
}


@pytest.fixture(scope="module")
def affine(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("affine") / "m")
    paddle.jit.save(paddle.jit.to_static(lambda x: x * 2 + 1), path, input_spec=[paddle.static.InputSpec([None, 3])])
    return inference.create_predictor(inference.Config(path + ".json"))


def _by_handle(predictor, x):
    predictor.get_input_handle("x").copy_from_cpu(x)
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


WAYS = {"run": lambda predictor, x: predictor.run([x])[0].numpy(), "handle": _by_handle}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", SAME_VALUES)
def test_arrays_of_any_layout_give_their_values(affine, way, kind):
    x = np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_array_equal(WAYS[way](affine, SAME_VALUES[kind](x)), x * 2 + 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", REFUSED)
def test_arrays_of_other_kinds_are_refused_and_the_next_one_is_answered(affine, way, kind):
    x = np.arange(12, dtype="float32").reshape(4, 3)
    make, said = REFUSED[kind]
    with pytest.raises((TypeError, ValueError), match=said):
        WAYS[way](affine, make(x))
    np.testing.assert_array_equal(WAYS[way](affine, x), x * 2 + 1)
