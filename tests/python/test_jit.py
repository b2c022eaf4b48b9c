# SPDX-License-Identifier: Apache-2.0
"""to_static, save and load: what a saved program must do without Python."""
import copy
import pathlib
import threading

import numpy as np
import pytest

import yuloh as paddle
from yuloh import _core, nn
from yuloh.jit import structure
from yuloh.jit.export import export
from yuloh.static import InputSpec

F = nn.functional


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(3, 4, 3)
        self.norm = nn.BatchNorm2D(4)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        y = self.drop(F.relu(self.norm(self.conv(x))))
        return self.fc(y.reshape([x.shape[0], 4, -1]).mean(-1))


def warmed_net():
    paddle.seed(3)
    net = Net()
    for _ in range(3):  # running statistics that are not 0 and 1
        net(paddle.randn([4, 3, 8, 8]))
    return net


def test_save_and_load_give_the_numbers_of_eval_mode(tmp_path):
    net = warmed_net()
    paddle.jit.save(net, str(tmp_path / "m"), input_spec=[InputSpec([None, 3, None, None], name="image")])
    assert net.training and net.norm.training and net.drop.training
    net.eval()
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for shape in ([1, 3, 8, 8], [2, 3, 9, 31]):
        x = paddle.randn(shape)
        want = net(x).numpy()
        np.testing.assert_allclose(loaded(x).numpy(), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(loaded(x).numpy(), loaded(x).numpy())
    assert set(loaded.state_dict()) == set(net.state_dict())
    assert {p.name for p in loaded.parameters()} == {p.name for p in net.parameters()}
    assert loaded._input_spec()[0].name == "image"


def test_loaded_layer_can_be_trained_further(tmp_path):
    net = warmed_net()
    net.eval()
    paddle.jit.save(net, str(tmp_path / "m"), input_spec=[InputSpec([None, 3, 8, 8])])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    x, y = paddle.randn([4, 3, 8, 8]), paddle.to_tensor([0, 1, 0, 1])
    losses = []
    for layer in (net, loaded):
        optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
        row = []
        for _ in range(3):
            loss = F.cross_entropy(layer(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            row.append(float(loss))
        losses.append(row)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][2] < losses[0][0]
    np.testing.assert_allclose(loaded.state_dict()["fc.weight"].numpy(), net.fc.weight.numpy(), rtol=1e-5)


def test_copies_share_the_program_and_save_again(tmp_path):
    net, x = nn.Linear(2, 3), paddle.randn([4, 2])
    paddle.jit.save(net, str(tmp_path / "a"), input_spec=[InputSpec([None, 2])])
    loaded = paddle.jit.load(str(tmp_path / "a"))
    twin = copy.deepcopy(loaded)
    with paddle.no_grad():
        loaded.state_dict()["bias"].add_(paddle.ones([3]))
    np.testing.assert_allclose(twin(x).numpy(), net(x).numpy(), rtol=1e-6)
    np.testing.assert_allclose(loaded(x).numpy(), net(x).numpy() + 1, rtol=1e-6)
    paddle.jit.save(loaded, str(tmp_path / "b"), input_spec=[InputSpec([None, 2])])
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "b"))(x).numpy(), loaded(x).numpy(), rtol=1e-6)
    marked = paddle.jit.to_static(nn.Linear(2, 3))
    assert copy.deepcopy(marked).forward._instance is not marked


def test_functions_methods_and_structures(tmp_path):
    @paddle.jit.to_static(input_spec=[InputSpec([None, 2], name="u"), InputSpec([None, 2])])
    def both(x, y):
        return {"sum": x + y, "rest": [x * y, x - y]}

    a, b = paddle.ones([3, 2]), paddle.full([3, 2], 2.0)
    assert list(both(a, b)) == ["sum", "rest"]
    paddle.jit.save(both, str(tmp_path / "f"))
    got = paddle.jit.load(str(tmp_path / "f"))(a, b)
    assert [float(t[0, 0]) for t in got] == [3, 2, -1]

    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        @paddle.jit.to_static(input_spec=[InputSpec([None, 2])])
        def forward(self, x):
            return self.fc(x)

        @paddle.jit.to_static(input_spec=[InputSpec([None, 2])])
        def twice(self, x):
            return self.fc(x) * 2

    net = Two()
    paddle.jit.save(net, str(tmp_path / "two"))
    loaded = paddle.jit.load(str(tmp_path / "two"))
    np.testing.assert_allclose(loaded.twice(a).numpy(), 2 * loaded(a).numpy())
    np.testing.assert_allclose(loaded(a).numpy(), net(a).numpy())
    assert len(loaded.parameters()) == 2  # the methods share them


