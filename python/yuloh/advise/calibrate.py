# SPDX-License-Identifier: Apache-2.0
"""Advice room: measures this machine into a device file (device_file.py).

Peaks first (arithmetic by dtype, memory by direction and threads), then the efficiencies: small networks of every
kind of layer train for a few steps under the profiler, and per kind of kernel, dtype, size and place of its data (caches
or beyond) it is noted what share of its roofline it reached there. What is left of a step is the host's: Python, recording,
starting kernels, reading results. Each network is then predicted from all the others: how far off that is, is the
interval of every later estimate. None of them is a model of bench/estimates.py.
"""
from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

from .. import _core
from . import device_file
from .calibrate_nets import AGAIN, suite

__all__ = ["calibrate", "measure", "suite"]

STEPS = 5    # profiled, after two that are not
COVERED = 0.95  # of the left-out runs lie within the interval
ABOVE = 1.2  # of a measured peak, what no product can reach
SIZE = 512 << 10  # bytes of a device file, at most about
HELD = 0.03  # share of the time that a CPU quota or the hypervisor may take before it is told
NEEDED = {True: 0.9e9, False: 1.2e9}  # bytes, quick or not: the largest network, or the rest of it and a child of _process
BUSY = 1.12  # median over shortest time of equal steps, from which on a machine is called busy


