# SPDX-License-Identifier: Apache-2.0
"""The data worker: the loop that a forked child runs, and how samples are fetched (also in the main process).

The child reads and collates samples to NumPy and sends batches back. It never runs a kernel of the core.
"""

from __future__ import annotations

import itertools
import os
import pickle
import random
import struct
import sys
from typing import Any, Callable

import numpy as np

from . import _runtime, collate, shared
from .dataset import IterableDataset

# Message kinds, worker to parent.
BATCH, ERROR, END, NEW_SLOT = range(4)
INLINE_BYTES = 8192  # batches up to this size travel inside the message

PROGRESS = struct.Struct("<qq")  # (batch number, position of the sample within it); -1 while idle


ENDED = object()  # what a fetcher returns when its stream has no more batches


class FetchError(Exception):
    """Wraps an exception of a data set's code together with the sample that it belongs to."""

    def __init__(self, cause: BaseException, sample: Any) -> None:
        super().__init__(cause, sample)
        self.cause = cause
        self.sample = sample


class MapFetcher:
    """Fetches batches of a map-style data set by lists of indices."""

    def __init__(self, dataset: Any, auto_collate: bool, collate_fn: Callable, whole_batch: bool) -> None:
        _runtime.keep_freed_memory()
        self.dataset = dataset
        self.auto_collate = auto_collate
        self.collate_fn = collate_fn
        # A built-in data set may read and collate a whole batch at once, with the result of the long way.
        self.whole_batch = getattr(dataset, "_fetch_batch_", None) if whole_batch else None
        self.space: "collate.TensorSpace | None" = None  # our own collate puts batches there
        # Samples of built-in data sets that our own collate takes are seen by no code of the user's.
        self.hidden = whole_batch and getattr(dataset, "_host_samples_", False)

    def fetch(self, indices: Any, note: Callable[[int], None]) -> Any:
        if self.hidden:
            with _runtime.host_samples():
                return self._fetch(indices, note)
        return self._fetch(indices, note)

    def _fetch(self, indices: Any, note: Callable[[int], None]) -> Any:
        if not self.auto_collate:
            return self.collate_fn(self._one(indices, 0, note))
        if self.whole_batch is not None:
            batch = self.whole_batch(indices)
            if batch is not None:
                return batch
        samples = [self._one(index, i, note) for i, index in enumerate(indices)]
        try:
            return self.collate(samples)
        except Exception as e:
            raise FetchError(e, f"collate of samples {_brief(indices)}") from e

    def collate(self, samples: list) -> Any:
        if self.space is None:
            return self.collate_fn(samples)
        outer, collate.new_array = collate.new_array, self.space.new_array
        try:
            return self.collate_fn(samples)
        finally:
            collate.new_array = outer

    def _one(self, index: Any, position: int, note: Callable[[int], None]) -> Any:
        note(position)
        try:
            return self.dataset[index]
        except Exception as e:
            raise FetchError(e, f"sample {index}") from e


