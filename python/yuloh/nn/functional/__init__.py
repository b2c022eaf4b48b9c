# SPDX-License-Identifier: Apache-2.0
"""Functional room: ``paddle.nn.functional``.

Most names come straight from the core's op table with their signatures. The modules here hold only what a schema
cannot say: padding given as a word or as pairs (``conv.py``, ``pooling.py``, ``common.py``), and functions made of
other functions (``composed.py``), which step back where the table has a row of that name.
"""
from ... import _core

_table = _core.public("paddle.nn.functional")
globals().update(_table)

from . import common, composed, conv, norm, pooling  # noqa: E402

for _module in (common, conv, norm, pooling):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
for _name in composed.__all__:
    if _name not in _table:
        globals()[_name] = getattr(composed, _name)

__all__ = sorted({*_table, *common.__all__, *conv.__all__, *norm.__all__, *pooling.__all__, *composed.__all__})
del _module, _name
