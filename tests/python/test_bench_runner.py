# SPDX-License-Identifier: Apache-2.0
"""`yuloh bench` from end to end with made-up frameworks: real processes, real clocks, no real training.

A contender here is a small shell script that puts a stand-in `paddle` package on the path of this Python; the
workload is a user's script with build(options) whose steps sleep for a given time.
"""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from yuloh.bench import contenders, environments, results as results_module
from yuloh.bench.budget import Budget, parse_duration, parse_money
from yuloh.bench.errors import ContenderError
from yuloh.bench.results import Results, load
from yuloh.bench.runner import Runner
from yuloh.bench.settings import Settings, find_workload

WORKLOAD = """
import math, os, sys, time
import paddle  # the stand-in: says how this contender behaves

class Training:
    parameter_count = paddle.PARAMETERS
    count = 0
    def step(self, batch=None):
        self.count += 1
        if paddle.FAIL_AT == self.count:
            exec(paddle.FAIL)
        time.sleep(paddle.STEP_S)  # sleeping is exact on a busy machine too
        return paddle.FIRST_LOSS * math.exp(-self.count / 100)
    def read(self, loss):
        print("a script may print")
        return loss

def build(options):
    return Training()
"""


@pytest.fixture(autouse=True)
def no_rest(monkeypatch):
    monkeypatch.setattr(Runner, "REST", 0.0)  # these contenders have no threads that spin


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("yuloh.bench.runner.BLOCK_S", 0.08)
    monkeypatch.setenv("YULOH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "job.py"
    path.write_text(WORKLOAD)
    return path


@pytest.fixture
def make(tmp_path):
    """make(name, **behaviour) -> "NAME=/path/to/python" of a stand-in framework."""

    def build(name, step_s=0.004, parameters=10, first_loss=4.6, fail_at=0, fail=""):
        package = tmp_path / name / "paddle"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            f"__version__ = '9.{len(name)}'\nSTEP_S = {step_s}\nPARAMETERS = "
            f"{parameters}\nFIRST_LOSS = {first_loss}\n"
            f"FAIL_AT = {fail_at}\nFAIL = {fail!r}\n"
        )
        python = tmp_path / name / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / name} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return f"{name}={python}"

    return build


def run(specs, script, out, max_time=None, said=None, **options):
    settings = Settings(contenders.parse_all(specs), [find_workload(str(script))], threads=[1], **options)
    budget = Budget(max_time)
    return Runner(settings, Results(out, (said if said is not None else []).append), budget).run()


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def arms(record):
    return {a["label"]: a for a in record["workloads"][0]["arms"]}


def test_faster_contender_is_found_and_everything_is_on_disk(make, script, tmp_path):
    record = run([make("old", 0.03), make("new", 0.01)], script, tmp_path / "out")
    assert record["status"] == "complete" and load(tmp_path / "out") == json.loads(json.dumps(record))
    (comparison,) = record["workloads"][0]["comparisons"]
    assert (comparison["arm"], comparison["base"], comparison["verdict"]) == ("new", "old", "faster")
    assert 1.5 < comparison["speedup"] < 4.5
    new = arms(record)["new"]
    assert len(new["blocks"]) == 2 * len(record["workloads"][0]["rounds"]) >= 16
    assert all(b["seconds"] > 0 and b["steps"] > 2 for b in new["blocks"])
    assert new["losses"][0] == pytest.approx(4.6, rel=0.02) and new["losses"][0] > new["losses"][50]
    assert new["summary"]["step_s"]["median"] == pytest.approx(0.01, rel=0.5)
    assert 0 <= new["summary"]["cpus_used"] < 1.2 and new["summary"]["peak_mb"] > 5
    assert new["launches"][0]["first_step_s"] > 0 and new["version"] == "source"


