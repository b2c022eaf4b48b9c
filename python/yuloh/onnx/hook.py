# SPDX-License-Identifier: Apache-2.0
"""Mappings written in Python, for operators that the table does not have (or has otherwise)."""
from .. import _core


def mapping(op_type):
    """Decorator: the function turns nodes of ``op_type`` ("Op" or "domain.Op") into tensors, for this process.

    It is called with the node's attributes (a dict) and one tensor per input, None where an input is left out, and
    returns a tensor or a sequence of them, one per output. Built-in mappings of the same name are replaced.
    """

    def add(function):
        _core.add_import("onnx", op_type, function)
        return function

    return add
