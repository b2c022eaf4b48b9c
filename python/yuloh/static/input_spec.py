# SPDX-License-Identifier: Apache-2.0
"""Static room: shape (with open sizes), dtype and name of an input."""
from ..framework.dtype import dtype_name

__all__ = ["InputSpec"]


class InputSpec:
    """``shape`` with None or -1 for open sizes, ``dtype`` and ``name`` of an input."""
    dim_names = ()  # of open sizes, one per axis ("" or None: no name); equal names are one size

    def __init__(self, shape, dtype="float32", name=None, stop_gradient=False):
        if shape is None:
            raise ValueError("InputSpec: shape must be given; use None for an open size.")
        self._shape = tuple(self._size(n) for n in ([shape] if isinstance(shape, int) else shape))
        self._dtype_name = dtype_name("float32" if dtype is None else dtype)
        self.name = name
        self.stop_gradient = stop_gradient

    @staticmethod
    def _size(value):
        if value is None:
            return -1
        if not isinstance(value, int) or value < -1:
            raise ValueError(f"InputSpec: a size must be a non-negative int, -1 or None, got {value!r}.")
        return value

    @property
    def shape(self):
        """Sizes; -1 where open."""
        return self._shape

    @shape.setter
    def shape(self, value):
        self._shape = tuple(self._size(n) for n in value)

    @property
    def dtype(self):
        """The dtype object."""
        import yuloh
        return getattr(yuloh, self._dtype_name)

    @classmethod
    def from_tensor(cls, tensor, name=None):
        """Of a tensor's shape and dtype."""
        return cls(list(tensor.shape), tensor.dtype, name or getattr(tensor, "name", None))

    @classmethod
    def from_numpy(cls, ndarray, name=None):
        """Of an array's shape and dtype."""
        return cls(list(ndarray.shape), ndarray.dtype, name)

    def batch(self, batch_size):
        """Puts a batch size (int, or a tuple or list of one) in front; returns this spec."""
        if isinstance(batch_size, (list, tuple)):
            if len(batch_size) != 1:
                raise ValueError(f"InputSpec: batch_size must be one int, got {batch_size!r}.")
            batch_size = batch_size[0]
        self._shape = (self._size(batch_size), *self._shape)
        return self

    def unbatch(self):
        """Drops the first size; returns this spec."""
        if not self._shape:
            raise ValueError("InputSpec: there is no first size to drop.")
        self._shape = self._shape[1:]
        return self

    def __repr__(self):
        return (f"InputSpec(shape={self._shape}, dtype=paddle.{self._dtype_name}, name={self.name}, "
                f"stop_gradient={self.stop_gradient})")

    def _key(self):
        return self._shape, self._dtype_name, self.name, self.stop_gradient

    def __eq__(self, other):
        return type(self) is type(other) and self._key() == other._key()

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self._key())
