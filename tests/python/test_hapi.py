# SPDX-License-Identifier: Apache-2.0
"""paddle.Model, callbacks, summary and flops."""

import os

import numpy as np
import pytest

import yuloh as paddle
from yuloh.vision import datasets, models
from yuloh.vision import transforms as T

nn = paddle.nn


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return datasets.make_synthetic_mnist(str(tmp_path_factory.mktemp("mnist")), 640, 128)


def mnist(folder, mode):
    prefix = f"{folder}/{'train' if mode == 'train' else 't10k'}"
    files = f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"
    return datasets.MNIST(*files, mode, transform=T.Normalize([127.5], [127.5]), backend="cv2")


def rows(n=10, classes=2):
    rng = np.random.RandomState(0)
    x = rng.randn(n, 3).astype("float32")
    return paddle.io.TensorDataset(
        [paddle.to_tensor(x), paddle.to_tensor((x[:, :1] > 0).astype("int64") % classes)]
    )


def small(lr=0.1, **kwargs):
    model = paddle.Model(nn.Linear(3, 2), **kwargs)
    optimizer = paddle.optimizer.SGD(learning_rate=lr, parameters=model.parameters())
    model.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    return model


def test_lenet_learns_digits(digits, tmp_path, capsys):
    paddle.seed(1)
    np.random.seed(1)
    model = paddle.Model(models.LeNet())
    optimizer = paddle.optimizer.Adam(parameters=model.parameters())
    model.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy(topk=(1, 2)))
    train, test = mnist(digits, "train"), mnist(digits, "test")
    model.fit(train, test, batch_size=64, epochs=6, verbose=2, log_freq=4, save_dir=str(tmp_path))
    out = capsys.readouterr().out
    assert (
        "Epoch 6/6" in out
        and "step  4/10 - loss: " in out
        and "acc_top2" in out
        and "Evaluated 128 samples" in out
    )
    assert (
        sorted(os.listdir(tmp_path))[:2] == ["0.pdopt", "0.pdparams"]
        and (tmp_path / "final.pdparams").exists()
    )
    logs = model.evaluate(test, batch_size=64, verbose=0)
    assert logs["acc_top1"] > 0.9 and logs["acc_top2"] >= logs["acc_top1"] and len(logs["loss"]) == 1
    batches = model.predict(test, batch_size=64, verbose=0)
    assert len(batches) == 1 and [b.shape for b in batches[0]] == [(64, 10), (64, 10)]
    stacked = model.predict(test, batch_size=50, stack_outputs=True, verbose=0)[0]
    assert stacked.shape == (128, 10)
    assert (stacked.argmax(1) == test.labels[:, 0]).mean() == logs["acc_top1"]
    again = paddle.Model(models.LeNet())
    again.prepare(
        paddle.optimizer.Adam(parameters=again.parameters()), nn.CrossEntropyLoss(), paddle.metric.Accuracy()
    )
    again.load(str(tmp_path / "final"))
    assert again.evaluate(test, batch_size=64, verbose=0)["acc"] == logs["acc_top1"]


def test_one_plan_a_step():
    model = small()
    x, y = np.random.rand(8, 3).astype("float32"), np.zeros((8, 1), "int64")
    for _ in range(4):
        model.train_batch([x], [y])
    before = paddle._core.stats()
    for _ in range(10):
        model.train_batch([x], [y])
    after = paddle._core.stats()
    compiled = next(k for k in after if "compil" in k or k in ("plans", "misses"))
    assert after[compiled] == before[compiled]


