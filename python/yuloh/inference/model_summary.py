# SPDX-License-Identifier: Apache-2.0
"""Inference room: ``paddle.inference.summary``, what a saved model is made of, what it costs and what could be done
about it.

FLOPs, bytes moved and peak memory are those of the Plan that would run (``Session.prepare``); nothing is computed.
"""
import json
import os
from collections import Counter

from .. import _core
from ..report import columns

__all__ = ["Summary", "summarise", "summary"]

_PRODUCTS = ("conv", "matmul", "linear", "attention", "scaled_dot", "flash", "lstm", "gru", "rnn", "depthwise"
             )  # kernels
_NO_WORK = ("Constant", "full", "full_int_array", "assign_value", "fill_constant")  # operators that are data
_DELICATE = ("softmax", "layer_norm", "layernorm", "rms_norm", "rmsnorm", "group_norm", "log_softmax", "gelu")


def summary(path, params=None, sizes=None, show=True):
    """Prints, and returns as a Summary, what the saved model at ``path`` consists of.

    ``path``: .onnx, .pdmodel, .json, .yuloh, or the prefix given to ``jit.save``. ``sizes``: {open dim: size or
    list of sizes}, by default the batch is 1 and 8 ("batch" names it). ``str(summary)`` is the text, ``as_dict()``
    the figures.
    """
    from ..convert.sources import ModelSource
    found = summarise(ModelSource.of_file(path, params or ""), sizes)
    if show:
        print(found)
    return found


class Summary:
    """``data`` holds the figures; see docs/models.md for their names."""

    def __init__(self, data):
        self.data = data

    def as_dict(self):
        """The figures."""
        return self.data

    def as_json(self):
        """The figures as text."""
        return json.dumps(self.data, indent=1)

    def __getitem__(self, key):
        return self.data[key]

    def __str__(self):
        return "\n".join(_lines(self.data))

    def __repr__(self):
        return f"<Summary of {self.data['model']}: {sum(self.data['operators'].values())} operators>"


def summarise(source, sizes=None, detail=False):
    """Summary of a ModelSource; ``detail``: with every operator and its shapes."""
    names = _operators(source)
    weights = [*source.file.weights, *source.file.constants] if source.file else [(w[0] or w[1], w[4])
                                                                                  for w in source.program.weights()]
    data = {
        "model": source.name,
        "format": source.form,
        "inputs": [_port(p) for p in source.program.inputs],
        "outputs": [_port(p) for p in source.program.outputs],
        "parameters": sum(_count(t) for _, t in weights if t.dtype.is_floating_point()),
        "weight_bytes": sum(_count(t) * t.dtype.itemsize for _, t in weights),
        "weight_types": dict(Counter(t.dtype.name for _, t in weights)),
        "operators": dict(Counter(names).most_common()),
        "unsupported": [{"operator": op, "count": n, "place": place} for op, n, place in source.unsupported()],
        "bindings": [],
        "notes": [],
    }
    if source.file and source.file.opsets:
        data["opsets"] = dict(source.file.opsets)
    if not data["unsupported"]:
        session, types = _bind(source, sizes, data)
        if detail:
            data["details"] = _details(source, types, data["notes"])
        if data["bindings"] and "kernels" in data["bindings"][-1]:
            data["fusion"] = _fusion(names, data["bindings"][-1])
    data["advice"] = _advice(data, names)
    for binding in data["bindings"]:
        if not detail:
            binding.pop("kernels", None)
    return Summary(data)


def _operators(source):
    return list(source.file.op_types) if source.file else [n["op"] for n in source.program.nodes if n["kind"] == "op"]


def _count(tensor):
    n = 1
    for d in tensor.shape:
        n *= d
    return n


def _port(port):
    name, dtype, dims, labels = port
    return {
        "name":
        name, "dtype":
        dtype.name, "shape": [
            n if n >= 0 else (labels[i] if i < len(labels) and labels[i] else f"{name}.{i}")
            for i, n in enumerate(dims)
        ]
    }


