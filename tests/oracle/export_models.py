# SPDX-License-Identifier: Apache-2.0
"""Models for the checks of what Yuloh writes: {name: (make, input_spec, [inputs of each size])}."""
import numpy as np

ZOO = {
    "resnet18": (64, 96), "resnet50": (64,), "resnext50_32x4d": (64,), "wide_resnet50_2": (64,), "vgg11": (64, 96), "mobilenet_v1": (64, 96),
    "mobilenet_v2": (64, 96), "mobilenet_v3_small": (64, 96), "mobilenet_v3_large": (64,), "densenet121": (64, 96), "alexnet": (224,),
    "squeezenet1_0": (96,), "squeezenet1_1": (64, 96), "googlenet": (224,), "inception_v3": (299,), "shufflenet_v2_x0_25": (64, 96),
    "shufflenet_v2_swish": (64,),
}  # fmt: skip
FIXED = {"alexnet", "googlenet", "inception_v3"}


def models():
    import yuloh as paddle
    import yuloh.nn.functional as F
    from yuloh import nn

    Spec = paddle.static.InputSpec
    found = {}

    def random(*shapes, low=-1.0, high=1.0, dtype="float32", seed=0):
        r = np.random.RandomState(seed)
        return [r.randint(low, high, s).astype(dtype) if "int" in dtype else (r.rand(*s) * (high - low) + low).astype(dtype) for s in shapes]

    def add(name, make, spec, *sizes, **how):
        found[name] = (make, spec, [random(*shapes, **how) for shapes in sizes])

    for name, sides in ZOO.items():
        side = sides[0] if name in FIXED else None
        add(name, getattr(paddle.vision.models, name), [Spec([None, 3, side, side])], *[[(1 + k, 3, s, s + (0 if side else 32 * k))] for k, s in enumerate(sides)])
    add("lenet", paddle.vision.models.LeNet, [Spec([None, 1, 28, 28])], [(1, 1, 28, 28)], [(3, 1, 28, 28)])

    # ---- sequences ----
    class Encoder(nn.Layer):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.1, activation="gelu"), 2)
            self.head = nn.Linear(32, 5)

        def forward(self, ids):
            places = paddle.arange(ids.shape[1]).unsqueeze(0)
            mask = (ids != 0).astype("float32").unsqueeze([1, 2])
            return self.head(self.encoder(self.words(ids) + self.places(places), (1 - mask) * -1e4)[:, 0])

    class Gpt(nn.Layer):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(60, 32), nn.Embedding(64, 32)
            self.qkv = nn.LayerList([nn.Linear(32, 96) for _ in range(2)])
            self.out = nn.LayerList([nn.Linear(32, 32) for _ in range(2)])
            self.ln = nn.LayerList([nn.LayerNorm(32) for _ in range(4)])
            self.mlp = nn.LayerList([nn.Sequential(nn.Linear(32, 64), nn.GELU(True), nn.Linear(64, 32)) for _ in range(2)])

        def forward(self, ids):
            b, t = ids.shape
            x = self.words(ids) + self.places(paddle.arange(t))
            for i in range(2):
                q, k, v = self.qkv[i](self.ln[2 * i](x)).reshape([b, t, 3, 4, 8]).unbind(2)
                x = x + self.out[i](F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape([b, t, 32]))
                x = x + self.mlp[i](self.ln[2 * i + 1](x))
            return paddle.matmul(x, self.words.weight, transpose_y=True)

    for name, make in (("encoder", Encoder), ("gpt", Gpt)):
        add(name, make, [Spec([None, None], "int64")], [(2, 7)], [(3, 19)], low=0, high=50, dtype="int64")

    class Walk(nn.Layer):
        def __init__(self, make):
            super().__init__()
            self.walk, self.head = make(), nn.Linear(24, 3)

        def forward(self, x):
            y, state = self.walk(x)
            return self.head(y[:, :, :24]), y, *(state if isinstance(state, tuple) else (state,))

    add("lstm", lambda: Walk(lambda: nn.LSTM(16, 24, 2)), [Spec([None, None, 16])], [(2, 7, 16)], [(3, 12, 16)])
    add("bilstm", lambda: Walk(lambda: nn.LSTM(16, 24, 2, direction="bidirect")), [Spec([None, 9, 16])], [(2, 9, 16)], [(3, 9, 16)])
    add("gru", lambda: Walk(lambda: nn.GRU(16, 24)), [Spec([None, 9, 16])], [(2, 9, 16)], [(3, 9, 16)])
    add("gru_open", lambda: Walk(lambda: nn.GRU(16, 24)), [Spec([None, None, 16])], [(2, 9, 16)], [(3, 5, 16)])
    add("rnn", lambda: Walk(lambda: nn.SimpleRNN(16, 24)), [Spec([None, 9, 16])], [(2, 9, 16)], [(3, 9, 16)])

    # ---- images ----
    class Unet(nn.Layer):
        def __init__(self, mode="bilinear", **how):
            super().__init__()

            def block(i, o):
                return nn.Sequential(nn.Conv2D(i, o, 3, padding=1), nn.BatchNorm2D(o), nn.ReLU())

            self.a, self.b, self.c = block(3, 8), block(8, 16), block(16, 32)
            self.pool, self.up = nn.MaxPool2D(2), nn.Conv2DTranspose(32, 16, 2, 2)
            self.d, self.e, self.out = block(32, 16), block(24, 8), nn.Conv2D(8, 2, 1)
            self.how = dict(mode=mode, **how)

        def forward(self, x):
            a = self.a(x)
            b = self.b(self.pool(a))
            d = self.d(paddle.concat([self.up(self.c(self.pool(b))), b], 1))
            u = F.interpolate(d, scale_factor=2, **self.how)
            return F.sigmoid(self.out(self.e(paddle.concat([u, a], 1))))

    add("unet", Unet, [Spec([None, 3, 32, 32])], [(1, 3, 32, 32)], [(2, 3, 32, 32)])
    for mode, how in {"nearest": {}, "bilinear": {}, "corners": dict(mode="bilinear", align_corners=True), "bicubic": {}}.items():
        add(f"unet_open_{mode}", lambda mode=mode, how=how: Unet(**{"mode": mode, **how}), [Spec([None, 3, None, None])], [(1, 3, 32, 48)], [(2, 3, 64, 40)])

    class Head(nn.Layer):
        """What a detector computes before boxes are suppressed."""

        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2D(3, 16, 3, 2, 1), nn.BatchNorm2D(16)
            self.box, self.kind = nn.Conv2D(16, 4, 1), nn.Conv2D(16, 3, 1)

        def forward(self, x):
            f = F.hardswish(self.norm(self.conv(x)))
            box = self.box(f).flatten(2).transpose([0, 2, 1])
            kind = F.sigmoid(self.kind(f).flatten(2))
            middle, size = box[:, :, :2] * 8, F.softplus(box[:, :, 2:]) * 4
            score, best = paddle.topk(kind.max(1), 20, -1)
            boxes = paddle.concat([middle - size, middle + size], -1)
            return paddle.take_along_axis(boxes, best.unsqueeze(-1), 1), score, paddle.take_along_axis(kind.argmax(1), best, 1)

    add("detector", Head, [Spec([None, 3, None, None])], [(1, 3, 32, 48)], [(2, 3, 48, 32)])

    # ---- single functions over [2, 3, 4, 5] and the like ----
    one = {name: [Spec([None, None, 4, 5])] for name in ("x",)}["x"]

    def each(name, function, *more, low=-1.0, high=1.0):
        spec = one + [Spec([None, None, 4, 5])] * (function.__code__.co_argcount - 1)
        n = len(spec)
        add(name, lambda: function, spec, [(2, 3, 4, 5)] * n, [(3, 2, 4, 5)] * n, low=low, high=high)

    def all_of(*functions):
        return lambda x: tuple(f(x) for f in functions)

    def unary(*names):
        return all_of(*[getattr(paddle, n, None) or getattr(F, n) for n in names])

    each("unary", unary("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "neg", "relu", "round", "sign", "sin",
                        "sinh", "sigmoid", "square", "tan", "tanh", "trunc", "isnan", "isinf", "isfinite", "atanh", "asinh", "erfinv", "frac",
                        "rad2deg", "deg2rad"))  # fmt: skip
    each("positive", unary("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "acosh", "logit"), low=1.1, high=3.0)
    each("small", unary("log1p", "expm1", "sin", "sinh", "asinh"), low=-1e-4, high=1e-4)
    each("activations", unary("celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid", "mish",
                              "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "swish", "tanhshrink", "thresholded_relu", "stanh"), low=-4.0, high=4.0)  # fmt: skip
    each("activations_set", all_of(lambda x: F.gelu(x, True), lambda x: F.leaky_relu(x, 0.3), lambda x: F.elu(x, 0.7), lambda x: F.softplus(x, 2.0),
                                   lambda x: F.hardtanh(x, -0.5, 0.7), lambda x: F.thresholded_relu(x, 0.5, 0.1), lambda x: F.glu(x.transpose([0, 1, 3, 2])),
                                   lambda x: F.maxout(x.transpose([0, 2, 1, 3]), 2, 1)), low=-4.0, high=4.0)  # fmt: skip

    def pairs(x, y):
        i, j = (x * 20).astype("int64"), (y * 7).astype("int64")
        k = paddle.where(j == 0, paddle.ones_like(j), j)
        return (x + y, x - y, x * y, x / y, paddle.maximum(x, y), paddle.minimum(x, y), paddle.pow(x.abs() + 0.1, y), x % y, x // y, paddle.atan2(x, y),
                paddle.fmax(x, y), paddle.fmin(x, y), x > y, x >= y, x < y, x <= y, x == y, x != y, (x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0),
                paddle.hypot(x, y), paddle.copysign(x, y), paddle.logaddexp(x, y), paddle.lerp(x, y, 0.3), i // k, i % k, i & j, i | j, i ^ j, ~i, i + 3, 2 - i,
                x + 1, 2 / (x + 3), paddle.where(x > y, x, y), paddle.where(x > y, i, j), paddle.where(x > y, x > 0, y > 0), paddle.heaviside(x, y), paddle.clip(x, -0.3, 0.4),
                paddle.nan_to_num(x / (y * 0)), (x > y).astype("float32"), x.astype("int32"), paddle.isclose(x, y), paddle.multiply(x, y[0, 0]))  # fmt: skip

    each("pairs", pairs)
    each("reduce", all_of(paddle.sum, paddle.mean, paddle.max, paddle.min, paddle.prod, lambda x: x.sum(-1), lambda x: x.mean([0, 2]), lambda x: x.max(1, keepdim=True),
                          lambda x: x.min(2), lambda x: x.prod(3), lambda x: (x > 0).any(1), lambda x: (x > 0).all(2), lambda x: x.std(3), lambda x: x.var(1), lambda x: x.var(),
                          lambda x: paddle.logsumexp(x, 1), lambda x: paddle.norm(x, 2, -1), lambda x: paddle.norm(x, 1, 2), lambda x: x.amax(0), lambda x: x.amin([2, 3]),
                          lambda x: paddle.count_nonzero(x, 1), lambda x: x.argmax(2), lambda x: x.argmin(), lambda x: paddle.nansum(x), lambda x: paddle.median(x, 3) if False else x,
                          lambda x: F.softmax(x, 1), lambda x: F.log_softmax(x), lambda x: F.normalize(x, axis=1)))  # fmt: skip
    each("shapes", all_of(lambda x: x.reshape([0, -1]), lambda x: x.reshape([x.shape[0], x.shape[1] * 4, 5]), lambda x: x.flatten(1, 2), lambda x: x.flatten(),
                          lambda x: x.transpose([3, 0, 2, 1]), lambda x: x.unsqueeze([0, -1]), lambda x: x[:, :1].squeeze(1), lambda x: x.squeeze(), lambda x: x.tile([1, 2, 1, 3]),
                          lambda x: paddle.expand(x[:, :1], [-1, 6, -1, -1]), lambda x: paddle.concat([x, x * 2], 1), lambda x: paddle.stack([x, x], 2),
                          lambda x: paddle.split(x, [1, 3], 2)[1], lambda x: paddle.chunk(x, 2, 2)[0], lambda x: x.flip([1, 3]), lambda x: paddle.roll(x, 2, 3),
                          lambda x: paddle.roll(x, [1, -1], [2, 1]), lambda x: x.unbind(2)[1], lambda x: paddle.moveaxis(x, 1, 3), lambda x: paddle.swapaxes(x, 0, 2),
                          lambda x: F.pad(x, [1, 2, 0, 1]), lambda x: F.pad(x, [1, 2, 2, 1], mode="reflect"), lambda x: F.pad(x, [1, 2, 2, 1], mode="replicate"),
                          lambda x: paddle.tril(x), lambda x: paddle.triu(x, 1), lambda x: paddle.diagonal(x, 0, 2, 3), lambda x: paddle.diagonal(x, 1, 3, 2),
                          lambda x: F.pixel_shuffle(x.transpose([0, 2, 1, 3]), 2), lambda x: F.channel_shuffle(x.transpose([0, 2, 1, 3]), 2), lambda x: paddle.full_like(x, 3),
                          lambda x: paddle.zeros_like(x), lambda x: paddle.ones([x.shape[0], 2]), lambda x: paddle.arange(x.shape[1]), lambda x: paddle.eye(3) * x.sum(),
                          lambda x: paddle.linspace(0, 1, 7) + x.mean(), lambda x: paddle.meshgrid(x[0, 0, 0], x[0, 0, :, 0])[0], lambda x: paddle.rot90(x, 1, [2, 3])))  # fmt: skip

    def written(x):
        y = x.clone()
        y[:, 0] = 5.0
        z = x.clone()
        z[:, :, 1:3, ::2] = z[:, :, :2, ::2] * 2
        return y, z

    index = paddle.to_tensor([2, 0, 3])
    each("index", all_of(lambda x: x[:, 0], lambda x: x[:, :, 1:3, ::2], lambda x: x[..., -1], lambda x: x[:, :, ::-1], lambda x: paddle.gather(x, index, 2),
                         lambda x: paddle.index_select(x, index, 3), lambda x: x[:, :, index], lambda x: x.transpose([2, 3, 0, 1])[index, paddle.to_tensor([0, 1, 4])],
                         lambda x: paddle.take_along_axis(x, x.argsort(3), 3), lambda x: paddle.sort(x, 2), lambda x: paddle.argsort(x, 3, descending=True),
                         lambda x: paddle.topk(x, 2, 2)[0], lambda x: paddle.topk(x, 3)[1], lambda x: paddle.kthvalue(x, 2, 3)[0], lambda x: paddle.gather_nd(x.transpose([2, 3, 0, 1]), paddle.to_tensor([[0, 1], [3, 4]])),
                         lambda x: paddle.put_along_axis(x, x.argmax(3, keepdim=True), 9.0, 3), lambda x: paddle.cumsum(x, 2), lambda x: paddle.cumsum(x), lambda x: paddle.cumprod(x, 3),
                         lambda x: paddle.logcumsumexp(x, 2), lambda x: paddle.cummax(x, 3)[0], lambda x: paddle.cummin(x, 3)[1], lambda x: F.one_hot((x.abs() * 4).astype("int64"), 5),
                         lambda x: paddle.searchsorted(paddle.to_tensor([-0.5, 0.0, 0.5]), x), lambda x: paddle.bucketize(x, paddle.to_tensor([-0.5, 0.0, 0.5]), right=True),
                         lambda x: paddle.bincount((x.abs() * 4).astype("int64").flatten()) if False else x, written, lambda x: paddle.index_sample(x[0, 0], paddle.to_tensor([[1, 0]] * 4)),
                         lambda x: paddle.scatter_nd_add(x.transpose([2, 3, 0, 1]), paddle.to_tensor([[0, 1], [0, 1]]), paddle.ones([2, x.shape[0], x.shape[1]])),
                         lambda x: paddle.index_add(x, index, 3, paddle.ones([x.shape[0], x.shape[1], 4, 3])), lambda x: paddle.masked_fill(x, x > 0, 2.0),
                         lambda x: paddle.repeat_interleave(x, 2, 2), lambda x: paddle.diff(x, axis=3)))  # fmt: skip

    def flat(*functions):
        def run(x):
            made = []
            for f in functions:
                y = f(x)
                made += list(y) if isinstance(y, (list, tuple)) else [y]
            return tuple(made)

        return run

    found["index"] = (lambda f=found["index"][0](): (lambda x: tuple(v for y in f(x) for v in (y if isinstance(y, tuple) else (y,)))), *found["index"][1:])
    each("products", flat(lambda x: paddle.matmul(x, x, transpose_y=True), lambda x: paddle.matmul(x, x, transpose_x=True), lambda x: paddle.einsum("bcij,bckj->bcik", x, x),
                          lambda x: paddle.matmul(x, paddle.ones([5])), lambda x: paddle.dot(x[0, 0, 0], x[0, 0, 1]), lambda x: paddle.outer(x[0, 0, 0], x[0, 0, 1]),
                          lambda x: paddle.bmm(x[:, 0], x[:, 1].transpose([0, 2, 1])), lambda x: paddle.linalg.det(x[:, :, :, :4]),
                          lambda x: F.cosine_similarity(x, x * 0.5 + 0.1, axis=-1), lambda x: paddle.cross(x[..., :3], x[..., 1:4], axis=3)))  # fmt: skip

    # ---- layers ----
    def layers(name, spec, sizes, *makes):
        class Each(nn.Layer):
            def __init__(self):
                super().__init__()
                self.all = nn.LayerList([m() for m in makes])

            def forward(self, x):
                made = []
                for layer in self.all:
                    y = layer(x)
                    made += list(y) if isinstance(y, (list, tuple)) else [y]
                return tuple(made)

        add(name, Each, spec, *[[s] for s in sizes])

    plane, planes = [Spec([None, 8, None, None])], [(1, 8, 12, 14), (2, 8, 16, 11)]
    layers("conv", plane, planes, lambda: nn.Conv2D(8, 4, 3), lambda: nn.Conv2D(8, 4, 3, 2, 1, 2), lambda: nn.Conv2D(8, 8, 3, groups=8, bias_attr=False), lambda: nn.Conv2D(8, 4, 3, padding="SAME"),
           lambda: nn.Conv2D(8, 4, (1, 3), padding=[0, 1, 2, 1], groups=2), lambda: nn.Conv2DTranspose(8, 4, 3, 2, 1, 1), lambda: nn.Conv2DTranspose(8, 4, 2, groups=2))  # fmt: skip
    layers("pool", plane, planes, lambda: nn.MaxPool2D(2), lambda: nn.MaxPool2D(3, 2, 1), lambda: nn.AvgPool2D(3, 2, 1), lambda: nn.AvgPool2D(3, 2, 1, exclusive=False),
           lambda: nn.MaxPool2D(3, 2, ceil_mode=True), lambda: nn.AdaptiveAvgPool2D(1), lambda: nn.AdaptiveMaxPool2D(1), lambda: nn.MaxPool2D(2, return_mask=True))  # fmt: skip
    layers("pool_fixed", [Spec([None, 8, 12, 14])], [(1, 8, 12, 14), (2, 8, 12, 14)], lambda: nn.AdaptiveAvgPool2D((5, 7)), lambda: nn.AdaptiveAvgPool2D(4), lambda: nn.AdaptiveMaxPool2D(3),
           lambda: nn.AvgPool2D(3, 2, ceil_mode=True), lambda: nn.AvgPool2D(2, divisor_override=3), lambda: nn.Upsample(size=[20, 9], mode="bilinear"),
           lambda: nn.Upsample(scale_factor=2), lambda: nn.Upsample(size=[9, 20], mode="bicubic", align_corners=True), lambda: nn.AvgPool2D(3, 2, 1, ceil_mode=True, exclusive=False))  # fmt: skip
    layers("norm", plane, planes, lambda: nn.BatchNorm2D(8), lambda: nn.GroupNorm(2, 8), lambda: nn.InstanceNorm2D(8), lambda: nn.LocalResponseNorm(3), lambda: nn.PReLU(8), lambda: nn.PReLU())
    layers("line", [Spec([None, 8, None])], [(1, 8, 12), (2, 8, 15)], lambda: nn.Conv1D(8, 4, 3), lambda: nn.Conv1DTranspose(8, 4, 3, 2), lambda: nn.MaxPool1D(2), lambda: nn.AvgPool1D(2),
           lambda: nn.BatchNorm1D(8), lambda: nn.AdaptiveAvgPool1D(1))  # fmt: skip
    layers("space", [Spec([None, 4, None, None, None])], [(1, 4, 6, 6, 6), (2, 4, 6, 5, 8)], lambda: nn.Conv3D(4, 2, 3), lambda: nn.Conv3DTranspose(4, 2, 3, 2), lambda: nn.MaxPool3D(2), lambda: nn.AvgPool3D(2),
           lambda: nn.BatchNorm3D(4))  # fmt: skip
    layers("linear", [Spec([None, None, 16])], [(1, 3, 16), (2, 5, 16)], lambda: nn.Linear(16, 8), lambda: nn.LayerNorm(16), lambda: nn.LayerNorm(16, weight_attr=False, bias_attr=False),
           lambda: nn.MultiHeadAttention(16, 4), lambda: nn.TransformerEncoderLayer(16, 4, 32, normalize_before=True), lambda: nn.Dropout(), lambda: nn.Softmax(1), lambda: nn.RMSNorm(16) if hasattr(nn, "RMSNorm") else nn.ReLU(),
           lambda: nn.Bilinear(16, 16, 3) if False else nn.Identity())  # fmt: skip
    return found