def test_rounds_are_interleaved_and_mirrored(make, script, tmp_path):
    record = run([make("a", 0.002), make("b", 0.01)], script, tmp_path / "out", seed=3)
    blocks = sorted(
        (b["round"], b["position"], name) for name, a in arms(record).items() for b in a["blocks"]
    )
    for i in range(0, len(blocks), 4):
        names = [b[2] for b in blocks[i : i + 4]]
        assert names == names[::-1] and set(names) == {"a", "b"}


def test_absent_python_is_one_line_and_the_rest_goes_on(make, script, tmp_path):
    said = []
    record = run([make("good"), "gone=/no/such/python"], script, tmp_path / "out", said=said)
    (line,) = record["errors"]
    assert (
        line.startswith("gone: no such Python, got '/no/such/python'") and "\n" not in line and line in said
    )
    assert arms(record)["good"]["blocks"] or arms(record)["good"]["launches"]


def test_crashing_script_keeps_the_others(make, script, tmp_path):
    bad = make("bad", fail_at=150, fail="raise ValueError('wrong shape, got [3]')")
    record = run([make("good", 0.01), make("slow", 0.03), bad], script, tmp_path / "out")
    (line,) = record["errors"]
    assert line.startswith("bad: the script failed at ") and "ValueError: wrong shape, got [3]" in line
    assert arms(record)["bad"]["error"] == line and arms(record)["slow"]["blocks"]
    assert [c["verdict"] for c in record["workloads"][0]["comparisons"] if c["arm"] == "slow"] == ["slower"]


def test_killed_worker_is_named(make, script, tmp_path):
    bad = make("bad", fail_at=150, fail="os.kill(os.getpid(), 9)")
    record = run([make("good", 0.01), make("slow", 0.03), bad], script, tmp_path / "out")
    (line,) = record["errors"]
    assert line.startswith("bad: the worker was killed by SIGKILL (out of memory?)")
    assert record["status"] == "complete" and len(arms(record)["good"]["blocks"]) >= 16


def test_worker_that_exits_is_named(make, script, tmp_path):
    record = run([make("good"), make("bad", fail_at=2, fail="os._exit(7)")], script, tmp_path / "out")
    assert "the worker ended by itself with code 7" in record["errors"][0]


def test_base_that_breaks_is_replaced(make, script, tmp_path):
    bad = make("bad", fail_at=150, fail="raise RuntimeError('late')")
    record = run([bad, make("a", 0.01), make("b", 0.03)], script, tmp_path / "out")
    assert arms(record)["bad"]["blocks"] and "late" in arms(record)["bad"]["error"]
    assert record["workloads"][0]["base"] == "a"
    assert {c["arm"]: c["verdict"] for c in record["workloads"][0]["comparisons"]}["b"] == "slower"


def test_setting_that_fails_is_passed_over(make, script, tmp_path):
    script.write_text(
        WORKLOAD.replace(
            "def build(options):",
            "def build(options):\n    assert os.environ['OMP_NUM_THREADS'] == '2', 'one thread'",
        )
    )
    settings = Settings(
        contenders.parse_all([make("a")]), [find_workload(str(script))], threads=[2, 1], max_rounds=8
    )
    record = Runner(settings, Results(tmp_path / "out"), Budget()).run()
    tried = arms(record)["a"]["calibration"]
    assert (
        record["errors"] == []
        and "AssertionError: one thread" in tried[1]["error"]
        and arms(record)["a"]["threads"] == 2
    )


def test_another_model_or_another_loss_is_not_compared(make, script, tmp_path):
    record = run(
        [make("a", 0.003), make("big", parameters=11), make("off", first_loss=4.7)], script, tmp_path / "out"
    )
    assert "not the same model as a, got 11 parameters; expected 10" in arms(record)["big"]["error"]
    assert "not the same computation as a, got first loss" in arms(record)["off"]["error"]
    assert record["workloads"][0]["comparisons"] == []


