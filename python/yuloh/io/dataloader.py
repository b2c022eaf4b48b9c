# SPDX-License-Identifier: Apache-2.0
"""DataLoader: batches of Tensors from a data set, read in this process or by worker processes.

Last room of the data path. Batches come in the sampler's order whatever the number of workers.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, Iterator

from . import _runtime, collate, native, worker
from .dataset import IterableDataset, NoLengthError
from .sampler import BatchSampler


class DataLoader:
    """Iterate over batches of `dataset`.

    Args:
        dataset: a Dataset (or anything with ``[]`` and ``len``) or an IterableDataset.
        feed_list, places, use_buffer_reader, reader_buffer_size: taken for Paddle's sake; Tensors live where
            the plan that reads them runs.
        return_list: True gives lists (or what collate_fn returns).
        batch_sampler: yields lists of indices; excludes batch_size, shuffle and drop_last.
        batch_size: samples a batch; None gives single samples, not collated.
        collate_fn: list of samples -> batch; runs in the worker.
        num_workers: worker processes; 0 reads in this process.
        prefetch_factor: batches in flight for each worker.
        use_shared_memory: batches travel in nameless shared memory; False sends them through a pipe.
        timeout: seconds to wait for one batch, 0 for ever.
        worker_init_fn: called with the worker's id, in the worker, before its first sample.
        persistent_workers: keep the workers between epochs.

    Raises:
        Exceptions of the data set's own code keep their type; those of workers carry the worker's
        traceback and
        the sample's index. RuntimeError: a worker was killed or timed out.
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Any = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        reader_buffer_size: int = 2,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        _check_at_least("num_workers", num_workers, 0)
        _check_at_least("prefetch_factor", prefetch_factor, 1)
        if timeout < 0:
            raise ValueError(f"DataLoader: timeout is {timeout}; expected seconds >= 0.")
        if batch_size is not None:
            _check_at_least("batch_size", batch_size, 1)
        if batch_sampler is not None and (batch_size != 1 or shuffle or drop_last):
            raise ValueError(
                "DataLoader: batch_size, shuffle and drop_last were given together with batch_sampler; "
                "expected batch_sampler alone, it decides all three."
            )
        self.dataset = dataset
        self.feed_list = feed_list
        self.places = places
        self.return_list = return_list
        self.collate_fn = collate_fn
        self.num_workers = num_workers
        self.use_buffer_reader = use_buffer_reader
        self.reader_buffer_size = reader_buffer_size
        self.prefetch_factor = prefetch_factor
        self.use_shared_memory = use_shared_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.drop_last = drop_last
        self.batch_size = None if batch_sampler is not None else batch_size
        self.batch_sampler = self._make_sampler(batch_sampler, batch_size, shuffle, drop_last)
        self.auto_collate_batch = self.batch_sampler is not None or (
            self._iterable and batch_size is not None
        )
        self._persistent_workers = persistent_workers and num_workers > 0
        self._pool: Any = None

    def _make_sampler(
        self, batch_sampler: Any, batch_size: int | None, shuffle: bool, drop_last: bool
    ) -> Any:
        self._iterable = isinstance(self.dataset, IterableDataset)
        if self._iterable:
            if shuffle:
                raise ValueError("DataLoader: an IterableDataset sets its own order, got shuffle=True.")
            if batch_sampler is not None:
                raise ValueError("DataLoader: an IterableDataset has no indices, got a batch_sampler.")
            return None
        self._single_order = None
        if batch_sampler is not None or batch_size is None:
            if batch_size is None and shuffle:
                from .sampler import RandomSampler

                self._single_order = RandomSampler(self.dataset)
            return batch_sampler
        return BatchSampler(dataset=self.dataset, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last)

    def __len__(self) -> int:
        if self._iterable:
            raise NoLengthError("DataLoader: an IterableDataset has no length.")
        return len(self.batch_sampler) if self.batch_sampler is not None else len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        native_iterator = native.iterator_for(self)
        if native_iterator is not None:
            return native_iterator
        if self.num_workers == 0:
            return _SingleIterator(self)
        from .workers import WorkerIterator

        return WorkerIterator(self)

    def __call__(self) -> Iterator[Any]:
        return self.__iter__()

    def _work_items(self) -> Iterator[Any]:
        """What is asked for, batch by batch: lists of indices, single indices, or a stream's batch sizes."""
        if self._iterable:
            size = range(self.batch_size or 1)
            while True:
                yield size
        elif self.batch_sampler is not None:
            yield from self.batch_sampler
        elif self._single_order is not None:
            yield from self._single_order
        else:
            yield from range(len(self.dataset))

    def _collate(self) -> Callable:
        if self.collate_fn is not None:
            return self.collate_fn
        return collate.default_collate_fn if self.auto_collate_batch else collate.default_convert_fn

    @staticmethod
    def from_generator(*args: Any, **kwargs: Any) -> None:
        """Paddle's static-graph reader; not provided."""
        raise NotImplementedError(
            "DataLoader.from_generator: it is not provided; expected DataLoader(dataset, ...). "
            "Hint: put the generator in an IterableDataset."
        )


def _check_at_least(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise ValueError(f"DataLoader: {name} is {value!r}; expected an int >= {least}.")


def _no_note(position: int) -> None:
    return None


class _SingleIterator:
    """Reads in this process: each batch is stacked on the host and becomes Tensors once."""

    def __init__(self, loader: DataLoader) -> None:
        collate_fn = loader._collate()
        self._work = loader._work_items()
        self._fetcher = worker.make_fetcher(
            loader.dataset, loader.auto_collate_batch, collate_fn, loader.drop_last
        )

    def __iter__(self) -> "_SingleIterator":
        return self

    def __next__(self) -> Any:
        _runtime.cut_point()
        indices = next(self._work)
        batch = fetch_here(self._fetcher, indices)
        if batch is worker.ENDED:
            self._work = iter(())
            raise StopIteration
        return batch

    next = __next__


def fetch_here(fetcher: Any, indices: Any) -> Any:
    """One batch read in this process, as the user gets it."""
    space = collate.TensorSpace()
    if fetcher.collate_fn is collate.default_collate_fn:
        fetcher.space = space
    try:
        batch = fetcher.fetch(indices, _no_note)
    except worker.FetchError as e:
        raise _with_note(e.cause, f"DataLoader: raised while reading {e.sample}.") from e.cause.__cause__
    return batch if batch is worker.ENDED else collate.to_tensors(batch, space)


def _with_note(error: BaseException, note: str) -> BaseException:
    if isinstance(error, StopIteration):
        # Raised as itself it would silently end the user's loop.
        return RuntimeError(f"StopIteration out of the data set's code. {note}")
    if hasattr(error, "add_note"):
        error.add_note(note)
    return error


def warn_duplicates(num_workers: int) -> None:
    warnings.warn(
        f"DataLoader: each of the {num_workers} workers reads the whole IterableDataset, so every sample "
        "comes "
        f"{num_workers} times; nothing asked get_worker_info() to split it. Hint: in __iter__, use "
        "paddle.io.get_worker_info() to take every num_workers-th sample.",
        UserWarning,
        stacklevel=4,
    )
