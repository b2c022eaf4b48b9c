# SPDX-License-Identifier: Apache-2.0
"""`yuloh doctor` on this machine and on made-up ones: each problem has its line and its fix."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from yuloh.bench import machine
from yuloh.cli import doctor


def files(monkeypatch, **contents):
    """Puts texts in place of system files: files(monkeypatch, **{"/proc/x": "..."}); others keep their
    own."""
    real = machine.read
    monkeypatch.setattr(machine, "read", lambda path: contents.get(path, real(path)))


def problems(found):
    return [f for f in found if f.level == "problem"]


def test_this_machine(capsys):
    found = doctor.examine()
    topics = {f.topic for f in found}
    assert {"core", "cpu", "threads", "memory", "shared memory", "cache", "python", "device"} <= topics
    assert all(f.fix for f in problems(found))
    assert "speaks PaddlePaddle" in next(f.text for f in found if f.topic == "core")  # not its version
    for line in doctor.show(found).splitlines():
        assert "\n" not in line and line.strip()


def test_thread_count_is_the_minimum_of_affinity_and_quota(monkeypatch):
    monkeypatch.setattr(machine, "cpus", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(machine, "cgroup_quota", lambda: 2.5)
    found = doctor.check_threads()
    assert (
        found[0].text.startswith("2 = min(affinity, quota)")
        and "affinity allows 4, quota 2.5 CPUs" in found[0].text
    )
    monkeypatch.setattr(machine, "cgroup_quota", lambda: None)
    assert (
        doctor.check_threads()[0].text.startswith("4 = ")
        and "no cgroup quota" in doctor.check_threads()[0].text
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_of_the_process_is_respected():
    one = sorted(os.sched_getaffinity(0))[0]
    code = (
        f"import os; os.sched_setaffinity(0, {{{one}}}); from yuloh.bench import machine; "
        "print(machine.usable_threads())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "1\n"


@pytest.mark.parametrize("text,quota", [("max 100000", None), ("150000 100000", 1.5), ("50000 100000", 0.5)])
def test_cgroup_v2_quota(monkeypatch, text, quota):
    files(monkeypatch, **{"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/cpu.max": text})
    assert machine.cgroup_quota() == quota
    if quota:
        assert machine.usable_threads() == 1


def test_cgroup_v1_quota(monkeypatch):
    files(
        monkeypatch,
        **{
            "/proc/self/cgroup": "4:cpu:/x",
            "/sys/fs/cgroup/cpu.max": None,
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
    )
    assert machine.cgroup_quota() == 3.0


def test_tiny_quota_is_a_problem_with_a_fix(monkeypatch):
    monkeypatch.setattr(machine, "cgroup_quota", lambda: 0.5)
    (line,) = [f for f in problems(doctor.check_threads()) if "only 0.5 of a CPU" in f.text]
    assert "--cpus" in line.fix


def test_bound_threads_are_a_problem(monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    (line,) = [f for f in problems(doctor.check_threads()) if "OMP_PROC_BIND" in f.text]
    assert "unset OMP_PROC_BIND" in line.fix


def test_small_and_full_shared_memory():
    def shm(size_mb, free_mb):
        return lambda path: SimpleNamespace(f_frsize=4096, f_blocks=size_mb * 256, f_bavail=free_mb * 256)

    (line,) = problems(doctor.check_memory(shm(64, 60)))
    assert "too small (64 MB)" in line.text and "--shm-size" in line.fix
    (line,) = problems(doctor.check_memory(shm(8192, 3)))
    assert "nearly full" in line.text


def test_old_cpu(monkeypatch):
    files(monkeypatch, **{"/proc/cpuinfo": "model name : Old One\nflags : sse sse2\n"})
    (line,) = problems(doctor.check_cpu())
    assert "neither AVX2 nor NEON" in line.text and line.fix


def test_little_disk():
    (line,) = problems(doctor.check_disk(lambda folder: SimpleNamespace(free=10 * 2**20)))
    assert "only 10 MB free" in line.text and "YULOH_CACHE" in line.fix


def test_cards_are_listed():
    cards = [{"name": "T4", "memory_mb": 15360.0, "driver": "550.1"}]
    assert any(f.text == "gpu:0: T4, 15360 MB, driver 550.1" for f in doctor.check_devices(lambda: cards))


def test_a_broken_check_does_not_hide_the_others():
    def check_bad():
        raise RuntimeError("no /proc")

    found = doctor.examine([check_bad, doctor.check_cpu])
    assert found[0].topic == "bad" and "could not be examined" in found[0].text and len(found) > 1


def test_command_line_json_and_status():
    done = subprocess.run(
        [sys.executable, "-m", "yuloh.cli", "doctor", "--json"], capture_output=True, text=True, timeout=60
    )
    found = json.loads(done.stdout)
    assert done.returncode == int(any(f["level"] == "problem" for f in found))
    assert all(set(f) == {"topic", "text", "level", "fix"} for f in found)
