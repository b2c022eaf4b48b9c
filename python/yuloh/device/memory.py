# SPDX-License-Identifier: Apache-2.0
"""Device room: bytes held by tensors and taken from the system, as the core's allocator counts them."""
from .. import _core

__all__ = ["max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
           "reset_max_memory_allocated", "reset_max_memory_reserved", "reset_peak_memory_stats"]


def memory_allocated(device=None):
    """Bytes that tensors hold now."""
    return int(_core.memory_stats()["allocated"])


def memory_reserved(device=None):
    """Bytes that the allocator holds from the system now."""
    return int(_core.memory_stats()["reserved"])


def max_memory_allocated(device=None):
    """Most bytes that tensors held at one time (since the last reset)."""
    return int(_core.memory_stats()["max_allocated"])


def max_memory_reserved(device=None):
    """Most bytes that the allocator held at one time (since the last reset)."""
    return int(_core.memory_stats()["max_reserved"])


def reset_peak_memory_stats(device=None):
    """Starts both peaks afresh."""
    _core.reset_max_memory()


reset_max_memory_allocated = reset_max_memory_reserved = reset_peak_memory_stats
