# SPDX-License-Identifier: Apache-2.0
"""Mixed-precision room: ``auto_cast`` chooses dtypes while recording, ``GradScaler`` guards small
gradients.
"""
from . import debugging
from .auto_cast import (amp_guard, auto_cast, autocast, decorate, get_autocast_cpu_dtype, get_autocast_dtype,
                        get_autocast_gpu_dtype, is_autocast_enabled, is_bfloat16_supported,
                        is_float16_supported)
from .lists import black_list, white_list
from .grad_scaler import AmpScaler, GradScaler, OptimizerState

__all__ = ["AmpScaler", "GradScaler", "OptimizerState", "auto_cast", "autocast", "black_list", "debugging",
           "decorate", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
           "is_autocast_enabled", "is_bfloat16_supported", "is_float16_supported", "white_list"]
