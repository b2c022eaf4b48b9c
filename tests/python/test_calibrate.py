# SPDX-License-Identifier: Apache-2.0
"""yuloh calibrate: what it writes is what facts reads; bad files end in one sentence."""
import json
import math
import os
import signal
import subprocess
import sys

import pytest

import yuloh as paddle
from yuloh import _core, cli
from yuloh.advise import calibrate as room
from yuloh.advise import device_file, facts


@pytest.fixture
def record(monkeypatch, tmp_path):
    """The whole way with one small network and no further processes."""
    tiny = next(entry for entry in room.suite(True) if entry[0] == "tiny")
    monkeypatch.setattr(room, "suite", lambda quick: [tiny])
    monkeypatch.setattr(room, "_process", lambda tell: {"interpreter": 5e7, "spread": 0.1, "scratch": 1e6, "code_share": 1.0, "step_bytes": 100.0})
    path = tmp_path / "deep" / "device.json"
    assert room.calibrate(path, quick=True)[0] == path
    return path


def test_facts_rest_on_what_was_measured(record, monkeypatch):
    written = json.loads(record.read_text())
    assert written["version"] == _core.device_file_version and written["peaks"]["fp32"] > 1e9 and written["peaks"]["copy"] > 1e8
    assert all(row["read"] > 0 and row["write"] > 0 and row["copy"] > 0 for row in written["memory"])
    names = {row["name"].split(":")[0] for row in written["efficiencies"]}
    assert {"conv/conv", "conv/conv_grad_weight", "gemm/matmul", "optimizer", "elementwise"} <= names
    monkeypatch.setenv("YULOH_DEVICE_FILE", str(record))
    f = facts(lambda: paddle.nn.Linear(64, 64), [([None, 64], "float32")], batch=8)
    assert f["seconds"]["origin"] == "measured" and f["device"] == written["name"]
    assert f["memory"]["interpreter"] == 5e7 and f["memory"]["process"]["value"] > f["memory"]["reserved"]["value"] + 5e7


def test_without_a_file_it_is_assumed_and_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("YULOH_DEVICE_FILE", str(tmp_path / "none.json"))
    f = facts(lambda: paddle.nn.Linear(64, 64), [([None, 64], "float32")], batch=8)
    assert f["seconds"]["origin"] == "assumed" and "calibrate" in f["device"]
    assert f["seconds"]["low"] < 0.5 * f["seconds"]["value"]


def test_sums_of_measured_time_come_out_right():
    samples = [(1e-6, 2.0, 0.0, 4e-6), (1.1e-6, 2.1, 0.1, 2e-6), (1e-6, 2.0, 1.0, 8e-6), (1e-3, 8.0, 0.0, 2e-3)]
    rows = room._efficiencies(("gemm/matmul", "float32"), samples)
    assert [row["samples"] for row in rows] == [2, 1, 1]  # what comes from beyond the caches stands alone
    assert rows.pop(1)["far"] == 1.0
    assert rows[0]["efficiency"] == pytest.approx(2.1e-6 / 6e-6) and rows[1]["efficiency"] == pytest.approx(0.5)
    assert rows[1]["log2_roof_ns"] == pytest.approx(math.log2(1e6), abs=1e-3)


def test_the_fit_of_a_process():
    rows = [(1e6 + 2.0 * p + 3e3 * n, p, n) for p, n in ((1e6, 100), (2e6, 900), (4e6, 300), (5e5, 50))]
    found = room._fit(rows)
    assert found["scratch"] == pytest.approx(1e6) and found["code_share"] == pytest.approx(2) and found["step_bytes"] == pytest.approx(3e3)
    assert min(room._fit([(-5.0, 1e6, 10), (3.0, 2e6, 10), (4.0, 3e6, 10)]).values()) >= 0


