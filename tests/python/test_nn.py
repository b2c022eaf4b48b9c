# SPDX-License-Identifier: Apache-2.0
"""NN tests: what a Layer does apart from computing: membership, names, hooks, state, copies, signatures, call
cost.
"""
import copy
import inspect
import json
import pathlib
import pickle
import warnings

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn

ROOT = pathlib.Path(__file__).parents[1]


def ones(*shape):
    return paddle.to_tensor(np.ones(shape, "float32"))


# ---- membership --------------------------------------------------------------------------------------------
def test_attributes_are_plain_reads():
    layer = nn.Linear(2, 3)
    assert "__getattr__" not in vars(nn.Layer)
    assert layer.__dict__["weight"] is layer._parameters["weight"]
    fresh = nn.Parameter(ones(2, 3))
    layer._parameters["weight"] = fresh
    assert layer.weight is fresh
    del layer.weight
    assert not hasattr(layer, "weight") and "weight" not in layer._parameters


def test_kinds_of_members():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(1, 1)
            self.scale = self.create_parameter([2])
            self.register_buffer("kept", ones(1))
            self.register_buffer("dropped", ones(1), persistable=False)
            self.counter = ones(1)
            self.nothing = self.create_parameter([1], attr=False)

    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "inner.weight", "inner.bias"]
    assert [n for n, _ in net.named_buffers()] == ["kept", "dropped", "counter"]
    assert list(net.state_dict()) == ["scale", "kept", "inner.weight", "inner.bias"]
    assert net.nothing is None
    net.counter = ones(3)
    assert net._buffers["counter"].shape == [3]
    with pytest.raises(TypeError, match="scale"):
        net.scale = 3
    net.scale = None
    assert net.scale is None and "scale" not in net.state_dict()


def test_setting_before_init_says_so():
    class Net(nn.Layer):
        def __init__(self):
            self.inner = nn.Linear(1, 1)

    with pytest.raises(ValueError, match="super"):
        Net()


def test_names_count_per_kind():
    with paddle.framework.unique_name.guard():
        first, second, lstm = nn.Linear(1, 1), nn.Linear(1, 1), nn.LSTM(1, 1)
        assert (first.weight.name, second.bias.name) == ("linear_0.w_0", "linear_1.b_0")
        assert lstm.weight_hh_l0.name == "lstm_cell_0.w_1"
        assert nn.BatchNorm2D(1)._variance.name == "batch_norm2d_0.w_2"
        assert nn.PReLU().full_name() == "p_re_lu_0"


