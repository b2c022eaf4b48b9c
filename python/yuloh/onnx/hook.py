# SPDX-License-Identifier: Apache-2.0
"""Mappings written in Python, for operators that the table does not have (or has otherwise)."""
from .. import _core


def mapping(op_type, dialect="onnx"):
    """Decorator: the function turns nodes of ``op_type`` ("Op" or "domain.Op") into tensors, for this process.
    ``dialect="paddle"``: of Paddle's files, by PIR's names (a ``.pdmodel``'s operators get those).

    It is called with the node's attributes (a dict) and one tensor per input, None where an input is left out, and
    returns a tensor or a sequence of them, one per output. Built-in mappings of the same name are replaced.
    """

    if dialect not in ("onnx", "paddle"):
        raise ValueError(f"mapping: dialect must be 'onnx' or 'paddle', got {dialect!r}.")

    def add(function):
        _core.add_import(dialect, op_type, function)
        return function

    return add