def test_batches():
    model = small(lr=0.0)
    x, y = np.random.rand(4, 3).astype("float32"), np.zeros((4, 1), "int64")
    losses, metrics = model.train_batch([x], [y])
    assert np.asarray(losses[0]).shape == () and len(metrics) == 1 and 0 <= metrics[0] <= 1
    assert model.network.training
    evaluated, _ = model.eval_batch([x], [y])
    assert not model.network.training and abs(float(evaluated[0]) - float(losses[0])) < 1e-6
    assert [o.shape for o in model.predict_batch([x])] == [(4, 2)]
    plain = paddle.Model(nn.Linear(3, 2))
    plain.prepare(paddle.optimizer.SGD(parameters=plain.parameters()), nn.CrossEntropyLoss())
    assert isinstance(plain.train_batch([x], [y]), list)
    with pytest.raises(RuntimeError, match="prepare"):
        paddle.Model(nn.Linear(3, 2)).train_batch([x], [y])


def test_gradient_accumulation():
    x, y = np.random.RandomState(0).rand(8, 3).astype("float32"), np.zeros((8, 1), "int64")
    data = paddle.io.TensorDataset([paddle.to_tensor(x), paddle.to_tensor(y)])
    one, two = small(), small()
    two.network.set_state_dict(one.network.state_dict())
    one.fit(data, batch_size=4, accumulate_grad_batches=2, shuffle=False, verbose=0)
    two._optimizer.set_lr(0.2)
    two.fit(data, batch_size=8, shuffle=False, verbose=0)
    np.testing.assert_allclose(one.network.weight.numpy(), two.network.weight.numpy(), rtol=1e-4, atol=1e-6)


class Recorder(paddle.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda *args: object.__getattribute__(self, "calls").append((name, *args))
        return object.__getattribute__(self, name)


def test_callbacks():
    recorder = Recorder()
    model = small()
    model.fit(rows(5), rows(3), batch_size=2, epochs=2, verbose=0, callbacks=recorder, shuffle=False)
    names = [c[0] for c in recorder.calls]
    epoch = ["on_epoch_begin"] + ["on_train_batch_begin", "on_train_batch_end"] * 3 + ["on_epoch_end"]
    evaluation = ["on_eval_begin"] + ["on_eval_batch_begin", "on_eval_batch_end"] * 2 + ["on_eval_end"]
    assert names == ["on_train_begin"] + (epoch + evaluation) * 2 + ["on_train_end"]
    logs = [c[2] for c in recorder.calls if c[0] == "on_train_batch_end"]
    assert [log["batch_size"] for log in logs[:3]] == [2, 2, 1] and [log["step"] for log in logs[:3]] == [
        0,
        1,
        2,
    ]
    assert set(logs[0]) == {"loss", "acc", "step", "batch_size"} and isinstance(logs[0]["loss"][0], float)
    assert recorder.params["steps"] == 3 and recorder.params["metrics"] == ["loss", "acc"]
    assert recorder.model is model


def test_num_iters_iterables_and_loaders(capsys):
    model = small()
    recorder = Recorder()
    model.fit(rows(20), batch_size=2, epochs=5, num_iters=13, verbose=0, callbacks=[recorder])
    assert sum(c[0] == "on_train_batch_end" for c in recorder.calls) == 13

    class Stream(paddle.io.IterableDataset):
        def __iter__(self):
            for i in range(10):
                yield np.full(3, i, "float32"), np.array([i % 2])

    for verbose in (1, 2):
        model.fit(Stream(), batch_size=4, verbose=verbose)
    assert "step 3" in capsys.readouterr().out
    loader = paddle.io.DataLoader(rows(6), batch_size=3)
    model.fit(loader, loader, verbose=0)
    with pytest.raises(TypeError):
        model.fit(5)


def test_schedules_and_stopping(tmp_path):
    model = paddle.Model(nn.Linear(3, 2))
    rate = paddle.optimizer.lr.StepDecay(0.1, step_size=2, gamma=0.5)
    model.prepare(paddle.optimizer.SGD(rate, parameters=model.parameters()), nn.CrossEntropyLoss())
    model.fit(rows(8), batch_size=2, verbose=0)
    assert abs(model._optimizer.get_lr() - 0.025) < 1e-9  # four steps
    still = small(lr=0.0)
    stop = paddle.callbacks.EarlyStopping("loss", patience=2, verbose=0)
    recorder = Recorder()
    still.fit(
        rows(), rows(), batch_size=5, epochs=20, verbose=0, callbacks=[stop, recorder], save_dir=str(tmp_path)
    )
    assert sum(c[0] == "on_epoch_end" for c in recorder.calls) == 3
    assert (tmp_path / "best_model.pdparams").exists()
    flat = small(lr=0.1)
    flat.network.weight.stop_gradient = flat.network.bias.stop_gradient = True
    plateau = paddle.callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=1, verbose=0)
    plateau.set_model(flat)
    plateau.on_train_begin()
    for _ in range(3):
        plateau.on_eval_end({"loss": [1.0]})
    assert abs(flat._optimizer.get_lr() - 0.001) < 1e-9