def test_show(record, capsys):
    assert cli.main(["calibrate", "--show", "--out", str(record)]) == 0
    text = capsys.readouterr().out
    assert "GFLOP/s" in text and "conv/conv_grad_weight" in text and "GB/s" in text


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"name": 3}'])
def test_show_of_what_is_no_device_file(tmp_path, text):
    path = tmp_path / "device.json"
    if text is not None:
        path.write_text(text)
    done = subprocess.run([sys.executable, "-m", "yuloh.cli", "calibrate", "--show", "--out", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr.strip().count("\n") == 0


def test_where_the_file_lies(monkeypatch, tmp_path):
    monkeypatch.delenv("YULOH_DEVICE_FILE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert device_file.default_path().parent == tmp_path / "yuloh" and device_file.text() == ""
    with pytest.raises(ValueError, match="calibrate"):
        device_file.text(tmp_path / "x.json")


# ---- hostile use ---------------------------------------------------------------------------------------------------
def calibrated(path, monkeypatch, record=None):
    """calibrate() with nothing to measure."""
    monkeypatch.setattr(room, "measure", lambda quick, tell: record if record is not None else {})
    return room.calibrate(path)


def test_a_place_that_cannot_be_written_is_refused_before_measuring(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "measure", lambda quick, tell: pytest.fail("measured first"))
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "device.json", tmp_path, "/proc/none/device.json"):
        with pytest.raises(ValueError, match="calibrate: "):
            room.calibrate(path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
def test_what_was_there_stays_when_it_ends_midway(monkeypatch, tmp_path, error):
    path = tmp_path / "device.json"
    path.write_text("old")

    def ends(quick, tell):
        raise error

    monkeypatch.setattr(room, "measure", ends)
    with pytest.raises(error):
        room.calibrate(path)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_killed_midway(tmp_path):
    path = tmp_path / "device.json"
    path.write_text("old")
    script = f"import os; from yuloh.advise import calibrate as c; c.measure = lambda q, t: os.kill(os.getpid(), 9); c.calibrate({str(path)!r})"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert path.read_text() == "old"


def test_a_damaged_file_is_overwritten(monkeypatch, tmp_path):
    path = tmp_path / "device.json"
    path.write_bytes(b"\xff\x00{")
    calibrated(path, monkeypatch, {"version": 3})
    assert json.loads(path.read_text()) == {"version": 3}


@pytest.mark.parametrize("change", [{"version": 1}, {"version": 2}, {"version": "3"}, {"version": None}, {"peaks": {}}, {"cache": 0},
                                    {"peaks": {"fp32": -1, "copy": 1}}, {"host_rates": 3}, {"efficiencies": {}}, {"efficiencies": [{}]}])
def test_what_is_no_file_of_this_version_is_refused_everywhere(record, monkeypatch, tmp_path, change):
    from yuloh.advise import catalogue
    text = json.dumps({**json.loads(record.read_text()), **change})
    path = tmp_path / "other.json"
    path.write_text(text)
    for read in (lambda: facts(lambda: paddle.nn.Linear(4, 4), [([None, 4], "float32")], batch=2, device=path),
                 lambda: device_file.record(text, path), lambda: catalogue.user_devices(str(path))):
        with pytest.raises(ValueError, match="device file"):
            read()
    monkeypatch.setenv("YULOH_DEVICE_FILE", str(path))
    catalogue.this_machine.cache_clear()
    assert "calibrate" in catalogue.this_machine()["remark"]
    catalogue.this_machine.cache_clear()


def bad_files(record, tmp_path):
    """Device files of this machine that cannot be used, or are hardly of use."""
    good = json.loads(record.read_text())
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin").write_bytes(b"\xff\xfe{}")
    for name, text in {"none": "[3]", "empty": "", "half": record.read_text()[:999], "old": json.dumps({**good, "version": 1}),
                       "slow": json.dumps({**good, "peaks": {**good["peaks"], "copy": 1e-3, "read": 1e-3}}),
                       "wide": json.dumps({**good, "spread": 101.83, "disturbed": "the machine was busy"})}.items():
        (tmp_path / name).write_text(text)
    return [*sorted(p.name for p in tmp_path.iterdir()), "none/below.json"]


def test_no_device_file_of_this_machine_stops_advice(record, tmp_path):
    """About others or about itself, of numbers or of a script: a remark says what is not used."""
    script = record.parent / "bad_files_script.py"
    script.write_text("import paddle\nnet = paddle.nn.Linear(4, 4)\nopt = paddle.optimizer.Adam(parameters=net.parameters())\n"
                      "net(paddle.ones([2, 4])).mean().backward()\nopt.step()\n")
    for name in bad_files(record, tmp_path):
        for words in (("resnet50", "--device", "this"), (str(script), "--device", "this,t4")):
            done = subprocess.run([sys.executable, "-m", "yuloh.cli", "advise", *words], capture_output=True, text=True,
                                  env={**os.environ, "YULOH_DEVICE_FILE": str(tmp_path / name)})
            assert done.returncode == 0, (name, words, done.stderr)
            said = " ".join(done.stdout.split())
            assert ("device file is not used" in said) == (name not in ("wide", "none/below.json")), (name, said)
            assert said.count("device file is not used") <= 1


def test_the_file_of_another_machine_says_so(record, monkeypatch):
    written = json.loads(record.read_text())
    written.update(host="elsewhere", threads=written["threads"] + 5, disturbed="the machine was busy while it was measured (test)")
    record.write_text(json.dumps(written))
    monkeypatch.setenv("YULOH_DEVICE_FILE", str(record))
    said = " ".join(facts(lambda: paddle.nn.Linear(4, 4), [([None, 4], "float32")], batch=2)["notes"])
    assert "elsewhere" in said and f"{written['threads']} threads" in said and "busy" in said
    given = facts(lambda: paddle.nn.Linear(4, 4), [([None, 4], "float32")], batch=2, device=record)["notes"]
    assert "elsewhere" not in " ".join(given)  # asked for by name


def test_a_busy_machine_is_told(monkeypatch):
    others = room._Others()
    assert others.told(1.0, 1.0, 10**6) == ""
    assert "50 % longer" in others.told(1.5, 1.0, 10**6)
    assert "130 % of its first time" in others.told(1.0, 1.3, 10**6) and "70 %" in others.told(1.0, 0.7, 10**6)
    monkeypatch.setattr(others, "begin", (0.0, 0.0, *others.begin[2:]))  # all that ran since the start, in no time
    assert "processors busy" in others.told(1.0, 1.0, 1)


def test_products_above_the_peak_are_told():
    def row(name, share):
        return {"name": name, "efficiency": share}

    assert room.impossible([row("gemm:own", 1.1), row("conv/conv:onednn", 0.5), row("elementwise", 9.0), row("convert", 3.0)]) == ""
    said = room.impossible([row("gemm:own", 12.67), row("conv/conv:onednn", 0.5)])
    assert "1 of 2 kinds of products reach more than 120 %" in said and "up to 1267 %" in said


def test_columns_of_the_table_stay_apart(record):
    from yuloh.cli.calibrate import table

    written = json.loads(record.read_text())
    written["efficiencies"] += [{**written["efficiencies"][0], "name": "scaled_dot_product_attention_backward_kernel", "dtype": "bfloat16"}]
    line = next(x for x in table(written).splitlines() if "attention_backward" in x)
    assert "kernel  bfloat16  " in line


def test_one_thread(tmp_path):
    script = ("import os, sys; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
              "from yuloh.advise import calibrate as c\n"
              "tiny = [n for n in c.suite(True) if n[0] == 'tiny']; c.suite = lambda quick: tiny\n"
              "c._process = lambda tell: dict(interpreter=5e7, spread=0.1, scratch=1e6, code_share=1.0, step_bytes=1.0)\n"
              "print(c.calibrate(sys.argv[1], True)[1]['threads'])")
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "d.json")], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1" and "x 1 thread" in json.loads((tmp_path / "d.json").read_text())["name"]


def test_sums_of_what_the_host_takes():
    runs = [{"training": True, "wall": 1e-3 + 2e-6 * calls + 1e-6 * kernels + 5e-4 * cold, "inside": 1e-3, "moved": cold * _core.cold_traffic * 1e6,
             "calls": calls, "kernels": kernels, "read": 0}
            for calls, kernels, cold in ((10, 30, 0.0), (100, 40, 0.5), (50, 300, 1.0), (200, 10, 0.2), (5, 5, 1.0), (80, 200, 0.0))]
    found = room._host(runs, 1e6)
    assert found["call"] == pytest.approx(2e-6, rel=0.02) and found["kernel"] == pytest.approx(1e-6, rel=0.02)
    assert found["step"] == pytest.approx(5e-4, rel=0.02) and found["byte"] == 0


# ---- where it runs -------------------------------------------------------------------------------------------------
def refused(path, monkeypatch, quick=True):
    """The sentence with which calibrate ends before it measures."""
    monkeypatch.setattr(room, "measure", lambda quick, tell: pytest.fail("measured first"))
    with pytest.raises(ValueError, match="^calibrate: .*Hint: ") as caught:
        room.calibrate(path, quick)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("files", [
    {"proc/self/cgroup": "0::/pods/mine\n", "sys/fs/cgroup/pods/mine/cpu.stat": "usage_usec 9\nthrottled_usec 1500000\n",
     "sys/fs/cgroup/pods/cpu.stat": "usage_usec 9\nthrottled_usec 2500000\n"},
    {"proc/self/cgroup": "1:cpu,cpuacct:/mine\n", "sys/fs/cgroup/cpu,cpuacct/mine/cpu.stat": "nr_periods 4\nthrottled_time 2500000000\n"}])
def test_what_a_quota_takes_is_told(monkeypatch, tmp_path, files):
    monkeypatch.setenv("YULOH_SYSROOT", str(tmp_path))
    assert paddle._core.throttled_seconds() == 0
    others = room._Others()
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert paddle._core.throttled_seconds() == 2.5
    monkeypatch.setattr(others, "begin", (*others.begin[:-1], others.begin[-1] - 5.0))
    assert "a CPU quota stopped this process for 50 % of the time" in others.told(1.0, 1.0, 1)


def test_a_full_disk_is_noticed_before_measuring(tmp_path):
    path = tmp_path / "device.json"
    path.write_text("old")
    script = ("import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
              "from yuloh.advise import calibrate as c; c.measure = lambda q, t: 1 / 0\n"
              "from yuloh import cli; sys.exit(cli.main(['calibrate', '--quick', '--out', sys.argv[1]]))")
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("yuloh calibrate: ") and done.stderr.count("\n") == 1, done.stderr
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_disk_that_fills_meanwhile(monkeypatch, tmp_path):
    def full(path, text):
        raise OSError(28, "No space left on device")

    path = tmp_path / "device.json"
    monkeypatch.setattr("yuloh.bench.results.write_atomically", full)
    with pytest.raises(ValueError, match=r"measured, but cannot write .*device.json \(No space left on device\)"):
        calibrated(path, monkeypatch)


def test_a_file_that_may_not_be_written_stays(monkeypatch, tmp_path):
    path = tmp_path / "device.json"
    path.write_text("old")
    monkeypatch.setattr(room.os, "access", lambda *a: False)  # for root everything may be written
    assert "may not be written" in refused(path, monkeypatch) and path.read_text() == "old"


def test_the_second_at_the_same_time_is_refused(monkeypatch, tmp_path):
    path, link = tmp_path / "device.json", tmp_path / "link"
    link.symlink_to(tmp_path)
    with room._alone(path):
        for same in (path, link / "device.json"):
            assert "another process measures" in refused(same, monkeypatch)
        calibrated(tmp_path / "other.json", monkeypatch)
    calibrated(path, monkeypatch)


@pytest.mark.parametrize("quick,hint", [(True, "free some memory"), (False, "--quick needs 0.9 GB")])
def test_too_little_memory_is_refused(monkeypatch, tmp_path, quick, hint):
    monkeypatch.setattr(room._core, "machine_memory", lambda: (4e9, 0.25e9))
    said = refused(tmp_path / "device.json", monkeypatch, quick)
    assert "0.25 GB of memory are free" in said and hint in said


@pytest.mark.parametrize("ends,said", [("raise MemoryError('no more')", "MemoryError: no more"), ("import os; os.kill(os.getpid(), 9)", "signal 9")])
def test_a_process_of_ours_that_dies_is_one_sentence(monkeypatch, ends, said):
    monkeypatch.setattr(room, "_CHILD", ends)
    with pytest.raises(ValueError, match=f"^calibrate: .*ladder ended midway .*{said}"):
        room._process(lambda line: None)


def test_interrupted_midway(tmp_path):
    path = tmp_path / "device.json"
    path.write_text("old")
    with subprocess.Popen([sys.executable, "-m", "yuloh.cli", "calibrate", "--quick", "--out", str(path)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        while "training" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, said = process.communicate()
    assert process.returncode == 130 and not out and said.splitlines()[-1] == "yuloh calibrate: interrupted" and "Traceback" not in said
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_without_a_home(monkeypatch, tmp_path):
    def unknown(user):
        raise KeyError(user)

    for name in ("YULOH_DEVICE_FILE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert device_file.default_path().is_absolute()  # what the system knows of the user
    monkeypatch.setattr(device_file.pwd, "getpwuid", unknown)
    assert device_file.text() == ""
    assert facts(lambda: paddle.nn.Linear(4, 4), [([None, 4], "float32")], batch=2)["seconds"]["origin"] == "assumed"
    for home in ("", "relative"):
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        with pytest.raises(ValueError, match="HOME is not set.*YULOH_DEVICE_FILE"):
            room.calibrate()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert device_file.default_path().parent == tmp_path / ".cache" / "yuloh"


@pytest.mark.parametrize("threads", ["1", "4"])
def test_openmps_variable_changes_nothing(threads):
    code = "import yuloh; print(yuloh._core.get_num_threads())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": threads})
    assert int(done.stdout) == paddle._core.get_num_threads()
