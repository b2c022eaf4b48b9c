# SPDX-License-Identifier: Apache-2.0
"""Jit room: ``to_static``, ``save`` and ``load``: a Python function as a program that runs without Python.

Tensors are lazy, so calling a function already records a graph and runs it fused; ``to_static`` marks what may be
saved. Saving runs the function on placeholders; open sizes (None) become expressions of the program.
"""
from .static_function import (StaticFunction, enable_to_static, ignore_module, not_to_static, set_code_level,
                              set_verbosity, to_static)
from .save_load import load, save
from .translated_layer import TranslatedLayer

__all__ = ["StaticFunction", "TranslatedLayer", "enable_to_static", "ignore_module", "load", "not_to_static",
           "save", "set_code_level", "set_verbosity", "to_static"]