def test_amp_and_several_outputs():
    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x, scale=None):
            return self.a(x), self.b(x)

    def loss(p, q, label):
        return [nn.functional.cross_entropy(p, label), nn.functional.cross_entropy(q, label)]

    model = paddle.Model(Two())
    optimizer = paddle.optimizer.Adam(parameters=model.parameters())
    model.prepare(
        optimizer, loss, amp_configs={"level": "O1", "init_loss_scaling": 128.0, "dtype": "bfloat16"}
    )
    before = model.network.a.weight.numpy().copy()
    model.fit(rows(), batch_size=5, verbose=0)
    assert (model.network.a.weight.numpy() != before).any()
    assert len(model.evaluate(rows(), batch_size=5, verbose=0)["loss"]) == 2
    assert len(model.predict(rows(), batch_size=5, verbose=0)) == 2
    for bad in ("O5", {"level": "O1", "speed": 3}):
        with pytest.raises(ValueError):
            model.prepare(optimizer, loss, amp_configs=bad)


def test_load_mismatch(tmp_path):
    small().save(str(tmp_path / "m"))
    other = paddle.Model(nn.Linear(3, 5))
    with pytest.raises(ValueError, match="weight has shape"):
        other.load(str(tmp_path / "m"))
    other.load(str(tmp_path / "m.pdparams"), skip_mismatch=True)
    with pytest.raises(TypeError):
        other.prepare(loss=3)
    with pytest.raises(TypeError):
        other.prepare(metrics=["acc"])


def test_summary(capsys):
    info = paddle.summary(models.LeNet(), (1, 1, 28, 28))
    out = capsys.readouterr().out
    assert info == {"total_params": 61610, "trainable_params": 61610}
    assert "[[1, 1, 28, 28]]" in out and "2,416" in out and "Total params: 61,610" in out and "0.24" in out
    net = nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.Flatten(), nn.Linear(144, 5))
    net.train()
    assert paddle.summary(net, (None, 3, 8, 8), dtypes="float32") == {
        "total_params": 853,
        "trainable_params": 845,
    }
    assert net.training and net[1].training
    assert paddle.summary(net, input=paddle.ones([2, 3, 8, 8]))["total_params"] == 853
    spec = paddle.static.InputSpec([None, 1, 28, 28], "float32", "x")
    assert paddle.Model(models.LeNet(), inputs=spec).summary()["total_params"] == 61610
    with pytest.raises(ValueError):
        paddle.summary(net)


def test_flops(capsys):
    # Paddle 3.3.1's numbers.
    assert paddle.flops(models.LeNet(), [1, 1, 28, 28]) == 347560
    assert paddle.flops(models.resnet50(), [1, 3, 224, 224]) == 4111514624
    net = nn.Sequential(
        nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.AdaptiveAvgPool2D(3), nn.Flatten()
    )
    assert paddle.flops(net, [1, 3, 8, 8], print_detail=True) == 4032 + 288 + 180
    assert "conv2d" in capsys.readouterr().out

    def count(layer, inputs, output):
        layer.total_ops += 1000

    assert paddle.flops(net, [1, 3, 8, 8], custom_ops={nn.ReLU: count}) == 5500
