# SPDX-License-Identifier: Apache-2.0
"""Yuloh speaks PaddlePaddle 3.3's Python API: ``import yuloh as paddle``.

This file only gathers names. Functions come from the core's op table (``_core.public``) with their schemas; modules
hold signatures and containers. Heavy rooms (vision, hapi, inference, distributed) load at first use.
"""

import importlib as _importlib
import os as _os

from . import _core

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(
        before=_core.before_fork, after_in_parent=_core.after_fork, after_in_child=_core.after_fork
    )
Tensor = _core.Tensor
DType = dtype = _core.DType
globals().update({_n: _d for _n, _d in _core.dtypes.items() if _n not in ("pstring", "sequence", "int4")})
globals().update(_core.public("paddle"))

from . import tensor, tensor_ops  # noqa: E402  (attach methods, wrappers whose signatures a schema cannot say)
from .tensor import *  # noqa: E402,F401,F403
from .tensor_ops import *  # noqa: E402,F401,F403
from ._guard import guard as _guard  # noqa: E402

_guard(tensor_ops.__all__, globals())
from .framework import (  # noqa: E402,F401
    ParamAttr,
    create_parameter,
    get_cuda_rng_state,
    get_default_dtype,
    get_flags,
    get_rng_state,
    load,
    save,
    seed,
    set_cuda_rng_state,
    set_default_dtype,
    set_flags,
    set_rng_state,
)
from .autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled  # noqa: E402,F401
from . import amp, autograd, device, framework, io, metric, nn, optimizer, regularizer, static  # noqa: E402,F401
from .nn import Layer as _Layer  # noqa: E402,F401
from .device import (  # noqa: E402,F401
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    get_device,
    is_compiled_with_cuda,
    is_compiled_with_rocm,
    is_compiled_with_xpu,
    set_device,
)

from .nn.functional import (  # noqa: E402,F401
    adaptive_avg_pool1d, conv1d, conv2d, conv3d, group_norm, layer_norm)
from .amp import (  # noqa: E402,F401
    autocast, get_autocast_cpu_dtype, get_autocast_dtype, get_autocast_gpu_dtype, is_autocast_enabled)

e, pi, inf, nan, newaxis = 2.718281828459045, 3.141592653589793, float("inf"), float("nan"), None
half, double = _core.dtypes["float16"], _core.dtypes["float64"]
manual_seed = seed

__version__ = "3.3.1"  # the API that is spoken; yuloh.version has the product's own
version = None

_LAZY = {
    "vision",
    "hapi",
    "inference",
    "infer",
    "distributed",
    "advise",
    "fluid",
    "jit",
    "fleet",
    "cli",
    "bench",
    "report",
    "profiler",
    "linalg",
    "fft",
    "utils",
    "version",
    "onnx",
    "convert",
    "base",
    "incubate",
    "sysconfig",
    "text",
    "audio",
    "sparse",
    "distribution",
    "signal",
}
_ELSEWHERE = {"fleet": "distributed.fleet"}
_LAZY_NAMES = {"from_dlpack": "utils.dlpack", "to_dlpack": "utils.dlpack", 
    "Model": "hapi",
    "summary": "hapi",
    "flops": "hapi",
    "callbacks": "hapi",
    "DataParallel": "distributed",
}
del version


def __getattr__(name):
    if name in _LAZY_NAMES:
        value = getattr(_importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
    elif name in _LAZY:
        try:
            value = _importlib.import_module("." + _ELSEWHERE.get(name, name), __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module 'yuloh' has no attribute {name!r} yet.") from None
    else:
        raise AttributeError(
            f"module 'yuloh' has no attribute {name!r}. Hint: docs/ops.md lists what exists."
        )
    globals()[name] = value
    return value


def in_dynamic_mode():
    """True: tensors are always used eagerly; graphs are an inner matter."""
    return True


in_dygraph_mode = in_dynamic_mode


def disable_static(place=None):
    """Does nothing: this is the only mode."""


def enable_static():
    """Raises RuntimeError: programs are recorded from eager code here."""
    raise RuntimeError(
        "enable_static: static programs are not built by hand here; write eager code (it is recorded and "
        "optimised as a graph). Hint: remove paddle.enable_static()."
    )
