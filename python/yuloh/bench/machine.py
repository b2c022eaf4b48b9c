# SPDX-License-Identifier: Apache-2.0
"""What the machine is and what else happens on it: /proc readings, clock probe, description for the report.

Every reading degrades to None where the system does not offer it; nothing here needs a privilege.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from typing import Dict, List, Optional


def cpus() -> List[int]:
    """CPUs that this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def read(path: str) -> Optional[str]:
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return None


def cgroup_quota() -> Optional[float]:
    """CPUs that the container's quota allows; None without a quota. Reads cgroup v2, then v1."""
    group = ""
    for line in (read("/proc/self/cgroup") or "").splitlines():
        if line.startswith("0::"):
            group = line[3:]
    for folder in dict.fromkeys(("/sys/fs/cgroup" + group, "/sys/fs/cgroup")):
        text = read(folder.rstrip("/") + "/cpu.max")
        if text and not text.startswith("max"):
            quota, period = text.split()
            return int(quota) / int(period)
    quota, period = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota and period and int(quota) > 0:
        return int(quota) / int(period)
    return None


def usable_threads() -> int:
    """min(affinity, cgroup quota), at least 1."""
    quota = cgroup_quota()
    return max(1, min(len(cpus()), int(quota) if quota else 1 << 30))


def busy_seconds() -> Optional[Dict[str, float]]:
    """CPU seconds since boot on the CPUs this process may use: {"busy", "steal"}."""
    text = read("/proc/stat")
    if text is None:
        return None
    mine, busy, steal = {f"cpu{i}" for i in cpus()}, 0, 0
    for line in text.splitlines():
        field = line.split()
        if field and field[0] in mine:
            ticks = [int(x) for x in field[1:9]]
            busy += sum(ticks) - ticks[3] - ticks[4] - ticks[7]
            steal += ticks[7]
    tick = os.sysconf("SC_CLK_TCK")
    return {"busy": busy / tick, "steal": steal / tick}


def throttle_count() -> int:
    """How often the CPUs reported thermal throttling since boot (0 where the count does not exist)."""
    return sum(
        int(read(f"/sys/devices/system/cpu/cpu{i}/thermal_throttle/core_throttle_count") or 0) for i in cpus()
    )


def frequency_mhz() -> Optional[float]:
    """Mean clock of the usable CPUs in MHz, if the kernel tells."""
    khz = [read(f"/sys/devices/system/cpu/cpu{i}/cpufreq/scaling_cur_freq") for i in cpus()]
    if all(khz):
        return sum(int(k) for k in khz) / len(khz) / 1000
    mhz = [
        float(x.split(":")[1]) for x in (read("/proc/cpuinfo") or "").splitlines() if x.startswith("cpu MHz")
    ]
    return sum(mhz) / len(mhz) if mhz else None


def clock_probe(loops: int = 60000) -> float:
    """Seconds of a fixed piece of integer work (best of three): rises when the clock falls."""
    best = float("inf")
    for _ in range(3):
        start, x = time.perf_counter(), 0
        for i in range(loops):
            x = (x * 33 + i) & 0xFFFF
        best = min(best, time.perf_counter() - start)
    return best


def memory_mb() -> Dict[str, Optional[float]]:
    """{"total", "available"} in MB."""
    found = {}
    for line in (read("/proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        found[key] = int(value.split()[0]) / 1024 if value.split() else None
    return {"total": found.get("MemTotal"), "available": found.get("MemAvailable")}


def gpus() -> List[Dict[str, object]]:
    """What nvidia-smi reports now, per GPU: name, memory, use. Empty without one."""
    if not shutil.which("nvidia-smi"):
        return []
    query = "name,driver_version,memory.total,memory.used,utilization.gpu,temperature.gpu,clocks.sm"
    try:
        text = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            timeout=10,
            capture_output=True,
            text=True,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    keys = ("name", "driver", "memory_mb", "used_mb", "utilization_pct", "temperature_c", "clock_mhz")
    rows = []
    for line in text.splitlines():
        values = [v.strip() for v in line.split(",")]
        if len(values) == len(keys):
            rows.append({k: (v if k in ("name", "driver") else _number(v)) for k, v in zip(keys, values)})
    return rows


def _number(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


def cpu_facts() -> Dict[str, object]:
    """Model name and the instruction sets that matter, from /proc/cpuinfo."""
    model, flags = platform.processor() or platform.machine(), set()
    for line in (read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() in ("flags", "Features"):
            flags = set(value.split())
            break
    wanted = (
        "avx2",
        "fma",
        "f16c",
        "avx512f",
        "avx512bw",
        "avx512_vnni",
        "avx_vnni",
        "avx512_bf16",
        "avx512_fp16",
        "amx_tile",
        "amx_bf16",
        "amx_int8",
        "asimd",
        "asimddp",
        "bf16",
        "sve",
    )
    return {"model": model, "instructions": [w for w in wanted if w in flags]}


def describe() -> Dict[str, object]:
    """The environment block of results.json."""
    name = None
    for line in (read("/etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            name = line.split("=", 1)[1].strip('"')
    memory = memory_mb()
    cpu = cpu_facts()
    return {
        "os": name or platform.platform(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpu": cpu["model"],
        "instructions": cpu["instructions"],
        "cpus": os.cpu_count(),
        "usable_cpus": len(cpus()),
        "cpu_quota": cgroup_quota(),
        "clock_mhz": frequency_mhz(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "memory_mb": round(memory["total"]) if memory["total"] else None,
        "hypervisor": "hypervisor" in (read("/proc/cpuinfo") or ""),
        "gpus": gpus(),
    }
