# SPDX-License-Identifier: Apache-2.0
"""What this machine can do at most, measured: the roofs that figures of the same run are compared with."""

from __future__ import annotations

import time
from typing import Dict

SIZE = 1024  # of the matrix product that may beat the bare loops (matrix units)


def measure(seconds: float = 0.05) -> Dict[str, float]:
    """{"fp32", "bf16", "int8": operations/s, "read", "copy": bytes/s, "threads"} at the thread count in use.

    A dtype for which the CPU has no multiply-add is missing. seconds: about how long each is tried.
    """
    from .. import _core

    found = dict(_core.machine_peaks(seconds))
    for kind, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
        if kind == "fp32" or kind in found:
            found[kind] = max(found.get(kind, 0.0), _product(dtype, seconds))
    found["threads"] = _core.get_num_threads()
    return found


def describe(peaks: Dict[str, float]) -> str:
    """The figures in one line."""
    words = [f"{k} {peaks[k] / 1e9:,.0f} GFLOP/s" for k in ("fp32", "bf16") if peaks.get(k)]
    words += [f"int8 {peaks['int8'] / 1e9:,.0f} GOP/s"] if peaks.get("int8") else []
    words += [f"memory {k} {peaks[k] / 1e9:,.1f} GB/s" for k in ("read", "copy") if peaks.get(k)]
    return f"{', '.join(words)} on {peaks.get('threads', 0):.0f} threads"


def _product(dtype: str, seconds: float) -> float:
    """FLOP/s of a matrix product, the best of a few."""
    import yuloh

    a, b = (yuloh.ones([SIZE, SIZE], dtype) for _ in range(2))
    best, begin = float("inf"), time.perf_counter()
    for i in range(50):
        last = time.perf_counter()
        yuloh.matmul(a, b)[0, 0].item()
        if i:  # the first one prepares
            best = min(best, time.perf_counter() - last)
        if i >= 3 and time.perf_counter() - begin > seconds:
            break
    return 2 * SIZE**3 / best