# ---- the plan ----------------------------------------------------------------------------------------------
def _bind(source, sizes, data):
    """Fills in the plans' figures per binding of the open sizes. Returns (session, the last binding's types)."""
    from ..convert.compare import MODEL_ERRORS, bindings, open_sizes, shapes_at
    program, types, first = source.program, None, None
    asked = {k: list(v) if isinstance(v, (list, tuple)) else [int(v)] for k, v in (sizes or {}).items()}
    slots = open_sizes(program)
    batch = [n for n in dict.fromkeys(slots.values()) if any(axis == 0 for (_, axis), m in slots.items() if m == n)]
    guessed = not asked
    if guessed and batch:
        asked = {n: [1, 8] for n in batch}
    session = _core.Session(program)
    for one in bindings(program, asked):
        found = []
        try:
            for binding in one:
                types = [(shape, p[1]) for shape, p in zip(shapes_at(program, binding), program.inputs)]
                plan = session.prepare(types)
                found.append({"sizes": binding, **(_figures(plan) if plan else {"plan": None})})
        except MODEL_ERRORS as error:
            first = first or error
            continue
        data["bindings"] = found
        break
    else:
        if not guessed:
            raise ValueError(f"the model cannot be prepared at these sizes: {first}")
        data["notes"].append(
            f"No plan at the sizes that were tried: {str(first).splitlines()[0]} Hint: give sizes of the open dims.")
    if any("plan" in b for b in data["bindings"]):
        data["notes"].append(
            "Shapes depend on the data that are fed: the model runs piece by piece, and its cost is known then only.")
    return session, types


def _figures(plan):
    return {
        "flops":
        plan["flops"], "bytes":
        plan["bytes"], "peak_bytes":
        plan["peak_bytes"], "arena_bytes":
        plan["arena_bytes"], "steps":
        plan["steps"], "kernels":
        [{"ops": what, "kernel": how, "flops": flops, "bytes": moved} for what, how, flops, moved in plan["kernels"]]
    }


def _details(source, types, notes):
    """Every operator with the types of its results, at the last binding."""
    if source.file is None:
        nodes, made = source.program.nodes, source.program.types(types)
        return [{"operator": n["op"], "name": n["where"], "outputs": [_type(d, s) for s, d in out]}
                for n, out in zip(nodes, made) if n["kind"] == "op"]
    from ..tensor_create import zeros
    seen = {}
    try:
        source.file.record([zeros(shape, dtype=dtype) for shape, dtype in types],
                           lambda name, t: seen.__setitem__(name, _type(t.dtype, t.shape)))
    except (ValueError, TypeError, IndexError, ArithmeticError, RuntimeError, NotImplementedError) as error:
        notes.append(f"Shapes up to an operator that refuses zeros: {str(error).splitlines()[0]}")
    return [{"operator": op, "name": name, "outputs": [seen.get(o, f"{o}: ?") for o in outputs if o]}
            for op, name, _, outputs in source.file.nodes]


def _type(dtype, shape):
    return f"{dtype.name}{list(shape)}"


def _ops_of(kernel):
    """The ops that a kernel carries ("add+relu", "conv:onednn")."""
    return kernel["ops"].split(":")[0].split("+")


def _is_product(kernel):
    return any(op.startswith(_PRODUCTS) for op in _ops_of(kernel))


def _is(names, word):
    return any(n in word.lower() for n in names)


def _fusion(names, binding):
    kernels = binding["kernels"]
    norms = sum("batch" in n.lower() and "norm" in n.lower() for n in names)
    left = sum(any("batch_norm" in o for o in _ops_of(k)) for k in kernels)
    fused = Counter(k["ops"].split(":")[0] for k in kernels if len(_ops_of(k)) > 1)
    alone = Counter(_ops_of(k)[0] for k in kernels if len(_ops_of(k)) == 1 and not _is_product(k))
    return {
        "operators": sum(n not in _NO_WORK for n in names), "kernels": len(kernels), "batch_norms": norms,
        "batch_norms_folded": max(0, norms - left), "fused": dict(fused.most_common()), "alone":
        dict(alone.most_common())
    }


