# SPDX-License-Identifier: Apache-2.0
"""Layer room: normalisations. Running statistics are buffers that the recorded op updates; nothing is read
here.
"""
import math
import numbers

from .. import functional as F
from ..functional.conv import CHANNEL_LAST
from ..functional.norm import normalize_batch
from ..initializer import Constant, Normal
from ...framework.param_attr import ParamAttr
from .common import with_name
from .layers import Layer

__all__ = ["BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "GroupNorm", "InstanceNorm1D",
           "InstanceNorm2D", "InstanceNorm3D", "LayerNorm", "LocalResponseNorm", "SpectralNorm",
           "SyncBatchNorm"]


class _NormBase(Layer):
    """Marks normalisations: mixed precision leaves their parameters in float32."""

    def _scale_and_shift(self, shape, weight_attr, bias_attr):
        self.weight = self.create_parameter(shape, attr=weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(shape, attr=bias_attr, is_bias=True)


class _BatchNormBase(_NormBase):
    """y = (x - mean) / sqrt(var + epsilon) * weight + bias over all axes but the channel's.

    ``momentum`` is the share of the old running value that is kept.
    """

    ranks = (2, 3, 4, 5)
    formats = ("NCHW",)

    def __init__(self, num_features, momentum=0.9, epsilon=1e-5, weight_attr=None, bias_attr=None,
                 data_format="NCHW", use_global_stats=None, name=None, mean_name=None, variance_name=None,
                 dtype="float32"):
        super().__init__(dtype=dtype)
        if data_format not in self.formats:
            raise ValueError(f"{type(self).__name__}: data_format must be one of {self.formats}, got "
                             f"{data_format!r}.")
        self._num_features, self._momentum, self._epsilon = num_features, momentum, epsilon
        self._data_format, self._use_global_stats, self._name = data_format, use_global_stats, name
        # The case that is quick to record.
        self._plain = use_global_stats is None and data_format not in CHANNEL_LAST
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self._scale_and_shift([num_features], weight_attr, bias_attr)
        self._mean = self._statistic(num_features, 0.0, mean_name)
        self._variance = self._statistic(num_features, 1.0, variance_name)

    def _statistic(self, size, value, name):
        attr = ParamAttr(name=name, initializer=Constant(value), trainable=False, do_model_average=True)
        parameter = self.create_parameter([size], attr=attr)
        parameter.stop_gradient = True
        return parameter

    def forward(self, input):
        if input.ndim not in self.ranks:
            raise ValueError(f"{type(self).__name__}: input must have {' or '.join(map(str, self.ranks))} "
                             "dimensions, " f"got shape {list(input.shape)}.")
        if self.training and self._plain:
            return normalize_batch(input, self._mean, self._variance, self.weight, self.bias, self._momentum,
                                   self._epsilon)
        return F.batch_norm(input, self._mean, self._variance, self.weight, self.bias, self.training,
                            self._momentum, self._epsilon, self._data_format, self._use_global_stats)

    def extra_repr(self):
        text = f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}"
        if self._data_format != "NCHW":
            text += f", data_format={self._data_format}"
        return with_name(text, self._name)


class BatchNorm1D(_BatchNormBase):
    """Batch normalisation of [N, C] or [N, C, L]."""

    ranks = (2, 3)
    formats = ("NCL", "NC", "NLC")

    def __init__(self, num_features, momentum=0.9, epsilon=1e-5, weight_attr=None, bias_attr=None,
                 data_format="NCL", use_global_stats=None, name=None):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format,
                         use_global_stats, name)


class BatchNorm2D(_BatchNormBase):
    """Batch normalisation of [N, C, H, W]."""

    ranks = (4,)
    formats = ("NCHW", "NHWC")

    def __init__(self, num_features, momentum=0.9, epsilon=1e-5, weight_attr=None, bias_attr=None,
                 data_format="NCHW", use_global_stats=None, name=None):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format,
                         use_global_stats, name)


class BatchNorm3D(_BatchNormBase):
    """Batch normalisation of [N, C, D, H, W]."""

    ranks = (5,)
    formats = ("NCDHW", "NDHWC")

    def __init__(self, num_features, momentum=0.9, epsilon=1e-5, weight_attr=None, bias_attr=None,
                 data_format="NCDHW", use_global_stats=None, name=None):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format,
                         use_global_stats, name)


