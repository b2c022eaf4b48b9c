# SPDX-License-Identifier: Apache-2.0
"""Inference room: ``diff``, where do two models (or one model run in two ways) begin to differ? docs/diff.md says how it
decides.
"""
import os

import numpy as np

from .. import _core
from .matching import match
from .reproduction import write_reproduction
from .samples import RECORD_ERRORS, draw_inputs, read_inputs

__all__ = ["Report", "Row", "Side", "diff", "run_values"]

ROUNDINGS = 32        # what a kernel's own order of summation may add up to, in roundings of its inputs, for
TERMS = 256           # sums of so many terms; it grows with the root of their number
FEW = 4               # roundings of another precision that still look like it
_BACKENDS = {"reference": {"library": False, "fusion": False, "rules": False, "fold_weights": False},
             "nolibrary": {"library": False}, "nofusion": {"fusion": False}, "norules": {"rules": False, "fold_weights": False}}
_PRECISIONS = {"fp32": {}, "bf16": {"precision": "bfloat16"}}


class Side:
    """A model file and how it is run: ``"net.onnx"``, ``"net.json@bf16"``, ``"net.yuloh@bf16,nofusion"``."""

    def __init__(self, spec, params=""):
        self.path, _, options = os.fspath(spec).rpartition("@") if _has_options(os.fspath(spec)) else (os.fspath(spec), "", "")
        self.label = os.path.basename(self.path) + (f"@{options}" if options else "")
        self.options, self.words = {}, [w for w in options.split(",") if w]
        for word in self.words:
            known = {**_BACKENDS, **_PRECISIONS}
            if word not in known:
                raise ValueError(f"diff: unknown option {word!r} in {spec!r}; expected one of {sorted(known)}.")
            self.options.update(known[word])
        if not os.path.exists(self.path):
            raise FileNotFoundError(f"diff: there is no file {self.path!r}.")
        beside = os.path.splitext(self.path)[0] + ".pdiparams"
        self.params = params or (beside if self.path.endswith((".json", ".pdmodel")) and os.path.exists(beside) else "")
        self.subject = _core.Subject.read(self.path, self.params)

    @property
    def lowered(self):
        """Whether products run in bf16."""
        return "precision" in self.options

    def run(self, values, names=None):
        """{name: tensor} of inner values (None: the outputs) for ``{input: array}``, as this side computes them."""
        names = list(dict.fromkeys(self.subject.outputs if names is None else names))
        known = [(n, (list(v.shape), _dtype(v))) for n, v in values.items()]
        made = [n for n in names if n not in values]
        part = self.subject.cut(known, made)
        session = _core.Session(part.program, **self.options)
        found = dict(zip(made, session.run([values[n] for n in part.inputs])))
        return {n: found[n] if n in found else values[n] for n in names}


def _has_options(spec):
    return "@" in spec and not os.path.exists(spec) and os.sep not in spec.rpartition("@")[2]


def _dtype(value):
    return value.dtype if isinstance(value, _core.Tensor) else _core.dtype(value.dtype)


class Row:
    """One inner value: ``name``, ``op``, ``layer``, ``where`` in the graph of side ``owner``; ``verdicts`` of both sides;
    ``other``: its name in the second graph, None where it has no counterpart (then it is held against its own graph only).
    """

    def __init__(self, spot, other, owner=0):
        self.name, self.op, self.where, self.other, self.owner = spot["name"], spot["op"], spot["where"], other, owner
        self.layer = spot["weights"][0].rpartition(".")[0] or spot["weights"][0] if spot["weights"] else ""
        self.shape, self.dtype = spot["shape"], spot["dtype"]
        self.verdicts = [None, None]
        self.difference = 0.0  # largest, between the sides
        self.largest = 0.0

    def place(self):
        """What its author would recognise."""
        parts = [self.layer, self.where if self.where != self.layer else ""]
        return ", ".join(p for p in parts if p and p != self.name)


class Verdict:
    """``label``: "rounding", "reduced precision" or "wrong"; ``units``: the largest error in roundings; ``why`` in words."""

    def __init__(self, label, units=0.0, why="", declared=True, measured=None):
        self.label, self.units, self.why, self.declared, self.measured = label, units, why, declared, measured or {}