def test_walking():
    net = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU(), nn.Linear(1, 1)))
    assert [n for n, _ in net.named_sublayers()] == ["0", "1", "1.0", "1.1"]
    assert len(net.sublayers(include_self=True)) == 5
    assert [n for n, _ in net.named_children()] == ["0", "1"]
    net.eval()
    assert not any(layer.training for layer in net.sublayers(True))
    shared = nn.Linear(1, 1)
    twice = nn.LayerList([shared, shared])
    assert len(twice.parameters()) == 2 and len(twice.sublayers()) == 1
    seen = []
    net.apply(lambda layer: seen.append(type(layer).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Sequential"]
    assert net.get_sublayer("1.1") is net[1][1]
    with pytest.raises(AttributeError, match="1.7"):
        net.get_sublayer("1.7")


def test_containers():
    items = nn.LayerList([nn.ReLU(), nn.Tanh()])
    items.insert(0, nn.Linear(1, 1))
    items.append(nn.Sigmoid())
    assert [type(x).__name__ for x in items] == ["Linear", "ReLU", "Tanh", "Sigmoid"]
    assert type(items[-1]).__name__ == "Sigmoid" and len(items[1:3]) == 2
    del items[0]
    assert [type(x).__name__ for x in items] == ["ReLU", "Tanh", "Sigmoid"]
    with pytest.raises(IndexError):
        items[3]
    chain = nn.Sequential(("a", nn.Linear(2, 2)), ("b", nn.ReLU()))
    assert chain["a"] is chain[0] and len(chain) == 2
    table = nn.LayerDict({"x": nn.ReLU()})
    table["y"] = nn.Tanh()
    assert list(table.keys()) == ["x", "y"] and "x" in table
    assert table.pop("x") is not None and len(table) == 1


# ---- hooks -------------------------------------------------------------------------------------------------
def test_forward_hooks():
    layer, calls = nn.Identity(), []
    first = layer.register_forward_pre_hook(lambda lay, inputs: (inputs[0] * 2,))
    layer.register_forward_post_hook(lambda lay, inputs, out: out + 1)
    last = layer.register_forward_post_hook(lambda lay, i, k, out: calls.append(k), with_kwargs=True)
    np.testing.assert_array_equal(layer(ones(1)).numpy(), [3])
    assert calls == [{}]
    first.remove()
    last.remove()
    first.remove()
    np.testing.assert_array_equal(layer(ones(1)).numpy(), [2])


def test_state_dict_hook():
    layer = nn.Linear(1, 1)
    handle = layer.register_state_dict_hook(lambda state: state.__delitem__("bias"))
    assert list(layer.state_dict()) == ["weight"]
    handle.remove()
    assert list(layer.state_dict()) == ["weight", "bias"]


# ---- state -------------------------------------------------------------------------------------------------
def test_set_state_dict_reports_what_does_not_fit():
    layer = nn.Linear(2, 2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert layer.set_state_dict({"weight": np.ones((2, 2), "float32"), "x": 1}) == (["bias"], ["x"])
        missing, _ = layer.set_state_dict({"weight": np.ones((3, 2), "float32"), "bias": np.ones(2)})
    assert missing == ["weight"] and any("[3, 2]" in str(w.message) for w in said)
    np.testing.assert_array_equal(layer.bias.numpy(), [1, 1])
    assert layer.bias.dtype == paddle.float32
    with pytest.raises(RuntimeError, match="bias"):
        layer.load_state_dict({"weight": np.ones((2, 2), "float32")})


def test_deepcopy_and_pickle():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1D(2))
    twin = copy.deepcopy(net)
    assert twin[0].weight is not net[0].weight and twin[0].weight.name.endswith("_deepcopy_0")
    assert twin[0].__dict__["weight"] is twin[0]._parameters["weight"]
    twin[0].weight.set_value(np.zeros((2, 2), "float32"))
    assert np.abs(net[0].weight.numpy()).sum() > 0
    again = pickle.loads(pickle.dumps(net))
    for (name, a), (_, b) in zip(net.state_dict().items(), again.state_dict().items()):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=name)
    assert [p.stop_gradient for p in again.parameters()] == [p.stop_gradient for p in net.parameters()]


def test_a_layer_that_holds_an_op_is_copied_and_pickled():
    layer = nn.TransformerEncoderLayer(8, 2, 8)
    assert copy.deepcopy(layer).activation is layer.activation is nn.functional.relu
    for op in (nn.functional.relu, nn.functional.relu_, paddle.abs, paddle.Tensor.abs):
        assert copy.copy(op) is op and pickle.loads(pickle.dumps(op)) is op


def test_to_dtype_keeps_identity():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1D(2))
    weight = net[0].weight
    net.bfloat16()
    assert net[0].weight is weight and weight.dtype == paddle.bfloat16 and not weight.stop_gradient
    assert net[1].weight.dtype == paddle.float32
    net.to(dtype="float64")
    assert weight.dtype == paddle.float64 and net[1]._mean.dtype == paddle.float64
    with pytest.raises(ValueError, match="gpu"):
        net.to("gpu:0")


