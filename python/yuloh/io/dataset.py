# SPDX-License-Identifier: Apache-2.0
"""Data sets: what a DataLoader reads samples from (map style, iterable, and ways to combine them).

First room of the data path: dataset -> sampler -> collate -> (worker process) -> DataLoader -> Tensor.
"""

from __future__ import annotations

import bisect
import itertools
import math
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from . import _runtime, collate, native


class Dataset:
    """A map-style data set: define ``__getitem__(idx)`` (one sample) and ``__len__()``."""

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError(
            f"'{type(self).__name__}.__getitem__' is not implemented; expected a method that returns sample "
            "idx."
        )

    def __len__(self) -> int:
        raise NotImplementedError(
            f"'{type(self).__name__}.__len__' is not implemented; expected the number of samples."
        )


class NoLengthError(TypeError, ValueError, RuntimeError):
    """len() of a stream. A TypeError, so that ``list(stream)`` works; the others are what Paddle raises."""


class IterableDataset(Dataset):
    """A stream of samples: define ``__iter__``. It has no length and no indices.

    With several workers every worker iterates its own copy: use ``get_worker_info()`` to split the stream.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(
            f"'{type(self).__name__}.__iter__' is not implemented; expected an iterator over samples."
        )

    def __getitem__(self, idx: int) -> Any:
        raise RuntimeError(
            f"IterableDataset: {type(self).__name__} cannot be indexed, got [{idx!r}]; "
            "expected iteration. Hint: use `for sample in dataset`."
        )

    def __len__(self) -> int:
        raise NoLengthError(f"IterableDataset: {type(self).__name__} has no length; expected iteration.")


class TensorDataset(Dataset):
    """Sample ``i`` is the tuple of row ``i`` of every tensor; all tensors share their first extent.

    Args:
        tensors: list or tuple of Tensors (or NumPy arrays), each of shape [N, ...].
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        if not isinstance(tensors, (list, tuple)) or not tensors:
            raise ValueError(
                f"TensorDataset: expected a non-empty list of Tensors, got {type(tensors).__name__}."
            )
        sizes = [int(t.shape[0]) if len(t.shape) else -1 for t in tensors]
        if len(set(sizes)) != 1 or sizes[0] < 0:
            raise ValueError(
                f"TensorDataset: first extents differ, got {sizes}; expected tensors of one common first "
                "extent."
            )
        self.tensors = list(tensors)
        self._arrays: list | None = None

    @property
    def _host_samples_(self) -> bool:
        """Whether the loader may take samples as NumPy arrays: no code of the user's looks at them."""
        return type(self).__getitem__ is TensorDataset.__getitem__

    def __getitem__(self, idx: int) -> tuple:
        if _runtime.in_worker():
            # The child of a fork reads the host copies taken by the parent: it runs no kernel.
            return tuple(_runtime.finish_tensor(a[idx]) for a in self._host_arrays())
        return tuple(t[idx] for t in self.tensors)

    def _fetch_batch_(self, indices: Sequence[int]) -> "list | None":
        """The batch that collating single samples would give, by one gather for each tensor."""
        order = np.asarray(indices)
        if not self._host_samples_ or order.dtype.kind not in "iu" or order.ndim != 1 or not order.size:
            return None
        if not 0 <= order.min() <= order.max() < len(self):
            return None
        if _runtime.in_worker():
            return [collate.gather(a, order) for a in self._host_arrays()]
        import yuloh

        if not all(_runtime.is_tensor(t) and t.stop_gradient for t in self.tensors):
            return None
        index = _runtime.tensor_from(order.astype(np.int64))
        return [yuloh.index_select(t, index, axis=0) for t in self.tensors]

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def _host_arrays(self) -> list:
        if self._arrays is None:
            self._arrays = [t if isinstance(t, np.ndarray) else t.numpy() for t in self.tensors]
        return self._arrays

    def _prepare_fork_(self) -> None:
        """Called in the parent just before workers start: read the tensors' newest values."""
        self._arrays = None
        self._host_arrays()


def _as_fields(sample: Any) -> list:
    return list(sample) if isinstance(sample, (list, tuple)) else [sample]


