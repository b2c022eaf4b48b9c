# SPDX-License-Identifier: Apache-2.0
"""`yuloh doctor`: what this machine offers, what Yuloh makes of it, and one line with the fix per problem.

Reads /proc and /sys only; works in containers, and works (and says so) when the core itself does not load.
"""

from __future__ import annotations

import ctypes.util
import importlib
import importlib.util
import json
import os
import shutil
from dataclasses import asdict, dataclass
from typing import Callable, List, Optional

from ..bench import environments, machine

MIN_SHM_MB = 256
MIN_DISK_MB = 2048
MIN_MEMORY_MB = 2048


@dataclass
class Finding:
    """One line: topic, what was found, and for a problem its fix. level: "ok", "note" or "problem"."""

    topic: str
    text: str
    level: str = "ok"
    fix: str = ""


def check_core() -> List[Finding]:
    try:
        import yuloh

        core = importlib.import_module("yuloh._core")
        from . import own_version
    except ImportError as error:
        return [
            Finding(
                "core",
                f"yuloh._core does not load: {error}",
                "problem",
                "build and install the package: pip install . (or make bench) in the repository",
            )
        ]
    spoken = getattr(yuloh, "__version__", "?")
    text = f"yuloh {own_version()}, speaks PaddlePaddle {spoken}, {getattr(core, '__file__', '?')}"
    found = [Finding("core", text)]
    libraries = sorted(
        {
            line.split()[-1]
            for line in (machine.read("/proc/self/maps") or "").splitlines()
            if any(n in line for n in ("libdnnl", "libgomp", "libomp", "libiomp"))
        }
    )
    for path in libraries:
        found.append(Finding("library", os.path.realpath(path)))
    openmp = [p for p in libraries if "dnnl" not in p]
    if len(openmp) > 1:
        found.append(
            Finding(
                "library",
                f"{len(openmp)} OpenMP runtimes are loaded into one process",
                "problem",
                "keep one: two teams fight for the same CPUs; remove the package that brings the other",
            )
        )
    return found


def check_cpu() -> List[Finding]:
    facts = machine.cpu_facts()
    found = [Finding("cpu", f"{facts['model']}, {os.cpu_count()} CPUs")]
    have = facts["instructions"]
    if "avx512f" in have:
        level = "AVX-512" + (" with bfloat16" if "avx512_bf16" in have else "")
    elif "avx2" in have and "fma" in have:
        level = "AVX2"
    elif "asimd" in have:
        level = "NEON"
    else:
        return found + [
            Finding(
                "cpu",
                "neither AVX2 nor NEON: portable code is used",
                "problem",
                "use a CPU of 2013 or later; in a virtual machine, pass the host CPU through",
            )
        ]
    found.append(Finding("cpu", f"vector code: {level} ({' '.join(have)})"))
    if not {"avx512_bf16", "amx_bf16", "bf16"} & set(have):
        found.append(Finding("cpu", "no bfloat16 instructions: bf16 saves memory here, hardly time", "note"))
    limit = os.environ.get("YULOH_MAX_ISA")
    if limit:
        found.append(Finding("cpu", f"YULOH_MAX_ISA={limit} holds the vector code down", "note"))
    return found


