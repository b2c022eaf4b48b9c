# SPDX-License-Identifier: Apache-2.0
"""Watches the machine while blocks run and says what disturbed them: other processes, stolen time, clock
changes."""

from __future__ import annotations

import threading
import time
from typing import Dict, List, Optional

from . import machine

OTHERS_LIMIT = 0.15  # CPUs that other processes may use during a block before it is flagged
STEAL_LIMIT = 0.05  # CPUs taken by the hypervisor
PROBE_LIMIT = 1.15  # clock probe against its median so far
JUMP_LIMIT = 0.5  # seconds between wall clock and monotonic clock


class Watch:
    """before()/after() around a block; round_flags() once a round."""

    def __init__(self):
        self._probes: List[float] = []
        self._throttles = machine.throttle_count()
        self._clock_gap = time.time() - time.monotonic()
        self._gpu = _GpuSampler() if machine.gpus() else None

    def before(self) -> dict:
        return {"busy": machine.busy_seconds(), "t": time.monotonic()}

    def after(self, start: dict, own_cpu_s: float) -> Dict[str, object]:
        """others_cpus, steal_cpus (mean CPUs during the block), flags, and the GPU's use where there is
        one."""
        wall = max(time.monotonic() - start["t"], 1e-9)
        now, out = machine.busy_seconds(), {"flags": []}
        if now and start["busy"]:
            tick = 0.02  # /proc/stat counts in steps of 10 ms
            others = max(0.0, now["busy"] - start["busy"]["busy"] - own_cpu_s - tick) / wall
            steal = (now["steal"] - start["busy"]["steal"]) / wall
            out.update(others_cpus=round(others, 3), steal_cpus=round(steal, 3))
            if others > OTHERS_LIMIT:
                out["flags"].append("other processes")
            if steal > STEAL_LIMIT:
                out["flags"].append("stolen time")
        if self._gpu:
            out["gpu"] = self._gpu.since(start["t"])
        return out

    def round_flags(self) -> List[str]:
        """What happened to the clock since the last round."""
        flags, probe = [], machine.clock_probe()
        self._probes.append(probe)
        typical = sorted(self._probes)[len(self._probes) // 2]
        if len(self._probes) >= 4 and probe > PROBE_LIMIT * typical:
            flags.append("slow clock")
        throttles = machine.throttle_count()
        if throttles > self._throttles:
            flags.append("throttled")
        self._throttles = throttles
        gap = time.time() - time.monotonic()
        if abs(gap - self._clock_gap) > JUMP_LIMIT:
            flags.append("clock jump")
        self._clock_gap = gap
        return flags

    def close(self) -> None:
        if self._gpu:
            self._gpu.stop()


class _GpuSampler(threading.Thread):
    """Asks nvidia-smi once a second, in the background."""

    def __init__(self):
        super().__init__(daemon=True)
        self._rows: list = []
        self._end = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._end.wait(1.0):
            cards = machine.gpus()
            if cards:
                self._rows.append((time.monotonic(), cards[0]["utilization_pct"], cards[0]["used_mb"]))

    def since(self, start: float) -> Optional[dict]:
        rows = [r for r in self._rows if r[0] >= start and r[1] is not None]
        if not rows:
            return None
        return {
            "utilization_pct": sum(r[1] for r in rows) / len(rows),
            "used_mb": max(r[2] or 0 for r in rows),
        }

    def stop(self) -> None:
        self._end.set()
