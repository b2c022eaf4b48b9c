# SPDX-License-Identifier: Apache-2.0
"""Advice room: measures this machine into a device file (device_file.py).

Peaks first (arithmetic by dtype, memory by direction and threads), then the efficiencies: small networks of every
kind of layer train for a few steps under the profiler, and per kind of kernel, dtype and size it is noted what share
of its roofline it reached there, caches and neighbours included. None of them is a model of bench/estimates.py.
"""
from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

from .. import _core
from . import device_file

__all__ = ["calibrate", "measure", "suite"]

VERSION = 2  # src/advise/rates.h: kDeviceFileVersion
STEPS = 4    # profiled, after two that are not


# ---- networks ----------------------------------------------------------------------------------------------------
def suite(quick: bool) -> List[Tuple[str, Callable, tuple]]:
    """(name, makes the network, (shape, dtype)) of what is trained."""
    import yuloh as paddle
    from yuloh import nn
    F = nn.functional

    class Ladder(nn.Layer):  # bottlenecks: 1x1, 3x3 (grouped or not), 1x1, and a stride between the rungs
        def __init__(self, channels, grouped, act):
            super().__init__()
            self.stem, self.rungs, self.act = nn.Conv2D(3, channels[0], 3, padding=1), nn.LayerList(), act
            for a, b in zip(channels, channels[1:]):
                mid = a * 4 if grouped else max(8, a // 2)
                for stride in (1, 2):
                    out = b if stride == 2 else a
                    self.rungs.append(nn.Sequential(
                        nn.Conv2D(a, mid, 1, bias_attr=False), nn.BatchNorm2D(mid), act(),
                        nn.Conv2D(mid, mid, 3, stride=stride, padding=1, groups=mid if grouped else 1, bias_attr=False),
                        nn.BatchNorm2D(mid), act(), nn.Conv2D(mid, out, 1, bias_attr=False), nn.BatchNorm2D(out)))
            self.head = nn.Linear(channels[-1], 50)

        def forward(self, x):
            x = self.stem(x)
            for rung in self.rungs:
                y = rung(x)
                x = x + y if y.shape == x.shape else F.relu(y)
            return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

    class Plain(nn.Layer):  # convolutions with bias, pooling, joined branches, a wide classifier
        def __init__(self, width):
            super().__init__()
            self.a, self.b = nn.Conv2D(3, width, 5, stride=2, padding=2), nn.Conv2D(width, 2 * width, 3, padding=1)
            self.c, self.d = nn.Conv2D(2 * width, width, 1), nn.Conv2D(2 * width, width, 3, padding=1)
            self.up, self.out = nn.Conv2DTranspose(2 * width, width, 2, stride=2), nn.Conv2D(width, 8, 1)
            self.wide, self.head = nn.Linear(16 * 2 * width, 512), nn.Linear(512, 50)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.b(F.relu(self.a(x)))), 2)
            x = paddle.concat([F.relu(self.c(x)), F.relu(self.d(x))], axis=1)
            extra = self.out(F.relu(self.up(x))).mean()
            return self.head(F.relu(self.wide(F.adaptive_avg_pool2d(x, 4).flatten(1)))) + extra

    class Planes(nn.Layer):  # large planes, few channels
        def __init__(self, width):
            super().__init__()
            self.parts = nn.LayerList([nn.Conv2D(3, width, 3, padding=1)] + [
                nn.Sequential(nn.Conv2D(width, width, 3, padding=1), nn.BatchNorm2D(width), nn.ReLU()) for _ in range(3)])
            self.out = nn.Conv2D(2 * width, 50, 1)

        def forward(self, x):
            kept = x = self.parts[0](x)
            for part in list(self.parts)[1:]:
                x = part(x)
            return self.out(paddle.concat([kept, x], axis=1)).mean(axis=[2, 3])

    class Tiny(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.d = nn.Conv2D(3, 8, 5), nn.Conv2D(8, 20, 3), nn.Linear(320, 96), nn.Linear(96, 50)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.b(F.max_pool2d(F.relu(self.a(x)), 2))), 2)
            return self.d(F.relu(self.c(F.adaptive_avg_pool2d(x, 4).flatten(1))))

    class Words(nn.Layer):
        def __init__(self, width, heads, words, depth, recurrent):
            super().__init__()
            self.embed, self.heads = nn.Embedding(words, width), heads
            self.lstm = nn.LSTM(width, width) if recurrent else None
            self.parts = nn.LayerList([nn.LayerList([nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width),
                                                     nn.LayerNorm(width), nn.Linear(width, 4 * width),
                                                     nn.Linear(4 * width, width)]) for _ in range(depth)])
            self.head = nn.Linear(width, words)

        def forward(self, tokens):
            x = self.embed(tokens)
            if self.lstm is not None:
                x = self.lstm(x)[0]
            batch, length, width = x.shape
            for norm1, qkv, out, norm2, up, down in self.parts:
                q, k, v = qkv(norm1(x)).reshape([batch, length, 3, self.heads, width // self.heads]).unbind(2)
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + F.dropout(out(y.reshape([batch, length, width])), 0.1)
                x = x + down(F.gelu(up(norm2(x))))
            return self.head(x)

    def images(batch, size):
        return [batch, 3, size, size], "float32"

    ladder = (16, 32, 64, 128, 256)
    found = [("ladder", lambda: Ladder(ladder, False, nn.ReLU), images(8, 64)),
             ("grouped", lambda: Ladder((16, 24, 48, 96), True, nn.Hardswish), images(8, 64)),
             ("plain", lambda: Plain(32), images(8, 64)), ("planes", lambda: Planes(24), images(8, 72)),
             ("tiny", Tiny, images(12, 28)),
             ("words", lambda: Words(128, 4, 3000, 2, False), ([8, 96], "int64")),
             ("recurrent", lambda: Words(192, 4, 1000, 0, True), ([16, 64], "int64"))]
    if not quick:
        found += [("ladder small", lambda: Ladder(ladder, False, nn.ReLU), images(2, 32)),
                  ("ladder large", lambda: Ladder((24, 48, 96, 192, 384), False, nn.ReLU), images(24, 64)),
                  ("grouped small", lambda: Ladder((16, 24, 48, 96), True, nn.Hardswish), images(3, 64)),
                  ("grouped large", lambda: Ladder((24, 40, 80, 160), True, nn.ReLU), images(24, 64)),
                  ("plain large", lambda: Plain(64), images(24, 96)),
                  ("planes large", lambda: Planes(48), images(20, 48)), ("planes narrow", lambda: Planes(12), images(4, 56)),
                  ("tiny large", Tiny, images(48, 28)),
                  ("words small", lambda: Words(96, 6, 2000, 2, False), ([3, 64], "int64")),
                  ("words large", lambda: Words(320, 5, 6000, 2, False), ([12, 160], "int64")),
                  ("recurrent large", lambda: Words(320, 4, 3000, 0, True), ([32, 96], "int64"))]
    return found


def _train(make, spec, precision, training) -> Tuple[List[tuple], float, int]:
    """(kernel rows of STEPS steps, seconds a step, nodes a step)."""
    import numpy as np
    import yuloh as paddle
    shape, dtype = spec
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(rng.standard_normal(shape).astype("float32") if dtype == "float32" else rng.integers(0, 900, shape))
    net = make()
    net.train() if training else net.eval()
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

    with _core_grad(training):
        step(), step()
        nodes = _core.stats()["nodes"]
        _core.start_profile()
        for _ in range(STEPS):
            step()
        _core.stop_profile()
        rows, walls = _core.profile_costs(), []
        nodes = _core.stats()["nodes"] - nodes
        for _ in range(STEPS):
            begin = time.perf_counter()
            step()
            walls.append(time.perf_counter() - begin)
    return rows, statistics.median(walls), nodes // STEPS


def _core_grad(on):
    import contextlib
    import yuloh as paddle
    return contextlib.nullcontext() if on else paddle.no_grad()


# ---- figures -----------------------------------------------------------------------------------------------------
def measure(quick: bool = False, tell: Callable[[str], None] = lambda line: None) -> Dict[str, Any]:
    """The contents of the device file."""
    from ..bench import machine, peaks
    tell("peaks of arithmetic and memory")
    found = {k: float(v) for k, v in peaks.measure(0.05).items()}
    threads = int(found.pop("threads"))
    record = {"version": VERSION, "host": platform.node(), "name": f"{machine.cpu_facts()['model']} x {threads} threads",
              "date": time.strftime("%Y-%m-%d"), "origin": "measured", "threads": threads, "peaks": found,
              "memory": _memory(threads, found)}
    roof = _Roof(found)
    samples: Dict[tuple, List[tuple]] = {}
    overheads, steps = [], []
    precisions = ["float32"] + (["bfloat16"] if "bf16" in found else [])
    for name, make, spec in suite(quick):
        for precision in precisions:
            for training in (True, False):
                tell(f"{name}, {precision}, {'training' if training else 'inference'}")
                rows, wall, nodes = _train(make, spec, precision, training)
                overheads.append((max(0.0, wall - sum(r[2] for r in rows) / STEPS), nodes))
                steps.append((rows, wall, nodes))
                for kernel, dtype, seconds, flops, moved in rows:
                    t = roof(dtype, flops, moved)
                    samples.setdefault((kernel, dtype), []).append((t, math.log2(max(flops, 1.0) / max(moved, 1.0)), seconds))
    record["per_node"] = statistics.median(o / max(1, n) for o, n in overheads)
    record["per_kernel"] = min(s for v in samples.values() for *_, s in v)
    record["efficiencies"] = [row for key in sorted(samples) for row in _efficiencies(key, samples[key])]
    record["process"] = _process(tell)
    record["spread"] = 0.35
    return record


class _Roof:
    """Seconds at full peak or bandwidth: src/advise/rates.cpp."""

    def __init__(self, peaks):
        self.fp32, self.bandwidth = peaks["fp32"], peaks["copy"]
        self.half = peaks.get("bf16", self.fp32)

    def __call__(self, dtype, flops, moved):
        return max(flops / (self.half if dtype in ("bfloat16", "float16") else self.fp32), moved / self.bandwidth, 1e-9)


def _efficiencies(key, samples):
    """Per octave of roof and intensity: total roof over total time, which keeps sums right."""
    octaves: Dict[tuple, List[float]] = {}
    for roof, dense, seconds in samples:
        entry = octaves.setdefault((round(math.log2(roof * 1e9)), round(dense)), [0.0] * 5)
        for k, value in enumerate((roof, seconds, 1, math.log2(roof * 1e9), dense)):
            entry[k] += value
    return [{"name": key[0], "dtype": key[1], "log2_roof_ns": at / n, "log2_intensity": dense / n,
             "efficiency": roof / seconds, "samples": int(n)}
            for _, (roof, seconds, n, at, dense) in sorted(octaves.items()) if seconds > 0]


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
nodes = calibrate._train(make, spec, precision, True)[2]
print(json.dumps([start, high() - paddle.device.max_memory_reserved(), paddle._core.stats()["plan_cache_bytes"], nodes]))
"""


def _process(tell):
    """What a process takes beside the allocator: a base, and what grows with its plans, from fresh processes."""
    found = []
    for name in ("ladder", "grouped", "words", "recurrent", "plain", "words small"):
        tell(f"a process that trains {name}")
        for precision in ("float32", "bfloat16"):
            done = subprocess.run([sys.executable, "-c", _CHILD, name, precision], capture_output=True, text=True, check=True,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
            found.append(json.loads(done.stdout.splitlines()[-1]))
    base = statistics.median(f[0] for f in found)
    return {"interpreter": base, "spread": 0.1, **_fit([(f[1] - base, f[2], f[3]) for f in found])}


def _fit(rows):
    """scratch + code_share * plans + node_bytes * nodes, none of them negative, by least squares."""
    import numpy as np
    names, table, want = ["scratch", "code_share", "node_bytes"], np.array([[1.0, p, n] for _, p, n in rows]), np.array([r for r, *_ in rows])
    left = [0, 1, 2]
    while True:
        found = np.linalg.lstsq(table[:, left], want, rcond=None)[0]
        if all(x >= 0 for x in found) or len(left) == 1:
            return {**dict.fromkeys(names, 0.0), **{names[k]: max(0.0, float(x)) for k, x in zip(left, found)}}
        del left[int(np.argmin(found))]


def calibrate(path: Any = None, quick: bool = False, tell: Callable[[str], None] = lambda line: None) -> Tuple[Path, Dict[str, Any]]:
    """Measures and writes the device file. Returns (its path, its contents)."""
    from ..bench.results import write_atomically

    target = device_file.default_path() if path is None else Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    record = measure(quick, tell)
    write_atomically(target, json.dumps(record, indent=1) + "\n")
    return target, record
