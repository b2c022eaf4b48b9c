# SPDX-License-Identifier: Apache-2.0
"""A small GPT: 6 layers, width 256, 8 heads, vocabulary 8192, sequences of 128 tokens, batch 8, Adam."""

import paddle
from _paddle_training import main, start
from paddle import nn
from paddle.nn import functional as F

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH = 6, 256, 8, 8192, 128


class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape([batch, length, 3, HEADS, WIDTH // HEADS]).unbind(2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.reshape([batch, length, WIDTH]))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed_token = nn.Embedding(VOCABULARY, WIDTH)
        self.embed_position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.LayerList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed_token(tokens) + self.embed_position(paddle.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss(net, tokens, following):
    return F.cross_entropy(net(tokens).reshape([-1, VOCABULARY]), following.reshape([-1]))


def build(options):
    return start(GPT, loss, "tokens", options)


if __name__ == "__main__":
    main(build, batch=8)
