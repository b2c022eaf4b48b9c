# SPDX-License-Identifier: Apache-2.0
"""Collate: a list of samples becomes one batch; and batches are taken apart for the way between processes.

Third room of the data path. All work here is on NumPy arrays; Tensors are made last, in the main process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any, Callable

import numpy as np

from . import _runtime

class TensorSpace:
    """Arrays that default_collate_fn stacks large batches into: they lie in the memory of the Tensors to be."""

    LEAST = 1 << 16  # bytes; below, a copy costs less

    def __init__(self) -> None:
        self._made: dict = {}

    def new_array(self, shape: tuple, dtype: Any) -> np.ndarray:
        dtype = np.dtype(dtype)
        if int(np.prod(shape, dtype=np.int64)) * dtype.itemsize < self.LEAST or dtype.name not in _SHARED:
            return np.empty(shape, dtype)
        batch = _runtime.core().HostBatch(list(shape), dtype)
        array = batch.bytes().view(dtype).reshape(shape)
        self._made[id(array)] = array, batch
        return array

    def tensor(self, array: np.ndarray) -> Any:
        """The Tensor whose memory `array` is, or one with a copy."""
        known = self._made.pop(id(array), None)
        if known is None or known[0] is not array:
            return _runtime.tensor_from(array if type(array) is np.ndarray else array.view(np.ndarray))
        return known[1].tensor()


_SHARED = ("float32", "float64", "float16", "uint8", "int8", "int16", "int32", "int64", "bool")

# A worker points this at its shared memory, so that a batch is stacked straight into it.
new_array: Callable = np.empty


def default_collate_fn(batch: Sequence) -> Any:
    """Stack samples field by field.

    Arrays of shape [...] become [N, ...]; Python and NumPy numbers become an array [N]; dicts and
    lists/tuples
    are collated per field (a tuple gives a list); strings stay lists; Tensors are stacked to a Tensor.

    Raises:
        ValueError: samples whose shapes or field counts differ. TypeError: a sample type with no rule.
    """
    sample = batch[0]
    if isinstance(sample, np.ndarray):
        return _stack(batch)
    if isinstance(sample, (Number, np.generic)):
        return np.array(batch)
    if isinstance(sample, (str, bytes)):
        return list(batch)
    if isinstance(sample, Mapping):
        return {key: default_collate_fn([s[key] for s in batch]) for key in sample}
    if isinstance(sample, Sequence):
        counts = {len(s) for s in batch}
        if len(counts) > 1:
            raise ValueError(
                f"default_collate_fn: samples have different numbers of fields, got {sorted(counts)}; "
                "expected one number. Hint: give DataLoader a collate_fn."
            )
        return [default_collate_fn(field) for field in zip(*batch)]
    if _runtime.is_tensor(sample):
        return _stack_tensors(batch)
    raise TypeError(
        f"default_collate_fn: got a sample of type {type(sample).__name__}; expected Tensor, numpy.ndarray, "
        "number, string, dict, list or tuple. Hint: give DataLoader a collate_fn."
    )


def default_convert_fn(sample: Any) -> Any:
    """A single sample as it is (``batch_size=None``): arrays become Tensors later, the rest stays."""
    return sample


def shape_error(first: tuple, got: Any, position: int) -> ValueError:
    return ValueError(
        f"default_collate_fn: samples differ in shape, got {first} for the first and {got} for "
        f"sample {position} of the batch; expected equal shapes. Hint: resize or pad, or give DataLoader "
        "a collate_fn."
    )


def _stack(batch: Sequence) -> np.ndarray:
    first = batch[0]
    dtype = first.dtype
    for i, item in enumerate(batch):
        if not isinstance(item, np.ndarray) or item.shape != first.shape:
            got = item.shape if isinstance(item, np.ndarray) else type(item).__name__
            raise shape_error(first.shape, got, i)
        if item.dtype != dtype:
            dtype = np.result_type(dtype, item.dtype)
    out = new_array((len(batch), *first.shape), dtype)
    for i, item in enumerate(batch):
        out[i] = item
    return out


def _stack_tensors(batch: Sequence) -> Any:
    if _runtime.in_worker():
        return _stack([np.asarray(t.numpy()) for t in batch])
    stacked = _runtime.core().stack_values(batch)
    if stacked is not None:
        return stacked
    import yuloh

    return yuloh.stack(list(batch), axis=0)


def gather(array: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows of `array` as a new batch."""
    out = new_array((len(order), *array.shape[1:]), array.dtype)
    return np.take(array, order, axis=0, out=out)


class ArrayLeaf:
    """Place of array number `index` in a batch that was taken apart."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> tuple:
        return ArrayLeaf, (self.index,)


def take_apart(batch: Any, arrays: list) -> Any:
    """`batch` with every numeric array (or Tensor) replaced by an ArrayLeaf and appended to `arrays`."""
    if isinstance(batch, np.ndarray):
        if batch.dtype.kind not in "biufc":
            return batch
        arrays.append(batch)
        return ArrayLeaf(len(arrays) - 1)
    if isinstance(batch, (str, bytes, Number, np.generic)) or batch is None:
        return batch
    if isinstance(batch, Mapping):
        return {key: take_apart(value, arrays) for key, value in batch.items()}
    if isinstance(batch, Sequence):
        return [take_apart(value, arrays) for value in batch]
    if _runtime.is_tensor(batch):
        arrays.append(np.asarray(batch.numpy()))
        return ArrayLeaf(len(arrays) - 1)
    return batch


def put_together(skeleton: Any, tensors: Sequence) -> Any:
    """Inverse of take_apart."""
    if isinstance(skeleton, ArrayLeaf):
        return tensors[skeleton.index]
    if isinstance(skeleton, dict):
        return {key: put_together(value, tensors) for key, value in skeleton.items()}
    if isinstance(skeleton, list):
        return [put_together(value, tensors) for value in skeleton]
    return skeleton


def to_tensors(batch: Any, space: "TensorSpace | None" = None) -> Any:
    """`batch` as the user gets it: numeric arrays become Tensors, tuples become lists, the rest stays."""
    if isinstance(batch, np.ndarray):
        if batch.dtype.kind not in "biufc":
            return batch
        return (space or TensorSpace()).tensor(batch)
    if isinstance(batch, (str, bytes, Number, np.generic)) or batch is None:
        return batch
    if isinstance(batch, Mapping):
        return {key: to_tensors(value, space) for key, value in batch.items()}
    if isinstance(batch, Sequence):
        return [to_tensors(value, space) for value in batch]
    return batch
