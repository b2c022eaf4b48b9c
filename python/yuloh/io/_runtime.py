# SPDX-License-Identifier: Apache-2.0
"""What the data path knows about the process it runs in: main process or data worker, seeds, tensors.

A worker is a forked child. Our own code never runs a kernel of the core there: samples stay NumPy arrays and
become Tensors in the parent, once per batch. (Code of the user's may use Tensors; it runs on one thread.)
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

_worker_info: "WorkerInfo | None" = None
_info_asked = False
_host_depth = 0  # > 0 while the loader itself reads samples: built-in transforms then stay on NumPy


class WorkerInfo:
    """What a worker knows about itself: ``id``, ``num_workers``, ``dataset``, ``seed``. Read-only."""

    __slots__ = ("id", "num_workers", "dataset", "seed")

    def __init__(self, id: int, num_workers: int, dataset: Any, seed: int) -> None:
        for name, value in (("id", id), ("num_workers", num_workers), ("dataset", dataset), ("seed", seed)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"WorkerInfo: got an assignment to {name}; expected no change, it is read-only.")

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed})"


def get_worker_info() -> "WorkerInfo | None":
    """The WorkerInfo of the data worker that runs this, or None in the main process."""
    global _info_asked
    _info_asked = True
    return _worker_info


def info_was_asked() -> bool:
    return _info_asked


def enter_worker(info: WorkerInfo) -> None:
    """Called once in a new worker, and by persistent ones at every epoch (new seed)."""
    global _worker_info, _info_asked
    _worker_info = info
    _info_asked = False


def in_worker() -> bool:
    return _worker_info is not None


def host_wanted() -> bool:
    """Whether built-in code shall hand out HostTensors here."""
    return _host_depth > 0


class host_samples:
    """Context in which built-in data sets and transforms hand out HostTensors in place of Tensors."""

    def __enter__(self) -> None:
        global _host_depth
        _host_depth += 1

    def __exit__(self, *exc: Any) -> None:
        global _host_depth
        _host_depth -= 1


class visible_samples:
    """Context in which code of the user's runs: it gets Tensors, whatever is outside."""

    def __enter__(self) -> None:
        global _host_depth
        self._outer, _host_depth = _host_depth, 0

    def __exit__(self, *exc: Any) -> None:
        global _host_depth
        _host_depth = self._outer


class HostTensor(np.ndarray):
    """What is a Tensor by contract but stays in host memory while only our own code sees it."""

    def numpy(self) -> np.ndarray:
        return self.view(np.ndarray)


def finish_tensor(array: Any) -> Any:
    """`array` as a Tensor, or as a HostTensor where no code of the user's will see it."""
    if _host_depth:
        return np.asarray(array).view(HostTensor)
    return tensor_from(np.asarray(array))


_to_tensor = None


def core() -> Any:
    """The extension module."""
    import yuloh

    return yuloh._core


def native_flag() -> bool:
    """Whether ``FLAGS_native_loader`` allows the thread path."""
    return bool(core().get_flag("native_loader"))


_freed_kept = 0  # process id


def keep_freed_memory() -> None:
    """Let the C library keep what samples give back, so that each new one does not fault its pages in anew.

    glibc raises its limit for returning memory (to 62 MB here) when it sees a large block freed.
    """
    global _freed_kept
    if _freed_kept != os.getpid():
        _freed_kept = os.getpid()
        np.empty(31 << 20, np.uint8)


def tensor_from(array: np.ndarray) -> Any:
    """A Tensor holding a copy of `array`, stop_gradient True."""
    global _to_tensor
    if _to_tensor is None:
        import yuloh

        _to_tensor = yuloh.to_tensor
    return _to_tensor(array)


_cut_point: Any = None


def cut_point() -> None:
    """Tell the core that a batch is asked for: a place where too many pending ops may run (DESIGN,
    laziness).
    """
    global _cut_point
    if _cut_point is None:
        import yuloh

        _cut_point = getattr(getattr(yuloh, "_core", None), "cut_point", int)
    _cut_point()


_tensor_type: Any = None


def tensor_type() -> type:
    global _tensor_type
    if _tensor_type is None:
        import yuloh

        _tensor_type = yuloh.Tensor
    return _tensor_type


def is_tensor(value: Any) -> bool:
    return isinstance(value, tensor_type())


def randperm(n: int) -> list:
    """0..n-1 in an order that ``paddle.seed`` fixes."""
    import yuloh

    return yuloh.randperm(n).tolist() if n else []


def seed_core(seed: int) -> None:
    """Give this worker a stream of its own for what data set code draws with ``paddle.rand`` and the like."""
    import yuloh

    core = getattr(yuloh, "_core", None)
    if core is not None:
        core.seed(seed & 0x7FFFFFFF)


_seed_draws: dict = {}


def draw_base_seed() -> int:
    """A 63-bit seed for one epoch of workers.

    After ``paddle.seed`` it depends on that seed and on how many were drawn since; otherwise it comes from
    NumPy's global stream.
    """
    seed = _explicit_seed()
    if seed is None:
        return int(np.random.randint(0, 2**63 - 1, dtype=np.int64))
    if _seed_draws.get("key") != seed:
        _seed_draws.update(key=seed, count=0)
    _seed_draws["count"] += 1
    words = np.random.SeedSequence([seed[0], _seed_draws["count"]]).generate_state(2, np.uint32)
    return (int(words[0]) << 31) ^ int(words[1])


def _explicit_seed() -> "tuple | None":
    """(seed, number of paddle.seed calls) if the program called ``paddle.seed``, else None."""
    try:
        from yuloh.framework import random as framework_random

        seed, calls = framework_random.explicit_seed()
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
    return None if not calls else (int(seed) & (2**63 - 1), int(calls))


def full_affinity() -> "set[int] | None":
    """CPUs that workers may use: the mask read before any thread pool pinned the main thread."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    try:
        import yuloh

        mask = yuloh._core.initial_affinity()
        if mask:
            return set(mask)
    except (ImportError, AttributeError):
        pass
    # A pinned main thread shows itself as a mask narrower than that of the process's other threads.
    masks = [os.sched_getaffinity(0)]
    try:
        for task in os.listdir("/proc/self/task"):
            masks.append(os.sched_getaffinity(int(task)))
    except OSError:
        pass
    return set().union(*masks)
