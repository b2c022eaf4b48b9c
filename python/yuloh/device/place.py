# SPDX-License-Identifier: Apache-2.0
"""Device room: places and device names."""
import platform

from .. import _core

__all__ = ["CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "check_device", "get_device", "set_device"]

_GPU_WORDS = ("gpu", "cuda", "xpu", "npu", "ipu", "mlu")


class _Place:
    kind = "cpu"

    def __eq__(self, other):
        return repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))

    def __repr__(self):
        return f"Place({self.kind})"

    def is_cpu_place(self):
        """True on the CPU."""
        return self.kind == "cpu"

    def is_gpu_place(self):
        """True on a GPU."""
        return self.kind.startswith("gpu")


class _CPUPlace(_Place):
    """The CPU."""


CPUPlace = getattr(_core, "CPUPlace", _CPUPlace)


class CUDAPlace(_Place):
    """A GPU by number; it can be named, but nothing can be put there in this build."""

    def __init__(self, device_id=0):
        self.kind = f"gpu:{int(device_id)}"

    def get_device_id(self):
        """The number."""
        return int(self.kind.split(":")[1])


class CUDAPinnedPlace(_Place):
    """Host memory that a GPU can read."""

    kind = "gpu_pinned"


only_planned = False  # a script that `yuloh advise` follows may ask for a GPU: nothing is computed there


def check_device(device):
    """'cpu' for every spelling of it. Raises ValueError for a device that this build does not have."""
    name = getattr(device, "kind", None) or str(device)
    name = name.lower()
    if name in ("cpu", "place(cpu)", "cpu:0"):
        return "cpu"
    if name.replace("place(", "").split(":")[0].rstrip(")") in _GPU_WORDS:
        if only_planned:
            return "cpu"
        raise ValueError(f"set_device: this build of Yuloh has no {name!r} device. Hint: "
                         "paddle.set_device('cpu').")
    raise ValueError(f"set_device: device is not known, got {device!r}; expected 'cpu'.")


def set_device(device):
    """Chooses the device of what is made from now on; only 'cpu' exists. Returns its place."""
    check_device(device)
    return CPUPlace()


def get_device(input=None):
    """'cpu'."""
    return "cpu"


def get_device_name(device=None):
    """Name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def device_count():
    """Number of accelerators: 0."""
    return 0


def is_available():
    """False: there is no accelerator."""
    return False


def get_cudnn_version():
    """None: cuDNN is not used."""
    return None


def get_all_device_type():
    """Device types of this build."""
    return ["cpu"]


def get_all_custom_device_type():
    """No plug-in devices."""
    return []


def get_available_device():
    """Devices of this machine that can be used."""
    return ["cpu"]


def get_available_custom_device():
    """No plug-in devices."""
    return []


def is_bf16_supported(including_emulation=True):
    """True: bfloat16 is computed on every CPU."""
    return True


def is_compiled_with_cuda():
    """Whether a CUDA back end is in this build."""
    return False


def is_compiled_with_rocm():
    """Whether a ROCm back end is in this build."""
    return False


def is_compiled_with_xpu():
    """Whether an XPU back end is in this build."""
    return False


def is_compiled_with_ipu():
    """Whether an IPU back end is in this build."""
    return False


def is_compiled_with_cinn():
    """Whether Paddle's CINN compiler is in this build; fusion here is the core's own."""
    return False


def is_compiled_with_custom_device(device_type):
    """Whether a plug-in back end of that name is in this build."""
    return False


def is_compiled_with_distribute():
    """Whether programs of several processes are in this build."""
    return False
