# SPDX-License-Identifier: Apache-2.0
"""Layer room: multi-head attention and the Transformer's encoder and decoder."""
import collections
import copy

from .. import functional as F
from ...framework.dtype import dtype_name
from ...framework.param_attr import ParamAttr
from .common import Dropout, Linear
from .container import LayerList
from .layers import Layer
from .norm import LayerNorm

__all__ = ["MultiHeadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
           "TransformerEncoder", "TransformerEncoderLayer"]


def _attrs(attr, count):
    """``count`` attributes of their own from one attribute, or from a list of them."""
    if isinstance(attr, (list, tuple)):
        if len(attr) == count:
            return [copy.copy(a) for a in attr]
        if count == 3 and len(attr) == 2:
            return [copy.copy(attr[0]), copy.copy(attr[0]), copy.copy(attr[1])]
        if len(attr) == 1:
            return [copy.copy(attr[0]) for _ in range(count)]
        raise ValueError(f"Transformer: got {len(attr)} attributes; expected {count}.")
    if isinstance(attr, ParamAttr) and attr.name is not None:
        result = []
        for number in range(count):
            own = copy.copy(attr)
            own.name = f"{attr.name}_{number}"
            result.append(own)
        return result
    return [attr] * count


def _additive_mask(mask, dtype):
    """What is added to the scores: bool False and integer 0 become a very negative number;
    None stays None.
    """
    if mask is None:
        return None
    name = dtype_name(mask.dtype)
    if name == "bool" or "int" in name:
        return (mask.astype(dtype) - 1.0) * 1e9
    return mask if name == dtype_name(dtype) else mask.astype(dtype)


