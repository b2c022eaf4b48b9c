# SPDX-License-Identifier: Apache-2.0
"""A network from a real model: a Layer of a Python file, or a model file, planned without being run (yuloh.advise.facts)."""

from __future__ import annotations

from pathlib import Path


def network_of(word: str, inputs, job: dict):
    """(network, title, unit, source) of FILE.py[:NAME] or a model file. Raises ValueError for what cannot be traced."""
    file = word.partition(".py:")[0] + ".py" if ".py:" in word else word
    if not Path(file).is_file():
        raise ValueError(f"advise: no such model, got {word!r}. Hint: a preset (yuloh advise --list presets), a file, or --params.")
    raise ValueError(f"advise: {word} cannot be planned yet. Hint: --params and a shape.")
