# SPDX-License-Identifier: Apache-2.0
"""Jit room: from a Python function to a program, by running it on placeholders.

Open sizes are found out by comparison: the function runs at two sizes of each, every number that differs becomes an
expression of the sizes, and runs at further sizes must agree. A number that cannot be expressed is an error with its
op and line. Python code that goes another way outside the sizes that were tried (3 to 1033: ``if x.shape[0] > 2000``,
a size of 0, 1 or 2) is not noticed: the program does what it did at the sizes tried, or refuses a size that does not suit it.
"""
from .. import _core
from ..static import InputSpec
from .structure import flatten, is_spec, rebuild

__all__ = ["export"]

_BATCH, _OTHER, _MOST_OPEN = _core.trial_sizes  # src/run/retrace.h


def export(function, arguments, named):
    """TracedProgram of ``function(arguments)``.

    ``arguments``: {name: nested InputSpec, Tensor or constant}; ``named``: [(name, tensor, is_parameter)] of the state it
    may use. Returns (program, names of state that the function changes).
    """
    leaves = [(name, leaf) for name, value in arguments.items() for leaf in flatten([value])]
    specs, names, counts = [], [], {}
    for name, leaf in leaves:
        if not is_spec(leaf):
            continue
        if not isinstance(leaf, InputSpec):
            leaf = InputSpec(list(leaf.shape), leaf.dtype, leaf.name if not leaf.name.startswith("generated") else None)
        many = sum(1 for other, x in leaves if other == name and is_spec(x)) > 1
        label = leaf.name or (f"{name}_{counts.get(name, 0)}" if many else str(name))
        counts[name] = counts.get(name, 0) + 1
        while label in names:
            label += "_"
        specs.append(leaf)
        names.append(label)
    slots = [(i, axis) for i, spec in enumerate(specs) for axis, n in enumerate(spec.shape) if n in (-1, None)]
    named_slots = {(i, axis): specs[i].dim_names[axis] for i, axis in slots
                   if axis < len(specs[i].dim_names) and specs[i].dim_names[axis]}
    first_error = None
    for tied in ((False, True) if len(slots) > 1 else (False,)):
        number = {}  # (input, axis) -> open size; tied: one per axis
        for i, axis in slots:
            number[i, axis] = named_slots.get((i, axis)) or (axis if tied else (i, axis))
        order = list(dict.fromkeys(number.values()))
        dims = [n if isinstance(n, str) else f"s{k}" for k, n in enumerate(order)]
        number = {slot: order.index(n) for slot, n in number.items()}
        if len(order) > _MOST_OPEN:
            first_error = first_error or ValueError(
                f"to_static: {len(order)} open sizes are too many, expected at most {_MOST_OPEN}. Hint: fix some of them.")
            continue
        attempts = [(_BATCH, sizes) for sizes in (_OTHER if any(axis for _, axis in slots) else _OTHER[:1])]
        for first, other in attempts + [(sizes, sizes) for sizes in _OTHER]:
            try:
                return _at_sizes(function, arguments, named, specs, names, number, dims, first, other)
            except _NotRecordable as error:
                raise error.args[0] from None
            except Exception as error:  # these sizes do not suit the function; others may
                first_error = first_error or error
            if not slots:
                break
    raise first_error


class _NotRecordable(Exception):
    pass


def _at_sizes(function, arguments, named, specs, names, number, dims, first_axis, other):
    n_open = len(dims)
    axes = [min(axis for (_, axis), k in number.items() if k == i) for i in range(n_open)]
    table = [first_axis if axis == 0 else other for axis in axes]

    def run(sizes):
        types = [([sizes[number[i, a]] if n in (-1, None) else n for a, n in enumerate(spec.shape)], spec.dtype)
                 for i, spec in enumerate(specs)]
        trace, written = _record(function, arguments, types, named)
        trace.sizes = list(sizes)
        return trace, written

    first, written = run([t[0] for t in table])
    corners = [first] + [run([t[mask >> i & 1] for i, t in enumerate(table)])[0] for mask in range(1, 1 << n_open)]
    more = []
    if n_open:
        more.append(run([t[2] for t in table])[0])
        for i, odd in [(i, odd) for i in range(n_open) for odd in (3, 4)]:  # one at a time: others may have to divide
            try:
                more.append(run([t[odd] if i == k else t[0] for k, t in enumerate(table)])[0])
            except _NotRecordable:
                raise
            except Exception:
                pass
    ports = [(name, spec.dtype, [-1 if n in (-1, None) else n for n in spec.shape],
              [dims[number[i, a]] if n in (-1, None) else "" for a, n in enumerate(spec.shape)])
             for i, (name, spec) in enumerate(zip(names, specs))]
    program = _core.generalise(corners, more, ports, [], dims)
    if not n_open:
        program.warm = [[(list(spec.shape), spec.dtype) for spec in specs]]
    return program, written


def _record(function, arguments, types, named):
    recorder = _core.Recorder(types, named)
    try:
        inputs = iter(recorder.inputs)
        flat = flatten(list(arguments.values()))
        values = iter([next(inputs) if is_spec(leaf) else leaf for leaf in flat])
        try:
            result = function({name: rebuild(value, values) for name, value in arguments.items()})
        except RuntimeError as error:
            if str(error).startswith("to_static: the value of a tensor"):
                raise _NotRecordable(error) from None
            raise
        outputs = [leaf for leaf in flatten([result]) if isinstance(leaf, _core.Tensor)]
        if not outputs:
            raise _NotRecordable(ValueError("to_static: the function returns no tensor, so there is nothing to save."))
        return recorder.finish(outputs), recorder.written()
    finally:
        recorder.close()
