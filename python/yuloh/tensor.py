# SPDX-License-Identifier: Apache-2.0
"""Tensor room: making tensors from Python data, printing, and the methods that are neither ops nor attributes.

Everything numeric is an op of the table; this file converts containers and formats text.
"""
import numpy as np

from . import _core

__all__ = ["to_tensor", "is_tensor", "set_printoptions"]

Tensor = _core.Tensor
ops = _core.ops
_print = {"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def _as_array(data):
    """NumPy array of nested lists that may hold tensors."""
    if isinstance(data, (list, tuple)) and any(isinstance(d, Tensor) for d in _leaves(data)):
        data = _to_plain(data)
    array = np.asarray(data)
    if array.dtype == object:
        raise ValueError("to_tensor: the nested lists are ragged or hold something that is no number, got "
                         f"{type(data).__name__}; expected a regular array. Hint: pad the rows to one length.")
    return array


def _leaves(data):
    for d in data:
        if isinstance(d, (list, tuple)):
            yield from _leaves(d)
        else:
            yield d


def _to_plain(data):
    return [_to_plain(d) if isinstance(d, (list, tuple)) else d.numpy() if isinstance(d, Tensor) else d for d in data]


def to_tensor(data, dtype=None, place=None, stop_gradient=True):
    """Tensor with a copy of ``data`` (number, nested list, NumPy array, Tensor).

    Python floats become the default dtype, Python ints int64, arrays keep their dtype. Raises ValueError for ragged
    lists, TypeError for unknown dtypes.
    """
    if isinstance(data, Tensor):
        out = data.detach().clone()
        if dtype is not None and out.dtype != dtype:
            out = out.astype(dtype)
        out.stop_gradient = stop_gradient
        return out
    is_array = isinstance(data, (np.ndarray, np.generic))
    array = data if isinstance(data, np.ndarray) else _as_array(data)
    if dtype is None and not is_array and array.dtype == np.float64:
        dtype = _core.get_default_dtype()
    if array.dtype.kind in "US":
        raise TypeError("to_tensor: text has no tensor dtype here, got strings; expected numbers.")
    if array.dtype.kind == "c":
        raise TypeError("to_tensor: complex tensors have no kernels yet, got complex numbers.")
    if array.dtype.kind == "u" and array.dtype.itemsize > 2:
        array = array.astype(np.int64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return _core.from_buffer(array, dtype, stop_gradient)


def is_tensor(x):
    """True for a Tensor."""
    return isinstance(x, Tensor)


def set_printoptions(precision=None, threshold=None, edgeitems=None, sci_mode=None, linewidth=None):
    """How tensors print: digits, the size from which they are summarised, items kept at the edges, line width."""
    for key, value in dict(precision=precision, threshold=threshold, edgeitems=edgeitems, sci_mode=sci_mode,
                           linewidth=linewidth).items():
        if value is not None:
            _print[key] = value


def _float_view(t):
    """The values as a NumPy array that prints as numbers (bfloat16 shows as float32)."""
    return (t.detach().astype("float32") if t.dtype == "bfloat16" else t).numpy()


def _repr(self):
    array = _float_view(self)
    floating = array.dtype.kind == "f"
    options = dict(precision=_print["precision"], threshold=_print["threshold"], edgeitems=_print["edgeitems"],
                   suppress=not _print["sci_mode"] if _print["sci_mode"] is not None else False, floatmode="fixed" if floating else "maxprec")
    with np.printoptions(**options):
        body = np.array2string(array, separator=", ", prefix="       ", max_line_width=_print["linewidth"] + 40)
    return (f"Tensor(shape={self.shape}, dtype={self.dtype.name}, place={self.place}, stop_gradient={self.stop_gradient},\n"
            f"       {body})")


def _array(self, dtype=None, copy=None):
    array = self.numpy()
    return array if dtype is None else array.astype(dtype)


def _iter(self):
    if self.ndim == 0:
        raise TypeError("iteration over a 0-D tensor.")
    for i in range(self.shape[0]):
        yield self[i]


def _set_value(self, value):
    """Replaces the contents (all aliases see it); shape must match, dtype is converted."""
    if not isinstance(value, Tensor):
        value = to_tensor(np.asarray(value))
    return self._assign(value)


class HookHandle:
    """What ``register_hook`` returns; ``remove()`` takes the hook away again."""

    def __init__(self, tensor, number):
        self._tensor, self._number = tensor, number

    def remove(self):
        """Takes the hook away; True if it was there."""
        if self._tensor is None:
            return False
        self._tensor._remove_hook(self._number)
        self._tensor = None
        return True


def _register_hook(self, hook):
    """Calls ``hook(grad)`` when the gradient is recorded; a returned Tensor replaces it."""
    return HookHandle(self, self._add_hook(hook))


def _to(self, *args, **kwargs):
    """``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``: only the dtype matters on this device."""
    from .framework.dtype import dtype_name
    candidates = [*args, *kwargs.values()]
    for a in candidates:
        if isinstance(a, Tensor):
            return self.astype(a.dtype)
    for a in candidates:
        if isinstance(a, (_core.DType, np.dtype, type)) or (isinstance(a, str) and not a.startswith(("cpu", "gpu", "xpu"))):
            return self.astype(dtype_name(a))
    return self


def _same(self, *args, **kwargs):
    return self


def _place(self):
    from .device import CPUPlace
    return CPUPlace()


def _astype(self, dtype):
    """Converted to ``dtype``; to its own dtype it is a view, as in Paddle."""
    return ops.view_as_shape(self, self.shape) if self.dtype == dtype else self.cast(dtype)


def _element_size(self):
    return self.dtype.itemsize


def _attach():
    methods = dict(
        __repr__=_repr, __str__=_repr, __array__=_array, __iter__=_iter, __format__=_format, set_value=_set_value,
        copy_=lambda self, other, *a: self._assign(other), register_hook=_register_hook, to=_to, cpu=_same, cuda=_same,
        pin_memory=_same, contiguous=_same, astype=_astype, tolist=lambda self: self.numpy().tolist(),
        element_size=_element_size, dim=lambda self: self.ndim, ndimension=lambda self: self.ndim,
        is_contiguous=lambda self: True, is_dense=lambda self: True, is_sparse=lambda self: False,
        is_floating_point=lambda self: self.dtype.is_floating_point(), gradient=lambda self: None if self.grad is None else self.grad.numpy(),
        __deepcopy__=_deepcopy, __reduce_ex__=_reduce, value=_same, get_tensor=_same, __dlpack__=lambda self, stream=None: self.numpy().__dlpack__(),
        __dlpack_device__=lambda self: (1, 0), _is_initialized=lambda self: True)
    for name, function in methods.items():
        setattr(Tensor, name, function)
    Tensor.place = property(_place)
    Tensor.T = property(lambda self: self.transpose(list(range(self.ndim))[::-1]))
    Tensor.mT = property(lambda self: self.transpose([*range(self.ndim - 2), self.ndim - 1, self.ndim - 2]))
    Tensor.data = property(lambda self: self, lambda self, value: self.set_value(value))
    Tensor.nbytes = property(lambda self: self.size * self.dtype.itemsize)
    Tensor.itemsize = property(_element_size)
    Tensor.strides = property(lambda self: self.get_strides())
    Tensor.type = property(lambda self: "DenseTensor")


def _format(self, spec):
    return format(self.item(), spec) if spec and self.size == 1 else repr(self) if not spec else format(self.numpy(), spec)


def _deepcopy(self, memo):
    out = to_tensor(self, stop_gradient=self.stop_gradient)
    memo[id(self)] = out
    return out


def _reduce(self, protocol):
    return _rebuild, (self.numpy(), self.dtype.name, self.stop_gradient)


def _rebuild(array, dtype, stop_gradient):
    return _core.from_buffer(array, dtype, stop_gradient)


_attach()