def test_time_limit_is_kept_with_partial_results(make, script, tmp_path):
    begin = time.monotonic()
    record = run([make("a", 0.15), make("b", 0.15)], script, tmp_path / "out", max_time=8)
    assert time.monotonic() - begin < 12
    assert record["status"] == "budget" and record["workloads"][0]["ended"] == "budget"
    assert arms(record)["a"]["blocks"] and record["budget"]["elapsed_s"] <= 10


@pytest.fixture
def clockwork(monkeypatch):
    """Arms that take made-up seconds of a made-up clock: 5 to calibrate, 1 a step. -> the budget of a limit."""
    now = [0.0]

    def calibrate(arm, request, threads, allows, timeout):
        now[0] += 5
        arm.step_s, arm.threads, arm.flags = 1.0, 1, {}
        launch = {"threads": 1, "flags": {}, "batch": request["options"]["batch"], "parameters": 10, "loss": 4.6}
        launch |= {"first_step_s": 1.0, "import_s": 1.0, "build_s": 1.0, "peak_mb": 9.0}
        arm.record["launches"].append(launch)
        arm.record["calibration"].append({"threads": 1, "flags": {}, "step_s": 1.0})

    def measure(arm, timeout):
        now[0] += arm.block_steps
        return {"seconds": arm.block_steps, "cpu_s": 1.0, "losses": [], "peak_mb": 9.0, "rss_mb": 9.0}

    monkeypatch.setattr("yuloh.bench.arms.Arm.calibrate", calibrate)
    monkeypatch.setattr("yuloh.bench.arms.Arm.measure", measure)
    return lambda limit: Budget(limit, clock=lambda: now[0])


@pytest.mark.parametrize("limit, measured", [(19, "ab"), (13, "a"), (7.5, "a"), (4, "")])
def test_short_limit_measures_what_fits_and_names_the_rest(make, script, tmp_path, clockwork, limit, measured):
    settings = Settings(contenders.parse_all([make(name) for name in "abcd"]), [find_workload(str(script))])
    record = Runner(settings, Results(tmp_path / "out"), clockwork(limit)).run()
    assert record["status"] == "budget" and record["errors"] == []
    for name, arm in arms(record).items():
        assert bool(arm["blocks"]) is (name in measured) and bool(arm["left_out"]) is (name not in measured), name
    needed = record["workloads"][0]["needed_s"]
    record = Runner(settings, Results(tmp_path / "again"), clockwork(needed)).run()
    assert all(len(a["blocks"]) >= 16 for a in arms(record).values())


def test_blocks_shorten_until_a_round_fits(make, script, tmp_path, clockwork, monkeypatch):
    monkeypatch.setattr("yuloh.bench.runner.BLOCK_S", 30.0)
    settings = Settings(contenders.parse_all([make("a")]), [find_workload(str(script))])
    record = Runner(settings, Results(tmp_path / "out"), clockwork(20)).run()
    assert [b["steps"] for b in arms(record)["a"]["blocks"]] == [6, 6] and not arms(record)["a"]["left_out"]


def test_too_short_a_limit_ends_with_status_3_and_says_what_would_do(make, script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "yuloh.cli", "bench", str(script), "--contenders", make("a"), "--threads", "1",
         "--out", str(tmp_path / "out"), "--no-report", "--max-time", "0.001s"],
        capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 3 and "nothing was measured" in done.stdout, done.stderr
    assert "the limit was too short to measure a. Hint: --max-time " in done.stderr


def test_full_disk_is_said_once_and_nothing_is_lost(make, script, tmp_path, monkeypatch):
    def full(path, text):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(results_module, "write_atomically", full)
    said = []
    record = run([make("a", 0.01), make("b", 0.03)], script, tmp_path / "out", said=said)
    assert len([s for s in said if "No space left on device" in s]) == 1
    assert record["workloads"][0]["comparisons"][0]["verdict"] == "slower"


