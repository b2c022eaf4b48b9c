# SPDX-License-Identifier: Apache-2.0
"""The parent's side of data workers: start by fork, deal out work, gather batches in order, notice deaths.

Batch n goes to worker n modulo their number, so order and random draws do not depend on timing.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import signal
import socket
import struct
import time
import warnings
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable

from . import _runtime, collate, shared, worker
from .dataloader import DataLoader, warn_duplicates

_POLL_SECONDS = 0.5  # how often a silent worker's life is checked
_open_ends: "weakref.WeakSet" = weakref.WeakSet()  # of every living worker; new workers close them


@dataclass
class Spec:
    """What a worker is told by inheritance (nothing of it is pickled)."""

    dataset: Any
    auto_collate: bool
    collate_fn: Callable
    drop_last: bool
    num_workers: int
    use_shared_memory: bool
    worker_init_fn: Any
    affinity: Any
    parent_pid: int


class WorkerError(Exception):
    """Cause of an exception re-raised from a worker: holds the worker's traceback as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text


class _RawText(str):
    """Text that KeyError prints as it is, not quoted."""

    def __repr__(self) -> str:
        return str(self)


class _Worker:
    """One worker as the parent sees it."""

    def __init__(self, conn: Any) -> None:
        self.process: Any = None
        self.conn = conn
        self.slots: dict = {}
        self.freed: list = []
        self.inbox: deque = deque()  # messages read while something was being sent
        self._socket = socket.socket(fileno=os.dup(conn.fileno()))

    def close(self) -> None:
        self.conn.close()
        self._socket.close()

    def send(self, message: Any) -> None:
        """Send without ever waiting for a worker that itself waits for us to read: read in the meantime.

        A worker that has died is noticed when its batch is due.
        """
        data = pickle.dumps(message, protocol=5)
        rest = memoryview(struct.pack("!i", len(data)) + data)  # the frame that recv_bytes expects
        ready = select.poll()
        ready.register(self._socket, select.POLLIN | select.POLLOUT)
        try:
            while rest:
                try:
                    rest = rest[self._socket.send(rest, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]
                except BlockingIOError:
                    if any(events & select.POLLIN for _, events in ready.poll()):
                        self.inbox.append(self._read())
        except (BrokenPipeError, ConnectionResetError, EOFError):
            pass

    def ready(self, seconds: float) -> bool:
        """Whether a message is there within `seconds`."""
        return bool(self.inbox) or self.conn.poll(seconds)

    def receive(self) -> tuple:
        """The next message (EOFError when the worker is gone)."""
        return self.inbox.popleft() if self.inbox else self._read()

    def _read(self) -> tuple:
        """The next message that is not about memory."""
        while True:
            message = pickle.loads(self.conn.recv_bytes())
            if message[0] != worker.NEW_SLOT:
                return message
            self._map_slot(*message[1:])

    def _map_slot(self, number: int, size: int) -> None:
        from multiprocessing import reduction

        fd = reduction.recv_handle(self.conn)
        try:
            old = self.slots.get(number)
            self.slots[number] = shared.Slot(fd, size)
            if old is not None:
                old.close()
        finally:
            os.close(fd)


class Pool:
    """The worker processes of one loader."""

    def __init__(self, loader: DataLoader) -> None:
        import multiprocessing

        prepare_for_fork(loader.dataset)
        context = multiprocessing.get_context("fork")
        self.progress = mmap.mmap(-1, max(loader.num_workers * worker.PROGRESS.size, mmap.PAGESIZE))
        self.epoch = 0
        self.next_number = 0
        spec = Spec(
            dataset=loader.dataset,
            auto_collate=loader.auto_collate_batch,
            collate_fn=loader._collate(),
            drop_last=loader.drop_last,
            num_workers=loader.num_workers,
            use_shared_memory=loader.use_shared_memory,
            worker_init_fn=loader.worker_init_fn,
            affinity=_runtime.full_affinity(),
            parent_pid=os.getpid(),
        )
        self.workers: list[_Worker] = []
        self._finalizer = weakref.finalize(self, _stop_workers, self.workers, os.getpid())
        try:
            for i in range(loader.num_workers):
                self.workers.append(self._start(context, i, spec))
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, worker_id: int, spec: Spec) -> _Worker:
        mine, theirs = context.Pipe(duplex=True)
        one = _Worker(mine)
        _open_ends.add(one)
        process = context.Process(
            target=worker.worker_main,
            args=(worker_id, spec, theirs, list(_open_ends), self.progress),
            name=f"yuloh-data-{worker_id}",
            daemon=True,
        )
        with warnings.catch_warnings():
            # Python warns of fork beside threads; a worker runs no code that needs the parent's threads.
            warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
            process.start()
        theirs.close()
        one.process = process
        return one

    def begin_epoch(self) -> None:
        self.epoch += 1
        seed = _runtime.draw_base_seed()
        for one in self.workers:
            one.send(("epoch", seed))

    def close(self) -> None:
        self._finalizer()

    def position_of(self, worker_id: int) -> tuple:
        """(batch number, position within it) that the worker was at."""
        return worker.PROGRESS.unpack_from(self.progress, worker_id * worker.PROGRESS.size)


