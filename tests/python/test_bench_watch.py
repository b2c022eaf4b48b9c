# SPDX-License-Identifier: Apache-2.0
"""What disturbs a measurement is noticed: other processes, stolen time, a falling clock; and what a GPU
reports."""

import time

import pytest

from yuloh.bench import machine, watch


@pytest.fixture
def quiet(monkeypatch):
    """A made-up machine on which the test moves the counters by hand."""
    state = {"busy": 100.0, "steal": 0.0, "probe": 0.01, "throttles": 3}
    monkeypatch.setattr(machine, "busy_seconds", lambda: {"busy": state["busy"], "steal": state["steal"]})
    monkeypatch.setattr(machine, "clock_probe", lambda: state["probe"])
    monkeypatch.setattr(machine, "throttle_count", lambda: state["throttles"])
    monkeypatch.setattr(machine, "gpus", lambda: [])
    return state


def block(w, state, own, others, steal=0.0, seconds=0.2):
    start = w.before()
    time.sleep(seconds)
    state["busy"] += own + others
    state["steal"] += steal
    return w.after(start, own)


def test_own_work_is_not_a_disturbance(quiet):
    assert block(watch.Watch(), quiet, own=0.4, others=0.0)["flags"] == []


def test_other_processes_and_stolen_time_are_flagged(quiet):
    w = watch.Watch()
    seen = block(w, quiet, own=0.2, others=0.2)
    assert seen["flags"] == ["other processes"] and 0.4 < seen["others_cpus"] < 1.1
    assert block(w, quiet, own=0.2, others=0.0, steal=0.1)["flags"] == ["stolen time"]


def test_clock_changes_are_flagged(quiet, monkeypatch):
    w = watch.Watch()
    assert [w.round_flags() for _ in range(5)] == [[]] * 5
    quiet["probe"] = 0.013
    assert w.round_flags() == ["slow clock"]
    quiet.update(probe=0.01, throttles=4)
    assert w.round_flags() == ["throttled"]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 30)
    assert w.round_flags() == ["clock jump"]


def test_busy_process_next_door_is_seen_for_real():
    import subprocess
    import sys

    if machine.busy_seconds() is None:
        pytest.skip("no /proc/stat here")
    code = "import time\nend = time.time() + 5\nwhile time.time() < end: pass"
    neighbour = subprocess.Popen([sys.executable, "-c", code])
    try:
        w = watch.Watch()
        start = w.before()
        time.sleep(1.0)
        assert "other processes" in w.after(start, 0.0)["flags"]
    finally:
        neighbour.kill()
        neighbour.wait()


def test_gpu_is_read_through_nvidia_smi(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'Tesla T4, 550.54, 15360, 1024, 87, 61, 1590'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (card,) = machine.gpus()
    assert card["name"] == "Tesla T4" and card["utilization_pct"] == 87.0 and card["memory_mb"] == 15360.0
    w = watch.Watch()
    try:
        start = w.before()
        time.sleep(1.6)
        assert w.after(start, 0.0)["gpu"] == {"utilization_pct": 87.0, "used_mb": 1024.0}
    finally:
        w.close()


def test_broken_nvidia_smi_is_no_gpu(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert machine.gpus() == []


def test_description_of_this_machine():
    facts = machine.describe()
    assert facts["usable_cpus"] >= 1 and facts["cpu"] and facts["os"] and facts["gpus"] == machine.gpus()
    assert 1 <= machine.usable_threads() <= facts["cpus"]
