# SPDX-License-Identifier: Apache-2.0
"""Samplers: the order in which a DataLoader asks a data set for samples, one by one or in batches.

Second room of the data path. As in Paddle, ``shuffle=True`` draws from NumPy's global stream
(``numpy.random.seed`` fixes it), while SubsetRandomSampler draws from ``paddle.randperm`` (``paddle.seed``).
"""

from __future__ import annotations

import math
from typing import Any, Iterator, Sequence

import numpy as np

from . import _runtime
from .dataset import IterableDataset


class Sampler:
    """Base of samplers: define ``__iter__`` (indices) and ``__len__``."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        raise NotImplementedError(f"'{type(self).__name__}.__iter__' is not implemented.")


class SequenceSampler(Sampler):
    """0, 1, ..., len(data_source) - 1."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Indices in random order, with or without replacement.

    Args:
        replacement: draw with replacement.
        num_samples: how many to draw; None means ``len(data_source)``.
        generator: an iterator or generator function result that yields indices itself, in place of NumPy's
            stream.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement is {replacement!r}; expected a bool.")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"RandomSampler: num_samples is {self.num_samples!r}; expected an int > 0.")

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        if self.generator is not None:
            for _ in range(self.num_samples):
                try:
                    yield next(self.generator)
                except StopIteration:
                    return
        elif self.replacement:
            yield from np.random.choice(size, self.num_samples, replace=True).tolist()
        else:
            if self.num_samples > size:
                raise ValueError(
                    f"RandomSampler: num_samples is {self.num_samples}; expected at most {size}, the "
                    "length of data_source, when replacement is False."
                )
            yield from np.random.permutation(size)[: self.num_samples].tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order, without replacement."""

    def __init__(self, indices: Sequence[int]) -> None:
        if len(indices) == 0:
            raise ValueError("SubsetRandomSampler: got no indices; expected at least one.")
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        for i in _runtime.randperm(len(self.indices)):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` indices drawn with probability proportional to `weights` (which need not sum to 1)."""

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"WeightedRandomSampler: num_samples is {num_samples!r}; expected an int > 0.")
        if not isinstance(replacement, bool):
            raise ValueError(f"WeightedRandomSampler: replacement is {replacement!r}; expected a bool.")
        self.weights = np.asarray(weights.numpy() if hasattr(weights, "numpy") else weights, dtype="float64")
        if self.weights.ndim != 1 or self.weights.size == 0:
            raise ValueError(f"WeightedRandomSampler: weights have shape {self.weights.shape}; expected [N].")
        if not (self.weights >= 0).all() or not self.weights.sum() > 0:
            raise ValueError("WeightedRandomSampler: weights must be >= 0 with a positive sum.")
        if not replacement and num_samples > np.count_nonzero(self.weights):
            raise ValueError(
                f"WeightedRandomSampler: num_samples is {num_samples}; expected at most "
                f"{np.count_nonzero(self.weights)}, the count of positive weights, without replacement."
            )
        self.num_samples = num_samples
        self.replacement = replacement

    def __iter__(self) -> Iterator[int]:
        p = self.weights / self.weights.sum()
        return iter(np.random.choice(len(p), self.num_samples, self.replacement, p).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices from a data set or another sampler.

    Args:
        dataset, sampler: exactly one of the two is given.
        shuffle: random order (only with `dataset`).
        drop_last: leave out a last batch that is not full.
    """

    def __init__(
        self,
        dataset: Any = None,
        sampler: Any = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        if (dataset is None) == (sampler is None):
            raise ValueError("BatchSampler: expected exactly one of dataset and sampler.")
        if sampler is not None and shuffle:
            raise ValueError("BatchSampler: shuffle=True needs dataset; a sampler sets the order itself.")
        if isinstance(dataset, IterableDataset):
            raise ValueError("BatchSampler: an IterableDataset has no indices; expected a map-style Dataset.")
        if not isinstance(shuffle, bool):
            raise ValueError(f"BatchSampler: shuffle is {shuffle!r}; expected a bool.")
        if not isinstance(batch_size, (int, np.integer)) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"BatchSampler: batch_size is {batch_size!r}; expected an int > 0.")
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last is {drop_last!r}; expected a bool.")
        if sampler is None:
            sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        self.sampler = sampler
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list]:
        batch: list = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class DistributedBatchSampler(BatchSampler):
    """Each rank's share of a data set, in batches; all get equally many (the first ones are repeated).

    Call ``set_epoch(n)`` before every epoch so that all ranks shuffle alike and differently each time.

    Args:
        num_replicas, rank: number of ranks and own rank; None asks ``paddle.distributed``.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        if not isinstance(batch_size, (int, np.integer)) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"DistributedBatchSampler: batch_size is {batch_size!r}; expected an int > 0.")
        for name, value in (("shuffle", shuffle), ("drop_last", drop_last)):
            if not isinstance(value, bool):
                raise ValueError(f"DistributedBatchSampler: {name} is {value!r}; expected a bool.")
        self.dataset = dataset
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.nranks = _world("get_world_size", 1) if num_replicas is None else int(num_replicas)
        self.local_rank = _world("get_rank", 0) if rank is None else int(rank)
        if self.nranks <= 0 or not 0 <= self.local_rank < self.nranks:
            raise ValueError(
                f"DistributedBatchSampler: got rank {self.local_rank} of {self.nranks}; "
                "expected 0 <= rank < num_replicas."
            )
        self.epoch = 0
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def __iter__(self) -> Iterator[list]:
        indices = np.arange(len(self.dataset)).tolist()
        missing = self.total_size - len(indices)
        if missing:
            indices += (indices * (missing // len(indices) + 1))[:missing]
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(indices)
            self.epoch += 1
        mine = self._own_share(indices)
        for start in range(0, len(mine), self.batch_size):
            batch = mine[start : start + self.batch_size]
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def _own_share(self, indices: list) -> list:
        """Whole batches are dealt to the ranks in turn; what is left over is cut into equal pieces."""
        if self.nranks == 1:
            return indices
        step = self.batch_size * self.nranks
        tail = self.total_size % step
        body = len(indices) - tail
        mine: list = []
        for start in range(self.local_rank * self.batch_size, body, step):
            mine += indices[start : start + self.batch_size]
        piece = tail // self.nranks
        start = body + self.local_rank * piece
        return mine + indices[start : start + piece]

    def __len__(self) -> int:
        n = self.num_samples
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Set the seed of the shuffle of the next epoch."""
        self.epoch = epoch


def _world(name: str, default: int) -> int:
    try:
        import yuloh.distributed as distributed

        return int(getattr(distributed, name)())
    except (ImportError, AttributeError):
        return default
