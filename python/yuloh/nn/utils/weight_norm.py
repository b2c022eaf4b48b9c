# SPDX-License-Identifier: Apache-2.0
"""Network room: reparametrised weights, recomputed by a hook before each forward."""
from ...framework.parameter import Parameter
from ..layer.norm import SpectralNorm

__all__ = ["remove_weight_norm", "spectral_norm", "weight_norm"]


def _norm_except(v, dim):
    """Norms of the slices of ``v`` along ``dim`` (a vector), or of the whole (a number, dim None)."""
    import yuloh
    if dim is None:
        return yuloh.sqrt(yuloh.sum(v * v))
    axes = [a for a in range(len(v.shape)) if a != dim]
    return yuloh.sqrt(yuloh.sum(v * v, axis=axes))


def _weight(g, v, dim):
    norm = _norm_except(v, dim)
    factor = g / norm
    if dim is not None:
        factor = factor.reshape([-1 if a == dim else 1 for a in range(len(v.shape))])
    return v * factor


class _WeightNorm:
    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def __call__(self, layer, inputs):
        object.__setattr__(layer, self.name, self.value(layer))

    def value(self, layer):
        return _weight(getattr(layer, self.name + "_g"), getattr(layer, self.name + "_v"), self.dim)


def weight_norm(layer, name="weight", dim=0):
    """Replaces parameter ``name`` by a length ``name_g`` and a direction ``name_v``; returns the layer."""
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, _WeightNorm) and hook.name == name:
            raise RuntimeError(f"weight_norm: {name!r} is weight-normalised already.")
    weight = layer._parameters[name]
    if dim is not None:
        if not -len(weight.shape) <= dim < len(weight.shape):
            raise ValueError(f"weight_norm: dim {dim} is out of range for shape {list(weight.shape)}.")
        dim = None if dim == -1 else dim % len(weight.shape)
    del layer._parameters[name]
    length, direction = _norm_except(weight.detach(), dim), weight.detach().clone()
    layer.add_parameter(name + "_v", Parameter(direction))
    layer.add_parameter(name + "_g", Parameter(length))
    hook = _WeightNorm(name, dim)
    hook(layer, None)
    layer.register_forward_pre_hook(hook)
    return layer


def remove_weight_norm(layer, name="weight"):
    """Makes ``name`` an ordinary parameter again; returns the layer."""
    for key, hook in list(layer._forward_pre_hooks.items()):
        if isinstance(hook, _WeightNorm) and hook.name == name:
            value = hook.value(layer).detach().clone()
            layer.__dict__.pop(name, None)
            del layer._parameters[name + "_g"], layer._parameters[name + "_v"]
            layer.add_parameter(name, Parameter(value))
            del layer._forward_pre_hooks[key]
            return layer
    raise ValueError(f"remove_weight_norm: {name!r} is not weight-normalised.")


class _SpectralNormHook:
    def __init__(self, name, norm):
        self.name, self.norm = name, norm

    def __call__(self, layer, inputs):
        object.__setattr__(layer, self.name, self.norm(getattr(layer, self.name + "_orig")))


def spectral_norm(layer, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides parameter ``name`` (kept as ``name_orig``) by its largest singular value on each forward."""
    weight = layer._parameters[name]
    if dim is None:
        dim = 1 if type(layer).__name__ in ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose",
                                            "Linear") else 0
    norm = SpectralNorm(list(weight.shape), dim, n_power_iterations, eps)
    del layer._parameters[name]
    layer.add_parameter(name + "_orig", weight)
    object.__setattr__(layer, name, weight.detach())
    layer.register_buffer(name + "_u", norm.weight_u)
    layer.register_buffer(name + "_v", norm.weight_v)
    layer.register_forward_pre_hook(_SpectralNormHook(name, norm))
    return layer
