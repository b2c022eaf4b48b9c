# SPDX-License-Identifier: Apache-2.0
"""Autograd room: whether what is recorded takes part in gradients. The mode itself lives in the core."""
import functools
import inspect

from .. import _core

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]


def is_grad_enabled():
    """True where recorded ops take part in gradients."""
    return _core.grad_enabled()


class _Mode:
    """Context manager and decorator (of functions and generator functions) that sets the mode to
    ``wanted``.
    """

    wanted = True

    def __init__(self):
        self._before = []

    def __enter__(self):
        self._before.append(_core.grad_enabled())
        _core.set_grad_enabled(self.wanted)

    def __exit__(self, *error):
        _core.set_grad_enabled(self._before.pop())

    def __call__(self, func):
        """``func`` run under this mode; a generator function has it while it runs, not while it waits."""
        if inspect.isgeneratorfunction(func):
            @functools.wraps(func)
            def run(*args, **kwargs):
                generator = func(*args, **kwargs)
                sent = None
                while True:
                    try:
                        with self._again():
                            value = generator.send(sent)
                    except StopIteration as end:
                        return end.value
                    sent = yield value
        else:
            @functools.wraps(func)
            def run(*args, **kwargs):
                with self._again():
                    return func(*args, **kwargs)
        return run

    def _again(self):
        return type(self)()


class no_grad(_Mode):
    """Nothing recorded inside takes part in gradients. ``with no_grad():``, ``@no_grad()`` or
    ``@no_grad``.
    """

    wanted = False

    def __new__(cls, func=None):
        self = super().__new__(cls)
        if func is None:
            return self
        self.__init__()
        return self(func)

    def __init__(self, func=None):
        super().__init__()


class enable_grad(no_grad):
    """Undoes ``no_grad`` inside it."""

    wanted = True


class set_grad_enabled(_Mode):
    """Sets the mode at once; as a context manager it also sets it back."""

    def __init__(self, mode):
        super().__init__()
        self.wanted = bool(mode)
        self._at_start = _core.grad_enabled()
        _core.set_grad_enabled(self.wanted)

    def __enter__(self):
        pass

    def __exit__(self, *error):
        _core.set_grad_enabled(self._at_start)

    def _again(self):
        return set_grad_enabled(self.wanted)
