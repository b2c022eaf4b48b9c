# SPDX-License-Identifier: Apache-2.0
"""Test room: expands tests/vectors/*.txt (format: tests/vectors/README.md) into checks of every op.

One pytest test per section. ``python tests/python/test_vectors.py NAME...`` runs single sections and prints each
failure; ``VECTORS_JOBS`` sets worker processes of the command form.
"""

import os
import re
import subprocess
import sys
import traceback
import zlib
from pathlib import Path

import numpy as np
import pytest

import yuloh as paddle
import vector_reference as reference
from yuloh import _core

F = paddle.nn.functional
T = paddle.to_tensor
FOLDER = Path(__file__).resolve().parent.parent / "vectors"
TOLERANCE = {"float64": 1e-9, "float32": 4e-6, "bfloat16": 1.6e-2, "float16": 2e-3}
SPECIALS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 0.5, -2.5]


class Section:
    """One op: groups of (call, ref, inputs, gradients), exact values and errors."""

    def __init__(self, name, where):
        self.name, self.where, self.groups, self.checks = name, where, [], []


def parse(path):
    """Sections of one vector file."""
    sections, group = [], None
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        line = raw.split(" #")[0].rstrip() if not raw.startswith("#") else ""
        if not line:
            continue
        if line.startswith("["):
            sections.append(Section(line.strip("[]"), f"{path.name}:{number}"))
            group = None
            continue
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word == "call":
            old = group or {}
            group = {
                "call": rest,
                "ref": None,
                "in": [],
                "grad": [],
                "dtypes": old.get("dtypes", ["float32", "float64"]),
                "tol": dict(old.get("tol", {})),
                "bits": False,
                "line": number,
            }
            sections[-1].groups.append(group)
        elif word in ("value", "error"):
            sections[-1].checks.append((word, rest, number))
        elif word == "in":
            group["in"].append(rest)
        elif word == "tol":
            group["tol"].update({k: float(v) for k, v in (p.split("=") for p in rest.split())})
        elif word in ("dtypes", "grad"):
            group[word] = [] if rest == "none" else rest.split()
        elif word == "bits":
            group["bits"] = rest == "same"
        elif word == "ref":
            group["ref"] = rest
        else:
            raise ValueError(f"{path.name}:{number}: unknown word {word!r}")
    return sections


def all_sections():
    """Every section of every file, in name order."""
    return [s for path in sorted(FOLDER.glob("*.txt")) for s in parse(path)]


def draw(shape, kind, dtype, rng):
    """A NumPy array of the distribution; float kinds come as float64 values representable in ``dtype``."""
    n = int(np.prod(shape))
    if m := re.fullmatch(r"int\((-?\d+),(-?\d+)\)", kind):
        return rng.integers(int(m[1]), int(m[2]), shape)
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        low = 0 if dtype.startswith("u") else -4
        return rng.integers(1 if kind == "pos" else low, 5, shape)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind == "special":
        return np.resize(np.array(SPECIALS), shape) if n else np.zeros(shape)
    if kind == "pos":
        return rng.uniform(0.2, 2, shape)
    if kind == "unit":
        return rng.uniform(-0.9, 0.9, shape)
    if kind == "prob":
        return rng.uniform(0.05, 0.95, shape)
    if kind == "distinct":
        return (rng.permutation(n).reshape(shape) - n / 2) * 0.125 + 0.03
    if kind == "apart":
        return rng.integers(-6, 6, shape) * 0.5 + rng.choice([0.2, 0.3], shape)
    if kind == "normal":
        return rng.standard_normal(shape)
    raise ValueError(f"unknown distribution {kind!r}")


def parse_inputs(text):
    """[(name, shape, distribution)] of an ``in`` line."""
    found = re.findall(r"(\w+)=\[([\d,]*)\](?::(\w+(?:\(-?\d+,-?\d+\))?))?", text)
    return [(n, tuple(int(v) for v in s.split(",") if v), d or "normal") for n, s, d in found]