def _train(make, spec, precision, mode, cache=32e6) -> Dict[str, Any]:
    """One run: its kernels as `_core.profile_costs` tells them, and what a step took and did."""
    import numpy as np
    import yuloh as paddle
    from ..distributed.fleet.utils import recompute
    shape, dtype = spec
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(rng.standard_normal(shape).astype("float32") if dtype == "float32" else rng.integers(0, 900, shape))
    net, training = make(), mode != "inference"
    net.train() if training else net.eval()
    if mode == "again":
        for block in net.blocks:
            block.forward = lambda *a, _f=block.forward: recompute(_f, *a)
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    y = paddle.to_tensor(rng.integers(0, 50, shape if dtype == "int64" else shape[:1]))

    def step():
        with paddle.amp.auto_cast(enable=precision == "bfloat16", dtype="bfloat16"):
            out = net(x)
            if not training:
                return out.numpy()
            loss = paddle.nn.functional.cross_entropy(out.reshape([-1, out.shape[-1]]), y.reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss.numpy()

    with contextlib.nullcontext() if training else paddle.no_grad():
        step(), step()
        before = _core.stats()
        _core.start_profile()
        for _ in range(STEPS):
            step()
        _core.stop_profile()
        after, walls = _core.stats(), []
        rows = _core.profile_costs(cache)
        for _ in range(STEPS):
            begin = time.perf_counter()
            read = step().nbytes
            walls.append(time.perf_counter() - begin)
    return {"rows": rows, "training": training, "wall": statistics.median(walls), "best": min(walls),
            "inside": sum(row[2] * row[-1] for row in rows) / STEPS, "moved": sum(row[4] * row[-1] for row in rows) / STEPS,
            "read": 0 if training else read, **{k: (after[k] - before[k]) / STEPS for k in ("calls", "kernels")}}


# ---- figures -----------------------------------------------------------------------------------------------------
def measure(quick: bool = False, tell: Callable[[str], None] = lambda line: None) -> Dict[str, Any]:
    """The contents of the device file."""
    from ..bench import machine, peaks
    tell("peaks of arithmetic and memory")
    found = {k: float(v) for k, v in peaks.measure(0.05).items()}
    threads = int(found.pop("threads"))
    name = f"{machine.cpu_facts()['model']} x {threads} thread{'s' * (threads > 1)}"
    record = {"version": _core.device_file_version, "host": platform.node(), "name": name,
              "date": time.strftime("%Y-%m-%d"), "origin": "measured", "threads": threads, "peaks": found,
              "memory_bytes": _core.machine_memory()[0], "memory": _memory(threads, found), "cache": _cache()}
    runs, others = [], _Others()
    precisions = ["float32"] + (["bfloat16"] if "bf16" in found else [])
    for name, make, spec in suite(quick):
        for precision in precisions:
            for mode in ("training", "inference", *(["again"] if name in AGAIN else [])):
                tell(f"{name}, {precision}, {mode if mode != 'again' else 'training with recompute'}")
                runs.append({"network": name, **_train(make, spec, precision, mode, record["cache"])})
    tell("the first network again")
    name, make, spec = suite(quick)[0]
    drift = _train(make, spec, "float32", "training")["wall"] / runs[0]["wall"]
    jitter = statistics.median(r["wall"] / r["best"] for r in runs)
    record["disturbed"] = ""
    busy = others.told(jitter, drift, threads)
    record["process"] = _process(tell)
    record.update(_rates(record, runs))
    record["disturbed"] = "; ".join(filter(None, (busy, impossible(record["efficiencies"]))))
    tell("every network from the others")
    record["residuals"] = sorted(abs(x) for x in _left_out(record, runs))
    record["spread"] = math.exp(_quantile(record["residuals"], COVERED)) if record["residuals"] else 2.0
    return record


def impossible(rows) -> str:
    """A sentence if products are quicker than the peaks that were measured just before, else ""."""
    shares = [r["efficiency"] for r in rows if r["name"].startswith(("gemm", "conv/"))]
    above = [s for s in shares if s > ABOVE]
    if not above:
        return ""
    return (f"{len(above)} of {len(shares)} kinds of products reach more than {100 * ABOVE:.0f} % of the peak that was measured for them, up to "
            f"{100 * max(above):.0f} %, so the peaks are too low")


def _rates(record, runs) -> Dict[str, Any]:
    """What these runs say of kernels and host."""
    roof = _Roof(record["peaks"])
    samples: Dict[tuple, List[tuple]] = {}
    for run in runs:
        for kernel, dtype, seconds, flops, moved, far, _ in run["rows"]:
            dense = math.log2(max(flops, moved / 16, 1.0) / max(moved, 1.0))  # Rates::intensity
            samples.setdefault((kernel, dtype), []).append((roof(dtype, flops, moved), dense, far, seconds))
    return {"per_kernel": min(s for v in samples.values() for *_, s in v),
            "efficiencies": [row for key in sorted(samples) for row in _efficiencies(key, samples[key])],
            "host_rates": {name: _host([r for r in runs if r["training"] == training], record["cache"])
                     for name, training in (("training", True), ("inference", False))}}


def _host(runs, cache) -> Dict[str, float]:
    """Rates::host_seconds (src/advise/rates.cpp), fitted to what these steps took beside their kernels."""
    table, want = [], []
    for r in runs:
        cold = min(1.0, r["moved"] / (_core.cold_traffic * cache))
        rest = max(1e-6, r["wall"] - r["inside"])
        weight = 1 / (rest + 0.02 * r["wall"])  # right in small steps; in long ones a few per cent do not matter
        table.append([weight * x for x in (cold, r["calls"], cold * r["calls"], r["kernels"], r["read"])])
        want.append(weight * rest)
    return _solved(["step", "call", "call_cold", "kernel", "byte"], table, want)


def _left_out(record, runs) -> List[float]:
    """log(predicted / measured) of every run, predicted from the runs of all other networks."""
    found = []
    for name in dict.fromkeys(r["network"] for r in runs):
        rest = [r for r in runs if r["network"] != name]
        if not any(r["training"] for r in rest) or all(r["training"] for r in rest):
            continue
        device = {**record, **_rates(record, rest), "spread": 2.0}
        text = json.dumps(device)
        for r in (r for r in runs if r["network"] == name):
            kernels = _core.rates_seconds(text, [(k, d, f, b, far) for k, d, _, f, b, far, _ in r["rows"]])
            h = device["host_rates"]["training" if r["training"] else "inference"]
            cold = min(1.0, r["moved"] / (_core.cold_traffic * record["cache"]))
            host = cold * h["step"] + r["calls"] * (h["call"] + cold * h["call_cold"]) + r["kernels"] * h["kernel"] + r["read"] * h["byte"]
            inside = sum(s * row[-1] for s, row in zip(kernels, r["rows"])) / STEPS
            found.append(math.log((inside + host) / r["wall"]))
    return found


def _quantile(ordered, share):
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def _cache() -> float:
    """Bytes of the largest cache that Linux tells of."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            word = path.read_text(encoding="ascii").strip()
            sizes.append(int(word[:-1]) * {"K": 2**10, "M": 2**20, "G": 2**30}[word[-1]])
    return float(max(sizes, default=32 << 20))


class _Others:
    """What else ran meanwhile on the processors that this process may use, and what held it back."""

    def __init__(self):
        self.begin = self._read()

    @staticmethod
    def _read():
        """(seconds of these processors' work, of work taken by the hypervisor, our own, stopped by a quota, now)."""
        ours, tick = {f"cpu{n}" for n in os.sched_getaffinity(0)}, os.sysconf("SC_CLK_TCK")
        work = steal = 0.0
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/stat", encoding="ascii") as f:
            for name, *words in (line.split() for line in f):
                if name in ours:
                    user, nice, system, _, _, irq, soft, taken = (int(w) / tick for w in words[:8])
                    work, steal = work + user + nice + system + irq + soft, steal + taken
        return work, steal, time.process_time(), _core.throttled_seconds(), time.perf_counter()

    def told(self, jitter, drift, threads) -> str:
        """A sentence if the figures are disturbed, else ""."""
        work, steal, own, stopped, passed = (b - a for a, b in zip(self.begin, self._read()))
        processors = len(os.sched_getaffinity(0))
        others, stolen, held = max(0.0, work - own) / passed / processors, steal / passed / processors, stopped / passed / threads
        why = [f"equal steps took {100 * (jitter - 1):.0f} % longer than the shortest"] if jitter > BUSY else []
        why += [f"the first network took {100 * drift:.0f} % of its first time at the end"] if not 1 / BUSY < drift < BUSY else []
        why += [f"other processes kept the processors busy for {100 * others:.0f} % of the time"] if others > 0.15 else []
        why += [f"the hypervisor took {100 * stolen:.0f} % of the time"] if stolen > HELD else []
        why += [f"a CPU quota stopped this process for {100 * held:.0f} % of the time"] if held > HELD else []
        return f"the machine was busy while it was measured ({', '.join(why)})" if why else ""


class _Roof:
    """Seconds at full peak or bandwidth: src/advise/rates.cpp."""

    def __init__(self, peaks):
        self.fp32, self.bandwidth = peaks["fp32"], peaks["copy"]
        self.half = peaks.get("bf16", self.fp32)

    def __call__(self, dtype, flops, moved):
        return max(flops / (self.half if dtype in ("bfloat16", "float16") else self.fp32), moved / self.bandwidth, 1e-9)


def _efficiencies(key, samples):
    """Per octave of roof and intensity, and half of the far share: total roof over total time, which keeps sums right."""
    octaves: Dict[tuple, List[float]] = {}
    for roof, dense, far, seconds in samples:
        entry = octaves.setdefault((round(math.log2(roof * 1e9)), round(dense), round(2 * far)), [0.0] * 6)
        for k, value in enumerate((roof, seconds, 1, math.log2(roof * 1e9), dense, far)):
            entry[k] += value
    return [{"name": key[0], "dtype": key[1], "log2_roof_ns": round(at / n, 3), "log2_intensity": round(dense / n, 3),
             "far": round(far / n, 3), "efficiency": float(f"{roof / seconds:.5g}"), "samples": int(n)}
            for _, (roof, seconds, n, at, dense, far) in sorted(octaves.items()) if seconds > 0]


def _memory(threads, peaks):
    """Bytes/s of reading, writing and copying at 1 .. n threads."""
    import yuloh as paddle
    found = []
    for n in sorted({1, threads}):
        _core.set_num_threads(n)
        p = dict(_core.machine_peaks(0.05)) if n != threads else peaks
        best = float("inf")
        for _ in range(4):
            t = paddle.full([1 << 24], 1.5)
            begin = time.perf_counter()
            _core.run_pending()
            best = min(best, time.perf_counter() - begin)
            del t
        found.append({"threads": n, "read": float(p["read"]), "copy": float(p["copy"]), "write": (1 << 26) / best})
    _core.set_num_threads(threads)
    return found


_CHILD = """
import json, sys
import yuloh as paddle
from yuloh.advise import calibrate
def high():
    return next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
paddle.ones([2]).numpy()
start = high()
name, precision = sys.argv[1:]
make, spec = next((m, s) for n, m, s in calibrate.suite(False) if n == name)
kernels = calibrate._train(make, spec, precision, "training")["kernels"]
print(json.dumps([start, high() - paddle.device.max_memory_reserved(), paddle._core.stats()["plan_cache_bytes"], kernels]))
"""


def _process(tell):
    """What a process takes beside the allocator: a base, and what grows with its plans, from fresh processes."""
    found = []
    _core.release_cached_memory()
    for name in ("ladder", "grouped", "words", "recurrent", "plain", "joined"):
        tell(f"a process that trains {name}")
        for precision in ("float32", "bfloat16"):
            done = subprocess.run([sys.executable, "-c", _CHILD, name, precision], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
            if done.returncode:
                said = done.stderr.strip().splitlines()[-1:] or [f"signal {-done.returncode}: was the memory full?"]
                raise ValueError(f"calibrate: a process that trains {name} ended midway ({said[0]}). Hint: free some memory.")
            found.append(json.loads(done.stdout.splitlines()[-1]))
    base = statistics.median(f[0] for f in found)
    return {"interpreter": base, "spread": 0.1, **_fit([(f[1] - base, f[2], f[3]) for f in found])}


def _fit(rows):
    """scratch + code_share * plans + step_bytes * steps of the plan (what compiling it takes stays with the process)."""
    return _solved(["scratch", "code_share", "step_bytes"], [[1.0, p, n] for _, p, n in rows], [r for r, *_ in rows])


def _solved(names, table, want) -> Dict[str, float]:
    """The factors of the columns by least squares, none of them negative (one after the other, until nothing moves)."""
    import numpy as np
    table, want = np.array(table, "float64"), np.array(want, "float64")
    scale = np.maximum(np.abs(table).max(axis=0), 1e-300)
    gram, right, found = (table / scale).T @ (table / scale), (table / scale).T @ want, np.zeros(len(names))
    for _ in range(5000):
        for k in range(len(names)):
            if gram[k, k] > 0:
                found[k] = max(0.0, found[k] + (right[k] - gram[k] @ found) / gram[k, k])
    return {name: float(x) for name, x in zip(names, found / scale)}


def calibrate(path: Any = None, quick: bool = False, tell: Callable[[str], None] = lambda line: None) -> Tuple[Path, Dict[str, Any]]:
    """Measures and writes the device file. Returns (its path, its contents). The file is there whole or as it was.

    Raises ValueError, before anything is measured, where it cannot be written, where another process measures for the same
    file or memory lacks.
    """
    from ..bench.results import write_atomically

    target = device_file.default_path() if path is None else Path(path)
    _check_writable(target)
    free = _core.machine_memory()[1]
    if free < NEEDED[quick]:
        hint = "free some memory." if quick else f"--quick needs {NEEDED[True] / 1e9:.1f} GB."
        raise ValueError(f"calibrate: {free / 1e9:.2f} GB of memory are free here; expected {NEEDED[quick] / 1e9:.1f} GB. Hint: {hint}")
    with _alone(target):
        record = measure(quick, tell)
        try:
            write_atomically(target, json.dumps(record) + "\n")
        except OSError as error:
            raise ValueError(f"calibrate: measured, but cannot write {target} ({error.strerror}). Hint: free some space there, or "
                             "--out FILE names another place.") from None
    return target, record


@contextlib.contextmanager
def _alone(target):
    """Refuses a second measurement for the same file meanwhile: each would disturb the other, and the last would stay. The
    sign is a name without a file, which goes with its process however that ends."""
    name = hashlib.sha256(os.path.realpath(target).encode("utf-8", "surrogateescape")).hexdigest()
    with socket.socket(socket.AF_UNIX) as sign:
        try:
            sign.bind(f"\0yuloh-calibrate-{name}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ValueError(f"calibrate: another process measures for {target} just now, and two would disturb each other. "
                                 "Hint: wait until it has ended.") from None
        yield


def _check_writable(target):
    """Tries a file of the usual size beside it, so that a full disk is noticed before minutes of measuring."""
    if target.is_dir():
        raise ValueError(f"calibrate: {target} is a directory; expected a file. Hint: give a name in it.")
    trial = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "it is there and may not be written")
        try:
            trial.write_bytes(bytes(SIZE))
        finally:
            trial.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(f"calibrate: cannot write {target} ({error.strerror}). Hint: --out FILE names another place.") from None