def test_interrupt_keeps_what_was_measured_and_leaves_no_process(make, script, tmp_path):
    specs = " ".join([make("a", 0.01), make("b", 0.01)])
    out = tmp_path / "out"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "yuloh.cli",
            "bench",
            str(script),
            "--contenders",
            specs,
            "--threads",
            "1",
            "--out",
            str(out),
            "--no-report",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.3)
        if (out / "results.json").exists() and '"position"' in (out / "results.json").read_text():
            break
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=30)
    record = load(out)
    assert process.returncode == 130, errors
    assert record["status"] == "interrupted" and any(a["blocks"] for a in record["workloads"][0]["arms"])
    assert "everything measured until then is kept" in errors and "results.json" in text
    worker = str(environments.Path(environments.__file__).parent / "workloads" / "_worker.py").encode()
    left = [
        p
        for p in environments.Path("/proc").glob("[0-9]*/cmdline")
        if worker in _bytes(p) and str(tmp_path).encode() in _bytes(p.with_name("environ"))
    ]
    assert left == []


def test_script_without_build_is_run_whole(make, tmp_path):
    job = tmp_path / "plain.py"
    job.write_text(
        "import time, sys, paddle\ntime.sleep(paddle.STEP_S)\nassert sys.argv[1:] == ['--x', '1']\n"
    )
    record = run([make("a", 0.01), make("b", 0.12)], job, tmp_path / "out", script_args=["--x", "1"])
    assert record["errors"] == []
    assert record["workloads"][0]["comparisons"][0]["verdict"] == "slower"
    assert arms(record)["a"]["blocks"][0]["steps"] == 1 and arms(record)["a"]["summary"]["peak_mb"] > 1
    summary = arms(record)["a"]["summary"]  # a run is the unit, not the samples of a batch that nobody knows
    assert summary["throughput"] == pytest.approx(1 / summary["step_s"]["median"])
    assert (record["workloads"][0]["unit"], record["workloads"][0]["batch"]) == ("runs", 1)


def test_failing_script_without_build(make, tmp_path):
    job = tmp_path / "plain.py"
    job.write_text("raise RuntimeError('no data here')\n")
    record = run([make("a")], job, tmp_path / "out")
    assert (
        "ended with code 1: RuntimeError: no data here" in record["errors"][0]
        and record["status"] == "failed"
    )


def test_failed_installation_is_one_line(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ContenderError) as caught:
        environments.prepare(contenders.parse("yuloh-no-such-thing==1.0"))
    message = str(caught.value)
    assert "installation failed" in message and "No matching distribution" in message and "\n" not in message
    assert not list((environments.cache_folder() / "environments").glob("*/ready.json"))