def tensor(array, dtype, strided=False):
    """Tensor of ``array``; ``strided``: as a transposed, offset view of a larger tensor."""
    if array.dtype in (np.bool_, np.int64) and dtype is None:
        dtype = str(array.dtype)
    if not strided or array.ndim == 0:
        return T(array, dtype=dtype)
    wide = np.repeat(np.moveaxis(array, -1, 0), 2, axis=0)
    base = T(np.ascontiguousarray(wide), dtype=dtype)
    return base[::2].transpose([*range(1, array.ndim), 0])


def plain(value):
    """Results as a list of NumPy arrays (bfloat16 as float32)."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [
        (v.astype("float32") if v.dtype in ("bfloat16", "float16") else v).numpy()
        if isinstance(v, paddle.Tensor)
        else np.asarray(v)
        for v in items
    ]


def _wide(array):
    return (
        array.astype(np.float64)
        if array.dtype.kind == "f"
        else array.astype(np.int64)
        if array.dtype.kind in "iu"
        else array
    )


def scope(**names):
    """Names that expressions may use."""
    base = {k: v for k, v in vars(reference).items() if not k.startswith("_")}
    return {
        **base,
        "np": np,
        "paddle": paddle,
        "F": F,
        "T": T,
        "ops": _core.ops,
        "inf": np.inf,
        "nan": np.nan,
        **names,
    }


def compare(got, want, tol, what):
    """Raises AssertionError unless values agree: relative to the largest finite value, NaN and inf in place."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if got.dtype.kind in "biu" and want.dtype.kind in "biu":
        assert np.array_equal(got, want), f"{what}: got {got.tolist()}, expected {want.tolist()}"
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    assert np.array_equal(np.isnan(a), np.isnan(b)), (
        f"{what}: NaN differs, got {got.tolist()}, expected {want.tolist()}"
    )
    ok = ~np.isnan(b)
    big = 3.3e38 if got.dtype != np.float64 else np.inf
    clip = lambda v: np.where(np.abs(v) >= big, np.copysign(np.inf, v), v)  # noqa: E731  (overflow of the narrower dtype)
    a, b = clip(a[ok]), clip(b[ok])
    assert np.array_equal(np.isinf(a), np.isinf(b)), (
        f"{what}: inf differs, got {got.tolist()}, expected {want.tolist()}"
    )
    fin = np.isfinite(b)
    a, b = a[fin], b[fin]
    if a.size == 0:
        return
    error = np.abs(a - b) / np.maximum(np.abs(b), 1.0)
    assert error.max() <= tol, (
        f"{what}: error {error.max():.3g} above {tol:.3g}; got {got.tolist()}, expected {want.tolist()}"
    )


class Flag:
    """Sets a core flag for a while."""

    def __init__(self, name, value):
        self.name, self.value = name, value

    def __enter__(self):
        self.old = _core.get_flag(self.name)
        _core.set_flag(self.name, self.value)

    def __exit__(self, *_):
        _core.set_flag(self.name, self.old)


def evaluate(code, inputs):
    """The call on tensors, as NumPy arrays."""
    return plain(eval(code, scope(**inputs)))


def finite_differences(code, arrays, names, weights):
    """d sum(weights * outputs) / d input by central differences, in float64."""

    def total(values):
        out = evaluate(
            code, {k: tensor(v, None if v.dtype != np.float64 else "float64") for k, v in values.items()}
        )
        return sum(float((o.astype(np.float64) * w).sum()) for o, w in zip(out, weights))

    grads = {}
    for name in names:
        g = np.zeros(arrays[name].shape)
        for at in np.ndindex(g.shape):
            h = 1e-5
            side = []
            for sign in (h, -h):
                moved = {k: v.copy() for k, v in arrays.items()}
                moved[name][at] += sign
                side.append(total(moved))
            g[at] = (side[0] - side[1]) / (2 * h)
        grads[name] = g
    return grads


