# SPDX-License-Identifier: Apache-2.0
"""Layer room: a layer's state as a dict, loading it, gradients as a whole, dtype changes, copies."""
import contextlib
import warnings
from collections import OrderedDict

import numpy as np

from ... import _core
from ...tensor import to_tensor
from ...framework.dtype import dtype_name, is_floating
from ...framework.parameter import rebind
from .registry import Registry

_REGISTRIES = ("_parameters", "_buffers", "_sub_layers")


def _listed(names, most=12):
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class LayerState:
    """The part of ``Layer`` that deals with all members at once."""

    # ---- state dict ----------------------------------------------------------------------------------------
    def state_dict(self, destination=None, include_sublayers=True, structured_name_prefix="", use_hook=True,
                   keep_vars=True, *, prefix=None):
        """OrderedDict of parameters and persistable buffers by dotted name.

        ``keep_vars=False`` gives detached tensors. ``prefix`` is torch's spelling of
        ``structured_name_prefix``.
        """
        return self._state(destination, include_sublayers, prefix or structured_name_prefix, use_hook,
                           keep_vars, False)

    def to_static_state_dict(self, destination=None, include_sublayers=True, structured_name_prefix="",
                             use_hook=True, keep_vars=True):
        """``state_dict`` with the buffers that are not persistable as well."""
        return self._state(destination, include_sublayers, structured_name_prefix, use_hook, keep_vars, True)

    def _state(self, destination, include_sublayers, prefix, use_hook, keep_vars, all_buffers):
        if destination is None:
            destination = OrderedDict()
        skip = () if all_buffers else self._non_persistable_buffer_names_set
        for members in (self._parameters, self._buffers):
            for name, value in members.items():
                if value is not None and not (members is self._buffers and name in skip):
                    destination[prefix + name] = value if keep_vars else value.detach()
        if include_sublayers:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    layer._state(destination, True, f"{prefix}{name}.", use_hook, keep_vars, all_buffers)
        if use_hook:
            for hook in self._state_dict_hooks.values():
                result = hook(destination)
                if result is not None:
                    destination = result
        return destination

    def register_state_dict_hook(self, hook):
        """Calls ``hook(state)`` on every ``state_dict``; what it returns, if not None, is the result."""
        from .layers import HookRemoveHelper
        helper = HookRemoveHelper(self._state_dict_hooks)
        self._state_dict_hooks[helper._hook_id] = hook
        return helper

    def set_state_dict(self, state_dict, use_structured_name=True):
        """Loads values by dotted name (or by parameter name). Returns (missing names, unexpected names).

        Entries with another shape are skipped; one warning lists what was not loaded; other dtypes are converted. ``state_dict`` is
        not changed, and no value is read: Tensors are only rebound.
        """
        own = self._state(None, True, "", False, True, False)
        missing, used, pairs, absent, misfits = [], set(), [], [], []
        for name, target in own.items():
            key = name if use_structured_name else target.name
            value = state_dict.get(key)
            if value is None:
                missing.append(name)
                absent.append(name)
                continue
            used.add(key)
            shape = list(getattr(value, "shape", np.shape(value)))
            if shape != list(target.shape):
                missing.append(name)
                misfits.append(f"{name} (got shape {shape}; expected {list(target.shape)})")
                continue
            pairs.append((target, value))
        unexpected = [key for key in state_dict if key not in used and key != "StructuredToParameterName@@"]
        said = [f"{len(names)} {why}: {_listed(names)}" for why, names in (("missing in the given dict", absent), ("of another shape", misfits)) if names]
        if said:  # one warning, however many tensors
            warnings.warn(f"set_state_dict: {len(missing)} of {len(own)} are not loaded, {'; '.join(said)}.", stacklevel=2)
        if missing and any(str(key).endswith("running_mean") for key in unexpected):
            warnings.warn("set_state_dict: the names are PyTorch's. Hint: yuloh.convert.weights(file, layer).state has them "
                          "under this Layer's names, or `yuloh convert FILE OUT --model NAME`.", stacklevel=2)
        for target, value in pairs:
            _assign(target, value)
        return missing, unexpected

    set_dict = load_dict = set_state_dict

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """torch's spelling: with ``strict`` a missing or unexpected name raises RuntimeError."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            missing, unexpected = self.set_state_dict(state_dict)
        if strict and (missing or unexpected):
            raise RuntimeError(f"load_state_dict: missing or ill-fitting names {missing}, unexpected names "
                               f"{unexpected}. Hint: strict=False loads what fits.")
        return missing, unexpected

    # ---- gradients -----------------------------------------------------------------------------------------
    def clear_gradients(self, set_to_zero=True):
        """Drops the gradients of all trainable parameters."""
        for parameter in self.parameters():
            if not parameter.stop_gradient:
                parameter.clear_gradient(set_to_zero)

    def zero_grad(self, set_to_none=True):
        """torch's spelling of ``clear_gradients``."""
        self.clear_gradients(not set_to_none)

    def requires_grad_(self, requires_grad=True):
        """Sets ``stop_gradient`` of every parameter; returns this layer."""
        for parameter in self.parameters():
            parameter.stop_gradient = not requires_grad
        return self

    # ---- dtype and device ----------------------------------------------------------------------------------
    def to(self, device=None, dtype=None, blocking=None, non_blocking=None):
        """Moves to a device (here: checks its name) and converts floating members to ``dtype``; returns this
        layer.
        """
        if device is not None:
            if isinstance(device, _core.DType) or (isinstance(device, str) and _is_dtype(device)):
                device, dtype = None, device
            else:
                from ...device import check_device
                check_device(device)
        return self if dtype is None else self._convert(dtype)

    def astype(self, dtype=None):
        """Converts floating parameters and buffers to ``dtype`` in place; returns this layer."""
        return self if dtype is None else self._convert(dtype)

    def _convert(self, dtype, excluded_layers=()):
        name = dtype_name(dtype)
        for layer in self.sublayers(include_self=True):
            if excluded_layers and isinstance(layer, excluded_layers):
                continue
            for members in (layer._parameters, layer._buffers):
                for tensor in members.values():
                    if tensor is not None and is_floating(tensor.dtype) and dtype_name(tensor.dtype) != name:
                        _convert_tensor(tensor, name)
            layer._dtype = name
        return self

    def float(self, excluded_layers=None):
        """Converts floating members to float32; returns this layer."""
        return self._convert("float32", _excluded(excluded_layers))

    def double(self):
        """Converts floating members to float64; returns this layer."""
        return self._convert("float64")

    def half(self):
        """Converts floating members to float16; returns this layer."""
        return self._convert("float16")

    def float16(self, excluded_layers=None):
        """Converts floating members to float16; normalisation layers stay as they are by default."""
        return self._convert("float16", _excluded(excluded_layers, keep_norms=True))

    def bfloat16(self, excluded_layers=None):
        """Converts floating members to bfloat16; normalisation layers stay as they are by default."""
        return self._convert("bfloat16", _excluded(excluded_layers, keep_norms=True))

    def type(self, dst_type):
        """Converts floating members to ``dst_type``; returns this layer."""
        return self._convert(dst_type)

    def cpu(self):
        """Everything is on the CPU already; returns this layer."""
        return self

    def cuda(self, device=None):
        """Raises RuntimeError: there is no CUDA device in this build."""
        return self.to("gpu" if device is None else device)

    # ---- copies --------------------------------------------------------------------------------------------
    def __getstate__(self):
        state = dict(self.__dict__)
        for key in _REGISTRIES:
            for name in state[key]:
                state.pop(name, None)
            state[key] = dict(state[key])
        return state

    def __setstate__(self, state):
        self.__dict__.update({k: v for k, v in state.items() if k not in _REGISTRIES})
        for key in _REGISTRIES:
            self.__dict__[key] = Registry(self, state[key].items())