def test_empty_batch_leaves_running_statistics():
    norm = nn.BatchNorm1D(5)
    out = norm(paddle.to_tensor(np.zeros((0, 5, 9), "float32")))
    assert out.shape == [0, 5, 9]
    np.testing.assert_array_equal(norm._mean.numpy(), np.zeros(5))
    np.testing.assert_array_equal(norm._variance.numpy(), np.ones(5))
    assert nn.Linear(3, 4)(paddle.to_tensor(np.zeros((0, 3), "float32"))).shape == [0, 4]
    assert nn.Conv2D(3, 4, 3)(paddle.to_tensor(np.zeros((0, 3, 8, 8), "float32"))).shape == [0, 4, 6, 6]
    assert nn.MaxPool2D(2)(paddle.to_tensor(np.zeros((0, 3, 8, 8), "float32"))).shape == [0, 3, 4, 4]


def test_empty_batch_trains():
    net = nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    out = net(paddle.to_tensor(np.zeros((0, 3, 4, 4), "float32")))
    loss = nn.CrossEntropyLoss(reduction="sum")(out, paddle.to_tensor(np.zeros(0, "int64")))
    loss.backward()
    assert loss.item() == 0
    for name, parameter in net.named_parameters():
        if not parameter.stop_gradient:
            np.testing.assert_array_equal(parameter.grad.numpy(), np.zeros(parameter.shape), err_msg=name)


# ---- parameters and initialisers ---------------------------------------------------------------------------
def test_param_attr():
    attr = paddle.ParamAttr(name="my.weight", initializer=nn.initializer.Constant(2.0), learning_rate=0.5,
                            trainable=False)
    layer = nn.Linear(2, 2, weight_attr=attr, bias_attr=False)
    assert layer.weight.name == "my.weight" and layer.weight.stop_gradient and layer.bias is None
    assert layer.weight.optimize_attr["learning_rate"] == 0.5
    np.testing.assert_array_equal(layer.weight.numpy(), np.full((2, 2), 2))
    assert nn.Linear(2, 2, weight_attr=nn.initializer.Constant(3.0)).weight.numpy()[0, 0] == 3
    with pytest.raises(TypeError):
        nn.Linear(2, 2, weight_attr=3.5)


def spread(initializer, shape=(64, 32, 3, 3)):
    values = paddle.create_parameter(list(shape), "float32", default_initializer=initializer).numpy()
    return values.std(), values.min(), values.max(), values.mean()


@pytest.mark.parametrize("initializer, std, limit", [
    (nn.initializer.XavierUniform(), 0.0481, 0.08334), (nn.initializer.XavierNormal(), 0.0481, None),
    (nn.initializer.KaimingUniform(), 0.0833, 0.14434), (nn.initializer.KaimingNormal(), 0.0833, None),
    (nn.initializer.KaimingUniform(mode="fan_out"), 0.0589, 0.10207), (nn.initializer.Normal(), 1.0, None),
    (nn.initializer.Uniform(), 0.5773, 1.0), (nn.initializer.TruncatedNormal(), 0.8796, 2.0)])
def test_initializer_spread(initializer, std, limit):
    got, low, high, mean = spread(initializer)
    assert got == pytest.approx(std, rel=0.03) and abs(mean) < 0.03 * max(std, 1)
    if limit is not None:
        assert -limit <= low < -0.95 * limit and 0.95 * limit < high <= limit


def test_truncated_normal_bounds_are_absolute():
    std, low, high, mean = spread(nn.initializer.TruncatedNormal(1.0, 2.0, -1.0, 2.0))
    assert low >= -1 and high <= 2
    assert mean == pytest.approx(0.577, abs=0.03) and std == pytest.approx(0.832, abs=0.02)


def test_fixed_initializers():
    weight = paddle.create_parameter([4, 2, 3], "float32",
                                     default_initializer=nn.initializer.Orthogonal()).numpy()
    flat = weight.reshape(4, -1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(4), atol=1e-5)
    tall = paddle.create_parameter([6, 2], "float32",
                                   default_initializer=nn.initializer.Orthogonal(2.0)).numpy()
    np.testing.assert_allclose(tall.T @ tall, 4 * np.eye(2), atol=1e-4)
    dirac = paddle.create_parameter([4, 3, 3], "float32", default_initializer=nn.initializer.Dirac(2)).numpy()
    assert [a.tolist() for a in dirac.nonzero()] == [[0, 1, 2, 3], [0, 1, 0, 1], [1, 1, 1, 1]]
    up = paddle.create_parameter([2, 2, 4, 4], "float32",
                                 default_initializer=nn.initializer.Bilinear()).numpy()
    np.testing.assert_allclose(up[1, 0, 0], [0.0625, 0.28125, 0.375, 0.15625])