class SyncBatchNorm(_BatchNormBase):
    """Batch normalisation over all processes; with one process it is BatchNorm of any rank."""

    formats = ("NCHW", "NHWC", "NCL", "NC", "NLC", "NCDHW", "NDHWC")

    def __init__(self, num_features, momentum=0.9, epsilon=1e-5, weight_attr=None, bias_attr=None,
                 data_format="NCHW", name=None):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, None, name)

    @classmethod
    def convert_sync_batchnorm(cls, layer):
        """``layer`` with every BatchNormND below (and itself) replaced;
        parameters and statistics are shared.
        """
        if isinstance(layer, (BatchNorm1D, BatchNorm2D, BatchNorm3D)):
            twin = cls(layer._num_features, layer._momentum, layer._epsilon, layer._weight_attr,
                       layer._bias_attr, layer._data_format, layer._name)
            for name in ("weight", "bias", "_mean", "_variance"):
                setattr(twin, name, getattr(layer, name))
            twin.training = layer.training
            return twin
        for name, child in list(layer._sub_layers.items()):
            if child is not None:
                layer._sub_layers[name] = cls.convert_sync_batchnorm(child)
        return layer


class BatchNorm(_BatchNormBase):
    """Batch normalisation of any rank with an activation by name; Paddle's oldest form of the layer."""

    formats = ("NCHW", "NHWC", "NCL", "NC", "NLC", "NCDHW", "NDHWC")

    def __init__(self, num_channels, act=None, is_test=False, momentum=0.9, epsilon=1e-5, param_attr=None,
                 bias_attr=None, dtype="float32", data_layout="NCHW", in_place=False, moving_mean_name=None,
                 moving_variance_name=None, do_model_average_for_mean_and_var=True, use_global_stats=False,
                 trainable_statistics=False):
        super().__init__(num_channels, momentum, epsilon, param_attr, bias_attr, data_layout,
                         use_global_stats or None, None, moving_mean_name, moving_variance_name, dtype)
        self._act, self._trainable_statistics = act, trainable_statistics
        if is_test:
            self.training = False

    def forward(self, input):
        training = self.training or self._trainable_statistics
        out = F.batch_norm(input, self._mean, self._variance, self.weight, self.bias, training,
                           self._momentum, self._epsilon, self._data_format, self._use_global_stats)
        return out if self._act is None else getattr(F, self._act)(out)

    def extra_repr(self):
        return ""


class LayerNorm(_NormBase):
    """Normalises over the last axes, whose sizes are ``normalized_shape``."""

    def __init__(self, normalized_shape, epsilon=1e-5, *, elementwise_affine=True, bias=True, device=None,
                 dtype=None, weight_attr=None, bias_attr=None, name=None):
        super().__init__(dtype=dtype or "float32")
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = [normalized_shape]
        self._normalized_shape, self._epsilon, self._name = list(normalized_shape), epsilon, name
        # Paddle keeps both as vectors, whatever the number of axes; files depend on it.
        self._scale_and_shift([math.prod(self._normalized_shape)], weight_attr if elementwise_affine
                              else False, bias_attr if elementwise_affine and bias else False)

    def forward(self, input):
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self):
        return with_name(f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}", self._name)


class GroupNorm(_NormBase):
    """Normalises each of ``num_groups`` groups of channels of one sample."""

    def __init__(self, num_groups, num_channels, epsilon=1e-5, *, affine=True, device=None, dtype=None,
                 weight_attr=None, bias_attr=None, data_format="NCHW", name=None):
        super().__init__(dtype=dtype or "float32")
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels must be a multiple of num_groups, "
                             f"got {num_channels} and {num_groups}.")
        self._num_groups, self._num_channels, self._epsilon = num_groups, num_channels, epsilon
        self._data_format, self._name = data_format, name
        self._scale_and_shift([num_channels], weight_attr if affine else False, bias_attr if affine
                              else False)

    def forward(self, input):
        return F.group_norm(input, self._num_groups, self._epsilon, self.weight, self.bias, self._data_format)

    def extra_repr(self):
        return with_name(f"num_groups={self._num_groups}, num_channels={self._num_channels}, "
                         f"epsilon={self._epsilon}", self._name)


