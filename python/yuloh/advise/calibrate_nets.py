# SPDX-License-Identifier: Apache-2.0
"""Advice room: the small networks that `yuloh calibrate` trains (calibrate.py). Between them they have every kind of
layer, large and small planes, few and many channels, data that fits the caches and data that does not. None of them is a
model that bench/estimates.py predicts, and none shares a class with one: rates taken from a model say little of how far
they carry to others."""
from __future__ import annotations

from typing import Callable, List, Tuple

__all__ = ["AGAIN", "suite"]

AGAIN = ("ladder", "grouped", "grouped large", "gated large", "patches", "patches large")  # trained with recompute too


def suite(quick: bool) -> List[Tuple[str, Callable, tuple]]:
    """(name, makes the network, (shape, dtype)) of what is trained."""
    import yuloh as paddle
    from yuloh import nn
    F = nn.functional

    class Gate(nn.Layer):  # squeeze and excite
        def __init__(self, width):
            super().__init__()
            self.a, self.b = nn.Conv2D(width, max(8, width // 6), 1), nn.Conv2D(max(8, width // 6), width, 1)

        def forward(self, x):
            return x * F.sigmoid(self.b(F.relu(self.a(F.adaptive_avg_pool2d(x, 1)))))

    class Ladder(nn.Layer):  # bottlenecks: 1x1, 3x3 (grouped or not), 1x1, and a stride between the rungs
        def __init__(self, channels, grouped, act, gate=False):
            super().__init__()
            self.stem, self.rungs, self.act = nn.Conv2D(3, channels[0], 3, padding=1), nn.LayerList(), act
            for a, b in zip(channels, channels[1:]):
                mid = a * 4 if grouped else max(8, a // 2)
                for stride in (1, 2):
                    out = b if stride == 2 else a
                    self.rungs.append(nn.Sequential(
                        nn.Conv2D(a, mid, 1, bias_attr=False), nn.BatchNorm2D(mid), act(),
                        nn.Conv2D(mid, mid, 3, stride=stride, padding=1, groups=mid if grouped else 1, bias_attr=False),
                        nn.BatchNorm2D(mid), act(), *([Gate(mid)] if gate else []), nn.Conv2D(mid, out, 1, bias_attr=False),
                        nn.BatchNorm2D(out)))
            self.blocks, self.head = self.rungs, nn.Linear(channels[-1], 50)

        def forward(self, x):
            x = self.stem(x)
            for rung in self.rungs:
                y = rung(x)
                x = x + y if y.shape == x.shape else F.relu(y)
            return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

    class Plain(nn.Layer):  # convolutions with bias, pooling, joined branches, a wide classifier
        def __init__(self, width):
            super().__init__()
            self.a, self.b = nn.Conv2D(3, width, 5, stride=2, padding=2), nn.Conv2D(width, 2 * width, 3, padding=1)
            self.c, self.d = nn.Conv2D(2 * width, width, 1), nn.Conv2D(2 * width, width, 3, padding=1)
            self.up, self.out = nn.Conv2DTranspose(2 * width, width, 2, stride=2), nn.Conv2D(width, 8, 1)
            self.wide, self.head = nn.Linear(16 * 2 * width, 512), nn.Linear(512, 50)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.b(F.relu(self.a(x)))), 2)
            x = paddle.concat([F.relu(self.c(x)), F.relu(self.d(x))], axis=1)
            extra = self.out(F.relu(self.up(x))).mean()
            return self.head(F.relu(self.wide(F.adaptive_avg_pool2d(x, 4).flatten(1)))) + extra

    class Planes(nn.Layer):  # large planes, few channels
        def __init__(self, width):
            super().__init__()
            self.parts = nn.LayerList([nn.Conv2D(3, width, 3, padding=1)] + [
                nn.Sequential(nn.Conv2D(width, width, 3, padding=1), nn.BatchNorm2D(width), nn.ReLU()) for _ in range(3)])
            self.out = nn.Conv2D(2 * width, 50, 1)

        def forward(self, x):
            kept = x = self.parts[0](x)
            for part in list(self.parts)[1:]:
                x = part(x)
            return self.out(paddle.concat([kept, x], axis=1)).mean(axis=[2, 3])

    class Deep(nn.Layer):  # many channels on small planes: weights that no cache holds
        def __init__(self, width, wide):
            super().__init__()
            sizes = [3, width, 2 * width, wide, wide, wide]
            self.parts = nn.LayerList([nn.Sequential(nn.Conv2D(a, b, 3, stride=1 if n in (0, 3) else 2, padding=1, bias_attr=False),
                                                     nn.BatchNorm2D(b), nn.ReLU()) for n, (a, b) in enumerate(zip(sizes, sizes[1:]))])
            self.mix, self.head = nn.Conv2D(wide, 2 * wide, 1), nn.Linear(2 * wide, 50)

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return self.head(F.relu(self.mix(x)).mean(axis=[2, 3]))

    class Joined(nn.Layer):  # every layer reads all before it; halves that change places
        def __init__(self, growth, layers):
            super().__init__()
            self.stem, self.parts, width = nn.Conv2D(3, 2 * growth, 3, stride=2, padding=1), nn.LayerList(), 2 * growth
            for _ in range(layers):
                self.parts.append(nn.Sequential(nn.BatchNorm2D(width), nn.ReLU(), nn.Conv2D(width, 3 * growth, 1, bias_attr=False),
                                                nn.BatchNorm2D(3 * growth), nn.ReLU(),
                                                nn.Conv2D(3 * growth, growth, 3, padding=1, bias_attr=False)))
                width += growth
            self.mix, self.head = nn.Conv2D(width, 4 * growth, 1), nn.Linear(4 * growth, 50)
            self.half = nn.Sequential(nn.Conv2D(2 * growth, 2 * growth, 3, padding=1, groups=2 * growth), nn.BatchNorm2D(2 * growth),
                                      nn.Conv2D(2 * growth, 2 * growth, 1), nn.ReLU())

        def forward(self, x):
            x = self.stem(x)
            for part in self.parts:
                x = paddle.concat([x, part(x)], axis=1)
            a, b = paddle.split(F.avg_pool2d(self.mix(x), 2, 2), 2, axis=1)
            x = paddle.concat([a, self.half(b)], axis=1)
            n, c, h, w = x.shape
            x = x.reshape([n, 2, c // 2, h, w]).transpose([0, 2, 1, 3, 4]).reshape([n, c, h, w])
            return self.head(F.relu(x).mean(axis=[2, 3]))

    class Patches(nn.Layer):
        def __init__(self, width, heads, depth):
            super().__init__()
            self.cut, self.head = nn.Conv2D(3, width, 6, stride=6), nn.Linear(width, 50)
            self.blocks = nn.LayerList([nn.TransformerEncoderLayer(width, heads, 3 * width, dropout=0.1) for _ in range(depth)])

        def forward(self, x):
            x = self.cut(x).flatten(2).transpose([0, 2, 1])
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean(axis=1))

    class Tiny(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.d = nn.Conv2D(3, 8, 5), nn.Conv2D(8, 20, 3), nn.Linear(320, 96), nn.Linear(96, 50)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.b(F.max_pool2d(F.relu(self.a(x)), 2))), 2)
            return self.d(F.relu(self.c(F.adaptive_avg_pool2d(x, 4).flatten(1))))

    class Words(nn.Layer):
        def __init__(self, width, heads, words, depth, recurrent):
            super().__init__()
            self.embed, self.heads = nn.Embedding(words, width), heads
            self.lstm = nn.LSTM(width, width) if recurrent else None
            self.parts = nn.LayerList([nn.LayerList([nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width),
                                                     nn.LayerNorm(width), nn.Linear(width, 4 * width),
                                                     nn.Linear(4 * width, width)]) for _ in range(depth)])
            self.head = nn.Linear(width, words)

        def forward(self, tokens):
            x = self.embed(tokens)
            if self.lstm is not None:
                x = self.lstm(x)[0]
            batch, length, width = x.shape
            for norm1, qkv, out, norm2, up, down in self.parts:
                q, k, v = qkv(norm1(x)).reshape([batch, length, 3, self.heads, width // self.heads]).unbind(2)
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + F.dropout(out(y.reshape([batch, length, width])), 0.1)
                x = x + down(F.gelu(up(norm2(x))))
            return self.head(x)

    def images(batch, size):
        return [batch, 3, size, size], "float32"

    ladder = (16, 32, 64, 128, 256)
    found = [("ladder", lambda: Ladder(ladder, False, nn.ReLU), images(8, 64)),
             ("grouped", lambda: Ladder((16, 24, 48, 96), True, nn.Hardswish), images(8, 64)),
             ("plain", lambda: Plain(32), images(8, 64)), ("planes", lambda: Planes(24), images(8, 72)),
             ("deep", lambda: Deep(80, 448), images(10, 16)), ("joined", lambda: Joined(20, 6), images(8, 64)),
             ("patches", lambda: Patches(160, 5, 3), images(6, 66)), ("tiny", Tiny, images(12, 28)),
             ("words", lambda: Words(128, 4, 3000, 2, False), ([8, 96], "int64")),
             ("recurrent", lambda: Words(192, 4, 1000, 0, True), ([16, 64], "int64"))]
    if not quick:
        found += [("ladder small", lambda: Ladder(ladder, False, nn.ReLU), images(2, 32)),
                  ("ladder large", lambda: Ladder((24, 48, 96, 192, 384), False, nn.ReLU), images(24, 64)),
                  ("grouped small", lambda: Ladder((16, 24, 48, 96), True, nn.Hardswish), images(3, 64)),
                  ("grouped large", lambda: Ladder((24, 40, 80, 160), True, nn.ReLU), images(24, 64)),
                  ("plain large", lambda: Plain(64), images(24, 96)),
                  ("planes large", lambda: Planes(48), images(20, 48)), ("planes narrow", lambda: Planes(12), images(4, 56)),
                  ("deep small", lambda: Deep(64, 640), images(3, 16)), ("deep large", lambda: Deep(96, 384), images(24, 32)), ("joined large", lambda: Joined(32, 8), images(20, 48)),
                  ("gated", lambda: Ladder((16, 24, 48, 88), True, nn.Hardswish, True), images(4, 72)),
                  ("gated large", lambda: Ladder((16, 32, 64, 112), True, nn.Hardswish, True), images(20, 64)),
                  ("patches small", lambda: Patches(96, 3, 3), images(3, 48)), ("patches large", lambda: Patches(224, 7, 3), images(20, 66)),
                  ("tiny small", Tiny, images(3, 28)), ("tiny large", Tiny, images(48, 28)),
                  ("words small", lambda: Words(96, 6, 2000, 2, False), ([3, 64], "int64")),
                  ("words large", lambda: Words(320, 5, 6000, 2, False), ([12, 160], "int64")),
                  ("recurrent large", lambda: Words(320, 4, 3000, 0, True), ([32, 96], "int64"))]
    return found
