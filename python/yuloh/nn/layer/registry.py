# SPDX-License-Identifier: Apache-2.0
"""Layer room: the dicts in which a Layer keeps its parameters, buffers and sublayers.

Whatever stands in such a dict also stands in the layer's ``__dict__``, so that ``self.weight`` is a plain
attribute read and never a Python-level ``__getattr__``: that read is on the path of every call.
"""
import weakref

_MISSING = object()


class Registry(dict):
    """Dict of one kind of member; changes are repeated in the owner's ``__dict__``."""

    __slots__ = ("_owner",)

    def __init__(self, owner, items=()):
        self._owner = weakref.ref(owner)
        super().__init__()
        for key, value in items:
            self[key] = value

    def _attributes(self):
        owner = self._owner()
        return {} if owner is None else owner.__dict__

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self._attributes()[key] = value

    def __delitem__(self, key):
        super().__delitem__(key)
        self._attributes().pop(key, None)

    def pop(self, key, default=_MISSING):
        if key in self:
            value = self[key]
            del self[key]
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self):
        if not self:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self):
        for key in list(self):
            del self[key]

    def update(self, *args, **kwargs):
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def move_to_end(self, key):
        """Makes ``key`` the last one."""
        value = super().pop(key)
        super().__setitem__(key, value)

    def __reduce__(self):
        return dict, (dict(self),)
