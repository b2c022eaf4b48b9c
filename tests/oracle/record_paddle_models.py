# SPDX-License-Identifier: Apache-2.0
"""Records small models with their inputs and outputs in both of PaddlePaddle's formats, for tests/python/test_paddle_files.py.

    python tests/oracle/record_paddle_models.py pir tests/data/paddle_models       (a Python that has paddlepaddle 3.3.1)
    python tests/oracle/record_paddle_models.py program tests/data/paddle_models   (the old format, the models 3.3.1 can still write)

Writes NAME.json or NAME.pdmodel, NAME.pdiparams and, with the first form, NAME.npz (x0..., y0...).
"""
import os
import pathlib
import sys

OLD = sys.argv[1] == "program"
if OLD:
    os.environ["FLAGS_enable_pir_api"] = "0"

import numpy as np  # noqa: E402
import paddle  # noqa: E402
import paddle.nn.functional as F  # noqa: E402
from paddle import nn  # noqa: E402

Spec = paddle.static.InputSpec
OUT = pathlib.Path(sys.argv[2])


def old_sigmoid(x):
    """Under the old representation 3.3.1's F.sigmoid fails: its operator is appended by hand."""
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper("sigmoid")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type="sigmoid", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={})
    return out


sigmoid = old_sigmoid if OLD else F.sigmoid


class Encoder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.1, activation="gelu"), 2)
        self.head = nn.Linear(32, 5)

    def forward(self, ids):
        places = paddle.arange(paddle.shape(ids)[1]).unsqueeze(0)
        mask = (ids != 0).astype("float32").unsqueeze([1, 2])
        return self.head(self.encoder(self.words(ids) + self.places(places), (1 - mask) * -1e4)[:, 0])


