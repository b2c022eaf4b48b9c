# SPDX-License-Identifier: Apache-2.0
"""Device room: bytes held by tensors and taken from the system, as the core's allocator counts them."""
from .. import _core

__all__ = ["max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
           "reset_max_memory_allocated", "reset_max_memory_reserved", "reset_peak_memory_stats"]

# The core counts peaks since the start; a reset remembers where "since" begins.
_since = {"max_allocated": None, "max_reserved": None}


def memory_allocated(device=None):
    """Bytes that tensors hold now."""
    return int(_core.memory_stats()["allocated"])


def memory_reserved(device=None):
    """Bytes that the allocator holds from the system now."""
    return int(_core.memory_stats()["reserved"])


def _peak(key, now_key):
    stats = _core.memory_stats()
    start = _since[key]
    if start is None or stats[key] > start:
        return int(stats[key])
    return int(stats[now_key])  # no new peak since the reset: the best known bound is what is held now


def max_memory_allocated(device=None):
    """Most bytes that tensors held at one time (since the last reset)."""
    return _peak("max_allocated", "allocated")


def max_memory_reserved(device=None):
    """Most bytes that the allocator held at one time (since the last reset)."""
    return _peak("max_reserved", "reserved")


def _reset(key):
    reset = getattr(_core, "reset_peak_memory", None)
    if reset is not None:
        reset()
    else:
        _since[key] = _core.memory_stats()[key]


def reset_max_memory_allocated(device=None):
    """Starts ``max_memory_allocated`` afresh."""
    _reset("max_allocated")


def reset_max_memory_reserved(device=None):
    """Starts ``max_memory_reserved`` afresh."""
    _reset("max_reserved")


def reset_peak_memory_stats(device=None):
    """Starts both peaks afresh."""
    _reset("max_allocated")
    _reset("max_reserved")