def test_global_initializer():
    nn.initializer.set_global_initializer(nn.initializer.Constant(0.5), nn.initializer.Constant(0.25))
    try:
        layer = nn.Conv2D(1, 1, 1)
        assert layer.weight.item() == 0.5 and layer.bias.item() == 0.25
        named = nn.Linear(1, 1, weight_attr=nn.initializer.Constant(3.0))
        assert named.weight.item() == 3.0
    finally:
        nn.initializer.set_global_initializer(None)


def test_same_seed_same_weights():
    paddle.seed(11)
    first = nn.Linear(4, 4).weight.numpy()
    paddle.seed(11)
    np.testing.assert_array_equal(nn.Linear(4, 4).weight.numpy(), first)


def test_weight_norm_and_spectral_norm():
    layer = nn.utils.weight_norm(nn.Linear(3, 2), dim=1)
    before = layer.weight.numpy()
    assert sorted(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    layer(ones(1, 3)).sum().backward()
    assert layer.weight_g.grad is not None
    nn.utils.remove_weight_norm(layer)
    np.testing.assert_allclose(layer.weight.numpy(), before, rtol=1e-5)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    spectral = nn.utils.spectral_norm(nn.Linear(3, 2), n_power_iterations=50)
    spectral(ones(1, 3))
    assert np.linalg.svd(spectral.weight.numpy())[1][0] == pytest.approx(1.0, rel=1e-3)


def test_parameters_as_vector():
    layer = nn.Linear(2, 2)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(vector * 0 + 1, layer.parameters())
    np.testing.assert_array_equal(layer.weight.numpy(), np.ones((2, 2)))


# ---- the API's shape ---------------------------------------------------------------------------------------
# Settings of layers that Paddle has and that are not built (they say so), or whose signature Paddle hides.
_NOT_BUILT = {"BeamSearchDecoder", "dynamic_decode"}


def test_signatures_are_paddles():
    wanted = json.loads((ROOT / "oracle" / "paddle_api.json").read_text())
    wrong = []
    for name, arguments in wanted.items():
        parts = name.split(".")
        for room, owner in (("nn", nn), ("optimizer", paddle.optimizer), ("amp", paddle.amp)):
            if parts[1] != room or len(parts) != 3 or parts[2] in _NOT_BUILT:
                continue
            if not isinstance(arguments, list):
                continue
            made = getattr(owner, parts[2], None)
            if made is None:
                wrong.append(f"{name}: missing")
                continue
            if parts[2] == "Parameter" or not arguments:
                continue
            got = [str(p).split(":")[0] if p.default is p.empty else f"{p.name}={p.default!r}"
                   for p in inspect.signature(made).parameters.values()]
            plain = [a for a in arguments if a != "*"]
            if [a.replace(" ", "") for a in got] != [a.replace(" ", "") for a in plain]:
                wrong.append(f"{name}: {got}; Paddle's: {plain}")
    assert not wrong, "\n".join(wrong)


def test_set_state_dict_warns_once_however_many_names_are_missing():
    net, other = paddle.nn.Sequential(*[paddle.nn.Linear(2, 2) for _ in range(20)]), paddle.nn.Linear(2, 3)
    with pytest.warns(UserWarning) as said:
        missing, _ = net.set_state_dict({"0.weight": other.weight, "1.weight": net[1].weight})
    assert len(said) == 1 and len(missing) == 39
    text = str(said[0].message)
    assert "39 of 40 are not loaded, 38 missing in the given dict: 0.bias, 1.bias, 2.weight" in text and "and 26 more" in text
    assert "1 of another shape: 0.weight (got shape [2, 3]; expected [2, 2])" in text