class IterableFetcher:
    """Fetches batches of a stream; ENDED at its end."""

    def __init__(self, dataset: Any, auto_collate: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.iterator = iter(dataset)
        self.auto_collate = auto_collate
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.count = 0

    def fetch(self, indices: Any, note: Callable[[int], None]) -> Any:
        samples = []
        try:
            for sample in itertools.islice(self.iterator, len(indices) if self.auto_collate else 1):
                note(len(samples))
                samples.append(sample)
                self.count += 1
        except Exception as e:
            raise FetchError(e, f"sample {self.count} of the stream") from e
        if not samples or (self.auto_collate and self.drop_last and len(samples) < len(indices)):
            return ENDED
        try:
            return self.collate_fn(samples if self.auto_collate else samples[0])
        except Exception as e:
            raise FetchError(e, f"collate before sample {self.count} of the stream") from e


def seeds_of(base_seed: int, worker_id: int) -> tuple:
    """(words for NumPy's stream, seed of ``random`` and the core's stream) of a worker in one epoch."""
    words = np.random.SeedSequence([base_seed & 0xFFFFFFFF, base_seed >> 32, worker_id]).generate_state(8, np.uint32)
    return words[:4], (int(words[4]) << 31) ^ int(words[5])


def make_fetcher(dataset: Any, auto_collate: bool, collate_fn: Callable, drop_last: bool) -> Any:
    if isinstance(dataset, IterableDataset):
        return IterableFetcher(dataset, auto_collate, collate_fn, drop_last)
    return MapFetcher(dataset, auto_collate, collate_fn, collate_fn is collate.default_collate_fn)


def _brief(indices: Any) -> str:
    items = list(indices)
    return str(items) if len(items) <= 8 else f"[{', '.join(map(str, items[:8]))}, ...]"


class Sender:
    """Worker's end of the way to the parent: slots of shared memory, or bytes in the message."""

    def __init__(self, conn: Any, use_shared_memory: bool) -> None:
        self.conn = conn
        self.shared = use_shared_memory
        self.slots: dict = {}
        self.free: list = []
        self.current = -1

    def begin(self, freed: list) -> None:
        """A new batch starts: `freed` slots came back; collate writes into the next free one."""
        self.free.extend(freed)
        self.current = self.free.pop() if self.free and self.shared else -1
        if self.current >= 0:
            slot = self.slots[self.current]
            slot.used = 0
            collate.new_array = slot.new_array
        else:
            collate.new_array = np.empty

    def send_batch(self, number: int, batch: Any, asked: bool) -> None:
        arrays: list = []
        skeleton = collate.take_apart(batch, arrays)
        arrays = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
        collate.new_array = np.empty
        if not self.shared or sum(a.nbytes for a in arrays) <= INLINE_BYTES:
            if self.current >= 0:
                self.free.append(self.current)
            plain = [np.array(a, copy=True, subok=False) for a in arrays]
            self._send((BATCH, number, asked, -1, skeleton, plain))
            return
        metas = self._place(arrays)
        self._send((BATCH, number, asked, self.current, skeleton, metas))

    def _place(self, arrays: list) -> list:
        """(dtype, shape, offset) of every array, after moving what does not lie in the slot yet."""
        slot = self.slots.get(self.current)
        offsets = [slot.offset_of(a) if slot else -1 for a in arrays]
        missing = shared.aligned_bytes([a for a, offset in zip(arrays, offsets) if offset < 0])
        if slot is None or slot.used + missing > slot.size:
            slot = self._new_slot(arrays)
            offsets = [-1] * len(arrays)
        metas = []
        for array, offset in zip(arrays, offsets):
            if offset < 0 and array.size:
                place = slot.new_array(array.shape, array.dtype)
                place[...] = array
                offset = slot.offset_of(place)
            metas.append((array.dtype.str, array.shape, offset))
        return metas

    def _new_slot(self, arrays: list) -> shared.Slot:
        from multiprocessing import reduction

        size = shared.size_for(arrays)
        fd = shared.anonymous_file(size)
        try:
            if self.current < 0:
                self.current = len(self.slots)
            slot = self.slots[self.current] = shared.Slot(fd, size)
            self._send((NEW_SLOT, self.current, size))
            reduction.send_handle(self.conn, fd, os.getppid())
        finally:
            os.close(fd)
        return slot

    def _send(self, message: tuple) -> None:
        self.conn.send_bytes(pickle.dumps(message, protocol=5))

    def send_error(self, number: int, error: BaseException, where: str) -> None:
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._send((ERROR, number, *_portable(error), text, where))

    def send_end(self, number: int) -> None:
        self._send((END, number))


def _portable(error: BaseException) -> tuple:
    """(pickled exception or None, type name): an exception whose class cannot travel goes as its
    nearest base.
    """
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
        return data, name
    except Exception:
        pass
    for base in type(error).__mro__[1:]:
        if base in (Exception, BaseException, object):
            break
        try:
            data = pickle.dumps(base(str(error)))
            pickle.loads(data)
            return data, name
        except Exception:
            continue
    return None, name


def worker_main(worker_id: int, spec: Any, conn: Any, foreign: list, progress: Any) -> None:
    """Body of worker `worker_id`. `foreign`: the parent's ends of pipes, which must not stay open here."""
    import signal

    for other in foreign:
        try:
            other.close()
        except OSError:
            pass
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if spec.affinity:
        try:
            os.sched_setaffinity(0, spec.affinity)
        except OSError:
            pass
    sender = Sender(conn, spec.use_shared_memory)
    try:
        _Loop(worker_id, spec, conn, sender, progress).run()
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass  # the parent has gone or is done with us
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            pass


class _Loop:
    def __init__(self, worker_id: int, spec: Any, conn: Any, sender: Sender, progress: Any) -> None:
        self.id = worker_id
        self.spec = spec
        self.conn = conn
        self.sender = sender
        self.progress = progress
        self.offset = worker_id * PROGRESS.size
        self.number = -1
        self.fetcher: Any = None
        self.broken: tuple | None = None  # error of the set-up, reported at the first batch
        self.first_epoch = True

    def run(self) -> None:
        parent = self.spec.parent_pid
        while True:
            while not self.conn.poll(5.0):
                if os.getppid() != parent:
                    return
            message = pickle.loads(self.conn.recv_bytes())
            if message is None:
                return
            if message[0] == "epoch":
                self.begin_epoch(message[1])
            else:
                self.serve(*message)

    def begin_epoch(self, base_seed: int) -> None:
        spec = self.spec
        words, own_seed = seeds_of(base_seed, self.id)
        np.random.seed(words)
        random.seed(own_seed)
        _runtime.seed_core(own_seed)
        _runtime.enter_worker(_runtime.WorkerInfo(self.id, spec.num_workers, spec.dataset, own_seed))
        self.broken = None
        self.fetcher = None
        try:
            if self.first_epoch and spec.worker_init_fn is not None:
                spec.worker_init_fn(self.id)
            self.first_epoch = False
            self.fetcher = make_fetcher(spec.dataset, spec.auto_collate, spec.collate_fn, spec.drop_last)
        except Exception as e:
            self.broken = (e, "start of the worker")

    def note(self, position: int) -> None:
        PROGRESS.pack_into(self.progress, self.offset, self.number, position)

    def serve(self, number: int, indices: Any, freed: list) -> None:
        self.number = number
        self.note(-1)
        self.sender.begin(freed)
        try:
            if self.broken is not None:
                error, where = self.broken
                raise FetchError(error, where)
            batch = self.fetcher.fetch(indices, self.note)
        except FetchError as e:
            self.sender.send_error(number, e.cause, e.sample)
            return
        except Exception as e:
            self.sender.send_error(number, e, f"batch {number}")
            return
        finally:
            self.number = -1
            self.note(-1)
        if batch is ENDED:
            self.sender.send_end(number)
            return
        try:
            self.sender.send_batch(number, batch, _runtime.info_was_asked())
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as e:  # for example a batch that cannot be pickled
            self.sender.send_error(number, e, f"batch {number}")
