# SPDX-License-Identifier: Apache-2.0
"""Framework room: objects that are there before a dry run and get their attributes back after it.

The core gives tensors their values back; what an object holds (an optimizer its moments, a Layer a buffer that its forward
pass assigns) is Python's, and would be a tensor of the dry run afterwards.
"""
from __future__ import annotations

import threading
from typing import Any

from .. import _core

__all__ = ["Keeper", "in_dry_run", "keep"]

in_dry_run = _core.in_dry_run
_of_thread = threading.local()


class Keeper:
    """Of one dry run: the attributes of the objects passed to ``keep``, with one level of the dicts, lists and sets in them."""

    def __init__(self) -> None:
        self._held = {}  # id -> (the object, its attributes, contents of those that can change)
        _of_thread.keeper = self

    def keep(self, owner: Any) -> None:
        if id(owner) in self._held:
            return
        attributes = dict(vars(owner))
        contents = [(v, v.copy()) for v in attributes.values() if isinstance(v, (list, set))]
        contents += [(v, dict(v)) for v in attributes.values() if isinstance(v, dict)]
        self._held[id(owner)] = owner, attributes, contents

    def give_back(self) -> None:
        _of_thread.keeper = None
        for owner, attributes, contents in self._held.values():
            for now, before in contents:
                if isinstance(now, dict):  # not by the methods of a kind of dict, which would pass changes on
                    dict.clear(now)
                    dict.update(now, before)
                elif isinstance(now, list):
                    now[:] = before
                else:
                    now.clear()
                    now.update(before)
            own = vars(owner)
            own.clear()
            own.update(attributes)
        self._held.clear()


def keep(owner: Any) -> None:
    """Called inside a dry run before ``owner`` changes: it is afterwards as it is now."""
    keeper = getattr(_of_thread, "keeper", None)
    if keeper is not None:
        keeper.keep(owner)