class Report:
    """What ``diff`` found. ``first`` is the first row with a wrong value (or None), ``bad_side`` 0 or 1 of it;
    ``reproduction`` the folder of its files; ``equal`` whether nothing but rounding and declared precision differs.
    """

    def __init__(self, sides, rows, notes):
        self.sides, self.rows, self.notes = sides, rows, notes
        self.skipped = [sum(r.other is None and r.owner == k for r in rows) for k in (0, 1)]  # values without a counterpart
        self.matched = len(rows) - sum(self.skipped)
        self.first, self.bad_side, self.reproduction = None, None, ""
        for row in rows:
            for k, v in enumerate(row.verdicts):
                if self.first is None and v and (v.label == "wrong" or not v.declared):
                    self.first, self.bad_side = row, k

    @property
    def equal(self):
        return self.first is None

    def count(self, label):
        """Rows in which a side earned the label."""
        return sum(any(v and v.label == label for v in row.verdicts) for row in self.rows)

    def sentence(self):
        """The result in one sentence."""
        a, b = (s.label for s in self.sides)
        if self.first is None:
            if not self.matched:
                return f"{a} and {b}: no value that an operator makes could be found in both; nothing was compared."
            low = self.count("reduced precision")
            also = f", {low} of them in the precision that was asked for" if low else ""
            return f"{a} and {b} agree: {self.matched} values differ by rounding only{also}."
        row, verdict = self.first, self.first.verdicts[self.bad_side]
        place = f" ({row.place()})" if row.place() else ""
        return (f"First bad op: {row.op} that makes `{row.name}`{place}: {verdict.why} in {self.sides[self.bad_side].label}, on the "
                f"inputs that it had there.")

    def __str__(self):
        return self.sentence()


def diff(a, b, inputs=None, *, sizes=None, seed=0, params_a="", params_b="", reproduction=""):
    """Where ``b`` begins to differ from ``a``. Either is a model file (Paddle, ONNX, package), optionally followed by
    ``@`` and how to run it: ``bf16``, ``reference`` (no library, fusion, rules), ``nolibrary``, ``nofusion``, ``norules``;
    ``"@bf16"`` alone as ``b`` means the file of ``a``. ``inputs``: an .npz file, a list or {name: array}; None draws
    some (``sizes``: {"name of a size": extent}). ``reproduction``: a folder for the files of the first bad op. Returns a
    Report. The graph of ``a`` is what both are held against.
    """
    first = Side(a, params_a)
    if os.fspath(b).startswith("@"):
        b, params_b = first.path + os.fspath(b), params_b or params_a
    second = Side(b, params_b)
    sides = (first, second)
    ports = [_core.load_program(s.path, s.params).inputs for s in sides]
    arrays = _inputs_for(first, ports[0], inputs, sizes, seed)
    _check_same_inputs(sides, ports)
    fed = [dict(zip(first.subject.inputs, arrays)), dict(zip(second.subject.inputs, arrays))]
    same = os.path.samefile(first.path, second.path)
    spots = [s.subject.spots(list(f.values())) for s, f in zip(sides, fed)]
    values = [s.run(f, [p["name"] for p in sp]) for s, f, sp in zip(sides, fed, spots)]
    notes = []
    pairs = {p["name"]: p["name"] for p in spots[0]} if same else match(sides, fed, spots, notes)
    for name, array in zip(first.subject.inputs, arrays):
        pairs.setdefault(name, second.subject.inputs[first.subject.inputs.index(name)])
    translated = [{**fed[0], **values[0]}, {}]
    for mine, theirs in pairs.items():
        value = values[1].get(theirs, fed[1].get(theirs))
        translated[1][mine] = value
    own = [{**f, **v} for f, v in zip(fed, values)]
    hidden = _hidden_units(spots[1], set(pairs.values()))
    rows = []
    for owner, spot in _in_order(spots, pairs):
        name = spot["name"]
        row = Row(spot, pairs.get(name) if owner == 0 else None, owner)
        if owner == 0 and name in pairs:
            row.verdicts = [_judge(first.subject, spot, translated[0], first, 0.0, notes),
                            _judge(first.subject, spot, translated[1], second, hidden.get(pairs[name], 0.0), notes)]
            _compare(row, translated)
        else:
            row.verdicts[owner] = _judge(sides[owner].subject, spot, own[owner], sides[owner], 0.0, notes)
        rows.append(row)
    report = Report(sides, rows, notes)
    if report.first is None:
        _check_whole(report, fed, values)
    if report.first is not None and reproduction:
        bad = translated[report.bad_side]  # both ops are shown on what the bad one had
        known = [bad, {**own[1], **{theirs: bad[mine] for mine, theirs in pairs.items() if mine in bad}}]
        if report.first.other is None:
            known = own
        report.reproduction = write_reproduction(report, known, reproduction)
    return report


