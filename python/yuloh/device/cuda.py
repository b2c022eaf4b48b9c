# SPDX-License-Identifier: Apache-2.0
"""Device room: ``paddle.device.cuda`` on a build without CUDA.

Scripts that watch memory through these names get the CPU allocator's figures, so that they run unchanged;
what only a GPU has says that there is none.
"""
from .memory import (max_memory_allocated, max_memory_reserved, memory_allocated, memory_reserved,
                     reset_max_memory_allocated, reset_max_memory_reserved, reset_peak_memory_stats)
from .place import get_device_name, is_available
from .stream import Event, Stream, current_stream, stream_guard, synchronize

__all__ = ["Event", "Stream", "current_stream", "device_count", "empty_cache", "get_device_capability",
           "get_device_name", "get_device_properties", "is_available", "max_memory_allocated",
           "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_max_memory_allocated",
           "reset_max_memory_reserved", "reset_peak_memory_stats", "stream_guard", "synchronize"]


def device_count():
    """Number of GPUs: 0."""
    return 0


def empty_cache():
    """Gives unused memory back to the system, as far as the allocator can."""
    from .. import _core
    _core.release_cached_memory()


def get_device_properties(device=None):
    """Raises ValueError: there is no GPU."""
    raise ValueError("get_device_properties: this build of Yuloh has no GPU device.")


def get_device_capability(device=None):
    """Raises ValueError: there is no GPU."""
    raise ValueError("get_device_capability: this build of Yuloh has no GPU device.")
