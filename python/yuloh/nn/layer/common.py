# SPDX-License-Identifier: Apache-2.0
"""Layer room: linear maps, embedding, dropout, padding, resizing and shape layers."""
import numbers

from .. import functional as F
from .layers import Layer

__all__ = ["AlphaDropout", "Bilinear", "CircularPad1D", "CircularPad2D", "CircularPad3D", "ConstantPad1D",
           "ConstantPad2D", "ConstantPad3D", "CosineSimilarity", "Dropout", "Dropout2D", "Dropout3D",
           "Embedding", "FeatureAlphaDropout", "Flatten", "Fold", "Identity", "Linear", "Pad1D", "Pad2D",
           "Pad3D", "PairwiseDistance", "ReflectionPad1D", "ReflectionPad2D", "ReflectionPad3D",
           "ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D", "Unflatten", "Unfold", "Upsample",
           "UpsamplingBilinear2D", "UpsamplingNearest2D", "ZeroPad1D", "ZeroPad2D", "ZeroPad3D"]


def with_name(text, name):
    """``text`` with ``, name=...`` where a name was given (layers show it in ``repr``)."""
    return text if name is None else f"{text}, name={name}" if text else f"name={name}"


class Identity(Layer):
    """Gives back what it gets; constructor arguments are ignored."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Layer):
    """x [..., in] @ weight [in, out] + bias [out]."""

    def __init__(self, in_features, out_features, weight_attr=None, bias_attr=None, name=None):
        super().__init__()
        self.weight = self.create_parameter([in_features, out_features], attr=weight_attr)
        self.bias = self.create_parameter([out_features], attr=bias_attr, is_bias=True)
        self.name = name

    @property
    def in_features(self):
        """Size of the last axis of the input."""
        return self.weight.shape[0]

    @property
    def out_features(self):
        """Size of the last axis of the output."""
        return self.weight.shape[1]

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return with_name(f"in_features={self.in_features}, out_features={self.out_features}, "
                         f"dtype={self._dtype}", self.name)


class Bilinear(Layer):
    """x1' W_o x2 + b for each output o; weight is [out, in1, in2], bias [1, out]."""

    def __init__(self, in1_features, in2_features, out_features, weight_attr=None, bias_attr=None, name=None):
        super().__init__()
        self._in1_features, self._in2_features, self._out_features = in1_features, in2_features, out_features
        self._name = name
        self.weight = self.create_parameter([out_features, in1_features, in2_features], attr=weight_attr)
        self.bias = self.create_parameter([1, out_features], attr=bias_attr, is_bias=True)

    def forward(self, x1, x2):
        return F.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self):
        return with_name(f"in1_features={self._in1_features}, in2_features={self._in2_features}, "
                         f"out_features={self._out_features}, dtype={self._dtype}", self._name)


class Embedding(Layer):
    """Rows of weight [num_embeddings, embedding_dim] picked by integer ids;
    the row of ``padding_idx`` is 0.
    """

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, *,
                 scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False, device=None, dtype=None,
                 weight_attr=None, name=None):
        super().__init__(dtype=dtype or "float32")
        if num_embeddings <= 0 or embedding_dim <= 0:
            raise ValueError(f"Embedding: sizes must be positive, got {num_embeddings} and {embedding_dim}.")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is outside the {num_embeddings} rows.")
        self._num_embeddings, self._embedding_dim = num_embeddings, embedding_dim
        self._padding_idx = padding_idx
        self._max_norm, self._norm_type = max_norm, norm_type
        self._sparse, self._scale_grad_by_freq, self._name = sparse, scale_grad_by_freq, name
        if _weight is not None:
            from ..initializer import Assign
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise ValueError(f"Embedding: _weight has shape {list(_weight.shape)}; "
                                 f"expected {[num_embeddings, embedding_dim]}.")
            self.weight = self.create_parameter([num_embeddings, embedding_dim],
                                                default_initializer=Assign(_weight))
        else:
            self.weight = self.create_parameter([num_embeddings, embedding_dim], attr=weight_attr)
        if _freeze:
            self.weight.stop_gradient = True
        if padding_idx is not None:
            from .state import no_record
            with no_record():
                self.weight[padding_idx % num_embeddings] = 0.0

    def forward(self, x):
        return F.embedding(x, self.weight, padding_idx=self._padding_idx, max_norm=self._max_norm,
                           norm_type=self._norm_type, sparse=self._sparse,
                           scale_grad_by_freq=self._scale_grad_by_freq)

    def extra_repr(self):
        text = f"{self._num_embeddings}, {self._embedding_dim}"
        if self._padding_idx is not None:
            text += f", padding_idx={self._padding_idx}"
        return with_name(f"{text}, sparse={self._sparse}, scale_grad_by_freq={self._scale_grad_by_freq}",
                         self._name)


