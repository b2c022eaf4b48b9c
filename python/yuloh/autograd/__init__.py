# SPDX-License-Identifier: Apache-2.0
"""Autograd room: gradient modes, ``grad``, ``backward`` and user-defined gradients.

Gradients are built by the core from the recorded graph; the modules here only shape arguments and results.
"""
from .functional import hessian, jacobian
from .modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .py_layer import Function, PyLayer, PyLayerContext
from .run import backward, grad
from .saved import saved_tensors_hooks

__all__ = ["Function", "PyLayer", "PyLayerContext", "backward", "enable_grad", "grad", "hessian",
           "is_grad_enabled", "jacobian", "no_grad", "saved_tensors_hooks", "set_grad_enabled"]