class ComposeDataset(Dataset):
    """Several map-style sets of one length, side by side: sample ``i`` joins the fields of all of them."""

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ComposeDataset: got no data sets; expected at least one.")
        for i, dataset in enumerate(self.datasets):
            if not isinstance(dataset, Dataset):
                raise TypeError(f"ComposeDataset: item {i} is {type(dataset).__name__}; expected a Dataset.")
            if isinstance(dataset, IterableDataset):
                raise TypeError(f"ComposeDataset: item {i} is an IterableDataset; expected map-style sets.")
        sizes = [len(d) for d in self.datasets]
        if len(set(sizes)) != 1:
            raise ValueError(f"ComposeDataset: lengths differ, got {sizes}; expected equal lengths.")

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, idx: int) -> tuple:
        return tuple(itertools.chain.from_iterable(_as_fields(d[idx]) for d in self.datasets))


class ChainDataset(IterableDataset):
    """Several iterable sets one after the other."""

    def __init__(self, datasets: Sequence[IterableDataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ChainDataset: got no data sets; expected at least one.")
        for i, dataset in enumerate(self.datasets):
            if not isinstance(dataset, IterableDataset):
                raise TypeError(
                    f"ChainDataset: item {i} is {type(dataset).__name__}; expected an IterableDataset."
                )

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class ConcatDataset(Dataset):
    """Several map-style sets one after the other, indexed as one; negative indices count from the end."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: got no data sets; expected at least one.")
        for i, dataset in enumerate(self.datasets):
            if isinstance(dataset, IterableDataset):
                raise TypeError(f"ConcatDataset: item {i} is an IterableDataset; expected map-style sets.")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @property
    def _host_samples_(self) -> bool:
        return type(self).__getitem__ is ConcatDataset.__getitem__ and all(
            getattr(d, "_host_samples_", False) for d in self.datasets
        )

    @staticmethod
    def cumsum(sequence: Sequence[Dataset]) -> list:
        """Running totals of the lengths of `sequence`."""
        return list(itertools.accumulate(len(d) for d in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        size = len(self)
        if not -size <= idx < size:
            kind = ValueError if idx < 0 else IndexError  # as in Paddle
            raise kind(f"ConcatDataset: index out of range, got {idx}; expected -{size} <= idx < {size}.")
        if idx < 0:
            idx += size
        part = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][idx - start]


class Subset(Dataset):
    """The samples of `dataset` at `indices`, in that order."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: int) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)

    def _native_source_(self) -> Any:
        hook = getattr(self.dataset, "_native_source_", None)
        if hook is None or type(self).__getitem__ is not Subset.__getitem__:
            return None
        return native.mapped(hook(), self.indices, len(self.dataset))

    @property
    def _host_samples_(self) -> bool:
        return type(self).__getitem__ is Subset.__getitem__ and getattr(self.dataset, "_host_samples_", False)


def random_split(dataset: Dataset, lengths: Sequence, generator: Any = None) -> list:
    """Cut `dataset` at random into non-overlapping Subsets.

    Args:
        lengths: sizes whose sum is ``len(dataset)``, or fractions whose sum is 1 (what rounding leaves over
            is dealt out one each, from the first).
        generator: an object with ``permutation(n)``, such as a NumPy ``Generator``; otherwise the order comes
            from ``paddle.randperm`` (so ``paddle.seed`` fixes it).
    """
    total = len(dataset)
    parts = list(lengths)
    if parts and math.isclose(sum(parts), 1) and sum(parts) <= 1:
        if any(not 0 <= p <= 1 for p in parts):
            raise ValueError(f"random_split: got fractions {parts}; expected each between 0 and 1.")
        parts = [int(math.floor(total * p)) for p in parts]
        for i in range(total - sum(parts)):
            parts[i % len(parts)] += 1
    if sum(parts) != total:
        raise ValueError(
            f"random_split: got lengths {list(lengths)} with sum {sum(parts)}; expected sum {total}, "
            "the length of the data set."
        )
    own = hasattr(generator, "permutation")
    order = generator.permutation(total).tolist() if own else _runtime.randperm(total)
    ends = list(itertools.accumulate(parts))
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, parts)]
