# SPDX-License-Identifier: Apache-2.0
"""Autograd room: hooks on what ``PyLayer.save_for_backward`` keeps.

Tensors kept for the gradients of ordinary ops are the core's business: it decides from the gradient rules
what a plan keeps, so hooks do not see them.
"""

__all__ = ["saved_tensors_hooks"]

_stack = []


def current():
    """(pack, unpack) of the innermost block, or None."""
    return _stack[-1] if _stack else None


class saved_tensors_hooks:
    """Inside the block, tensors that a PyLayer saves go through ``pack_hook`` and come back through
    ``unpack_hook``.
    """

    def __init__(self, pack_hook, unpack_hook):
        self._hooks = (pack_hook, unpack_hook)

    def __enter__(self):
        _stack.append(self._hooks)

    def __exit__(self, *error):
        _stack.pop()