# ---- words -------------------------------------------------------------------------------------------------
def _advice(data, names):
    lines = []
    if data["unsupported"]:
        lines.append(
            f"{len(data['unsupported'])} operators have no mapping: map them in a hook (yuloh convert --hook), or export "
            "the model with simpler ones.")
    fusion = data.get("fusion")
    if fusion:
        lines.append(
            f"Fusion: {fusion['operators']} operators become {fusion['kernels']} kernels; "
            f"{sum(fusion['fused'].values())} of them carry several ops" +
            (f"; {fusion['batch_norms_folded']} of {fusion['batch_norms']} batch norms are folded into the weights before them"
             if fusion["batch_norms"] else "") + ".")
    if not data["bindings"] or "kernels" not in data["bindings"][-1]:
        return lines
    kernels, total = data["bindings"][-1]["kernels"], max(1.0, data["bindings"][-1]["flops"])
    products = [k for k in kernels if _is_product(k)]
    share = sum(k["flops"] for k in products) / total
    quantised = [n for n in names if _is(("quantize", "qlinear"), n)]
    delicate = sorted({n for n in names if _is(_DELICATE, n)})
    if quantised:
        lines.append(f"Quantisation: the model is quantised already ({len(quantised)} operators).")
    elif share >= 0.5:
        lines.append(
            f"Quantisation: {len(products)} products and convolutions make up {share:.0%} of the FLOPs, so int8 suits the model; "
            f"its weights would take about {_size(data['weight_bytes'] / 4)} instead of {_size(data['weight_bytes'])}. "
            "Keep the first and the last of them in float until the accuracy is measured" +
            (f", and {', '.join(delicate[:4])} always (disabled_ops)." if delicate else "."))
    else:
        lines.append(
            f"Quantisation: products and convolutions are {share:.0%} of the FLOPs only; int8 would save memory for weights, "
            "little time.")
    if share >= 0.5:
        lines.append(
            "Half: enable_tensorrt_engine(precision_mode=PrecisionType.Half) computes products and convolutions in bfloat16"
            + (f"; disabled_ops={delicate[:4]} keeps the others in float32 if answers differ." if delicate else "."))
    moved = sum(k["bytes"] for k in kernels if k not in products)
    everything = max(1.0, data["bindings"][-1]["bytes"])
    if moved > 0.5 * everything:
        worst = Counter()
        for k in kernels:
            if k not in products:
                worst[k["ops"].split(":")[0]] += k["bytes"]
        lines.append(
            f"Memory: {moved / everything:.0%} of the bytes are moved by kernels that are not products, most by " +
            ", ".join(f"{n} ({b / everything:.0%})" for n, b in worst.most_common(3)) + ".")
    return lines


def _size(n):
    for unit in ("B", "KB", "MB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.2f} GB"


def _many(n):
    for unit, by in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= by:
            return f"{n / by:.2f} {unit}"
    return f"{n:.0f} "


def _ports(ports):
    return ", ".join(f"{p['name']} {p['dtype']}[{', '.join(map(str, p['shape']))}]" for p in ports) or "none"


def _lines(d):
    yield f"{os.path.basename(d['model'])}: {d['format']}" + (", opset " + ", ".join(f"{k + ' ' if k else ''}{v}"
                                                                                     for k, v in d["opsets"].items())
                                                              if "opsets" in d else "")
    yield f"  inputs      {_ports(d['inputs'])}"
    yield f"  outputs     {_ports(d['outputs'])}"
    types = ", ".join(f"{n} {t}" for t, n in d["weight_types"].items())
    yield f"  parameters  {d['parameters']:,} in {_size(d['weight_bytes'])} ({types or 'none'})"
    total = sum(d["operators"].values())
    yield f"  operators   {total} of {len(d['operators'])} kinds"
    cells = [f"{name} {n}" for name, n in d["operators"].items()]
    width = max((len(c) for c in cells), default=0) + 2
    for i in range(0, len(cells), max(1, 96 // width)):
        yield "    " + "".join(c.ljust(width) for c in cells[i:i + max(1, 96 // width)]).rstrip()
    yield f"  unsupported {'none' if not d['unsupported'] else ''}".rstrip()
    for u in d["unsupported"]:
        yield f"    {u['operator']} x{u['count']}, first at {u['place']}"
    if d["bindings"]:
        yield "  Per request, by the plan:"
        rows = [("sizes", "FLOPs", "bytes moved", "peak memory", "work memory", "kernels")]
        for b in d["bindings"]:
            sizes = ", ".join(f"{k}={v}" for k, v in b["sizes"].items()) or "fixed"
            rows.append((sizes, "?", "?", "?", "?",
                         "?") if "flops" not in b else (sizes, _many(b["flops"]), _size(b["bytes"]),
                                                        _size(b["peak_bytes"]), _size(b["arena_bytes"]),
                                                        str(b["steps"])))
        yield from columns.table((), rows, limit=columns.UNBOUNDED, indent="    ")
    if "details" in d:
        yield "  Operators, with results at the last sizes:"
        for op in d["details"]:
            yield f"    {op['operator']:<24} {', '.join(op['outputs'])}  {op['name']}"
        if d["bindings"] and "kernels" in d["bindings"][-1]:
            yield "  Kernels at the last sizes:"
            for k in d["bindings"][-1]["kernels"]:
                yield f"    {_many(k['flops']):>10}FLOP {_size(k['bytes']):>10}  {k['ops']}  [{k['kernel']}]"
    fusion = d.get("fusion")
    if fusion and fusion["fused"]:
        yield "  Fused: " + ", ".join(f"{n} x{c}" for n, c in list(fusion["fused"].items())[:8])
    for note in d["notes"]:
        yield f"  Note: {note}"
    if d["advice"]:
        yield "  Advice:"
        for line in d["advice"]:
            yield f"    - {line}"
