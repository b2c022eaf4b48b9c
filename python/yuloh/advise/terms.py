# SPDX-License-Identifier: Apache-2.0
"""The words of a question and of its answer, from the core's tables (src/advise/table.h)."""

from __future__ import annotations

from itertools import compress

from .. import _core

_T = _core.advise_terms()
PRECISIONS, RECOMPUTES, OPTIMIZERS, DEVICE_KINDS, DEGREES, MEMORY = (_T[k] for k in ("precision", "recompute", "optimizer", "device", "degree", "memory"))
# What devices are bought for (of each the answer names one), and why one is taken.
USES, WHYS = _T["use"], _T["why"]
# What a Plan of a precision is recorded in; the class of an optimizer in paddle.optimizer, "" where there is none; bits for
# the matrices that a word of --lora-targets means.
PLANNED, CLASSES, TARGETS = (dict(zip(_T[k], _T[what])) for k, what in (("precision", "dtype"), ("optimizer", "class"), ("target", "parts")))
# Of a step's time, what is communication.
TALK = tuple(compress(_T["time"], _T["talk"]))
# What the core counts for a layer of a model that is known by totals.
KERNELS_OF_LAYER = _T["kernels_of_layer"]
# The job that is meant where nothing is said.
JOB = _T["job"]