def test_saved_as_last_called_and_errors_that_say_what_to_do(tmp_path):
    net = paddle.jit.to_static(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="input_spec"):
        paddle.jit.save(net, str(tmp_path / "n"))
    net(paddle.ones([5, 2]))
    paddle.jit.save(net, str(tmp_path / "n"))
    assert paddle.jit.load(str(tmp_path / "n"))(paddle.ones([5, 2])).shape == [5, 2]
    with pytest.raises(ValueError, match=r"wrong shape, got \[4, 2\]; expected \[5, 2\]"):
        paddle.jit.load(str(tmp_path / "n"))(paddle.ones([4, 2]))
    for call, error in ((lambda: paddle.jit.save(5, str(tmp_path / "x")), TypeError),
                        (lambda: paddle.jit.save(net, ""), ValueError),
                        (lambda: paddle.jit.save(net, str(tmp_path / "x"), nonsense=1), ValueError),
                        (lambda: paddle.jit.load(str(tmp_path / "none")), ValueError),
                        (lambda: paddle.jit.to_static(5), TypeError),
                        (lambda: paddle.jit.to_static(lambda x: x, input_spec=3), TypeError)):
        with pytest.raises(error):
            call()


def test_python_control_flow_over_tensors_names_its_line(tmp_path):
    def branch(x):
        y = x * 2
        if y.sum() > 0:  # the line
            return y
        return -y

    marked = paddle.jit.to_static(branch)
    assert float(marked(paddle.ones([1]))[0]) == 2 and float(marked(-paddle.ones([1]))[0]) == 2
    line = branch.__code__.co_firstlineno + 2
    for code in (branch, lambda x: x * float(x.sum()), lambda x: x[: int(x.sum())], lambda x: paddle.to_tensor(x.numpy())):
        with pytest.raises(RuntimeError, match="control flow over tensors.*comes later") as info:
            paddle.jit.save(code, str(tmp_path / "b"), input_spec=[InputSpec([3])])
        if code is branch:
            assert f"test_jit.py:{line}" in str(info.value)


def test_constants_may_be_read_and_state_is_put_back(tmp_path):
    table = paddle.to_tensor([1.0, 2.0, 3.0])

    class Counter(nn.Layer):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", paddle.zeros([1]))

        def forward(self, x):
            self.count.add_(x.sum().reshape([1]))
            return x * float(table.max()) + self.count

    net = Counter()
    pending = table * 2  # the thread's own graph stays as it is
    with pytest.warns(UserWarning, match="count"):
        paddle.jit.save(net, str(tmp_path / "c"), input_spec=[InputSpec([None])])
    assert float(net.count) == 0 and float(pending[2]) == 6
    assert paddle.jit.load(str(tmp_path / "c"))(paddle.ones([2])).tolist() == [5, 5]