class Dropout(Layer):
    """Zeroes elements with probability ``p`` while training;
    ``axis`` shares one choice over the other axes.
    """

    def __init__(self, p=0.5, inplace=False, axis=None, mode="upscale_in_train", name=None):
        super().__init__()
        if isinstance(p, numbers.Real) and not 0 <= p <= 1:
            raise ValueError(f"Dropout: p must be from 0 to 1, got {p}.")
        if mode not in ("upscale_in_train", "downscale_in_infer"):
            raise ValueError("Dropout: mode must be 'upscale_in_train' or 'downscale_in_infer', got "
                             f"{mode!r}.")
        self.p, self.inplace, self.axis, self.mode, self.name = p, inplace, axis, mode, name

    def forward(self, input):
        return F.dropout(input, p=self.p, axis=self.axis, training=self.training, mode=self.mode)

    def extra_repr(self):
        return with_name(f"p={self.p}, axis={self.axis}, mode={self.mode}, inplace={self.inplace}", self.name)


class Dropout2D(Layer):
    """Zeroes whole channel planes of [N, C, H, W] with probability ``p`` while training."""

    def __init__(self, p=0.5, data_format="NCHW", name=None):
        super().__init__()
        self.p, self.data_format, self.name = p, data_format, name

    def forward(self, input):
        return F.dropout2d(input, p=self.p, training=self.training, data_format=self.data_format)

    def extra_repr(self):
        return with_name(f"p={self.p}, data_format={self.data_format}", self.name)


class Dropout3D(Layer):
    """Zeroes whole channel volumes of [N, C, D, H, W] with probability ``p`` while training."""

    def __init__(self, p=0.5, data_format="NCDHW", name=None):
        super().__init__()
        self.p, self.data_format, self.name = p, data_format, name

    def forward(self, input):
        return F.dropout3d(input, p=self.p, training=self.training, data_format=self.data_format)

    def extra_repr(self):
        return with_name(f"p={self.p}, data_format={self.data_format}", self.name)


class AlphaDropout(Layer):
    """Dropout that keeps mean and variance of SELU networks."""

    def __init__(self, p=0.5, name=None):
        super().__init__()
        self.p, self.name = p, name

    def forward(self, input):
        return F.alpha_dropout(input, p=self.p, training=self.training)

    def extra_repr(self):
        return with_name(f"p={self.p}", self.name)


class FeatureAlphaDropout(AlphaDropout):
    """AlphaDropout of whole channels."""

    def forward(self, input):
        return F.feature_alpha_dropout(input, p=self.p, training=self.training)


class Flatten(Layer):
    """Joins the axes ``start_axis`` to ``stop_axis`` into one."""

    def __init__(self, start_axis=1, stop_axis=-1):
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input):
        import yuloh
        return yuloh.flatten(input, start_axis=self.start_axis, stop_axis=self.stop_axis)


class Unflatten(Layer):
    """Splits one axis into ``shape``."""

    def __init__(self, axis, shape, name=None):
        super().__init__()
        self.axis, self.shape, self.name = axis, shape, name

    def forward(self, input):
        import yuloh
        return yuloh.unflatten(input, axis=self.axis, shape=self.shape)

    def extra_repr(self):
        return with_name(f"axis={self.axis}, shape={self.shape}", self.name)


class Upsample(Layer):
    """Resizes the spatial axes to ``size`` or by ``scale_factor``."""

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=False, align_mode=0,
                 data_format=None, recompute_scale_factor=None, name=None):
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode.lower()
        self.align_corners, self.align_mode = align_corners, align_mode
        self.data_format, self.name = data_format, name

    def forward(self, x):
        return F.interpolate(x, size=self.size, scale_factor=self.scale_factor, mode=self.mode,
                             align_corners=self.align_corners, align_mode=self.align_mode,
                             data_format=self.data_format)

    def _target(self):
        return f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"

    def extra_repr(self):
        return with_name(f"{self._target()}, mode={self.mode}, align_corners={self.align_corners}, "
                         f"align_mode={self.align_mode}, data_format={self.data_format}", self.name)


class UpsamplingNearest2D(Upsample):
    """Nearest-neighbour resizing of [N, C, H, W]."""

    def __init__(self, size=None, scale_factor=None, data_format="NCHW", name=None):
        super().__init__(size, scale_factor, "nearest", False, 0, data_format, name=name)

    def extra_repr(self):
        return with_name(f"{self._target()}, data_format={self.data_format}", self.name)


class UpsamplingBilinear2D(UpsamplingNearest2D):
    """Bilinear resizing of [N, C, H, W] with aligned corners."""

    def __init__(self, size=None, scale_factor=None, data_format="NCHW", name=None):
        super().__init__(size, scale_factor, data_format, name)
        self.mode, self.align_corners = "bilinear", True


class Unfold(Layer):
    """Patches of [N, C, H, W] as columns: [N, C * kh * kw, number of patches]."""

    def __init__(self, kernel_sizes, dilations=1, paddings=0, strides=1, name=None):
        super().__init__()
        self.kernel_sizes, self.dilations = kernel_sizes, dilations
        self.paddings, self.strides = paddings, strides
        self.name = name

    def forward(self, input):
        return F.unfold(input, kernel_sizes=self.kernel_sizes, strides=self.strides, paddings=self.paddings,
                        dilations=self.dilations)

    def extra_repr(self):
        return with_name(f"kernel_size={self.kernel_sizes}, dilation={self.dilations}, "
                         f"padding={self.paddings}, " f"stride={self.strides}", self.name)


