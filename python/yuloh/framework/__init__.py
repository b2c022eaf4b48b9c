# SPDX-License-Identifier: Apache-2.0
"""Framework room: what every other Python room needs and no op is.

Names (``unique_name``), parameters and their attributes, files (``save``/``load``), seeds, flags, default
dtype. Nothing here computes tensor values; values come from the core.
"""
from .dtype import get_default_dtype, set_default_dtype
from .flags import get_flags, set_flags
from .io import load, save
from .param_attr import ParamAttr, WeightNormParamAttr
from .parameter import EagerParamBase, Parameter, create_parameter
from .random import get_cuda_rng_state, get_rng_state, seed, set_cuda_rng_state, set_rng_state
from . import unique_name

__all__ = ["EagerParamBase", "ParamAttr", "Parameter", "WeightNormParamAttr", "create_parameter",
           "get_cuda_rng_state", "get_default_dtype", "get_flags", "get_rng_state", "load", "save", "seed",
           "set_cuda_rng_state", "set_default_dtype", "set_flags", "set_rng_state", "unique_name"]