def test_environment_is_made_once(tmp_path, monkeypatch):
    calls = []

    def step(command, contender, out, log):
        calls.append(command)
        if "venv" in command:
            folder = environments.Path(command[-1])
            (folder / "bin").mkdir(parents=True)
            (folder / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(environments, "_step", step)
    monkeypatch.setattr(environments, "_probe", lambda contender, python: python)
    contender = contenders.parse("paddlepaddle==3.3.1")
    first = environments.prepare(contender)
    assert environments.prepare(contender) == first and len(calls) == 2
    environments.Path(first).parent.parent.joinpath("ready.json").unlink()  # interrupted before the end
    environments.prepare(contender)
    assert len(calls) == 4


def test_unknown_revision_and_unknown_base_python():
    with pytest.raises(ContenderError, match="no such revision, got 'nowhere'"):
        environments.prepare(contenders.parse("yuloh@nowhere"))
    with pytest.raises(ContenderError, match="no such Python, got 'python0.1'"):
        environments.prepare(contenders.parse("paddlepaddle==2.0:python0.1"))


def test_workers_see_a_scrubbed_environment(monkeypatch):
    monkeypatch.setenv("FLAGS_secret", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    monkeypatch.setenv("PYTHONPATH", "/x")
    env = environments.scrubbed("paddle", 2, {"FLAGS_use_mkldnn": 1, "channels_last": True})
    assert "FLAGS_secret" not in env and "PYTHONPATH" not in env
    assert env["OMP_NUM_THREADS"] == "2" and env["FLAGS_use_mkldnn"] == "1" and "channels_last" not in env
    own = environments.scrubbed("yuloh", 2, {}, own=True)
    assert "OMP_NUM_THREADS" not in own and own["PYTHONPATH"] == "/x"


@pytest.mark.parametrize(
    "text,seconds", [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2 hours", 7200)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text,seconds,currency",
    [
        ("5 CNY @ 1 CNY/h", 18000, "CNY"),
        ("¥5 @ ¥1/h", 18000, "CNY"),
        ("5元@1元/h", 18000, "CNY"),
        ("$2 @ 0.5/h", 14400, "USD"),
        ("1 @ 24/day", 3600, ""),
    ],
)
def test_money(text, seconds, currency):
    money = parse_money(text)
    assert money.seconds == pytest.approx(seconds) and money.currency == currency


@pytest.mark.parametrize(
    "text", ["5 CNY", "5 CNY @ 1 USD/h", "0 CNY @ 1 CNY/h", "x @ 1/h", "5 @ 1/fortnight"]
)
def test_bad_money_is_refused(text):
    with pytest.raises(ValueError, match="bench: "):
        parse_money(text)


@pytest.mark.parametrize("text", ["", "-5", "0", "ten", "5 parsecs"])
def test_bad_durations_are_refused(text):
    with pytest.raises(ValueError, match="bench: "):
        parse_duration(text)


def test_budget_counts_money_from_the_start_and_time_from_measuring():
    now = [0.0]
    budget = Budget(600, parse_money("1 CNY @ 1 CNY/h"), clock=lambda: now[0])
    now[0] = 3000.0
    assert budget.left() == 600
    budget.start_measuring()
    now[0] = 3400.0
    assert budget.left() == pytest.approx(200) and not budget.allows(201)
    now[0] = 3601.0
    assert budget.left() < 0 and budget.describe()["spent"] == pytest.approx(1.0003, abs=1e-3)


def test_contender_words(tmp_path):
    kinds = {
        "yuloh": "yuloh",
        "yuloh@v1": "revision",
        "paddlepaddle==3.3.1": "requirement",
        "torch": "requirement",
        "torch>=2.1,<3": "requirement",
        "x=/a/b": "python",
    }
    for word, kind in kinds.items():
        assert contenders.parse(word).kind == kind
    found = contenders.parse_all(["yuloh paddlepaddle==3.3.1", "yuloh, p=/x"])
    assert [c.name for c in found] == ["yuloh", "paddlepaddle 3.3.1", "p"]
    assert contenders.parse("paddlepaddle==2.6.2:python3.9").base_python == "python3.9"
    for bad in ("=", "a b", "yuloh@", "x=", "rm -rf /"):
        with pytest.raises(ValueError, match="cannot read the contender"):
            contenders.parse(bad)
    with pytest.raises(ValueError, match="two contenders are called"):
        contenders.parse_all(["a=/x", "a=/y"])


def test_unknown_workload_and_missing_script():
    with pytest.raises(ValueError, match="unknown workload, got 'resnet51'.*resnet50_cifar100"):
        find_workload("resnet51")
    with pytest.raises(FileNotFoundError, match="no such script"):
        find_workload("nowhere.py")


def test_damaged_results_are_refused(tmp_path):
    path = tmp_path / "results.json"
    path.write_text('{"schema": "yuloh-bench/1", "workl')
    with pytest.raises(ValueError, match="is not a results file"):
        load(path)
    path.write_text('{"schema": "other/9"}')
    with pytest.raises(ValueError, match="unknown schema, got 'other/9'"):
        load(path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(tmp_path / "none.json")


def test_atomic_write_keeps_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    results_module.write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError):
        results_module.write_atomically(path, "new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_sweep_stops_at_the_knee_and_estimates_what_fits():
    from types import SimpleNamespace

    from yuloh.bench.sweep import measure_sweep, predicted_peak

    def start(threads, flags, request, timeout):  # the same time up to batch 32
        step = {"seconds": max(0.3, 0.3 * request["options"]["batch"] / 32), "peak_mb": 100.0}
        return SimpleNamespace(ask=lambda *a, **k: step, close=lambda: None)

    arm = SimpleNamespace(start=start, threads=1, flags={}, label="a")
    budget = Budget(100)
    swept = list(measure_sweep(arm, {"options": {}}, "knee", budget, 100, 1))
    assert [(r["batch"], r["knee"]) for r in swept] == [(8, False), (16, False), (32, True), (64, False)]
    assert [r["batch"] for r in measure_sweep(arm, {"options": {}}, [8, 64], budget, 100, 1)] == [8, 64]

    rows = [{"batch": 8, "peak_mb": 100.0}, {"batch": 16, "peak_mb": 180.0}]
    assert predicted_peak(rows, 32) == 340.0 and predicted_peak(rows[:1], 32) is None


def test_built_in_workloads_have_twins_and_run_plainly():
    from yuloh.bench.workloads import CATALOGUE

    for workload in CATALOGUE.values():
        for framework in ("paddle", "torch"):
            text = workload.script(framework).read_text()
            compile(text, str(workload.script(framework)), "exec")
            assert "def build(options):" in text
        assert "import paddle" in workload.script("yuloh").read_text()


def test_batches_and_weights_do_not_depend_on_the_framework(tmp_path):
    code = textwrap.dedent("""
        import sys, json
        sys.path.insert(0, sys.argv[1])
        from _data import batches, exchange_weights
        import numpy as np
        b = batches("tokens", 4, seed=1)
        w = exchange_weights(sys.argv[2], {"a.weight": [3, 4], "n.weight": [5], "n.bias": [5]}, 1)
        first = b[0][0][0, :3].tolist()
        print(json.dumps([len(b), first, float(w["a.weight"].sum()), w["n.weight"].tolist()]))
    """)
    from yuloh.bench.workloads import FOLDER

    command = [sys.executable, "-c", code, str(FOLDER), str(tmp_path / "w.npz")]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second and json.loads(first)[3] == [1.0] * 5
    bad = subprocess.run(
        [*command[:2], code.replace("[3, 4]", "[4, 4]"), *command[3:]], capture_output=True, text=True
    )
    assert "the models differ in 1 parameters, first 'a.weight'" in bad.stderr


def test_torch_compile_is_an_arm_of_its_own(tmp_path):
    """--compile: every PyTorch contender twice; the worker is told by the flag that the twins' Training reads."""
    from yuloh.bench.arms import Arm

    settings = Settings([], [], torch_compile=True)
    assert settings.compiled("torch") == [False, True] and settings.compiled("torch", whole=True) == [False]
    assert settings.compiled("paddle") == settings.compiled("yuloh") == [False]
    assert Settings([], []).compiled("torch") == [False]
    arm = Arm(None, "fp32", None, "torch compile", "torch compile", tmp_path)
    arm.compiled = True
    assert arm.fixed_flags() == {"compile": True}
    twin = (environments.Path(__file__).parents[2] / "python/yuloh/bench/workloads/_torch_training.py").read_text()
    assert 'flags.get("compile")' in twin


def test_the_machine_is_measured_in_the_run(make, script, tmp_path):
    from yuloh.bench import peaks

    record = run([make("a", 0.002)], script, tmp_path / "out", max_rounds=8)
    found = record["environment"]["peaks"]
    assert found["threads"] >= 1 and found["read"] > 0 and found["copy"] > 0
    assert all(found[k] > 0 for k in ("fp32", "bf16", "int8") if k in found)
    assert "GB/s" in peaks.describe(found)
