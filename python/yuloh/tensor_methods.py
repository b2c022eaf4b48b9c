# SPDX-License-Identifier: Apache-2.0
"""Tensor room: what makes public functions methods of ``Tensor``, the in-place forms and the dtype methods. Imported by
``tensor_ops`` once its functions stand; re-exports the in-place forms as functions (``paddle.reshape_(x, ...)``).
"""
from . import _core
from . import tensor_algebra as algebra
from . import tensor_lists as lists
from . import tensor_ops as functions
from .tensor_create import full, gaussian, uniform

ops = _core.ops
Tensor = _core.Tensor
__all__ = []

_NOT_METHODS = {
    "full", "zeros", "ones", "empty", "empty_like", "arange", "range", "linspace", "logspace",
    "eye", "rand", "randn", "standard_normal", "uniform", "normal", "gaussian", "randint",
    "randint_like", "rand_like", "randn_like", "randperm", "assign", "shape", "poisson",
    "broadcast_shape", "einsum", "meshgrid", "hstack", "vstack", "dstack", "column_stack",
    "row_stack", "tril_indices", "triu_indices", "crop", "cartesian_prod", "add_n",
    "is_floating_point", "tolist", "numel", "shard_index", "binomial", "log_normal",
    "standard_gamma", "as_tensor", "asarray", "from_numpy", "finfo", "iinfo", "broadcast_shapes",
    "pdist", "bernoulli", "real",
}


# ---- fills ----
def _zero_(self):
    """Sets every element to 0."""
    self._assign_graph(ops.zeros_like(self))
    return self


def _fill_(self, value):
    """Sets every element to ``value``."""
    self._assign_graph(full(self.shape, value, self.dtype))
    return self


def _uniform_(self, min=-1.0, max=1.0, seed=0, name=None):
    """Fills with uniform values in [min, max)."""
    self._assign_graph(uniform(self.shape, self.dtype, min, max))
    return self


def _normal_(self, mean=0.0, std=1.0, name=None):
    """Fills with normal values."""
    self._assign_graph(gaussian(self.shape, mean, std, dtype=self.dtype))
    return self


def _exponential_(self, lam=1.0, name=None):
    """Fills with exponentially distributed values of rate ``lam``."""
    self._assign_graph(ops.scale(ops.log1p(ops.neg(uniform(self.shape, self.dtype, 0.0, 1.0))), -1.0 / lam))
    return self


def _bernoulli_(self, p=0.5, name=None):
    """Fills with 1 (probability ``p``) and 0."""
    self._assign_graph(ops.bernoulli(full(self.shape, p, "float32")).astype(self.dtype))
    return self


def _fill_diagonal_(self, value, offset=0, wrap=False, name=None):
    """Sets the main diagonal (shifted by ``offset``) of a matrix to ``value``."""
    diagonal = ops.diagonal(self, offset, 0, 1)
    diagonal._assign_graph(full(diagonal.shape, value, self.dtype))
    return self


# ---- types ----
def _cast_method(name):
    def method(self):
        return self.cast(name)

    method.__doc__ = f"Converted to {name}."
    return method


def _new(fill):
    def method(self, shape, dtype=None, **_):
        return full(shape, fill, self.dtype if dtype is None else dtype)

    method.__doc__ = f"A tensor filled with {fill} of this dtype."
    return method


def _new_full(self, shape, fill_value, dtype=None, **_):
    """A tensor of this dtype filled with a value."""
    return full(shape, fill_value, self.dtype if dtype is None else dtype)


def _requires_grad_(self, value=True):
    """Sets whether gradients are wanted."""
    self.stop_gradient = not value
    return self


# ---- in place ----
def _in_place(name, function, put="_assign_graph"):
    def method(self, *args, **kwargs):
        getattr(self, put)(function(self, *args, **kwargs))
        return self

    method.__name__ = name
    method.__doc__ = f"In-place form of ``{name[:-1]}``."
    return method


def _function_of(method):
    def function(x, *args, **kwargs):
        return getattr(x, method)(*args, **kwargs)

    function.__name__ = method
    function.__doc__ = f"In place: ``x.{method}(...)``."
    return function


def _attach():
    for name in functions.__all__:
        if name not in _NOT_METHODS:
            setattr(Tensor, name, getattr(functions, name))
    Tensor.numel = functions.numel
    for method, dtype in (
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
        ("bfloat16", "bfloat16"),
        ("int", "int32"),
        ("long", "int64"),
        ("short", "int16"),
        ("char", "int8"),
        ("byte", "uint8"),
        ("bool", "bool"),
        ("float16", "float16"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int8", "int8"),
        ("int16", "int16"),
        ("int32", "int32"),
        ("int64", "int64"),
        ("uint8", "uint8"),
    ):
        setattr(Tensor, method, _cast_method(dtype))
    for name, fill in (("new_zeros", 0.0), ("new_ones", 1.0), ("new_empty", 0.0)):
        setattr(Tensor, name, _new(fill))
    Tensor.new_full = _new_full
    Tensor.type_as = lambda self, other: self.cast(other.dtype)
    Tensor.repeat = lambda self, *n: ops.tile(
        self, list(n[0]) if len(n) == 1 and isinstance(n[0], (list, tuple)) else list(n)
    )
    Tensor.is_same_shape = lambda self, other: self.shape == other.shape
    Tensor.requires_grad_ = _requires_grad_
    Tensor.split_with_sizes = lambda self, sizes, axis=0: lists.split(self, sizes, axis)
    Tensor.apply = lambda self, f: f(self)
    Tensor.apply_ = _in_place("apply_", lambda self, f: f(self))
    for name in ("reshape", "squeeze", "unsqueeze", "flatten", "transpose", "t", "cast"):
        setattr(Tensor, name + "_", _in_place(name + "_", getattr(ops, name), "_rebind"))
    for name in ("clip", "put_along_axis", "index_fill", "masked_scatter", "mul", "sub", "div", "clamp", "addmm", "baddbmm", "less",
                 "greater", "scatter_add", "renorm", "multigammaln"):
        setattr(Tensor, name + "_", _in_place(name + "_", getattr(functions, name, None) or getattr(algebra, name)))
    for name in ("zero_", "fill_", "uniform_", "normal_", "exponential_", "bernoulli_", "fill_diagonal_"):
        setattr(Tensor, name, globals()["_" + name])


_attach()
for _name in dir(Tensor):  # paddle.reshape_(x, ...) and the like
    if _name.endswith("_") and not _name.startswith("_") and _name not in _core.public("paddle"):
        globals()[_name] = _function_of(_name)
        __all__.append(_name)
del _name
