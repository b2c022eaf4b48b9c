# SPDX-License-Identifier: Apache-2.0
"""Framework tests: names, flags, seeds, dtypes, devices, one-process distribution, input descriptions."""
import os
import subprocess
import sys

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn


def test_unique_names():
    with paddle.framework.unique_name.guard():
        assert paddle.framework.unique_name.generate("fc") == "fc_0"
        with paddle.framework.unique_name.guard("a/"):
            assert paddle.framework.unique_name.generate("fc") == "a/fc_0"
        assert paddle.framework.unique_name.generate("fc") == "fc_1"


def test_versions():
    version = paddle.version
    assert version.full_version == paddle.__version__ == f"{version.major}.{version.minor}.{version.patch}"
    assert (version.cuda(), version.cudnn()) == ("False", "False") and version.product != version.full_version


def test_flags_from_the_environment():
    code = "import yuloh; print(yuloh.get_flags(['FLAGS_fusion', 'FLAGS_library', 'FLAGS_plan_cache_bytes']))"
    said = {"FLAGS_fusion": "0", "FLAGS_library": "false", "FLAGS_plan_cache_bytes": "much"}
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, **said}, capture_output=True, text=True)
    assert "'FLAGS_fusion': False, 'FLAGS_library': False, 'FLAGS_plan_cache_bytes': 536870912" in ran.stdout
    assert "FLAGS_plan_cache_bytes: the environment says 'much'" in ran.stderr


def test_flags():
    paddle.set_flags({"FLAGS_cudnn_exhaustive_search": 1})
    assert paddle.get_flags("FLAGS_cudnn_exhaustive_search") == {"FLAGS_cudnn_exhaustive_search": True}
    paddle.set_flags({"FLAGS_cudnn_exhaustive_search": False})
    with pytest.raises(ValueError, match="FLAGS_no_such"):
        paddle.get_flags(["FLAGS_no_such"])
    with pytest.raises(TypeError, match="dict"):
        paddle.set_flags([1])
    with pytest.warns(UserWarning, match="FLAGS_fusoin is not known.*did you mean FLAGS_fusion"):
        paddle.set_flags({"FLAGS_fusoin": 0})
    with pytest.raises(TypeError, match="names no dtype, got 'flot32'"):
        paddle.zeros([2], dtype="flot32")


def test_fusion_is_asked_and_switched_by_name():
    assert paddle.fluid.core.is_compiled_with_nvtops() is True
    paddle.set_flags({"FLAGS_fusion": False})
    try:
        assert paddle.fluid.core.is_compiled_with_nvtops() is False
    finally:
        paddle.set_flags({"FLAGS_fusion": True})


def test_seeds_and_states():
    paddle.seed(3)
    state = paddle.get_rng_state()
    first = paddle.randn([4]).numpy()
    paddle.set_rng_state(state)
    np.testing.assert_array_equal(paddle.randn([4]).numpy(), first)
    paddle.seed(3)
    np.testing.assert_array_equal(paddle.randn([4]).numpy(), first)
    with pytest.raises(TypeError, match="int"):
        paddle.seed("three")


def test_default_dtype():
    assert paddle.get_default_dtype() == "float32"
    paddle.set_default_dtype("float64")
    try:
        assert paddle.to_tensor(1.5).dtype == paddle.float64
    finally:
        paddle.set_default_dtype("float32")
    with pytest.raises(TypeError, match="int32"):
        paddle.set_default_dtype("int32")


def test_devices():
    assert paddle.get_device() == "cpu" and not paddle.is_compiled_with_cuda()
    paddle.set_device("cpu")
    with pytest.raises(ValueError, match="gpu"):
        paddle.set_device("gpu:0")
    with pytest.raises(ValueError, match="toaster"):
        paddle.set_device("toaster")
    assert paddle.device.cuda.device_count() == 0


def test_memory_is_watched():
    paddle.device.synchronize()
    before = paddle.device.cuda.memory_allocated()
    kept = paddle.to_tensor(np.ones(1_000_000, "float32"))
    assert paddle.device.memory_allocated() - before >= 4_000_000
    assert paddle.device.max_memory_allocated() >= paddle.device.memory_allocated()
    assert paddle.device.memory_reserved() >= paddle.device.memory_allocated()
    del kept


def test_one_process():
    assert (paddle.distributed.get_world_size(), paddle.distributed.get_rank()) == (1, 0)
    paddle.distributed.init_parallel_env()
    assert paddle.distributed.is_initialized()
    net = nn.Linear(2, 2)
    wrapped = paddle.DataParallel(net)
    x = paddle.to_tensor(np.ones((1, 2), "float32"))
    np.testing.assert_array_equal(wrapped(x).numpy(), net(x).numpy())
    assert list(wrapped.state_dict()) == ["weight", "bias"] and len(wrapped.parameters()) == 2


def test_several_processes_are_refused():
    code = "import yuloh; yuloh.distributed.init_parallel_env()"
    folder = os.path.dirname(os.path.dirname(paddle.__file__))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            env={**os.environ, "PYTHONPATH": folder, "PADDLE_TRAINERS_NUM": "2"})
    assert result.returncode != 0 and "2 processes" in result.stderr


def test_input_spec():
    spec = paddle.static.InputSpec([None, 3, 224, 224], "float32", "x")
    assert spec.shape == (-1, 3, 224, 224) and spec.dtype == paddle.float32
    assert repr(spec) == ("InputSpec(shape=(-1, 3, 224, 224), dtype=paddle.float32, name=x, "
                          "stop_gradient=False)")
    assert spec == paddle.static.InputSpec([-1, 3, 224, 224], name="x") and len({spec, spec}) == 1
    assert paddle.static.InputSpec.from_tensor(paddle.ones([2, 3])).shape == (2, 3)
    assert paddle.static.InputSpec([3]).batch(4).shape == (4, 3)
    assert paddle.static.InputSpec([4, 3]).unbatch().shape == (3,)
    with pytest.raises(ValueError, match="size"):
        paddle.static.InputSpec([2.5])


def test_param_attr_and_parameter():
    weight = paddle.create_parameter([2, 3], "float32", name="w")
    assert weight.name == "w" and weight.trainable and weight.persistable and not weight.stop_gradient
    weight.trainable = False
    assert weight.stop_gradient
    assert "Parameter containing" in repr(weight)
    with pytest.raises(ValueError, match="name"):
        paddle.ParamAttr(name="")
    other = nn.Parameter(paddle.ones([2]), requires_grad=False)
    assert other.stop_gradient and other.shape == [2]
