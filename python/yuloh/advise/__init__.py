# SPDX-License-Identifier: Apache-2.0
"""Advice: what a model needs, on what, for how much, before anything is spent.

    numbers, preset, Layer or file -> question.Question -> reckon.answer (figures, JSON) -> text | page

The arithmetic is the core's (src/advise); here are the catalogue (devices.json, presets.json), the words and the pages.
"""

from __future__ import annotations

from .facts import dry_run, facts
from .reckon import answer
from .question import Question

__all__ = ["Question", "answer", "dry_run", "facts"]
