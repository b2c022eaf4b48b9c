# SPDX-License-Identifier: Apache-2.0
"""Inference room: packages, one verified file for a model of any format (docs/package.md)."""
import os

import numpy as np

from .. import _core
from .samples import RECORD_ERRORS, draw_inputs, read_samples

__all__ = ["pack", "package_info", "verify_package"]

_ROUNDINGS, _LEAST = 32, 1e-5  # of the tolerance: how often this machine's own rounding error, at least, of the largest value


def pack(model, path, *, params="", samples=None, golden=1, shapes=(), sizes=None, seed=0):
    """Writes ``path`` (.yuloh): the graph and weights of ``model`` (ONNX, Paddle, package), golden samples and warm shapes.

    ``samples``: an .npz file of inputs (`name`, or `name.0`, `name.1`, ... for several); else ``golden`` samples are drawn
    (``sizes``: {"name of a size": extent}). ``shapes``: [{input: shape}] to be compiled when the package is loaded; without
    any, the shapes of ``samples``. Each sample's outputs are the model's own in fp32; the tolerance of an output is 32 times
    its distance from the same in float64, at least 1e-5 of its largest value. Returns what ``package_info`` returns.
    """
    model, path = os.fspath(model), os.fspath(path)
    if not path.endswith(".yuloh"):
        raise ValueError(f"pack: a package is named something.yuloh, got {path!r}.")
    if golden < 0:
        raise ValueError(f"pack: the number of golden samples is negative, got {golden}.")
    if not os.path.exists(model):
        raise FileNotFoundError(f"pack: there is no file {model!r}.")
    beside = os.path.splitext(model)[0] + ".pdiparams"
    if not params and model.endswith((".json", ".pdmodel")) and os.path.exists(beside):
        params = beside
    program = _core.load_program(model, params)
    ports = program.inputs
    fed = read_samples(samples, ports) if samples is not None else [draw_inputs(ports, sizes, seed + i) for i in range(golden)]
    warm = [_types(ports, s) for s in shapes]
    if not warm and samples is not None:
        warm = list({str([list(a.shape) for a in arrays]): _shapes(ports, arrays) for arrays in fed}.values())
    session, subject = _core.Session(program), _core.Subject.read(model, params)
    chosen = []
    for arrays in fed:
        outputs = session.run(arrays)
        chosen.append((arrays, outputs, _tolerances(subject, arrays, outputs)))
    _core.write_package(model, params, path, chosen, warm, os.path.basename(model))
    return package_info(path)


def _types(ports, shapes):
    missing = [p[0] for p in ports if p[0] not in shapes]
    if missing or len(shapes) != len(ports):
        raise ValueError(f"pack: shapes are wanted for the inputs {[p[0] for p in ports]}, got {sorted(shapes)}.")
    for p in ports:
        if len(shapes[p[0]]) != len(p[2]) or any(n >= 0 and n != k for n, k in zip(p[2], shapes[p[0]])):
            raise ValueError(f"pack: input `{p[0]}` has the wrong shape, got {list(shapes[p[0]])}; expected {list(p[2])} (-1: any).")
    return [(list(shapes[p[0]]), p[1]) for p in ports]


def _shapes(ports, arrays):
    return [(list(a.shape), p[1]) for p, a in zip(ports, arrays)]


def _tolerances(subject, arrays, outputs):
    try:
        wide = subject.wide(arrays)
    except RECORD_ERRORS:  # an op without float64
        wide = [None] * len(outputs)
    found = []
    for got, exact in zip(outputs, wide):
        if not got.dtype.is_floating_point():
            found.append(0.0)
            continue
        m = _core.measure(got, got if exact is None else exact, got if exact is None else exact, 2.0 ** -24, got.dtype)
        found.append(max(_ROUNDINGS * m["max_error"], (10 if exact is None else 1) * _LEAST * m["largest"]))
    return found


def package_info(path):
    """What a package holds, after every byte of it was checked: {"about", "hash", "sections": [(name, bytes, hash)], "warm",
    "golden": number of samples, "traced"}. ValueError that says what is wrong with a damaged, foreign or hostile file.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"pack: there is no file {path!r}.")
    facts = _core.package_facts(path)
    return {**facts, "golden": len(facts["golden"])}


def check_samples(session, golden):
    """[(sample, output, largest error, tolerance, fits)] of golden samples run by a session."""
    rows = []
    for i, (inputs, outputs, tolerances) in enumerate(golden):
        got = session.run(inputs)
        if len(got) != len(outputs):
            raise ValueError(f"golden sample {i}: the program gives {len(got)} outputs; expected {len(outputs)}.")
        for k, (x, y, tolerance) in enumerate(zip(got, outputs, tolerances)):
            if list(x.shape) != list(y.shape) or x.dtype != y.dtype:
                rows.append((i, k, np.inf, tolerance, False))
                continue
            m = _core.measure(x, y, y, 2.0 ** -24, y.dtype)
            error = np.inf if m["not_finite"] else m["max_error"]
            rows.append((i, k, error, tolerance, bool(error <= tolerance)))
    return rows


def verify_package(path):
    """Checks every byte of a package and runs its golden samples on this machine: [(sample, output, largest error,
    tolerance, fits)]. A package without samples gives [].
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"pack: there is no file {path!r}.")
    facts = _core.package_facts(path)
    return check_samples(_core.Session(_core.load_program(path, "")), facts["golden"])


def require_samples(session, path, lowered):
    """For ``Config.verify_golden_samples``: raises RuntimeError where a sample does not come out as it did."""
    if not path or not _core.is_package(path):
        raise ValueError(f"create_predictor: verify_golden_samples wants a package, got {path!r}. Hint: yuloh pack MODEL -o model.yuloh.")
    if lowered:
        raise ValueError("create_predictor: golden samples hold for fp32, and products were asked for in bf16. Hint: verify once "
                         "without enable_tensorrt_engine(precision_mode=Half).")
    golden = _core.package_facts(path)["golden"]
    if not golden:
        raise ValueError(f"create_predictor: {path} holds no golden samples. Hint: yuloh pack --golden 3.")
    bad = [r for r in check_samples(session, golden) if not r[4]]
    if bad:
        i, k, error, tolerance, _ = bad[0]
        raise RuntimeError(f"create_predictor: {path}: output {k} of golden sample {i} is off by {error:.3g} on this machine; expected at "
                           f"most {tolerance:.3g}. Hint: `yuloh pack --verify {path}` lists all.")