def _stop_workers(workers: list, owner_pid: int) -> None:
    """End the processes: closing the pipe asks, then signals; nothing is left behind."""
    if os.getpid() != owner_pid:
        return
    for one in workers:
        one.close()
    deadline = time.monotonic() + 1.0
    for one in workers:
        one.process.join(max(0.0, deadline - time.monotonic()))
    for send in ("terminate", "kill"):
        for one in workers:
            if one.process.is_alive():
                getattr(one.process, send)()
        for one in workers:
            one.process.join(1.0)
    for one in workers:
        for slot in one.slots.values():
            slot.close()
        one.slots.clear()
    workers.clear()


def prepare_for_fork(dataset: Any, depth: int = 0) -> None:
    """Let data sets that hold Tensors read them here: the child cannot."""
    hook = getattr(dataset, "_prepare_fork_", None)
    if hook is not None:
        hook()
    if depth < 8:
        inner = getattr(dataset, "dataset", None)
        parts = getattr(dataset, "datasets", None)
        for part in [inner, *(parts if isinstance(parts, list) else [])]:
            if part is not None and part is not dataset:
                prepare_for_fork(part, depth + 1)


class WorkerIterator:
    """One epoch over a loader with workers."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._pool = self._take_pool(loader)
        self._pool.begin_epoch()
        self._epoch = self._pool.epoch
        self._work = enumerate(loader._work_items(), self._pool.next_number)
        self._base = self._pool.next_number
        self._active = deque(range(loader.num_workers))  # whose turn is next; ended streams drop out
        self._asked: dict = {}  # batch number -> (worker id, indices), sent and not yet received
        self._order: list = []  # batch numbers in the order in which they are handed out
        self._gave_data: set = set()
        self._warned = False
        for _ in range(loader.prefetch_factor * loader.num_workers):
            self._ask()

    @staticmethod
    def _take_pool(loader: DataLoader) -> Pool:
        if not loader._persistent_workers:
            return Pool(loader)
        pool = loader._pool
        if pool is None or not pool.workers or pool.workers[0].process._parent_pid != os.getpid():
            pool = loader._pool = Pool(loader)
        return pool

    def __iter__(self) -> "WorkerIterator":
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def _ask(self) -> None:
        if not self._active:
            return
        item = next(self._work, None)
        if item is None:
            return
        number, indices = item
        self._pool.next_number = number + 1
        worker_id = self._active[0]
        self._active.rotate(-1)
        one = self._pool.workers[worker_id]
        freed, one.freed = one.freed, []
        one.send((number, indices, freed))
        self._asked[number] = (worker_id, indices)
        self._order.append(number)

    def __next__(self) -> Any:
        if self._epoch != self._pool.epoch:
            raise StopIteration  # a newer iterator of the same persistent loader took over
        _runtime.cut_point()
        while self._order:
            number = self._order[0]
            message = self._receive(number)
            worker_id, _ = self._asked.pop(number)
            self._order.pop(0)
            if message[0] == worker.END:
                if worker_id in self._active:
                    self._active.remove(worker_id)
                self._ask()
                continue
            if message[0] == worker.ERROR:
                self._ask()
                raise _rebuild(message, worker_id, number - self._base)
            batch = self._unpack(message, self._pool.workers[worker_id])
            self._note_stream(worker_id, message[2])
            self._ask()
            return batch
        if not self._loader._persistent_workers:
            self._pool.close()
        raise StopIteration

    next = __next__

    def _receive(self, number: int) -> tuple:
        """Message of batch `number`; the ones of an epoch left early are thrown away on the way."""
        worker_id = self._asked[number][0]
        one = self._pool.workers[worker_id]
        timeout = self._loader.timeout
        deadline = time.monotonic() + timeout if timeout else None
        while True:
            try:
                while not one.ready(_POLL_SECONDS if deadline is None else min(_POLL_SECONDS, timeout)):
                    self._check_alive()
                    if deadline is not None and time.monotonic() > deadline:
                        self._timed_out(worker_id)
                message = one.receive()
            except (EOFError, ConnectionResetError, BrokenPipeError, pickle.UnpicklingError):
                one.process.join(1.0)
                self._died(worker_id)
            if message[1] == number:
                return message
            if message[0] == worker.BATCH and message[3] >= 0:
                one.freed.append(message[3])

    def _unpack(self, message: tuple, one: _Worker) -> Any:
        _, _, _, slot_number, skeleton, leaves = message
        if slot_number < 0:
            return collate.put_together(skeleton, [_runtime.tensor_from(a) for a in leaves])
        slot = one.slots[slot_number]
        tensors = [_runtime.tensor_from(slot.array(shape, dtype, at)) for dtype, shape, at in leaves]
        one.freed.append(slot_number)  # to_tensor copies, so the worker may write here again
        return collate.put_together(skeleton, tensors)

    def _note_stream(self, worker_id: int, info_asked: bool) -> None:
        if self._warned or not self._loader._iterable:
            return
        if info_asked:
            self._warned = True
            return
        self._gave_data.add(worker_id)
        if len(self._gave_data) > 1:
            self._warned = True
            warn_duplicates(self._loader.num_workers)

    def _check_alive(self) -> None:
        for i, one in enumerate(self._pool.workers):
            if not one.process.is_alive() and one.process.exitcode != 0:
                self._died(i)

    def _where(self, worker_id: int) -> str:
        number, position = self._pool.position_of(worker_id)
        indices = self._asked.get(number, (0, None))[1]
        if indices is None:
            return "between batches"
        number -= self._base
        if self._loader._iterable:
            return f"at sample {max(position, 0)} of batch {number} of its stream"
        if not self._loader.auto_collate_batch:
            return f"at sample {indices}"
        if position < 0:
            return f"at batch {number}, samples {worker._brief(indices)}"
        return f"at sample {indices[position]} (position {position} of batch {number})"

    def _died(self, worker_id: int) -> None:
        process = self._pool.workers[worker_id].process
        code, pid, where = process.exitcode, process.pid, self._where(worker_id)
        if code is not None and code < 0:
            try:
                how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
            except ValueError:
                how = f"was killed by signal {-code}"
        else:
            how = f"ended unexpectedly with exit code {code}"
        hint = "Hint: run with num_workers=0 to see it in this process."
        if code == -signal.SIGKILL:
            hint = "Hint: SIGKILL often means out of memory; use fewer workers or a smaller batch."
        self._pool.close()
        raise RuntimeError(f"DataLoader: worker {worker_id} (pid {pid}) {how} {where}. {hint}")

    def _timed_out(self, worker_id: int) -> None:
        where, pid = self._where(worker_id), self._pool.workers[worker_id].process.pid
        self._pool.close()
        raise RuntimeError(
            f"DataLoader: no batch from worker {worker_id} (pid {pid}) within {self._loader.timeout} s; it "
            "was "
            f"{where}. Hint: raise timeout, or look at what the data set does there."
        )


def _rebuild(message: tuple, worker_id: int, batch: int) -> BaseException:
    """The worker's exception as one of this process: same type, its text, the sample and the traceback."""
    _, _, data, name, text, where = message
    context = f"[DataLoader: raised in worker {worker_id} while reading {where}, batch {batch}]"
    error: BaseException | None = None
    if data is not None:
        try:
            error = pickle.loads(data)
        except Exception:
            error = None
    cause = WorkerError(f"\n--- traceback of data worker {worker_id} ---\n{text}")
    if error is None:
        error = RuntimeError(f"{name} in a data worker: {text.strip().splitlines()[-1]}\n{context}\n{text}")
    elif isinstance(error, StopIteration):
        error = RuntimeError(f"StopIteration out of the data set's code.\n{context}\n{text}")
    else:
        add_context(error, f"{context}\n{text}")
    error.__cause__ = cause
    return error


def add_context(error: BaseException, text: str) -> BaseException:
    """`error` with `text` as further lines of its message, as a note where its arguments are more than a text."""
    if _is_plain_text(error):
        error.args = (_RawText(f"{error.args[0]}\n{text}"),)
    elif hasattr(error, "add_note"):
        error.add_note(text)
    return error


def _is_plain_text(error: BaseException) -> bool:
    args = error.args
    return len(args) == 1 and isinstance(args[0], str) and str(error) in (args[0], repr(args[0]))