def run_values(spec, inputs):
    """Outputs as NumPy arrays of a file run as ``spec`` says (``diff``), for arrays in the order of its inputs."""
    side = Side(spec)
    ports = _core.load_program(side.path, side.params).inputs
    fed = {n: _core.from_buffer(np.ascontiguousarray(v)).astype(p[1]) for n, v, p in zip(side.subject.inputs, inputs, ports)}
    return [v.astype("float64").numpy() if v.dtype.is_floating_point() else v.numpy() for v in side.run(fed).values()]


def _check_same_inputs(sides, ports):
    """Both take the same inputs, as far as their files say; names may differ."""
    a, b = (s.label for s in sides)
    described = [", ".join(f"`{p[0]}` {p[1].name}{[n if n >= 0 else None for n in p[2]]}" for p in side) or "none" for side in ports]
    same = len(ports[0]) == len(ports[1]) and all(
        p[1] == q[1] and (not p[2] or not q[2] or len(p[2]) == len(q[2])) and all(m == n or m < 0 or n < 0 for m, n in zip(p[2], q[2]))
        for p, q in zip(*ports))
    if not same:
        raise ValueError(f"diff: the inputs differ, got {described[0]} of {a} and {described[1]} of {b}; expected the same number, "
                         "dtypes and sizes. Hint: are these two models of one net?")


def _inputs_for(side, ports, inputs, sizes, seed):
    if inputs is None:
        return draw_inputs(ports, sizes, seed)
    if isinstance(inputs, (str, os.PathLike)):
        return read_inputs(inputs, ports)
    if isinstance(inputs, dict):
        missing = [p[0] for p in ports if p[0] not in inputs]
        if missing:
            raise ValueError(f"diff: no array for input {missing[0]!r}, got {sorted(inputs)}.")
        inputs = [inputs[p[0]] for p in ports]
    arrays = [v if isinstance(v, _core.Tensor) else np.asarray(v) for v in inputs]
    if len(arrays) != len(ports):
        raise ValueError(f"diff: {side.label} takes {len(ports)} inputs, got {len(arrays)}.")
    return arrays


def _in_order(spots, pairs):
    """(owner, spot) of all spots: the first graph's in order, before each those of the second without a counterpart."""
    back = {theirs: mine for mine, theirs in pairs.items()}
    before, waiting = {}, []
    for spot in spots[1]:
        if spot["name"] not in back:
            waiting.append(spot)
        elif waiting:
            before[back[spot["name"]]], waiting = waiting, []
    for spot in spots[0]:
        yield from ((1, s) for s in before.pop(spot["name"], ()))
        yield 0, spot
    yield from ((1, s) for rest in (*before.values(), waiting) for s in rest)


def _hidden_units(spots, matched):
    """{matched name: rounding of the coarsest type that its own graph goes through since the matched values before}."""
    by_name, units = {s["name"]: s for s in spots}, {}
    for spot in spots:  # in order: what a spot reads is known
        units[spot["name"]] = max([0.0] + [max(units[n], _core.unit_roundoff(by_name[n]["dtype"])) for n in spot["inputs"]
                                           if n in by_name and n not in matched])
    return units


def _judge(subject, spot, known, side, hidden, notes):
    """The verdict on one value of a side: the op in float64, on the inputs that it had there, decides. ``hidden``: the
    rounding of what lies between and is not seen.
    """
    name, got = spot["name"], known[spot["name"]]
    others = {n: v for n, v in known.items() if n != name}
    part = subject.cut([(n, (list(v.shape), _dtype(v))) for n, v in others.items()], [name])
    fed = [others[n] for n in part.inputs]
    lowered = _core.unit_roundoff("bfloat16") if side.lowered and spot["product"] else 0.0
    unit = max([hidden, lowered, *(_core.unit_roundoff(_dtype(v)) for v in [got, *fed])])
    unit = unit or _core.unit_roundoff("float32")
    try:
        expected = part.wide(fed)[0]
        nudged = part.wide(fed, unit, 1)[0]
    except RECORD_ERRORS as error:
        try:  # no float64 for this op: its plainest kernels in its own precision
            expected = nudged = _core.Session(part.program, **_BACKENDS["reference"]).run(fed)[0]
        except RECORD_ERRORS:
            notes.append(f"{name}: not checked ({error})")
            return Verdict("rounding", 0.0, "not checked")
        notes.append(f"{name}: checked against fp32, {spot['op']} has no float64 kernel")
    if list(got.shape) != list(expected.shape):
        return Verdict("wrong", np.inf, f"shape {list(got.shape)} where {list(expected.shape)} is expected")
    dtype = _dtype(got)
    m = _core.measure(got, expected, nudged, unit, dtype)
    if m["differing"]:
        m = _core.measure(got, expected, part.wide(fed, ROUNDINGS * unit, 1)[0], unit, dtype)
    bound = ROUNDINGS if m["units"] <= ROUNDINGS else ROUNDINGS * max(1.0, (_terms(part, fed, m["n"]) / TERMS) ** 0.5)
    return verdict_of(m, unit, dtype.name, bound)


