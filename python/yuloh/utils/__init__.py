# SPDX-License-Identifier: Apache-2.0
"""Utilities room: ``paddle.utils``. Exchange with other libraries, a check of the installation, lazy imports."""
import importlib

from ..framework import unique_name  # noqa: F401
from . import dlpack  # noqa: F401

__all__ = ["dlpack", "run_check", "try_import", "unique_name"]


def run_check():
    """Trains one linear layer for one step and says whether that worked."""
    import yuloh
    net = yuloh.nn.Linear(4, 2)
    opt = yuloh.optimizer.SGD(learning_rate=0.1, parameters=net.parameters())
    net(yuloh.ones([3, 4])).mean().backward()
    opt.step()
    opt.clear_grad()
    print(f"Yuloh works on this machine's CPU ({yuloh._core.thread_reason()}).")


def try_import(module_name, err_msg=None):
    """The module, or ImportError with ``err_msg`` when it is not installed."""
    try:
        return importlib.import_module(module_name)
    except ImportError:
        raise ImportError(err_msg or f"{module_name} is not installed. Hint: pip install {module_name}.") from None
