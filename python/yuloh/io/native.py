# SPDX-License-Identifier: Apache-2.0
"""The loader's thread path: built-in image data sets with built-in transforms, made into batches by threads.

A data set offers itself through ``_native_source_()``. Batches, random draws and errors are those of the Python
path (io/worker): draws are made here, sample by sample in the same order and from the same streams, and go to
the threads as numbers; a file that the threads cannot read is read by Python. ``FLAGS_native_loader=0`` turns
the path off.

With ``num_workers=0`` the batch that is asked for is made inside ``next`` on the executor's threads; with W
workers, W threads work ahead by ``prefetch_factor * W`` batches (no process, no shared memory).
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import numpy as np

from . import _runtime, collate, worker

STAY, CROP, RESIZE, MIRROR, TURN_OVER = range(5)  # as MoveKind in src/data/loader.h
NO_MOVE = (STAY, 0, 0, 0, 0)


class Source:
    """What a data set with a native path answers with; subclasses lie beside the data sets.

    images: uint8 [N, C, H, W] in memory, or None for files. table: float32 [C, 256], a pixel's values, or None
    for bytes. moves: the transforms that move pixels. draw: (move, (height, width), random, numpy.random) ->
    five integers and the size after it, None where the long way raises.
    """

    images: Any = None
    table: Any = None
    moves: tuple = ()

    def draw(self, move: Any, size: tuple, rng: Any, np_rng: Any) -> "tuple | None":
        raise NotImplementedError

    def sizes(self, rows: list) -> list:
        """(height, width) of samples before their moves, (0, 0) where only Python can tell."""
        return [self.images.shape[2:]] * len(rows)

    def path(self, index: int) -> str:
        raise NotImplementedError

    def read(self, index: int) -> np.ndarray:
        """Pixels of a file, uint8 [height, width, 3], the long way."""
        raise NotImplementedError

    def fields(self, order: np.ndarray) -> list:
        """The arrays that follow the images in a batch."""
        raise NotImplementedError


class MappedSource(Source):
    """Another source behind a list of indices (a Subset)."""

    def __init__(self, inner: Source, indices: np.ndarray) -> None:
        self.inner = inner
        self.indices = indices
        self.images, self.table, self.moves = inner.images, inner.table, inner.moves
        self.draw = inner.draw  # type: ignore[method-assign]

    def rows(self, order: np.ndarray) -> np.ndarray:
        return self.indices[order]


def mapped(source: "Source | None", indices: Any, size: int) -> "MappedSource | None":
    """`source` at `indices`, None where they are not plain numbers within `size`."""
    numbers = np.asarray(indices)
    if source is None or numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not numbers.size:
        return None
    numbers = np.where(numbers < 0, numbers + size, numbers).astype(np.int64)
    if numbers.min() < 0 or numbers.max() >= size:
        return None
    if isinstance(source, MappedSource):
        source, numbers = source.inner, source.indices[numbers]
    return MappedSource(source, numbers)


def iterator_for(loader: Any) -> "NativeIterator | None":
    """One epoch of `loader` on threads, or None where the Python path is the right one."""
    hook = getattr(loader.dataset, "_native_source_", None)
    plain = loader.collate_fn is None and loader.batch_sampler is not None and not loader._iterable
    if hook is None or not plain or _runtime.in_worker() or not _runtime.native_flag():
        return None
    if loader.num_workers and (loader.worker_init_fn is not None or loader.timeout):
        return None
    source = hook()
    return None if source is None else NativeIterator(loader, source)


class NativeIterator:
    """One epoch over a loader whose batches are made by threads."""

    def __init__(self, loader: Any, source: Source) -> None:
        self._loader = loader
        self._map = source if isinstance(source, MappedSource) else None
        self._source = source.inner if isinstance(source, MappedSource) else source
        self._size = len(loader.dataset)
        self._count = 0
        self._streams: list = []
        if loader.num_workers:
            base = _runtime.draw_base_seed()
            if self._source.moves:
                seeds = [worker.seeds_of(base, i) for i in range(loader.num_workers)]
                self._streams = [(random.Random(own), np.random.RandomState(words)) for words, own in seeds]
        self._core = _runtime.core().BatchLoader(self._source.images, self._source.table, loader.num_workers)
        self._work = loader._work_items()
        self._queue: deque = deque()
        for _ in range(loader.prefetch_factor * loader.num_workers):
            self._ask()

    def __iter__(self) -> "NativeIterator":
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        _runtime.cut_point()
        if not self._loader.num_workers:
            self._ask()
        if not self._queue:
            self._core.stop()
            raise StopIteration
        finish, *rest = self._queue.popleft()
        try:
            return finish(*rest)
        finally:
            if self._loader.num_workers:
                self._ask()

    next = __next__

    def _ask(self) -> None:
        """Take the next batch's indices, draw for its samples and hand it to the threads."""
        indices = next(self._work, None)
        if indices is None:
            return
        number, self._count = self._count, self._count + 1
        order = np.asarray(indices)
        good = order.ndim == 1 and order.size and order.dtype.kind in "iu"
        if good and order.min() < 0:
            order = np.where(order < 0, order + self._size, order)
        if not good or not 0 <= order.min() <= order.max() < self._size:
            self._queue.append((self._long_way, indices))
            return
        order = order.astype(np.int64, copy=False)
        rows = order if self._map is None else self._map.rows(order)
        streams = self._streams[number % self._loader.num_workers] if self._streams else (random, np.random)
        try:
            self._submit(indices, order, rows, streams)
        except _Unreadable as e:
            self._queue.append((_raise, e.args[0], e.args[1]))

    def _submit(self, indices: Any, order: np.ndarray, rows: np.ndarray, streams: tuple) -> None:
        source, given, moves = self._source, {}, None
        if source.images is not None and not source.moves:
            height, width = source.images.shape[2:]
        else:
            drawn, sizes = [], []
            for position, size in enumerate(source.sizes(rows.tolist())):
                if not size[0]:
                    given[position] = self._read(order[position], rows[position])
                    size = given[position].shape[:2]
                for move in source.moves:
                    step = source.draw(move, size, *streams)
                    if step is None:
                        self._queue.append((self._long_way, indices))
                        return
                    drawn.append(step[0])
                    size = step[1]
                sizes.append(size)
            height, width = sizes[0]
            for position, size in enumerate(sizes):
                if size != sizes[0]:
                    channels = source.table.shape[0]
                    error = collate.shape_error((channels, *sizes[0]), (channels, *size), position)
                    self._queue.append((_raise, error, None))
                    return
            moves = np.array(drawn, np.int32).reshape(len(sizes), -1, 5)
        paths = None
        if source.images is None:
            paths = ["" if i in given else source.path(row) for i, row in enumerate(rows.tolist())]
        ticket = self._core.submit(rows, paths, moves, int(height), int(width))
        self._queue.append((self._finish, ticket, order, rows, given))

    def _finish(self, ticket: Any, order: np.ndarray, rows: np.ndarray, given: dict) -> list:
        for position in self._core.wait(ticket):
            try:
                pixels = given.get(position)
                pixels = self._read(order[position], rows[position]) if pixels is None else pixels
            except _Unreadable as e:
                _raise(*e.args)
            if not self._core.give(ticket, position, pixels):
                _raise(
                    OSError(f"{self._source.path(rows[position])} changed while it was read"), order[position]
                )
        return [self._core.take(ticket), *map(_runtime.tensor_from, self._source.fields(rows))]

    def _read(self, index: int, row: int) -> np.ndarray:
        try:
            return self._source.read(int(row))
        except Exception as e:
            raise _Unreadable(e, int(index)) from e

    def _long_way(self, indices: Any) -> Any:
        """The batch by the Python path: where its indices are unusual, or it is that path's business to
        raise."""
        from .dataloader import fetch_here

        return fetch_here(
            worker.MapFetcher(self._loader.dataset, True, collate.default_collate_fn, True), indices
        )


class _Unreadable(Exception):
    """(error, sample index): raised again when the batch is due."""


def _raise(error: BaseException, index: "int | None") -> None:
    if index is not None:
        from .workers import add_context

        error = add_context(error, f"[DataLoader: raised while reading sample {index}]")
    raise error