def check_threads() -> List[Finding]:
    total, mine, quota = os.cpu_count() or 1, len(machine.cpus()), machine.cgroup_quota()
    chosen = machine.usable_threads()
    why = [
        f"{total} CPUs",
        f"affinity allows {mine}",
        "no cgroup quota" if quota is None else f"quota {quota:g} CPUs",
    ]
    found = [Finding("threads", f"{chosen} = min(affinity, quota): " + ", ".join(why))]
    if quota is not None and quota < 1:
        found.append(
            Finding(
                "threads",
                f"the container may use only {quota:g} of a CPU",
                "problem",
                "raise the quota (docker run --cpus=2; resources.limits.cpu in Kubernetes)",
            )
        )
    elif quota is not None and quota != int(quota):
        found.append(
            Finding(
                "threads",
                f"the quota of {quota:g} CPUs is not whole: {chosen} threads leave some unused",
                "note",
            )
        )
    bound = [n for n in ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY") if os.environ.get(n)]
    if bound:
        found.append(
            Finding(
                "threads",
                f"{' '.join(bound)} set: the main thread is bound to one CPU, and loaders with it",
                "problem",
                f"unset {' '.join(bound)}; Yuloh binds its own team",
            )
        )
    for name in ("OMP_NUM_THREADS", "YULOH_NUM_THREADS"):
        if os.environ.get(name, "").isdigit() and int(os.environ[name]) != chosen:
            found.append(
                Finding("threads", f"{name}={os.environ[name]} asks for another number than {chosen}", "note")
            )
    load = os.getloadavg()[0]
    if load > 0.5 * chosen + 0.5:
        found.append(Finding("threads", f"load average {load:.1f}: others are using the CPUs", "note"))
    governor = machine.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor == "powersave" and machine.read("/sys/devices/system/cpu/intel_pstate/status") != "active":
        found.append(
            Finding(
                "threads",
                "the CPU governor is powersave: the clock stays low",
                "problem",
                "cpupower frequency-set -g performance",
            )
        )
    return found


def check_memory(statvfs: Callable = os.statvfs) -> List[Finding]:
    memory = machine.memory_mb()
    found = []
    if memory["total"]:
        found.append(Finding("memory", f"{memory['available']:.0f} MB available of {memory['total']:.0f} MB"))
        if memory["available"] < MIN_MEMORY_MB:
            found.append(
                Finding(
                    "memory",
                    f"less than {MIN_MEMORY_MB} MB available",
                    "problem",
                    "close other programs or train with a smaller batch (yuloh bench --batch 16)",
                )
            )
    try:
        shm = statvfs("/dev/shm")
        size, free = shm.f_blocks * shm.f_frsize / 2**20, shm.f_bavail * shm.f_frsize / 2**20
        found.append(Finding("shared memory", f"/dev/shm: {free:.0f} MB free of {size:.0f} MB"))
        if size < MIN_SHM_MB:
            found.append(
                Finding(
                    "shared memory",
                    f"/dev/shm is too small ({size:.0f} MB) for DataLoader workers",
                    "problem",
                    "docker run --shm-size=2g, or DataLoader(use_shared_memory=False)",
                )
            )
        elif free < MIN_SHM_MB:
            found.append(
                Finding(
                    "shared memory",
                    f"/dev/shm is nearly full ({free:.0f} MB free)",
                    "problem",
                    "remove what dead programs left: ls -l /dev/shm",
                )
            )
    except OSError:
        found.append(Finding("shared memory", "no /dev/shm: loaders copy through pipes", "note"))
    return found


def check_disk(usage: Callable = shutil.disk_usage) -> List[Finding]:
    try:
        folder = environments.cache_folder()
    except OSError as error:
        return [
            Finding(
                "cache",
                f"cannot make the cache folder: {error}",
                "problem",
                "set YULOH_CACHE to a folder that you may write",
            )
        ]
    free = usage(folder).free / 2**20
    found = [Finding("cache", f"{folder}, {free:.0f} MB free")]
    if not os.access(folder, os.W_OK):
        found.append(Finding("cache", f"{folder} is not writable", "problem", "chown it, or set YULOH_CACHE"))
    if free < MIN_DISK_MB:
        found.append(
            Finding(
                "cache",
                f"only {free:.0f} MB free there: environments of contenders will not fit",
                "problem",
                "free some space, or set YULOH_CACHE to another disk",
            )
        )
    return found


def check_python() -> List[Finding]:
    found = []
    try:
        numpy = importlib.import_module("numpy")
        found.append(Finding("python", f"NumPy {numpy.__version__}"))
    except ImportError as error:
        found.append(Finding("python", f"NumPy does not load: {error}", "problem", "pip install numpy"))
    missing = [m for m in ("matplotlib", "jinja2", "rich") if importlib.util.find_spec(m) is None]
    if missing:
        found.append(
            Finding(
                "python",
                f"{', '.join(missing)} not installed: reports without pictures or pages",
                "note",
                "pip install 'yuloh[report]'",
            )
        )
    for name in ("PYTHONPATH", "LD_PRELOAD"):
        if os.environ.get(name):
            found.append(Finding("python", f"{name} is set: {os.environ[name]}", "note"))
    return found


def check_devices(gpus: Callable = machine.gpus) -> List[Finding]:
    found = [Finding("device", f"cpu: {machine.usable_threads()} threads")]
    cards = gpus()
    for i, card in enumerate(cards):
        found.append(
            Finding("device", f"gpu:{i}: {card['name']}, {card['memory_mb']:.0f} MB, driver {card['driver']}")
        )
    if not cards:
        if shutil.which("nvidia-smi"):
            found.append(
                Finding(
                    "device",
                    "nvidia-smi is here but reports no card",
                    "problem",
                    "check the driver (nvidia-smi) and, in a container, docker run --gpus all",
                )
            )
        else:
            found.append(Finding("device", "no NVIDIA GPU", "ok"))
    if ctypes.util.find_library("OpenCL"):
        vendors = sorted(os.listdir("/etc/OpenCL/vendors")) if os.path.isdir("/etc/OpenCL/vendors") else []
        found.append(
            Finding(
                "device",
                "OpenCL: "
                + (", ".join(v.replace(".icd", "") for v in vendors) or "loader without any driver"),
            )
        )
    return found


CHECKS = (check_core, check_cpu, check_threads, check_memory, check_disk, check_python, check_devices)


def examine(checks=CHECKS) -> List[Finding]:
    """All findings; a check that fails itself becomes a finding, never a traceback."""
    found: List[Finding] = []
    for check in checks:
        try:
            found += check()
        except Exception as error:  # a broken /proc must not hide the other checks
            found.append(
                Finding(check.__name__.replace("check_", ""), f"could not be examined: {error!r}", "note")
            )
    return found


MARK = {"ok": "  ok    ", "note": "  note  ", "problem": "PROBLEM "}


def show(found: List[Finding], color: Optional[bool] = None) -> str:
    """Findings as lines; every problem is followed by its fix."""
    paint = {"ok": "", "note": "\033[33m", "problem": "\033[1;31m"} if color else dict.fromkeys(MARK, "")
    end = "\033[0m" if color else ""
    lines = []
    for f in found:
        fix = f"  ->  {f.fix}" if f.fix else ""
        tint = paint[f.level]
        lines.append(f"{tint}{MARK[f.level]}{end if tint else ''}{f.topic:14} {f.text}{fix}")
    problems = sum(f.level == "problem" for f in found)
    lines.append(
        "No problem found."
        if not problems
        else f"{problems} problem{'s' if problems > 1 else ''} found; the fix stands after each arrow."
    )
    return "\n".join(lines)


def carry_out(args) -> int:
    import sys

    found = examine()
    if args.json:
        print(json.dumps([asdict(f) for f in found], indent=1))
    else:
        print(show(found, color=sys.stdout.isatty()))
    return 1 if any(f.level == "problem" for f in found) else 0


def add(commands) -> None:
    p = commands.add_parser("doctor", help="examine this machine and say what to fix", description=__doc__)
    p.add_argument("--json", action="store_true", help="machine-readable")
    p.set_defaults(carry_out=carry_out)