class MultiHeadAttention(Layer):
    """Attention of query [batch, n, embed_dim] over key and value [batch, m, kdim / vdim] in ``num_heads``
    heads.
    """

    Cache = collections.namedtuple("Cache", ["k", "v"])
    StaticCache = collections.namedtuple("StaticCache", ["k", "v"])

    def __init__(self, embed_dim, num_heads, dropout=0.0, kdim=None, vdim=None, need_weights=False,
                 weight_attr=None, bias_attr=None):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"MultiHeadAttention: embed_dim must be a positive multiple of num_heads, "
                             f"got {embed_dim} and {num_heads}.")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(self.kdim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(self.vdim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, x):
        """[batch, n, embed_dim] -> [batch, heads, n, head_dim]."""
        return x.reshape([0, 0, self.num_heads, self.head_dim]).transpose([0, 2, 1, 3])

    def compute_kv(self, key, value):
        """Projected key and value, [batch, heads, m, head_dim] each."""
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    def gen_cache(self, key, value=None, type=Cache):
        """Cache for decoding: static (projected once from key and value) or growing (empty, or the given
        two).
        """
        import yuloh
        if type is MultiHeadAttention.StaticCache:
            return self.StaticCache(*self.compute_kv(key, value))
        if value is None:
            empty = yuloh.zeros([key.shape[0], self.num_heads, 0, self.head_dim], dtype=key.dtype)
            return self.Cache(empty, empty)
        return self.Cache(key, value)

    def forward(self, query, key=None, value=None, attn_mask=None, cache=None):
        import yuloh
        key = query if key is None else key
        value = query if value is None else value
        q = self._heads(self.q_proj(query))
        if isinstance(cache, self.StaticCache):
            k, v = cache.k, cache.v
        else:
            k, v = self.compute_kv(key, value)
        if isinstance(cache, self.Cache):
            k, v = yuloh.concat([cache.k, k], axis=2), yuloh.concat([cache.v, v], axis=2)
            cache = self.Cache(k, v)
        scores = yuloh.matmul(yuloh.scale(q, self.head_dim ** -0.5), k, transpose_y=True)
        mask = _additive_mask(attn_mask, scores.dtype)
        if mask is not None:
            scores = scores + mask
        weights = F.softmax(scores)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training, mode="upscale_in_train")
        out = yuloh.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([0, 0, self.embed_dim])
        outputs = [self.out_proj(out)]
        if self.need_weights:
            outputs.append(weights)
        if cache is not None:
            outputs.append(cache)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class _FeedForwardLayer(Layer):
    """What encoder and decoder layers share: settings, the feed-forward block, where to normalise."""

    def _settings(self, dropout, activation, attn_dropout, act_dropout, normalize_before):
        self.normalize_before = normalize_before
        self._act_dropout = dropout if act_dropout is None else act_dropout
        self._attn_dropout = dropout if attn_dropout is None else attn_dropout
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation

    def _sublayer(self, x, norm, dropout, function):
        """x plus what ``function`` makes of it, normalised before or after."""
        y = x + dropout(function(norm(x) if self.normalize_before else x))
        return y if self.normalize_before else norm(y)

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_FeedForwardLayer):
    """Self attention and a feed-forward block, each with residual, dropout and layer norm, over [batch, n,
    d_model].
    """

    def __init__(self, d_model, nhead, dim_feedforward, dropout=0.1, activation="relu", attn_dropout=None,
                 act_dropout=None, normalize_before=False, weight_attr=None, bias_attr=None,
                 layer_norm_eps=1e-5):
        super().__init__()
        self._config = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        self._settings(dropout, activation, attn_dropout, act_dropout, normalize_before)
        weights, biases = _attrs(weight_attr, 2), _attrs(bias_attr, 2)
        self.self_attn = MultiHeadAttention(d_model, nhead, dropout=self._attn_dropout,
                                            weight_attr=weights[0], bias_attr=biases[0])
        self.linear1 = Linear(d_model, dim_feedforward, weights[1], biases[1])
        self.dropout = Dropout(self._act_dropout, mode="upscale_in_train")
        self.linear2 = Linear(dim_feedforward, d_model, weights[1], biases[1])
        self.norm1 = LayerNorm(d_model, layer_norm_eps)
        self.norm2 = LayerNorm(d_model, layer_norm_eps)
        self.dropout1 = Dropout(dropout, mode="upscale_in_train")
        self.dropout2 = Dropout(dropout, mode="upscale_in_train")

    def forward(self, src, src_mask=None, cache=None):
        def attend(x):
            nonlocal cache
            if cache is None:
                return self.self_attn(x, x, x, src_mask)
            x, cache = self.self_attn(x, x, x, src_mask, cache)
            return x

        src = self._sublayer(src, self.norm1, self.dropout1, attend)
        src = self._sublayer(src, self.norm2, self.dropout2, self._feed_forward)
        return src if cache is None else (src, cache)

    def gen_cache(self, src):
        """Empty cache for decoding step by step."""
        return self.self_attn.gen_cache(src, type=MultiHeadAttention.Cache)


