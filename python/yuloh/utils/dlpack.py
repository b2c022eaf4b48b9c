# SPDX-License-Identifier: Apache-2.0
"""Utilities room: DLPack. Tensors cross by copy: what others hold never changes under them."""
import numpy as np

from ..tensor import to_tensor

__all__ = ["from_dlpack", "to_dlpack"]


class _Capsule:
    """Gives a bare DLPack capsule the two methods that ``np.from_dlpack`` asks for."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (1, 0)  # CPU


def to_dlpack(x):
    """A DLPack capsule of a copy of ``x`` (any layout, CPU)."""
    return np.ascontiguousarray(x.numpy()).__dlpack__()


def from_dlpack(ext_tensor):
    """A tensor with the values of a DLPack capsule or of an object with ``__dlpack__`` (CPU)."""
    holder = ext_tensor if hasattr(ext_tensor, "__dlpack__") else _Capsule(ext_tensor)
    return to_tensor(np.from_dlpack(holder))
