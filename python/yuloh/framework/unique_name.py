# SPDX-License-Identifier: Apache-2.0
"""Framework room: names such as ``linear_0`` and ``linear_0.w_0``, counted per prefix.

Saved optimizer files are keyed by these names, so the scheme is Paddle's: ``<prefix>_<count>``.
"""
import contextlib

__all__ = ["generate", "guard", "switch"]


class _Counter:
    def __init__(self, prefix=""):
        self.counts = {}
        self.prefix = prefix

    def take(self, key):
        number = self.counts.get(key, 0)
        self.counts[key] = number + 1
        return f"{self.prefix}{key}_{number}"


_counter = _Counter()


def generate(key):
    """Next unused name for ``key``: ``key_0``, ``key_1``, ..."""
    return _counter.take(key)


def switch(new_generator=None, new_para_name_checker=None):
    """Starts a fresh count (or continues ``new_generator``); returns the generator used until now."""
    global _counter
    old = _counter
    _counter = _Counter() if new_generator is None else new_generator
    return old, None


@contextlib.contextmanager
def guard(new_generator=None):
    """Inside the block names are counted afresh; a string is put before each of them."""
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = _Counter(new_generator)
    old, _ = switch(new_generator)
    try:
        yield
    finally:
        switch(old)