def check_gradient(code, arrays, names, rng):
    tensors = {k: tensor(v, None if v.dtype != np.float64 else "float64") for k, v in arrays.items()}
    for name in names:
        tensors[name].stop_gradient = False
    out = eval(code, scope(**tensors))
    items = [o for o in (out if isinstance(out, (list, tuple)) else [out])]
    weights = [rng.uniform(0.5, 1.5, o.shape) if o.dtype == "float64" else np.zeros(o.shape) for o in items]
    loss = None
    for o, w in zip(items, weights):
        if o.dtype == "float64":
            part = (o * T(w, dtype="float64")).sum()
            loss = part if loss is None else loss + part
    loss.backward()
    with paddle.no_grad():
        want = finite_differences(code, arrays, names, weights)
    for name in names:
        got = tensors[name].grad
        got = np.zeros(arrays[name].shape) if got is None else got.numpy()
        compare(got, want[name], 2e-6, f"gradient of {name}")


def check_case(group, text, dtype, failures, section):
    rng = np.random.default_rng(zlib.crc32(f"{section.name} {group['call']} {text} {dtype}".encode()))
    inputs = parse_inputs(text)
    arrays, tensors, strided = {}, {}, {}
    for name, shape, kind in inputs:
        a = draw(shape, kind, dtype, rng)
        fixed = kind == "bool" or kind.startswith("int(")
        t = tensor(a, None if fixed else dtype)
        arrays[name] = a if fixed else _wide(plain(t)[0])
        tensors[name], strided[name] = t, (a, None if fixed else dtype)
    tol = group["tol"].get(dtype, TOLERANCE.get(dtype, 0))
    at = f"{section.where} {group['call']} | {text} | {dtype}"

    def attempt(what, f):
        try:
            f()
        except Exception as e:  # noqa: BLE001  (every failure is reported)
            tail = (
                ""
                if isinstance(e, AssertionError)
                else "".join(traceback.format_exception_only(type(e), e)).strip()
            )
            failures.append(f"{at}: {what}: {e if not tail else tail}")
            return False
        return True

    base = {}

    def value():
        with np.errstate(all="ignore"):
            base["got"] = evaluate(group["call"], tensors)
            if group["ref"]:
                want = eval(group["ref"], scope(**arrays))
                want = [np.asarray(w) for w in (want if isinstance(want, (list, tuple)) else [want])]
                assert len(want) <= len(base["got"]), "fewer results than expected"
                for k, w in enumerate(want):
                    compare(base["got"][k], w, tol, f"result {k}")

    if not attempt("value", value):
        return

    def variant(make, bits):
        for k, (got, want) in enumerate(zip(make(), base["got"])):
            if bits:
                assert got.tobytes() == want.tobytes(), (
                    f"result {k}: bits differ, {got.tolist()} and {want.tolist()}"
                )
            else:
                compare(got, want, tol, f"result {k}")

    def unfused():
        with Flag("fusion", False):
            return evaluate(group["call"], tensors)

    def eager():
        with Flag("eager", True):
            return evaluate(group["call"], tensors)

    def reference():
        with Flag("library", False):
            return evaluate(group["call"], tensors)

    def in_place():
        """The same by the in-place method: returns its tensor, and an alias made before sees the result."""
        x = tensor(*strided["x"])
        alias = x.detach()
        result = eval(re.sub(r"^paddle\.(\w+)\(x,?\s*", r"x.\1_(", group["call"]), scope(**{**tensors, "x": x}))
        assert result is x, "another tensor came back"
        compare(plain(alias)[0], plain(x)[0], 0, "alias")
        return plain(x)

    attempt("unfused", lambda: variant(unfused, group["bits"]))
    if dtype == group["dtypes"][0]:
        attempt("eager", lambda: variant(eager, group["bits"]))
        attempt("without libraries", lambda: variant(reference, False))
        m = re.match(r"paddle\.(\w+)\(x\s*[,)]", group["call"])
        if m and hasattr(paddle.Tensor, m[1] + "_") and len(base["got"]) == 1 and base["got"][0].shape == arrays["x"].shape \
                and base["got"][0].dtype == plain(tensors["x"])[0].dtype:
            attempt("in place", lambda: variant(in_place, False))
        attempt(
            "strided",
            lambda: variant(
                lambda: evaluate(group["call"], {k: tensor(a, d, True) for k, (a, d) in strided.items()}),
                False,
            ),
        )