def _terms(part, fed, n):
    """Products added up for one element, by the plan's count of operations."""
    try:
        plan = _core.Session(part.program).prepare([(list(v.shape), _dtype(v)) for v in fed])
    except RECORD_ERRORS:
        return 0.0
    return plan["flops"] / (2 * n) if plan and n else 0.0


def verdict_of(m, unit, dtype, bound=ROUNDINGS):
    """Label of a measurement (docs/diff.md). ``unit``: the relative rounding of the precision the op was declared to have;
    ``bound``: so many of them are rounding.
    """
    if m["differing"]:
        share = f"{m['differing']} of {m['n']} numbers differ, by at most {m['max_error']:.0f}"
        if m["differing"] <= 2 * m["sensitive"]:
            return Verdict("rounding", 0.0, share, measured=m)
        return Verdict("wrong", np.inf, share, measured=m)
    if m["not_finite"]:
        what = f"overflow of {dtype}" if m["overflow"] else "not a finite number"
        return Verdict("wrong", np.inf, f"{what}: {m['not_finite']} of {m['n']} values, the first is {m['got']} where "
                                        f"{m['expected']:.6g} is expected", measured=m)
    why = f"{m['got']:.6g} where {m['expected']:.6g} is expected, {m['units']:.3g} roundings of {_unit_name(unit)}"
    if m["units"] <= bound:
        return Verdict("rounding" if unit <= 2.0 ** -20 else "reduced precision", m["units"], why, measured=m)
    for name, other in (("fp16", 2.0 ** -11), ("bf16", 2.0 ** -8)):
        scattered = m["typical_units"] >= m["units"] / 64 and m["systematic"] < 0.5
        if unit < other and m["units"] * unit / other <= FEW and scattered:
            return Verdict("reduced precision", m["units"], f"{why}: as if computed in {name}, which nothing declares", False, m)
    return Verdict("wrong", m["units"], why, measured=m)


def _unit_name(unit):
    return {2.0 ** -24: "fp32", 2.0 ** -11: "fp16", 2.0 ** -8: "bf16", 2.0 ** -53: "fp64"}.get(unit, f"{unit:.1g}")


def _compare(row, translated):
    x, y = (t[row.name] for t in translated)
    if list(x.shape) == list(y.shape):
        m = _core.measure(x, y, y, 2.0 ** -24, _dtype(x))
        row.difference, row.largest = m["max_error"], m["largest"]
    else:
        row.difference = np.inf


def _check_whole(report, fed, values):
    """Nothing is wrong value by value: is it, too, where inner values need not be kept (all fusions at work)? If not, the
    first value that differs when it is the only one wanted is found by bisection.
    """
    for k, side in enumerate(report.sides):
        names = [n for n in side.subject.outputs if n in values[k]]
        if not names or _as_shipped(side, fed[k], names, values[k]):
            continue
        rows = [r for r in report.rows if r.verdicts[k]]
        order = [r.name if k == r.owner else r.other for r in rows]
        low, high = 0, max(0, len(order) - 1)
        while low < high:
            middle = (low + high) // 2
            if _as_shipped(side, fed[k], [order[middle]], values[k]):
                low = middle + 1
            else:
                high = middle
        if not rows:
            continue
        row = rows[high]
        row.verdicts[k] = Verdict("wrong", np.inf, "another value when nothing before it is kept: an optimisation across ops is at fault")
        report.first, report.bad_side = row, k
        return


def _as_shipped(side, fed, names, values):
    """Whether values come out as they did when every inner value was kept, within what rounding from the inputs on may do."""
    shipped = side.run(fed, names)
    part = side.subject.cut([(n, (list(v.shape), _dtype(v))) for n, v in fed.items()], names)
    arrays = [fed[n] for n in part.inputs]
    unit = _core.unit_roundoff("bfloat16" if side.lowered else "float32")
    try:
        expected, nudged = part.wide(arrays), part.wide(arrays, unit, 1)
    except RECORD_ERRORS:
        return True
    for name, e, n in zip(names, expected, nudged):
        kept = _core.measure(values[name], e, n, unit, _dtype(values[name]))
        now = _core.measure(shipped[name], e, n, unit, _dtype(shipped[name]))
        worse = now["units"] > max(ROUNDINGS, 16 * kept["units"]) or now["not_finite"] > kept["not_finite"]
        if worse or (now["differing"] > kept["differing"] + 2 * now["sensitive"]):
            return False
    return True