@pytest.mark.parametrize("code, sizes", [
    (lambda x: x.reshape([x.shape[0] * x.shape[1], 3]), [(2, 5), (1, 1)]),
    (lambda x: x[:, : x.shape[1] // 2], [(2, 5), (2, 6), (2, 1)]),
    (lambda x: x[:, -((x.shape[1] + 1) // 2):], [(2, 5), (2, 6)]),
    (lambda x: x / x.shape[1] + x.shape[0], [(2, 5), (1, 1)]),
    (lambda x: x + paddle.arange(x.shape[1], dtype="float32").reshape([1, -1, 1]), [(2, 5), (7, 1)]),
    (lambda x: paddle.zeros([x.shape[0], 2 * x.shape[1] + 1]) + x.sum(), [(2, 5)]),
    (lambda x: paddle.concat([x, paddle.full([x.shape[0], 1, 3], 2.0)], 1), [(2, 5)]),
    (lambda x: x.expand([2, x.shape[0], x.shape[1], 3]).transpose([0, 2, 1, 3]).flatten(1), [(2, 5)]),
    (lambda x: F.pad(x.unsqueeze(1), [0, 0, x.shape[1], 1]), [(2, 5), (3, 2)]),
])
def test_numbers_that_follow_from_open_sizes(tmp_path, code, sizes):
    paddle.jit.save(code, str(tmp_path / "s"), input_spec=[InputSpec([None, None, 3], name="x")])
    loaded = paddle.jit.load(str(tmp_path / "s"))
    session = _core.Session(loaded.program())
    for n, m in sizes:
        x = np.random.RandomState(0).rand(n, m, 3).astype("float32")
        want = code(paddle.to_tensor(x)).numpy()
        np.testing.assert_allclose(loaded(paddle.to_tensor(x)).numpy(), want, rtol=1e-6)
        np.testing.assert_allclose(session.run([x])[0].numpy(), want, rtol=1e-6)


def test_what_cannot_follow_a_size_is_refused(tmp_path):
    cases = {
        "sqrt": lambda x: x * float(np.sqrt(x.shape[0])),
        "data": lambda x: x + paddle.to_tensor(np.arange(x.shape[0], dtype="float32")),
        "ops": lambda x: x.exp() if x.shape[0] % 2 else x.log(),
    }
    for code in cases.values():
        with pytest.raises(ValueError, match=r"depends on an open size.*test_jit.py:\d+|which ops run depends"):
            paddle.jit.save(code, str(tmp_path / "r"), input_spec=[InputSpec([None])])


def test_sizes_that_do_not_suit_the_model_are_refused_when_they_come(tmp_path):
    def quarters(x):  # refuses what 4 does not divide
        if x.shape[0] % 4:
            raise ValueError("a multiple of 4, please")
        return x.reshape([4, x.shape[0] // 4])

    paddle.jit.save(quarters, str(tmp_path / "q"), input_spec=[InputSpec([None])])
    loaded = paddle.jit.load(str(tmp_path / "q"))
    assert loaded(paddle.ones([20])).shape == [4, 5]
    with pytest.raises(ValueError, match=r"does not work for these input sizes, got s0 = 21.*test_jit.py|got s0 = 21"):
        loaded(paddle.ones([21]))


def test_inputs_that_must_agree_share_a_size(tmp_path):
    paddle.jit.save(lambda x, y: x + y, str(tmp_path / "a"), input_spec=[InputSpec([None, 2]), InputSpec([None, 2])])
    program = paddle.jit.load(str(tmp_path / "a")).program()
    assert program.dims == ["s0"]
    with pytest.raises(ValueError, match="does not fit another input"):
        paddle.jit.load(str(tmp_path / "a"))(paddle.ones([2, 2]), paddle.ones([3, 2]))


def test_weights_are_stored_once_and_the_three_files_belong_together(tmp_path):
    net, path = paddle.nn.Linear(300, 200), tmp_path / "net"
    spec = [InputSpec([None, 300])]
    paddle.jit.save(net, str(path), input_spec=spec)
    size = {f.suffix: f.stat().st_size for f in tmp_path.iterdir()}
    assert size[".yuloh"] < 4000 and 240_800 <= size[".pdiparams"] < 241_200
    x = paddle.rand([2, 300])
    np.testing.assert_array_equal(paddle.jit.load(str(path))(x).numpy(), net(x).numpy())
    data = bytearray((tmp_path / "net.pdiparams").read_bytes())
    for at in (len(data) // 3, len(data) - 1):  # a flip in the weights is found by the package's checksums
        data[at] ^= 1
        (tmp_path / "net.pdiparams").write_bytes(data)
        with pytest.raises(ValueError, match="net.pdiparams does not belong to .*the checksum of tensor"):
            paddle.inference.create_predictor(paddle.inference.Config(str(path) + ".yuloh"))
        data[at] ^= 1
    (tmp_path / "net.pdiparams").write_bytes(data[:-1])
    with pytest.raises(ValueError, match="does not belong to"):
        paddle.inference.create_predictor(paddle.inference.Config(str(path) + ".yuloh"))
    (tmp_path / "net.pdiparams").unlink()
    with pytest.raises(ValueError, match="has its weights in .*net.pdiparams, which is not there"):
        paddle.inference.create_predictor(paddle.inference.Config(str(path) + ".yuloh"))
    paddle.jit.save(net, str(path) + ".yuloh", input_spec=spec)  # asked for alone, it holds everything
    (tmp_path / "net.json").unlink()
    np.testing.assert_array_equal(paddle.jit.load(str(path))(x).numpy(), net(x).numpy())


def test_a_save_that_ended_between_its_files_loads(tmp_path):
    spec, path = [InputSpec([None, 30])], str(tmp_path / "net")
    old, new = paddle.nn.Linear(30, 20), paddle.nn.Linear(30, 20)
    paddle.jit.save(old, path, input_spec=spec)
    held = (tmp_path / "net.yuloh").read_bytes()
    paddle.jit.save(new, path, input_spec=spec)
    (tmp_path / "net.yuloh").write_bytes(held)
    x = paddle.rand([2, 30])
    with pytest.warns(UserWarning, match="Loading .*net.json instead"):
        np.testing.assert_array_equal(paddle.jit.load(path)(x).numpy(), new(x).numpy())


def test_random_ops_are_drawn_anew(tmp_path):
    paddle.jit.save(lambda x: x + paddle.rand(x.shape), str(tmp_path / "r"), input_spec=[InputSpec([None])])
    program = paddle.jit.load(str(tmp_path / "r")).program()
    session, x = _core.Session(program), np.zeros(1000, "float32")
    paddle.seed(5)
    a, b = session.run([x])[0].numpy(), session.run([x])[0].numpy()
    assert (a != b).mean() > 0.99 and 0.4 < a.mean() < 0.6
    paddle.seed(5)
    np.testing.assert_array_equal(session.run([x])[0].numpy(), a)


def test_saving_from_several_threads(tmp_path):
    errors = []

    def work(i):
        try:
            net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, i + 1))
            x = paddle.randn([2, 3])
            paddle.jit.save(net, str(tmp_path / f"t{i}"), input_spec=[InputSpec([None, 3])])
            np.testing.assert_allclose(paddle.jit.load(str(tmp_path / f"t{i}"))(x).numpy(), net(x).numpy(), rtol=1e-5)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors


def test_zoo_models_agree_with_themselves(tmp_path):
    from yuloh.vision import models
    for make, shape in ((models.resnet18, [2, 3, 32, 32]), (models.mobilenet_v2, [1, 3, 64, 64])):
        net = make(num_classes=10)
        net.eval()
        paddle.jit.save(net, str(tmp_path / "z"), input_spec=[InputSpec([None, 3, None, None])])
        program = paddle.jit.load(str(tmp_path / "z")).program()
        x = np.random.RandomState(1).rand(*shape).astype("float32")
        want = net(paddle.to_tensor(x)).numpy()
        for options in ({}, {"fold_weights": False}, {"fusion": False, "rules": False}):
            got = _core.Session(program, **options).run([x])[0].numpy()
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * np.abs(want).max())
        plan = _core.Session(program).prepare([(shape, "float32")])["text"]
        assert "norm" not in plan  # every batch norm folded


def test_structures():
    value = {"a": [1, (2, 3)], "b": 4}
    assert structure.flatten(value) == [1, 2, 3, 4]
    assert structure.rebuild(value, iter("wxyz")) == {"a": ["w", ("x", "y")], "b": "z"}
    with pytest.raises(ValueError, match="returns no tensor"):
        export(lambda d: 3, {"x": InputSpec([1])}, [])


PADDLE_MODELS = pathlib.Path(__file__).parents[1] / "data" / "paddle_models"


def test_files_that_paddle_wrote_load_as_layers():
    for name in ("lenet", "unet", "encoder", "sizes"):
        io = np.load(PADDLE_MODELS / f"{name}.npz")
        layer = paddle.jit.load(str(PADDLE_MODELS / name))
        inputs = [paddle.to_tensor(io[k]) for k in sorted(io.files) if k[0] == "x"]
        out = structure.flatten([layer(*inputs)])
        np.testing.assert_allclose(out[0].numpy(), io["y0"], rtol=1e-4, atol=1e-4)
        trained = [p for p in layer.parameters() if not p.stop_gradient]
        assert trained and all(p.name and not p.name.startswith("generated") for p in trained)
        out[0].mean().backward()
        assert all(p.grad is not None for p in trained)


def test_files_whose_tensors_hold_sizes_load_for_every_size():
    layer = paddle.jit.load(str(PADDLE_MODELS / "sizes"))
    predictor = paddle.inference.create_predictor(paddle.inference.Config(*(str(PADDLE_MODELS / n) for n in ("sizes.json", "sizes.pdiparams"))))
    io = np.load(PADDLE_MODELS / "sizes.npz")
    for batch, length in ((2, 7), (1, 1), (5, 12), (3, 33)):
        ids = np.resize(io["x0"], [batch, length])
        got = [t.numpy() for t in layer(paddle.to_tensor(ids))]
        assert [g.shape for g in got] == [(batch, 2, length, 4), (batch, 1), (batch, length // 2)]
        for mine, other in zip(got, predictor.run([ids])):
            np.testing.assert_allclose(mine, other.numpy(), atol=1e-6)
        alone = layer(paddle.to_tensor(ids[:1]))[0].numpy()
        np.testing.assert_allclose(got[0][:1], alone, atol=1e-6)


def test_a_loaded_layer_is_in_evaluation_whatever_it_is_told(tmp_path):
    """As in Paddle 3.3.1: train() sets `training`; dropout and batch norm stay as saved, statistics stay."""
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1D(8), nn.Dropout(0.5), nn.Linear(8, 2))
    net.train()
    x = paddle.randn([16, 6])
    net(x)
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[InputSpec([None, 6])])
    assert net.training
    net.eval()
    want = net(x).numpy()
    for path in (tmp_path / "net", tmp_path / "paddle" / "net"):
        if path.parent.name == "paddle":  # the same program read from Paddle's files
            path.parent.mkdir()
            for suffix in (".json", ".pdiparams"):
                (path.parent / f"net{suffix}").write_bytes((tmp_path / f"net{suffix}").read_bytes())
        layer = paddle.jit.load(str(path))
        assert not layer.training
        for mode in ("train", "eval"):
            getattr(layer, mode)()
            assert layer.training == (mode == "train")
            for _ in range(2):
                np.testing.assert_allclose(layer(x).numpy(), want, rtol=1e-5, atol=1e-6)
