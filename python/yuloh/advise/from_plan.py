# SPDX-License-Identifier: Apache-2.0
"""A network from a real model: a Layer (or a function that makes one) of a Python file, planned without being run
(yuloh.advise.facts), or a model file. Two batches tell what grows with the batch from what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from . import contained, recompute_layers

from .split import split_fields, split_sentence
from .terms import CLASSES, JOB, KERNELS_OF_LAYER, PLANNED

DOUBT = 0.05  # of bytes that a Plan gave: another executor keeps other temporaries


def network_of(word: str, inputs: Optional[Sequence[str]], job: Dict[str, object], args: Sequence[str] = (),
               seconds: float = contained.SECONDS):
    """(network, title, unit, source, facts) of FILE.py[:NAME], which runs in a process of its own with `args` for `seconds`
    at most, or of a model file. Raises ValueError for what cannot be traced."""
    file, name = (
        (word.split(".py:", 1)[0] + ".py", word.split(".py:", 1)[1]) if ".py:" in word else (word, None)
    )
    if not Path(file).is_file() and not any(Path(file + end).is_file() for end in (".pdmodel", ".json")):
        raise ValueError(
            f"advise: no such model, got {word!r}. Hint: a preset (yuloh advise --list presets), a file, or --params."
        )
    specs = [_spec(text) for text in inputs] if inputs else None
    if file.endswith(".py"):
        return contained.network_of(file, name, specs, job, word, args, seconds)
    if job.get("training", True):
        raise ValueError(
            "advise: a model file is for inference. Hint: add --inference, or give the Layer as FILE.py:NAME."
        )
    return _network_of_file(file, job, specs)


def _network_of_file(path: str, job: Dict[str, object], specs=None):
    """Of a model file, for inference: its Plans at two batches (what `yuloh inspect` shows). Sizes that the file leaves open
    are those of `specs`, else assumed, which a remark of the job says."""
    from ..convert.sources import ModelSource
    from ..inference.model_summary import summarise

    try:
        source = ModelSource.of_file(path)
        sizes, batch = _open_sizes(path, source.program, specs, job)
        found = summarise(source, sizes).as_dict()
    except _Refused:
        raise
    except Exception as error:  # a crafted or unknown file: one sentence
        said = str(error).strip().splitlines() or [""]
        raise ValueError(
            f"advise: {path} cannot be planned: {type(error).__name__}: {said[0][:300]}"
        ) from None
    if found["unsupported"]:
        missing = ", ".join(one["operator"] for one in found["unsupported"][:5])
        raise ValueError(f"advise: {path} has operators without a mapping: {missing}. Hint: yuloh inspect.")
    plans = [b for b in found["bindings"] if "flops" in b]
    if not plans:
        raise ValueError(f"advise: {path} has no plan: {' '.join(found['notes'])[:300]} Hint: yuloh inspect.")
    one, two = plans[0], plans[-1]
    sole = one is two  # no open batch: all that is not weights counts as the batch's

    def grows(key, less=0.0):
        return max(0.0, (one[key] - less) / batch if sole else (two[key] - one[key]) / batch)

    weights = float(found["weight_bytes"])
    work = grows("peak_bytes", weights)
    network = {
        "name": Path(path).name,
        "kind": "totals",
        "params": float(max(1, found["parameters"])),
        "layers": float(max(1, one["steps"] // KERNELS_OF_LAYER)),
        "forward_flops": grows("flops"),
        "kept_elements": grows("bytes", weights) / 4,
        "working_elements": work / 4,
        "spread": DOUBT,
        "fixed_bytes": max(0.0, one["peak_bytes"] - weights - batch * work),
    }
    said = f"the Plans of {Path(path).name} at batch {batch}" + ("" if sole else f" and {2 * batch}")
    return network, Path(path).name, "sample", said, None


class _Refused(ValueError):
    """An --input that the file does not take."""


# Of an open size: pixels of an image, positions of a sequence.
PIXELS, POSITIONS = 224, 128


def _open_sizes(path: str, program, specs, job):
    """({label: sizes} of a file's open sizes, the batch): the first extent at two batches, the others as given or assumed."""
    from ..convert.compare import open_sizes

    ports = [(name, list(dims)) for name, _, dims, *_ in program.inputs]
    if specs is not None and (len(specs) > len(ports) or any(len(s) != len(p[1]) for (s, _), p in zip(specs, ports))):
        has = ", ".join(f"{name} [{', '.join('?' if n < 0 else str(n) for n in dims)}]" for name, dims in ports) or "no inputs"
        raise _Refused(f"advise: --input does not go with {path}, which has {has}. Hint: one --input for each, in this order.")
    for (given, _), (name, dims) in zip(specs or [], ports):
        wrong = [a for a, (g, n) in enumerate(zip(given, dims)) if n >= 0 and g not in (-1, n) and not (a == 0 and n == 1)]
        if wrong:
            raise _Refused(f"advise: {path} has {dims[wrong[0]]} fixed in axis {wrong[0]} of {name}, got {given[wrong[0]]}. "
                           "Hint: ? for a size that is the file's.")
    slots = open_sizes(program)
    said = {label: specs[i][0][axis] for (i, axis), label in slots.items()
            if specs is not None and i < len(specs) and specs[i][0][axis] > 0}
    first = {label for (_, axis), label in slots.items() if axis == 0}
    fixed = next((dims[0] for _, dims in ports if dims and dims[0] >= 0), 0) if not first else 0
    if first and "batch" not in job and "micro" not in job:
        job.update({"batch": float(said[label]) for label in first if label in said})
    batch = int(fixed or job.get("micro") or job.get("batch") or 8)
    sizes, assumed = {}, False
    for (i, axis), label in slots.items():
        if label in first:
            sizes[label] = [batch, 2 * batch]
        elif label not in sizes:
            assumed |= label not in said
            sizes[label] = [said.get(label, PIXELS if len(ports[i][1]) == 4 and axis >= 2 else POSITIONS)]
    if assumed:
        shapes = [[(sizes[slots[i, a]][0] if a else "?") if n < 0 else n for a, n in enumerate(dims)] for i, (_, dims) in enumerate(ports)]
        job["remarks"] = [("assumed_sizes", "; ".join(f"{ports[i][0]} {','.join(map(str, s))}" for i, s in enumerate(shapes)))]
    return sizes, batch


def network_of_model(model, specs, job: Dict[str, object], title: str = ""):
    """The same of a Layer, a callable or a path at hand."""
    batch = int(
        job.get("own_micro") or job.get("micro") or job.get("batch") or (specs and specs[0][0][0] > 0 and specs[0][0][0]) or 8
    )
    open_specs = None if specs is None else [([-1, *shape[1:]], dtype) for shape, dtype in specs]
    # Another device's memory cuts no plan of this one: the network's figures are without a limit, the machine's with its own.
    first, second = (_facts(model, open_specs, job, b, 0) for b in (batch, 2 * batch))
    network, name, unit = _network(first, second, batch, job, title)
    if job.get("script", {}).get("recomputed"):
        network.update(_kept_whole(first["flops"], model, open_specs, job, batch))
    network.update(split_fields(first, batch))
    first["notes"] = [*first["notes"], *planned_as(job), split_sentence(first)]
    first["recompute_layers"] = []
    if job.get("training", True) and not job.get("script", {}).get("recomputed"):
        first["recompute_layers"] = recompute_layers.choices(
            first, lambda names: _facts(model, open_specs, job, batch, 0, recompute=names))
    here = _facts(model, open_specs, job, batch, None)
    first.update({"seconds": here["seconds"], "memory": _memory(here["memory"], model, open_specs, job, batch)})
    return (
        network,
        name,
        unit,
        "planned without being run: the Plans of this model at two batches",
        first,
    )


def _memory(plain: dict, model, specs, job, batch: int) -> dict:
    """Of a script's step, whose gradients may all be held at once: they are where it accumulates, and may be where it reads
    something between backward() and step(), which the high end covers."""
    if "script" not in job:
        return plain
    held = _facts(model, specs, job, batch, None, accumulate=2)["memory"]
    if job.get("batch", batch) > batch:
        return held
    return {**plain, **{k: {**plain[k], "high": max(plain[k]["high"], held[k]["high"])} for k in ("peak", "reserved", "process")}}


def planned_as(job: Dict[str, object]) -> List[str]:
    """Sentences where the plan is of another optimizer or precision than the job, which has none of its own here."""
    said = []
    optimizer, precision = str(job.get("optimizer", JOB["optimizer"])), str(job.get("precision", JOB["precision"]))
    if job.get("training", True) and not CLASSES[optimizer]:
        said.append(f"the plan is of Adam: {optimizer} has none here; the table of memory counts {optimizer}")
    if precision in ("fp8", "int8"):
        said.append(f"the plan is of {PLANNED[precision]}: {precision} has none here; the table of memory counts {precision}")
    return said


def _kept_whole(flops: float, model, specs, job, batch: int) -> Dict[str, float]:
    """Of a step that recomputes parts by itself: its plain forward pass, what is computed again, and the elements that would
    be kept, whose traffic is the same."""
    from ..distributed.fleet import utils

    utils._kept = True
    try:
        a, b = (_facts(model, specs, job, n, 0) for n in (batch, 2 * batch))
    finally:
        utils._kept = False
    plain, *_ = _network(a, b, batch, job, "")
    again = min(plain["forward_flops"], max(0.0, (flops - a["flops"]) / batch))
    return {"forward_flops": plain["forward_flops"], "again_flops": again, "moved_elements": plain["kept_elements"]}


def _facts(model, specs, job, batch: int, limit: Optional[int], recompute: Sequence[str] = (), accumulate: int = 1) -> dict:
    from .facts import facts

    training = bool(job.get("training", True))
    words = {"training": training, "precision": PLANNED[str(job.get("precision", JOB["precision"]))], "batch": batch, "pending_limit": limit,
             "recompute": list(recompute), "accumulate": accumulate}
    if job.get("script", {}).get("cast"):
        words["precision"] = f"amp-{words['precision']}"
    if training:
        words["optimizer"] = CLASSES[str(job.get("optimizer", JOB["optimizer"]))] or "Adam"
    try:
        return facts(model, specs, **words)
    except Exception as error:  # whatever the user's model raises: one sentence, no traceback
        said = str(error).strip().splitlines() or [""]
        indices = ", with :int64 where indices are meant" if "integer" in said[0] else ""
        raise ValueError(
            f"advise: the model cannot be traced: {type(error).__name__}: {said[0][:300]} Hint: check --input{indices}."
        ) from error


def _network(a: dict, b: dict, batch: int, job, title: str):
    """What the core needs of two facts, at `batch` and twice as much."""
    element = 2 if PLANNED[str(job.get("precision", JOB["precision"]))] in ("bfloat16", "float16") else 4

    def grows(f):  # a sample's share, from the difference; never below nothing
        return max(0.0, (f(b["memory"]) - f(a["memory"])) / batch)

    def kept(m):
        return m["activations"] + m["inputs"]

    def working(m):
        return m["temporaries"] + m["workspace"] + m["slack"]

    training = bool(job.get("training", True))
    of_sample, work = grows(kept), grows(working)
    if not training:
        of_sample, work = 0.0, of_sample + work
    fixed = a["memory"]["buffers"] + max(
        0.0, kept(a["memory"]) + working(a["memory"]) - batch * (of_sample + work)
    )
    root = a["layers"][0] if a["layers"] else {}
    flops = root.get("flops_forward") or a["flops"] / (3 if training else 1)
    # Inference frees what it has read: what moves tells the traffic that kept bytes tell in training.
    network = {
        "name": a["subject"] or title,
        "kind": "totals",
        "params": float(max(1, a["parameters"])),
        "layers": float(_depth(a["layers"])),
        "forward_flops": flops / batch,
        "kept_elements": (of_sample if training else work) / element,
        "working_elements": work / element,
        "spread": DOUBT,
        "fixed_bytes": fixed,
    }
    return network, f"{title or a['subject']}", "sample"


def _depth(layers: List[dict]) -> int:
    """Steps in a row: the blocks of one list where they hold most of the parameters (a transformer), else the layers with
    parameters of their own, without norms."""
    held: Dict[Tuple[int, str], List[int]] = {}
    for one in layers:
        if one["parameters"] > 0 and one["parent"] >= 0:
            held.setdefault((one["parent"], one["type"]), []).append(one["parameters"])
    whole = layers[0]["parameters"] if layers else 0
    blocks = max((g for g in held.values() if sum(g) >= 0.5 * whole), key=len, default=[])
    if len(blocks) >= 4:
        return len(blocks)
    parents = {one["parent"] for one in layers}
    leaves = [x for i, x in enumerate(layers) if x["parameters"] > 0 and i not in parents]
    return max(1, sum("Norm" not in x["type"] for x in leaves))


# -- inputs --------------------------------------------------------------------------------------------
def _spec(text: str):
    """ "32,3,224,224:float32" -> ([32, 3, 224, 224], "float32"). Raises ValueError."""
    shape, _, dtype = text.partition(":")
    try:
        extents = [-1 if x.strip() in ("?", "-1", "None") else int(x) for x in shape.split(",")]
    except ValueError:
        extents = []
    if not extents or any(n == 0 or n < -1 or n > 1 << 40 for n in extents):
        raise ValueError(
            f"advise: bad --input, got {text!r}; expected extents such as 32,3,224,224 or ?,128:int64."
        )
    return extents, dtype or "float32"
