# SPDX-License-Identifier: Apache-2.0
"""Device room: naming the device and looking at its memory. This build computes on the CPU."""
from . import cuda
from .memory import (max_memory_allocated, max_memory_reserved, memory_allocated, memory_reserved,
                     reset_max_memory_allocated, reset_max_memory_reserved, reset_peak_memory_stats)
from .place import (CPUPlace, CUDAPinnedPlace, CUDAPlace, check_device, device_count,
                    get_all_custom_device_type, get_all_device_type, get_available_custom_device,
                    get_available_device, get_cudnn_version, get_device, get_device_name, is_available,
                    is_bf16_supported, is_compiled_with_cinn, is_compiled_with_cuda,
                    is_compiled_with_custom_device, is_compiled_with_distribute, is_compiled_with_ipu,
                    is_compiled_with_rocm, is_compiled_with_xpu, set_device)
from .stream import Event, Stream, current_stream, set_stream, stream_guard, synchronize
from ..framework.random import get_rng_state, set_rng_state
from ..framework.random import seed as manual_seed

__all__ = ["CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "Event", "Stream", "cuda", "current_stream",
           "device_count", "get_all_custom_device_type", "get_all_device_type", "get_available_custom_device",
           "get_available_device", "get_cudnn_version", "get_device", "get_device_name", "get_rng_state",
           "is_available", "is_bf16_supported", "is_compiled_with_cinn", "is_compiled_with_cuda",
           "is_compiled_with_custom_device", "is_compiled_with_distribute", "is_compiled_with_ipu",
           "is_compiled_with_rocm", "is_compiled_with_xpu", "manual_seed", "max_memory_allocated",
           "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_max_memory_allocated",
           "reset_max_memory_reserved", "reset_peak_memory_stats", "set_device", "set_rng_state",
           "set_stream", "stream_guard", "synchronize"]