class _InstanceNormBase(_NormBase):
    """Normalises each channel plane of each sample; its weight is called ``scale``."""

    ranks = (3, 4, 5)

    def __init__(self, num_features, epsilon, momentum, weight_attr, bias_attr, data_format, name):
        super().__init__()
        self._num_features, self._epsilon, self._momentum = num_features, epsilon, momentum
        self._data_format, self._name = data_format, name
        if weight_attr is False or bias_attr is False:
            self.scale = self.bias = None
        else:
            self.scale = self.create_parameter([num_features], attr=weight_attr,
                                               default_initializer=Constant(1.0))
            self.bias = self.create_parameter([num_features], attr=bias_attr, is_bias=True)

    def forward(self, input):
        if len(input.shape) not in self.ranks:
            raise ValueError(f"{type(self).__name__}: input must have {' or '.join(map(str, self.ranks))} "
                             "dimensions, " f"got shape {list(input.shape)}.")
        return F.instance_norm(input, weight=self.scale, bias=self.bias, momentum=self._momentum,
                               eps=self._epsilon, data_format=self._data_format)

    def extra_repr(self):
        return with_name(f"num_features={self._num_features}, epsilon={self._epsilon}", self._name)


class InstanceNorm1D(_InstanceNormBase):
    """Instance normalisation of [N, C, L]."""

    ranks = (2, 3)

    def __init__(self, num_features, epsilon=1e-5, momentum=0.9, weight_attr=None, bias_attr=None,
                 data_format="NCL", name=None):
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format, name)


class InstanceNorm2D(_InstanceNormBase):
    """Instance normalisation of [N, C, H, W]."""

    ranks = (4,)

    def __init__(self, num_features, epsilon=1e-5, momentum=0.9, weight_attr=None, bias_attr=None,
                 data_format="NCHW", name=None):
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format, name)


class InstanceNorm3D(_InstanceNormBase):
    """Instance normalisation of [N, C, D, H, W]."""

    ranks = (5,)

    def __init__(self, num_features, epsilon=1e-5, momentum=0.9, weight_attr=None, bias_attr=None,
                 data_format="NCDHW", name=None):
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format, name)


class LocalResponseNorm(Layer):
    """x / (k + alpha * mean of squares over ``size`` neighbouring channels)^beta."""

    def __init__(self, size, alpha=0.0001, beta=0.75, k=1.0, data_format="NCHW", name=None):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k
        self.data_format, self.name = data_format, name

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k, self.data_format)

    def extra_repr(self):
        text = f"size={self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
        if self.data_format != "NCHW":
            text += f", data_format={self.data_format}"
        return with_name(text, self.name)


class SpectralNorm(Layer):
    """The given weight divided by its largest singular value, found by power iteration.

    The iteration starts from ``weight_u`` and ``weight_v`` on every call; like Paddle's, they stay as they
    are.
    """

    def __init__(self, weight_shape, dim=0, power_iters=1, eps=1e-12, dtype="float32"):
        super().__init__(dtype=dtype)
        self._weight_shape, self._dim = list(weight_shape), dim
        self._power_iters, self._eps = power_iters, eps
        height = self._weight_shape[dim]
        width = 1
        for axis, size in enumerate(self._weight_shape):
            width *= 1 if axis == dim % len(self._weight_shape) else size
        self.weight_u = self.create_parameter([height], attr=ParamAttr(trainable=False),
                                              default_initializer=Normal(0.0, 1.0))
        self.weight_v = self.create_parameter([width], attr=ParamAttr(trainable=False),
                                              default_initializer=Normal(0.0, 1.0))

    def forward(self, x):
        import yuloh
        from .state import no_record
        rank = len(self._weight_shape)
        axis = self._dim % rank
        order = [axis] + [a for a in range(rank) if a != axis]
        matrix = (x if axis == 0 else x.transpose(order)).reshape([self._weight_shape[axis], -1])
        with no_record():
            flat, u, v = matrix.detach(), self.weight_u.detach(), self.weight_v.detach()
            for _ in range(self._power_iters):
                v = F.normalize(yuloh.matmul(flat, u, transpose_x=True), axis=0, epsilon=self._eps)
                u = F.normalize(yuloh.matmul(flat, v), axis=0, epsilon=self._eps)
        sigma = (u * yuloh.matmul(matrix, v)).sum()
        return x / sigma
