# SPDX-License-Identifier: Apache-2.0
"""What a build can do, under the names of ``paddle.fluid.core``."""
from .. import _core
from ..device import (CPUPlace, CUDAPinnedPlace, CUDAPlace, is_compiled_with_cinn, is_compiled_with_cuda,
                      is_compiled_with_rocm, is_compiled_with_xpu)

__all__ = ["CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "get_cuda_device_count", "is_compiled_with_cinn",
           "is_compiled_with_cuda", "is_compiled_with_dist", "is_compiled_with_mkldnn",
           "is_compiled_with_nvtops", "is_compiled_with_rocm", "is_compiled_with_xpu"]


def is_compiled_with_nvtops():
    """True where operator fusion is on, which it is unless FLAGS_fusion was set to 0."""
    return bool(_core.get_flag("fusion"))


def is_compiled_with_mkldnn():
    """True: oneDNN is among the candidates for convolutions and matrix products."""
    return True


def is_compiled_with_dist():
    """False: one process."""
    return False


def get_cuda_device_count():
    """0."""
    return 0