class Recurrent(nn.Layer):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, 2, direction="bidirect")
        self.gru = nn.GRU(48, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        y, _ = self.gru(self.lstm(self.words(ids))[0])
        return F.softmax(self.head(y.mean(1)))


class Unet(nn.Layer):
    def __init__(self):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2D(i, o, 3, padding=1), nn.BatchNorm2D(o), nn.ReLU())

        self.a, self.b, self.c = block(3, 8), block(8, 16), block(16, 32)
        self.pool, self.up = nn.MaxPool2D(2), nn.Conv2DTranspose(32, 16, 2, 2)
        self.d, self.e, self.out = block(32, 16), block(24, 8), nn.Conv2D(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(self.pool(a))
        d = self.d(paddle.concat([self.up(self.c(self.pool(b))), b], 1))
        u = F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        return sigmoid(self.out(self.e(paddle.concat([u, a], 1))))


class Detector(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2D(3, 16, 3, 2, 1), nn.BatchNorm2D(16)
        self.box, self.kind = nn.Conv2D(16, 4, 1), nn.Conv2D(16, 3, 1)

    def forward(self, x):
        f = F.hardswish(self.norm(self.conv(x)))
        box = self.box(f).flatten(2).transpose([0, 2, 1])[0]
        kind = F.sigmoid(self.kind(f).flatten(2))[0]
        middle, size = box[:, :2] * 8, F.softplus(box[:, 2:]) * 4
        boxes = paddle.concat([middle - size, middle + size], -1)
        keep = paddle.vision.ops.nms(boxes, 0.3)
        return paddle.gather(boxes, keep), paddle.gather(kind.max(0), keep), paddle.gather(kind.argmax(0), keep)


class Mixed(nn.Layer):
    """Many operators of different kinds in one graph."""

    def __init__(self):
        super().__init__()
        self.w = self.create_parameter([8, 8])
        self.ln, self.gn, self.prelu = nn.LayerNorm(8), nn.GroupNorm(2, 8), nn.PReLU(8)

    def forward(self, x):
        y = self.ln(paddle.matmul(x, self.w, transpose_y=True))
        a, b = paddle.split(y, [3, 5], -1)
        t, i = paddle.topk(y, 3, -1)
        r = paddle.tile(y.mean([1, 2], keepdim=True), [1, 2, 3])
        return (
            paddle.einsum("bij,bkj->bik", y, y),
            paddle.stack([a.sum(-1), b.max(-1)], 0),
            t,
            i,
            paddle.where(y > 0, y.pow(2), paddle.exp(y) - 1).clip(-2, 2),
            self.prelu(self.gn(y.transpose([0, 2, 1]))),
            paddle.expand(r, [x.shape[0], 2, 3]),
            F.pad(y, [1, 2], mode="constant", value=1.5, data_format="NCL"),
            F.one_hot(i, 8).sum(),
            paddle.cumsum(y, 1),
            F.log_softmax(y, -1),
            F.normalize(y, axis=-1),
            paddle.full_like(y, 2.0) + y.squeeze().unsqueeze(0).flatten(1).sum(),
            y[:, ::2, 1:-1],
            paddle.floor(y) // 1,
            y % 2,
        )


class Control(nn.Layer):
    """`if` and `while` over tensors, indexed assignment, results whose size depends on the data."""

    def forward(self, x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        i = paddle.zeros([1], "int32")
        while i < 3:
            y = y + 1
            i = i + 1
        y[:, 0] = 5.0
        return (
            y,
            paddle.to_tensor([1.5, 2.5]) * 2,
            paddle.meshgrid(x[0], x[:, 0])[1],
            paddle.unstack(x, 1)[0],
            paddle.add_n([x, x]),
            F.interpolate(x.reshape([1, 1, 2, 3]), size=[4, 6], mode="nearest"),
            paddle.expand_as(x[0], x),
            F.adaptive_avg_pool2d(x.reshape([1, 1, 2, 3]), 1),
            paddle.linspace(0, 1, 5),
            x[x > 0],
            paddle.nonzero(x),
        )


class Sizes(nn.Layer):
    """Sizes as data: shapes that are computed from shapes, used by slices, reshapes and masks."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.last = nn.Embedding(50, 8), nn.Embedding(64, 8), nn.Linear(8, 8)

    def forward(self, ids):
        size = paddle.shape(ids)
        h = self.words(ids) + self.places(paddle.arange(size[1]).unsqueeze(0))
        mask = paddle.tril(paddle.ones([size[1], size[1]]))
        y = self.last(paddle.matmul(F.softmax(paddle.matmul(h, h, transpose_y=True) * mask, -1), h))
        y = paddle.reshape(y, [size[0], size[1], 2, 4]).transpose([0, 2, 1, 3])
        return y, paddle.full([size[0], 1], 2.0) * y.mean([1, 2, 3]).unsqueeze(-1), paddle.zeros_like(ids)[:, : size[1] // 2]


def images(*shape):
    return lambda draw: [draw.randn(*shape).astype("float32")]


def tokens(*shape):
    return lambda draw: [draw.randint(0, 50, shape)]


MODELS = {
    "lenet": (paddle.vision.models.LeNet, [Spec([None, 1, 28, 28], "float32", "img")], images(2, 1, 28, 28)),
    "encoder": (Encoder, [Spec([None, None], "int64")], tokens(2, 7)),
    "recurrent": (Recurrent, [Spec([None, None], "int64")], tokens(3, 9)),
    "unet": (Unet, [Spec([None, 3, None, None], "float32")], images(1, 3, 16, 24)),
    "detector": (Detector, [Spec([1, 3, None, None], "float32")], images(1, 3, 32, 32)),
    "mixed": (Mixed, [Spec([None, 6, 8], "float32")], images(2, 6, 8)),
    "sizes": (Sizes, [Spec([None, None], "int64")], tokens(2, 7)),
    "control": (Control, [Spec([2, 3], "float32")], images(2, 3)),
}


def without_callstacks(path):
    """Takes this machine's paths out of a ProgramDesc."""
    from paddle.base.proto import framework_pb2

    program = framework_pb2.ProgramDesc()
    program.ParseFromString(path.read_bytes())
    for block in program.blocks:
        for op in block.ops:
            for i in reversed([i for i, a in enumerate(op.attrs) if a.name == "op_callstack"]):
                del op.attrs[i]
    path.write_bytes(program.SerializeToString())


def main():
    for name in ["lenet", "unet"] if OLD else MODELS:
        make, spec, data = MODELS[name]
        paddle.seed(1)
        net = make()
        net.eval()
        draw = np.random.RandomState(0)
        xs = data(draw)
        for layer in net.sublayers():
            if isinstance(layer, nn.BatchNorm2D):
                n = layer._mean.shape
                layer._mean.set_value(paddle.to_tensor(draw.randn(*n).astype("float32") * 0.1))
                layer._variance.set_value(paddle.to_tensor((draw.rand(*n) + 0.5).astype("float32")))
        if not OLD:
            ys = net(*[paddle.to_tensor(x) for x in xs])
            ys = ys if isinstance(ys, (list, tuple)) else [ys]
            np.savez(
                OUT / f"{name}.npz",
                **{f"x{i}": x for i, x in enumerate(xs)},
                **{f"y{i}": y.numpy() for i, y in enumerate(ys)},
            )
        if name == "control":
            net = paddle.jit.to_static(net, full_graph=True)
        paddle.jit.save(net, str(OUT / name), input_spec=spec)
        if OLD:
            without_callstacks(OUT / f"{name}.pdmodel")
            (OUT / f"{name}.pdiparams.info").unlink()


if __name__ == "__main__":
    main()
