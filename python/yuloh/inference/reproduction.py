# SPDX-License-Identifier: Apache-2.0
"""Inference room: the files that show one bad op by itself, for ``diff``."""
import os

import numpy as np

from .. import _core

__all__ = ["write_reproduction"]

_SCRIPT = '''"""{sentence}

Runs the one op of both files on the inputs that it had, each as it was run, and in float64. Written by `yuloh diff`.
"""
import pathlib

import numpy as np
import yuloh
from yuloh.inference import run_values

here = pathlib.Path(__file__).resolve().parent
data = np.load(here / "inputs.npz")
for letter, options in {ways!r}:
    inputs = [data[k] for k in sorted((k for k in data.files if k.startswith(letter + "_")), key=lambda k: int(k[2:]))]
    got = run_values(str(here / f"op_{{letter}}.yuloh") + options, inputs)[0].astype("float64")
    error = np.max(np.abs(got - data["expected"]), initial=0.0, where=~(np.isnan(got) & np.isnan(data["expected"])))
    print(f"op_{{letter}}.yuloh{{options}}: largest difference from float64: {{error:.6g}}, values up to "
          f"{{np.max(np.abs(data['expected']), initial=0.0):.6g}}")
'''


def write_reproduction(report, known, folder):
    """op_a.yuloh and op_b.yuloh (the op of either file), inputs.npz, reproduce.py. ``known``: values of the bad side by the
    names of the first graph, and of the second side by its own names. Returns the folder.
    """
    os.makedirs(folder, exist_ok=True)
    row, bad = report.first, report.bad_side
    arrays, ways = {}, []
    names = [row.name if row.owner == 0 else None, row.other if row.owner == 0 else row.name]
    for letter, side, name, values in zip("ab", report.sides, names, known):
        if name is None:
            continue
        ways.append((letter, "@" + ",".join(side.words) if side.words else ""))
        others = {n: v for n, v in values.items() if n != name}
        part = side.subject.cut([(n, (list(v.shape), _dtype(v))) for n, v in others.items()], [name])
        part.save(os.path.join(folder, f"op_{letter}.yuloh"))
        for i, n in enumerate(part.inputs):
            arrays[f"{letter}_{i}"] = _array(others[n])
        if "expected" not in arrays:
            try:
                arrays["expected"] = _array(part.wide([others[n] for n in part.inputs])[0])
            except (TypeError, NotImplementedError, ValueError, RuntimeError):
                arrays["expected"] = _array(values[name])
    arrays["got"] = _array(known[bad][names[bad]] if names[bad] in known[bad] else known[0][row.name])
    np.savez(os.path.join(folder, "inputs.npz"), **arrays)
    with open(os.path.join(folder, "reproduce.py"), "w", encoding="utf-8") as f:
        f.write(_SCRIPT.format(sentence=report.sentence().replace("\\", "/").replace('"""', "'''"), ways=ways))
    return folder


def _dtype(value):
    return value.dtype if isinstance(value, _core.Tensor) else _core.dtype(value.dtype)


def _array(value):
    if isinstance(value, _core.Tensor):
        return (value.astype("float32") if value.dtype.name == "bfloat16" else value).numpy()
    return np.asarray(value)
