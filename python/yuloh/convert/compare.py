# SPDX-License-Identifier: Apache-2.0
"""Convert room: two programs on the same random inputs, output by output."""
import itertools

import numpy as np

from .. import _core

__all__ = ["MODEL_ERRORS", "Difference", "bindings", "compare", "draw", "open_sizes", "plain_session", "shapes_at"]

# Two sizes for an axis that is not the batch, tried in turn until the model takes them.
_OTHER = ((64, 96), (32, 48), (8, 12), (224, 256), (128, 160), (5, 7), (320, 640), (1, 2))
_BATCH = (2, 3)
#: What recording or running somebody's model may raise (NotImplementedError is a RuntimeError).
MODEL_ERRORS = (ValueError, TypeError, IndexError, ArithmeticError, RuntimeError)


def open_sizes(program):
    """{(input number, axis): label} of sizes that are not fixed; equal labels are one size."""
    found = {}
    for i, (name, _, dims, labels) in enumerate(program.inputs):
        for axis, n in enumerate(dims):
            if n < 0:
                label = labels[axis] if axis < len(labels) and labels[axis] != "?" else ""
                found[i, axis] = label or f"{name}.{axis}"
    return found


def bindings(program, asked=None):
    """Candidates of two (or as many as asked) sizes for every open one: lists of {label: size}. ``asked``: {label:
    [sizes]}.
    """
    asked = dict(asked or {})
    slots = open_sizes(program)
    labels = list(dict.fromkeys(slots.values()))
    unknown = set(asked) - set(labels) - ({"batch"} if labels else set())
    if unknown:
        raise ValueError(f"there is no open size {sorted(unknown)[0]!r}; the model has {labels or 'none'}.")
    batch = [n for n in labels if any(axis == 0 for (_, axis), m in slots.items() if m == n)]
    if "batch" in asked and "batch" not in labels:
        asked.update({n: asked["batch"] for n in batch} or {labels[0]: asked["batch"]})
        asked.pop("batch")
    if not labels:
        return [[{}]]
    count = max([2, *(len(v) for v in asked.values())]) if set(asked) != set(labels) else max(
        len(v) for v in asked.values())
    rest = [n for n in labels if n not in asked and n not in batch]
    result = []
    for pair, mixed in itertools.product(_OTHER, (True, False)):
        one = []
        for i in range(count):
            sizes = {n: asked[n][i % len(asked[n])] for n in labels if n in asked}
            sizes.update({n: _BATCH[i % 2] for n in batch if n not in asked})
            sizes.update({n: pair[(i + k * mixed) % 2] for k, n in enumerate(rest)})
            one.append(sizes)
        if one not in result:
            result.append(one)
    return result


def shapes_at(program, sizes):
    """Concrete shapes of the inputs."""
    slots = open_sizes(program)
    return [[sizes[slots[i, axis]] if n < 0 else n for axis, n in enumerate(p[2])]
            for i, p in enumerate(program.inputs)]


def draw(program, sizes, rng, most):
    """Random inputs: standard normal numbers, integers below ``most`` (masks: 0 and 1)."""
    arrays = []
    for (name, dtype, _, _), shape in zip(program.inputs, shapes_at(program, sizes)):
        kind = dtype.name
        if kind == "bool" or "mask" in name.lower() and kind.startswith(("int", "uint")):
            value = rng.integers(0, 2, shape) if kind == "bool" else np.maximum(
                rng.integers(0, 2, shape),
                np.arange(shape[-1] if shape else 1) == 0)
        elif kind.startswith(("int", "uint")):
            value = rng.integers(0, min(most, 127), shape)
        else:
            value = rng.standard_normal(shape)
        arrays.append(_of_dtype(value, dtype))
    return arrays


def _of_dtype(value, dtype):
    if dtype.name == "bfloat16":
        from ..tensor import to_tensor
        return to_tensor(np.asarray(value, "float32")).astype("bfloat16")
    return np.asarray(value).astype(dtype.name)


