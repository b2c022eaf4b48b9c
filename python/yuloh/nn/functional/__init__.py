# SPDX-License-Identifier: Apache-2.0
"""Functional room: ``paddle.nn.functional``.

Most names come straight from the core's op table with their signatures. The modules here hold only what a
schema cannot say: padding given as a word or as pairs (``conv.py``, ``pooling.py``, ``norm.py``,
``common.py``), and functions made of other functions (``composed.py``, ``resize.py``, ``attention.py``,
``special.py``), which step back where the table has a row of that name.
"""

from ... import _core
from ..._guard import guard as _guard

_table = _core.public("paddle.nn.functional")
globals().update(_table)

from . import attention, common, composed, conv, norm, pooling, resize, special  # noqa: E402

for _module in (common, conv, norm, pooling):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
for _module in (attention, composed, resize, special):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__ if _name not in _table})

logsigmoid = globals().get("log_sigmoid")  # Paddle has both spellings
_guard([_n for _n in globals() if _n[0] != "_"], globals())
__all__ = sorted(_n for _n, _value in globals().items() if _n[0] != "_" and callable(_value))
del _module