class TransformerDecoderLayer(_FeedForwardLayer):
    """Self attention, attention over the encoder's memory, and a feed-forward block."""

    def __init__(self, d_model, nhead, dim_feedforward, dropout=0.1, activation="relu", attn_dropout=None,
                 act_dropout=None, normalize_before=False, weight_attr=None, bias_attr=None,
                 layer_norm_eps=1e-5):
        super().__init__()
        self._config = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        self._settings(dropout, activation, attn_dropout, act_dropout, normalize_before)
        weights, biases = _attrs(weight_attr, 3), _attrs(bias_attr, 3)
        self.self_attn = MultiHeadAttention(d_model, nhead, dropout=self._attn_dropout,
                                            weight_attr=weights[0], bias_attr=biases[0])
        self.cross_attn = MultiHeadAttention(d_model, nhead, dropout=self._attn_dropout,
                                             weight_attr=weights[1], bias_attr=biases[1])
        self.linear1 = Linear(d_model, dim_feedforward, weights[2], biases[2])
        self.dropout = Dropout(self._act_dropout, mode="upscale_in_train")
        self.linear2 = Linear(dim_feedforward, d_model, weights[2], biases[2])
        self.norm1 = LayerNorm(d_model, layer_norm_eps)
        self.norm2 = LayerNorm(d_model, layer_norm_eps)
        self.norm3 = LayerNorm(d_model, layer_norm_eps)
        self.dropout1 = Dropout(dropout, mode="upscale_in_train")
        self.dropout2 = Dropout(dropout, mode="upscale_in_train")
        self.dropout3 = Dropout(dropout, mode="upscale_in_train")

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, cache=None):
        grown = []

        def attend(attention, x, source, mask):
            if cache is None:
                return attention(x, source, source, mask)
            x, held = attention(x, source, source, mask, cache[len(grown)])
            grown.append(held)
            return x

        tgt = self._sublayer(tgt, self.norm1, self.dropout1, lambda x: attend(self.self_attn, x, x, tgt_mask))
        tgt = self._sublayer(tgt, self.norm2, self.dropout2, lambda x: attend(self.cross_attn, x, memory, memory_mask))
        tgt = self._sublayer(tgt, self.norm3, self.dropout3, self._feed_forward)
        return tgt if cache is None else (tgt, tuple(grown))

    def gen_cache(self, memory):
        """(growing cache of self attention, fixed cache of the memory's projections)."""
        return (self.self_attn.gen_cache(memory, type=MultiHeadAttention.Cache),
                self.cross_attn.gen_cache(memory, memory, type=MultiHeadAttention.StaticCache))


def _stack_of(layer, count):
    """``layer`` itself and count - 1 fresh ones of the same settings, each with its own random weights."""
    return LayerList([layer if number == 0 else type(layer)(**layer._config) for number in range(count)])


class TransformerEncoder(Layer):
    """``num_layers`` encoder layers and an optional last normalisation."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _stack_of(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src, src_mask=None, cache=None):
        caches = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                src = layer(src, src_mask)
            else:
                src, new = layer(src, src_mask, cache[number])
                caches.append(new)
        if self.norm is not None:
            src = self.norm(src)
        return src if cache is None else (src, caches)

    def gen_cache(self, src):
        """One cache per layer."""
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(Layer):
    """``num_layers`` decoder layers and an optional last normalisation."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _stack_of(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, cache=None):
        caches = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                tgt = layer(tgt, memory, tgt_mask, memory_mask)
            else:
                tgt, new = layer(tgt, memory, tgt_mask, memory_mask, cache[number])
                caches.append(new)
        if self.norm is not None:
            tgt = self.norm(tgt)
        return tgt if cache is None else (tgt, caches)

    def gen_cache(self, memory, do_zip=False):
        """One cache per layer; ``do_zip`` regroups them as (growing ones, fixed ones)."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches)) if do_zip else caches


class Transformer(Layer):
    """Encoder and decoder: (src [batch, n, d_model], tgt [batch, m, d_model]) -> [batch, m, d_model]."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048,
                 dropout=0.1, activation="relu", attn_dropout=None, act_dropout=None, normalize_before=False,
                 weight_attr=None, bias_attr=None, custom_encoder=None, custom_decoder=None):
        super().__init__()
        if custom_encoder is None:
            weights, biases = _attrs(weight_attr, 2), _attrs(bias_attr, 2)
            layer = TransformerEncoderLayer(d_model, nhead, dim_feedforward, dropout, activation,
                                            attn_dropout, act_dropout, normalize_before, weights, biases)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        if custom_decoder is None:
            weights, biases = _attrs(weight_attr, 3), _attrs(bias_attr, 3)
            layer = TransformerDecoderLayer(d_model, nhead, dim_feedforward, dropout, activation,
                                            attn_dropout, act_dropout, normalize_before, weights, biases)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, LayerNorm(d_model))
        self.decoder = custom_decoder
        self.d_model, self.nhead = d_model, nhead

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None):
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length):
        """[length, length]: 0 on and below the diagonal, -inf above."""
        import yuloh
        return yuloh.triu(yuloh.full([length, length], float("-inf"), dtype="float32"), 1)
