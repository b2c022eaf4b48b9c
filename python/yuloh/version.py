# SPDX-License-Identifier: Apache-2.0
"""Version room: which PaddlePaddle API is spoken (what scripts ask for), and ``product``, Yuloh's own version."""

__all__ = ["cuda", "cudnn", "show"]

full_version = "3.3.1"
major, minor, patch = full_version.split(".")
rc = "0"


def __getattr__(name):
    from .cli import own_version

    if name == "product":
        return own_version()
    raise AttributeError(f"module 'yuloh.version' has no attribute {name!r}")


def cuda():
    """'False': this build has no CUDA."""
    return "False"


def cudnn():
    """'False': this build has no cuDNN."""
    return "False"


def show():
    """Prints the versions, one a line."""
    for name in ("full_version", "major", "minor", "patch", "rc"):
        print(f"{name}: {globals()[name]}")
    print(f"cuda: {cuda()}\ncudnn: {cudnn()}\nyuloh: {__getattr__('product')}")