def _is_dtype(text):
    return text.rsplit(".", 1)[-1] in ("float32", "float16", "bfloat16", "float64", "int32", "int64", "int8",
                                       "uint8")


def _excluded(layers, keep_norms=False):
    if layers is None:
        if not keep_norms:
            return ()
        from .norm import _NormBase
        return (_NormBase,)
    return tuple(layers) if isinstance(layers, (list, tuple)) else (layers,)


def _convert_tensor(tensor, dtype):
    """Changes the dtype of the handle ``tensor``; leaf, trainability and name stay."""
    with no_record():
        rebind(tensor, tensor.detach().astype(dtype))


@contextlib.contextmanager
def no_record():
    """Inside the block nothing is recorded for gradients."""
    before = _core.grad_enabled()
    _core.set_grad_enabled(False)
    try:
        yield
    finally:
        _core.set_grad_enabled(before)


def _assign(target, value):
    """Gives the member ``target`` the value of a Tensor or array-like of its shape, converted to its
    dtype.
    """
    if not isinstance(value, _core.Tensor):
        value = to_tensor(np.asarray(value))  # uint16 arrays hold bfloat16 bits, as in Paddle
    with no_record():
        value = value.detach()
        same = dtype_name(value.dtype) == dtype_name(target.dtype)
        value = value.clone() if same else value.astype(target.dtype)
        target._assign(value)
