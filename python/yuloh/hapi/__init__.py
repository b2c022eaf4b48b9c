# SPDX-License-Identifier: Apache-2.0
"""High-level use of a network: ``paddle.Model`` (fit, evaluate, predict), callbacks, ``summary`` and
``flops``.
"""

from . import callbacks
from .flops import flops
from .model import Model
from .summary import summary

__all__ = ["Model", "callbacks", "flops", "summary"]