class Difference:
    """One output at one set of sizes: the largest difference, absolute and relative to the largest value."""

    def __init__(self, sizes, output, want, got, rtol, atol, runtime=""):
        self.sizes, self.output, self.runtime = sizes, output, runtime
        want, got = np.asarray(want), np.asarray(got)
        self.shape, self.why = list(want.shape), ""
        self.largest = self.relative = float("nan")
        self.of_allowed = float("inf")  # the share of what the tolerance allows
        if want.shape != got.shape:
            self.why = f"shapes differ: {list(want.shape)} and {list(got.shape)}"
        elif want.dtype.kind in "biu" and got.dtype.kind in "biu":
            wrong = int((want != got).sum())
            self.largest = float(np.abs(want.astype("float64") - got.astype("float64")).max(initial=0))
            self.relative = wrong / max(1, want.size)
            self.why = f"{wrong} of {want.size} differ" if wrong else ""
            self.of_allowed = float("inf") if wrong else 0.0
        else:
            self._floats(want.astype("complex128" if want.dtype.kind == "c" else "float64"),
                         got.astype("complex128" if got.dtype.kind == "c" else "float64"), rtol, atol)
        self.ok = not self.why

    def _floats(self, want, got, rtol, atol):
        finite = np.isfinite(want)
        if not (np.isfinite(got) == finite).all() or not (np.isnan(want) == np.isnan(got)).all() or \
                not (want[~finite & ~np.isnan(want)] == got[~finite & ~np.isnan(want)]).all():
            self.why = "NaN or infinity in different places"
            return
        most = float(np.abs(want[finite]).max(initial=0))
        self.largest = float(np.abs(want[finite] - got[finite]).max(initial=0))
        self.relative = self.largest / most if most else self.largest
        allowed = atol + rtol * most
        self.of_allowed = self.largest / allowed if allowed else float(self.largest > 0)
        if self.largest > allowed:
            self.why = f"above atol {atol:g} + rtol {rtol:g} x {most:.3g}"

    def as_dict(self):
        """For JSON."""
        return {
            "sizes": self.sizes, "output": self.output, "shape": self.shape, "runtime": self.runtime, "ok": self.ok,
            "largest_difference": _number(self.largest), "relative_difference": _number(self.relative), "why":
            self.why
        }


def _number(x):
    return x if x == x else None


def _array(value):
    value = value.astype("float32") if isinstance(value, _core.Tensor) and value.dtype.name == "bfloat16" else value
    return value.numpy() if isinstance(value, _core.Tensor) else np.asarray(value)


def plain_session(program):
    """Runs a program without fusion, rules and folded weights: nothing that the other side shares."""
    return _core.Session(program, fold_weights=False, fusion=False, rules=False)


def compare(program, run_source, run_other, seed, rtol, atol, asked=None, given=None, others=(), names=()):
    """[Difference] of ``run_source(arrays)`` and ``run_other(arrays)`` on random inputs of ``program`` at two sizes of every
    open dim, or on ``given`` arrays. ``others``: [(name, function of arrays)] of further runtimes; ``names`` of outputs.
    """
    names = list(names) or [p[0] for p in program.outputs]
    found = []
    for sizes, arrays, want in _runs(program, run_source, seed, asked, given):
        for runtime, run in [("", run_other), *others]:
            got = run(arrays)
            if got is None:  # another runtime that cannot
                continue
            if len(got) != len(want):
                raise ValueError(f"{runtime or 'the written file'} gives {len(got)} outputs; expected {len(want)}.")
            found += [
                Difference(sizes, name or f"output {i}", _array(a), _array(b), rtol, atol, runtime)
                for i, (name, a, b) in enumerate(zip(_padded(names, len(want)), want, got))
            ]
    return found


def _padded(names, n):
    return [*names, *[f"output {i}" for i in range(len(names), n)]]


def _runs(program, run_source, seed, asked, given):
    if given is not None:
        return [({"given": "inputs"}, given, run_source(given))]
    first = None
    for one in bindings(program, asked):
        for most in (100, 10, 2):
            rng = np.random.default_rng(seed)
            try:
                runs = []
                for sizes in one:
                    arrays = draw(program, sizes, rng, most)
                    runs.append((sizes, arrays, run_source(arrays)))
                return runs
            except MODEL_ERRORS as error:
                first = first or error
            if not any(p[1].name.startswith(("int", "uint")) for p in program.inputs):
                break
    raise ValueError(
        f"the model takes none of the sizes that were tried: {first} Hint: --size NAME=4,8, or --input FILE.npz.")
