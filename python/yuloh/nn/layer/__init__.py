# SPDX-License-Identifier: Apache-2.0
"""Layer room: the classes behind ``paddle.nn``; ``layers.py`` holds the base class, the others one family
each.
"""
from .layers import Layer

__all__ = ["Layer"]