class Fold(Unfold):
    """Adds columns up to a [N, C, *output_sizes] picture; the reverse walk of Unfold."""

    def __init__(self, output_sizes, kernel_sizes, dilations=1, paddings=0, strides=1, name=None):
        super().__init__(kernel_sizes, dilations, paddings, strides, name)
        self.output_sizes = output_sizes

    def forward(self, input):
        return F.fold(input, output_sizes=self.output_sizes, kernel_sizes=self.kernel_sizes,
                      strides=self.strides, paddings=self.paddings, dilations=self.dilations)


class CosineSimilarity(Layer):
    """Cosine of the angle between x1 and x2 along ``axis``."""

    def __init__(self, axis=1, eps=1e-8):
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, axis=self._axis, eps=self._eps)

    def extra_repr(self):
        return f"axis={self._axis}, eps={self._eps}"


class PairwiseDistance(Layer):
    """p-norm of x - y along the last axis."""

    def __init__(self, p=2.0, epsilon=1e-6, keepdim=False, name=None):
        super().__init__()
        self.p, self.epsilon, self.keepdim, self.name = p, epsilon, keepdim, name

    def forward(self, x, y):
        return F.pairwise_distance(x, y, p=self.p, epsilon=self.epsilon, keepdim=self.keepdim)

    def extra_repr(self):
        text = f"p={self.p}"
        if self.epsilon != 1e-6:
            text += f", epsilon={self.epsilon}"
        if self.keepdim:
            text += f", keepdim={self.keepdim}"
        return with_name(text, self.name)


# ---- padding -----------------------------------------------------------------------------------------------
class _PadNd(Layer):
    """Pads the spatial axes; ``padding`` is an int or (left, right, top, bottom, front, back), last axis
    first.
    """

    n = 2

    def __init__(self, padding, mode="constant", value=0.0, data_format="NCHW", name=None):
        super().__init__()
        self._pad = [padding] * (2 * self.n) if isinstance(padding, int) else padding
        self._mode, self._value, self._data_format, self._name = mode, value, data_format, name

    def forward(self, x):
        return F.pad(x, pad=self._pad, mode=self._mode, value=self._value, data_format=self._data_format)

    def extra_repr(self):
        return with_name(f"padding={self._pad}, mode={self._mode}, value={self._value}, "
                         f"data_format={self._data_format}", self._name)


class Pad1D(_PadNd):
    """Pads [N, C, L]; mode 'constant', 'reflect', 'replicate' or 'circular'."""

    n = 1

    def __init__(self, padding, mode="constant", value=0.0, data_format="NCL", name=None):
        super().__init__(padding, mode, value, data_format, name)


class Pad2D(_PadNd):
    """Pads [N, C, H, W]; mode 'constant', 'reflect', 'replicate' or 'circular'."""

    n = 2

    def __init__(self, padding, mode="constant", value=0.0, data_format="NCHW", name=None):
        super().__init__(padding, mode, value, data_format, name)


class Pad3D(_PadNd):
    """Pads [N, C, D, H, W]; mode 'constant', 'reflect', 'replicate' or 'circular'."""

    n = 3

    def __init__(self, padding, mode="constant", value=0.0, data_format="NCDHW", name=None):
        super().__init__(padding, mode, value, data_format, name)


_PAD_BASES = {1: (Pad1D, "NCL"), 2: (Pad2D, "NCHW"), 3: (Pad3D, "NCDHW")}


def _fixed_mode(kind, mode, n):
    """Class such as ReflectionPad2D: a PadND whose mode is fixed."""
    base, layout = _PAD_BASES[n]

    def __init__(self, padding, data_format=layout, name=None):
        base.__init__(self, padding, mode, 0.0, data_format, name)

    doc = f"Pad{n}D with mode '{mode}'" + (" and value 0." if kind == "ZeroPad" else ".")
    return type(f"{kind}{n}D", (base,), {"__init__": __init__, "__doc__": doc, "__module__": __name__})


def _constant_pad(n):
    """Class ConstantPadND: a PadND that fills with a chosen value."""
    base, layout = _PAD_BASES[n]

    def __init__(self, padding, value, data_format=layout, name=None):
        base.__init__(self, padding, "constant", value, data_format, name)

    return type(f"ConstantPad{n}D", (base,), {"__init__": __init__,
                                              "__doc__": f"Pad{n}D that fills with ``value``.",
                                              "__module__": __name__})


for _n in (1, 2, 3):
    for _kind, _mode in (("ZeroPad", "constant"), ("ReflectionPad", "reflect"),
                         ("ReplicationPad", "replicate"), ("CircularPad", "circular")):
        globals()[f"{_kind}{_n}D"] = _fixed_mode(_kind, _mode, _n)
    globals()[f"ConstantPad{_n}D"] = _constant_pad(_n)