def check_exact(kind, text, number, failures, section):
    at = f"{section.where.split(':')[0]}:{number}"
    try:
        if kind == "value":
            m = re.fullmatch(r"(.*)\s==\s(.*?)(?:\s+(bool|u?int\d+|b?float\d+))?", text)
            got = eval(m[1], scope())
            if m[3]:
                first = got[0] if isinstance(got, (list, tuple)) else got
                assert first.dtype == m[3], f"dtype {first.dtype.name}, expected {m[3]}"
            want = eval(m[2], scope())
            pairs = zip(plain(got), want if isinstance(got, (list, tuple)) else [want])
            for g, w in pairs:
                compare(g, np.asarray(w), 2e-6, text)
            return
        m = re.fullmatch(r"(.*?)\s(\w+Error)(?:\s+\"(.*)\")?", text)
        try:
            plain(eval(m[1], scope()))
        except Exception as e:  # noqa: BLE001
            assert type(e).__name__ == m[2], f"{type(e).__name__}: {e}; expected {m[2]}"
            assert not m[3] or m[3] in str(e), f"text {e}; expected {m[3]!r} in it"
            return
        raise AssertionError(f"no error; expected {m[2]}")
    except Exception as e:  # noqa: BLE001
        failures.append(
            f"{at}: {text}: {'' if isinstance(e, AssertionError) else type(e).__name__ + ': '}{e}"
        )


def run_section(section):
    """All failures of one section, as texts."""
    failures = []
    for group in section.groups:
        for text in group["in"]:
            for dtype in group["dtypes"]:
                check_case(group, text, dtype, failures, section)
            if group["grad"] and ":special" not in text:
                rng = np.random.default_rng(zlib.crc32(f"{section.name} {text}".encode()))
                arrays = {n: draw(s, k, "float64", rng) for n, s, k in parse_inputs(text)}
                try:
                    check_gradient(group["call"], arrays, group["grad"], rng)
                except Exception as e:  # noqa: BLE001
                    failures.append(
                        f"{section.where} {group['call']} | {text}: gradient: {type(e).__name__}: {e}"
                    )
    for kind, text, number in section.checks:
        check_exact(kind, text, number, failures, section)
    return failures


def public_names():
    """Public function names of the table: {short name: row}."""
    names = {}
    for row in _core.op_rows():
        for full in row["python"].split():
            if ".Tensor." not in full:
                names.setdefault(full.rsplit(".", 1)[1], row["name"])
    return names


def pytest_generate_tests(metafunc):
    if "section" in metafunc.fixturenames:
        sections = all_sections()
        metafunc.parametrize("section", sections, ids=[s.name for s in sections])


def test_section(section):
    failures = run_section(section)
    assert not failures, f"{len(failures)} failures:\n" + "\n".join(f[:600] for f in failures[:12])


@pytest.mark.parametrize("isa", ["sse2", "avx2"])
def test_other_instruction_sets(isa):
    """All sections again with the interpreter held to a smaller instruction set, in a process of its own."""
    env = {**os.environ, "YULOH_MAX_ISA": isa, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_every_public_op_has_vectors():
    have = {s.name for s in all_sections()}
    rows = {n for n, row in public_names().items() if n not in have and row not in have}
    assert not rows, f"public ops without vectors: {sorted(rows)}"


if __name__ == "__main__":
    wanted = sys.argv[1:]
    total = 0
    for s in all_sections():
        if not wanted or any(re.fullmatch(w, s.name) or w in s.where for w in wanted):
            bad = run_section(s)
            total += len(bad)
            for text in bad[: int(os.environ.get("VECTORS_SHOW", "3"))]:
                print(text[:500])
            if len(bad) > 3:
                print(f"  ... {len(bad)} failures in [{s.name}]")
    print("failures:", total)
    sys.exit(bool(total))
