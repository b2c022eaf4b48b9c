# SPDX-License-Identifier: Apache-2.0
"""Programs written as Paddle's files: read back they give the same answers. That PaddlePaddle 3.3.1 loads them, too, and
answers alike, is checked by tests/oracle/check_saved.py."""
import numpy as np
import pytest

import yuloh as paddle
import yuloh.nn.functional as F
from yuloh import nn

Spec = paddle.static.InputSpec


class Mixed(nn.Layer):
    """Many kinds of ops, among them ones that Paddle has no operator for."""

    def __init__(self):
        super().__init__()
        self.w = self.create_parameter([8, 8])
        self.ln, self.gn = nn.LayerNorm(8), nn.GroupNorm(2, 8)
        self.conv, self.norm = nn.Conv1D(6, 8, 3, padding=1), nn.BatchNorm1D(8)

    def forward(self, x):
        y = self.ln(paddle.matmul(x, self.w, transpose_y=True))
        a, b = paddle.split(y, [3, 5], -1)
        t, i = paddle.topk(y, 3, -1)
        z = self.norm(self.conv(x))
        return [
            paddle.stack([a.sum(-1), b.max(-1)], 0),
            t,
            i,
            paddle.where(y > 0, y.pow(2), paddle.exp(y) - 1).clip(-2, 2),
            self.gn(y.transpose([0, 2, 1])),
            paddle.expand(y.mean([1, 2], keepdim=True), [x.shape[0], 2, 3]),
            F.pad(y, [1, 2], mode="constant", value=1.5, data_format="NCL"),
            F.one_hot(i, 8).sum(),
            paddle.cumsum(y, 1),
            F.log_softmax(y, -1),
            y[:, ::2, 1:-1],
            paddle.logaddexp(y, x) + paddle.sinc(y),
            F.avg_pool1d(z, 2, 2),
            F.softplus(z) * F.mish(z),
            paddle.arange(x.shape[0]).astype("float32") + x[:, 0, 0],
            paddle.full([x.shape[0], 2], 2.5),
            paddle.argmax(y, -1),
            paddle.sort(y, 1),
            paddle.any(y > 1, 2),
            y.astype("bfloat16").astype("float32"),
        ]


CASES = {
    "lenet": (paddle.vision.models.LeNet, [Spec([None, 1, 28, 28], "float32")], [(2, 1, 28, 28), (5, 1, 28, 28)]),
    "mobilenet_v3": (
        paddle.vision.models.mobilenet_v3_small, [Spec([None, 3, None, None], "float32")], [(1, 3, 64, 64), (2, 3, 96, 64)]
    ),
    "resnet18": (paddle.vision.models.resnet18, [Spec([1, 3, 32, 32], "float32")], [(1, 3, 32, 32)]),
    "mixed": (Mixed, [Spec([None, 6, 8], "float32", "signal")], [(2, 6, 8), (3, 6, 8)]),
}


@pytest.mark.parametrize("name", CASES)
def test_saved_and_read_back(name, tmp_path):
    make, spec, shapes = CASES[name]
    paddle.seed(3)
    net = make()
    net.eval()
    path = str(tmp_path / "m")
    paddle.jit.save(net, path, input_spec=spec)
    assert (tmp_path / "m.json").exists() and (tmp_path / "m.pdiparams").exists()
    (tmp_path / "m.yuloh").unlink()  # from Paddle's files only
    again = paddle.jit.load(path)
    for shape in shapes:
        x = paddle.to_tensor(np.random.RandomState(0).randn(*shape).astype("float32"))
        want, got = net(x), again(x)
        for w, g in zip(*(v if isinstance(v, (list, tuple)) else [v] for v in (want, got))):
            assert w.shape == g.shape and w.dtype == g.dtype
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-5, atol=1e-6)


def test_parameters_keep_their_names(tmp_path):
    net = nn.Linear(3, 2)
    paddle.jit.save(net, str(tmp_path / "m"), input_spec=[Spec([None, 3], "float32")])
    (tmp_path / "m.yuloh").unlink()
    again = paddle.jit.load(str(tmp_path / "m"))
    names = {p.name: p for p in again.parameters()}
    assert set(names) == {net.weight.name, net.bias.name}
    np.testing.assert_array_equal(names[net.weight.name].numpy(), net.weight.numpy())


def test_a_loaded_program_can_be_fine_tuned(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    paddle.jit.save(net, str(tmp_path / "m"), input_spec=[Spec([None, 3], "float32")])
    (tmp_path / "m.yuloh").unlink()
    again = paddle.jit.load(str(tmp_path / "m"))
    again.train()
    opt = paddle.optimizer.SGD(0.05, parameters=again.parameters())
    x = paddle.randn([16, 3])
    losses = []
    for _ in range(20):
        loss = ((again(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]


def test_what_paddle_cannot_say_is_named(tmp_path):
    class Odd(nn.Layer):
        def forward(self, x):
            return paddle.bucketize(x, paddle.to_tensor([0.0, 1.0]))

    with pytest.warns(UserWarning, match=r"(?s)bucketize\S* x1, first at .*test_jit_paddle_files.*no counterpart.*m.yuloh"):
        paddle.jit.save(Odd(), str(tmp_path / "m"), input_spec=[Spec([2], "float32")])
    assert (tmp_path / "m.yuloh").exists() and not (tmp_path / "m.json").exists()
    np.testing.assert_array_equal(paddle.jit.load(str(tmp_path / "m"))(paddle.to_tensor([0.5, 2.0])).numpy(), [1, 2])


def test_own_format_only_leaves_paddles_files_alone(tmp_path):
    net = nn.Linear(3, 2)
    paddle.jit.save(net, str(tmp_path / "m"), input_spec=[Spec([None, 3], "float32")])
    before = (tmp_path / "m.json").read_bytes()
    paddle.jit.save(net, str(tmp_path / "m.yuloh"), input_spec=[Spec([None, 3], "float32")])
    assert (tmp_path / "m.json").read_bytes() == before


def test_a_predictor_from_the_folder_of_a_save(tmp_path):
    from yuloh import inference

    net = nn.Linear(3, 2)
    paddle.jit.save(net, str(tmp_path / "m"), input_spec=[Spec([None, 3], "float32")])
    x = np.ones([4, 3], "float32")
    (y,) = inference.create_predictor(inference.Config(str(tmp_path))).run([paddle.to_tensor(x)])
    np.testing.assert_allclose(y.numpy(), net(paddle.to_tensor(x)).numpy(), rtol=1e-6)
