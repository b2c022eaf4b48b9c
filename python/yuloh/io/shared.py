# SPDX-License-Identifier: Apache-2.0
"""Memory that a data worker fills and the parent reads: nameless, so that nothing can stay behind.

A slot is an anonymous file (memfd, or an unlinked temporary file) that both sides map. Its descriptor travels
over the worker's socket; the kernel frees the pages when both are gone, however they went.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

_ALIGN = 64
_GRAIN = 1 << 16


def anonymous_file(size: int) -> int:
    """Descriptor of a nameless file in memory of `size` bytes."""
    if hasattr(os, "memfd_create"):
        try:
            fd = os.memfd_create("yuloh-batch", os.MFD_CLOEXEC)
        except OSError:
            fd = _unlinked_file()
    else:
        fd = _unlinked_file()
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise
    return fd


def _unlinked_file() -> int:
    import tempfile

    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    fd, path = tempfile.mkstemp(prefix="yuloh-", dir=folder)
    os.unlink(path)
    return fd


class Slot:
    """One batch's memory, in the process that maps it."""

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self.map = mmap.mmap(fd, size)
        self.used = 0

    def array(self, shape: tuple, dtype: Any, offset: int) -> np.ndarray:
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0:
            return np.empty(shape, dtype)
        return np.frombuffer(self.map, dtype, count, offset).reshape(shape)

    def new_array(self, shape: tuple, dtype: Any) -> np.ndarray:
        """An array in this slot if there is room, else an ordinary one."""
        dtype = np.dtype(dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        start = self.used
        if nbytes == 0 or start + nbytes > self.size or dtype.hasobject:
            return np.empty(shape, dtype)
        self.used = -(-(start + nbytes) // _ALIGN) * _ALIGN
        return self.array(shape, dtype, start)

    def offset_of(self, array: np.ndarray) -> int:
        """Byte offset of a contiguous `array` that lies in this slot, or -1."""
        base = array
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        if isinstance(base, memoryview):
            base = base.obj
        if base is not self.map or not array.flags.c_contiguous or array.size == 0:
            return -1
        start = np.frombuffer(self.map, np.uint8, 1).__array_interface__["data"][0]
        return array.__array_interface__["data"][0] - start

    def close(self) -> None:
        try:
            self.map.close()
        except BufferError:
            pass  # an array still looks into it: the mapping goes with that array


def aligned_bytes(arrays: list) -> int:
    """Bytes that `arrays` take in a slot."""
    return sum(-(-a.nbytes // _ALIGN) * _ALIGN for a in arrays)


def size_for(arrays: list) -> int:
    """Size of a slot for `arrays`, with some room to grow."""
    need = aligned_bytes(arrays)
    return -(-(need + need // 8) // _GRAIN) * _GRAIN
