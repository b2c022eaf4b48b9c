# SPDX-License-Identifier: Apache-2.0
"""`yuloh profile` and paddle.profiler: what is recorded is what happened, the trace is one that viewers read."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import yuloh as paddle
from yuloh import _core, profiler
from yuloh.profiler import analysis, chrome, text
from yuloh.profiler.analysis import Analysis
from yuloh.profiler.recorder import RECORDER, Recording

MB = 1 << 20
PEAKS = {"fp32": 1e11, "bf16": 2e11, "int8": 4e11, "read": 1e10, "copy": 2e10, "threads": 1}


class Digits(paddle.io.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return np.random.RandomState(i).rand(1, 28, 28).astype("float32"), i % 10


def record(body):
    RECORDER.start()
    try:
        body()
    finally:
        recording = RECORDER.stop()
    return recording


def train(steps=4):
    net = paddle.vision.models.LeNet()
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    done = 0
    while done < steps:
        for x, y in paddle.io.DataLoader(Digits(), batch_size=16):
            loss = paddle.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            opt.clear_grad()
            loss.item()
            done += 1


def kernels_of(body):
    core = record(body).core
    return [core["plans"][plan]["steps"][step] for plan, step, *_ in core["kernels"]]


def test_a_fused_kernel_counts_every_operand_once():
    x = paddle.ones([1024, 1024])
    x.numpy()
    (what, _, _, where, dtype, flops, moved) = kernels_of(lambda: (paddle.nn.functional.relu(x) + x * 3.7).numpy())[0]
    assert "relu" in what and dtype == "float32" and os.path.basename(__file__) in where
    assert 8 * MB <= moved <= 8 * MB + 64  # read once, written once; the number beside it is a few bytes
    assert flops == 3 * MB


def test_a_reduction_counts_its_additions():
    x = paddle.ones([512, 512])
    x.numpy()
    (what, _, _, _, _, flops, moved) = kernels_of(lambda: x.sum(0).numpy())[0]
    assert what == "sum" and flops == 512 * 512 and moved == 4 * (512 * 512 + 512)


def test_what_a_step_does_is_recorded():
    recording = record(lambda: train(4))
    core = recording.core
    assert {p[0] for p in core["phases"]} == {"lookup", "compile", "run"}
    assert [e.kind for e in recording.events].count("step") == 4
    assert [e.kind for e in recording.events].count("loader") == 4
    assert core["recorded"] > 40 and core["recording_ns"] > 0
    for plan, step, _, begin, end in core["kernels"]:
        assert recording.begin <= begin <= end <= recording.end
        assert step < len(core["plans"][plan]["steps"])
    a = Analysis(recording, PEAKS)
    assert len(a.steps) == 4 and all(s.run_s > 0 and s.loader_s > 0 and s.record_s > 0 for s in a.steps)
    assert a.steps[0].compile_s > 0 and a.steps[-1].compile_s == 0
    parts = sum(a.split[key] for key, _ in text.PARTS)
    assert parts == pytest.approx(a.total_s, rel=1e-6)
    assert sum(r.seconds for r in a.kernels) <= a.split["run"]
    assert any(" refused: " in r.refused for r in a.kernels)
    for r in a.kernels:
        assert max(r.compute_s, r.memory_s) <= r.roof_s <= r.compute_s + r.memory_s + 1e-12
        assert r.memory_s == pytest.approx(r.bytes / 2e10)
    assert sum(r.flops for r in a.kernels) > 100e6  # LeNet: four steps of 16 images


def test_memory_follows_the_allocator():
    held = []

    def body():
        kept = paddle.ones([MB])  # 4 MB
        kept.numpy()
        passing = paddle.ones([2 * MB]) * 3.7
        passing.numpy()
        del passing
        held.append(_core.memory_stats()["allocated"])
        body.kept = kept

    paddle.ones([MB]).numpy()
    before = _core.memory_stats()["allocated"]
    recording = record(body)
    m = analysis.memory(recording)
    assert m.timeline[0][1] == before and m.timeline[-1][1] == held[0]
    assert m.peak_bytes >= before + 12 * MB and m.peak_bytes == max(b for _, b in m.timeline)
    assert sum(row[0] for row in m.alive) == m.peak_bytes
    assert any(row[0] >= 8 * MB and os.path.basename(__file__) in row[2] for row in m.alive)


def test_off_costs_nothing_and_leaves_nothing_behind():
    from yuloh.io.dataloader import DataLoader

    step, iterate = paddle.optimizer.Optimizer.step, DataLoader.__iter__
    recording = record(lambda: train(1))
    assert paddle.optimizer.Optimizer.step is step and DataLoader.__iter__ is iterate
    train(1)
    assert len(_core.profile_data()["kernels"]) == len(recording.core["kernels"])


def test_the_body_of_a_loop_is_not_counted_twice():
    runs = [(0, 0, 0, 10, 20), (0, 1, 0, 12, 15), (0, 2, 0, 15, 19), (0, 3, 0, 30, 31), (0, 4, 1, 13, 14)]
    assert [round(s * 1e9) for s in analysis._own_seconds(runs)] == [3, 3, 4, 1, 1]


def test_profiles_may_overlap():
    def both():
        (paddle.ones([8]) * 3.7).numpy()
        begin = profiler.now()
        RECORDER.start()
        (paddle.ones([16]) * 3.7).numpy()
        both.inner = RECORDER.stop(begin)

    outer = record(both)
    assert 0 < len(both.inner.core["kernels"]) < len(outer.core["kernels"])


# -- the trace -----------------------------------------------------------------------------------------------


def check_trace(trace):
    """The Trace Event Format, as far as viewers insist on it."""
    assert isinstance(trace["traceEvents"], list) and trace["displayTimeUnit"] in ("ms", "ns")
    named, open_until = set(), {}
    for e in trace["traceEvents"]:
        assert e["ph"] in "XMC" and isinstance(e["name"], str) and isinstance(e["pid"], int) and isinstance(e["tid"], int)
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str)
            named.add(e["tid"])
            continue
        assert isinstance(e["ts"], (int, float)) and e["ts"] >= 0
        if e["ph"] == "C":
            assert e["args"] and all(isinstance(v, (int, float)) for v in e["args"].values())
        else:
            assert e["dur"] >= 0 and isinstance(e["cat"], str) and isinstance(e["args"], dict)
            assert e["tid"] in named
            open_until.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
    for spans in open_until.values():  # complete events of a thread lie beside or inside each other
        stack = []
        for begin, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1] <= begin + 1e-3:
                stack.pop()
            assert not stack or end <= stack[-1] + 1e-3
            stack.append(end)
    return trace["traceEvents"]


def test_chrome_trace(tmp_path):
    recording = record(lambda: train(2))
    chrome.write(recording, tmp_path / "deep" / "trace.json")
    events = check_trace(json.loads((tmp_path / "deep" / "trace.json").read_text()))
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert len(kernels) == len(recording.core["kernels"])
    assert {"kernel", "phase", "step", "loader"} <= {e.get("cat") for e in events}
    assert any(e["args"].get("flop", 0) > 0 and "recorded at" in e["args"] for e in kernels)
    assert max(e["args"]["bytes held"] for e in events if e["ph"] == "C") == analysis.memory(recording).peak_bytes


# -- paddle.profiler -----------------------------------------------------------------------------------------


def states(count=14, **options):
    schedule = profiler.make_scheduler(**options)
    return "".join({"CLOSED": "c", "READY": "r", "RECORD": "R", "RECORD_AND_RETURN": "E"}[schedule(i).name] for i in range(count))


def test_schedules_are_paddles():  # as PaddlePaddle 3.3.1 answers
    assert states(closed=1, ready=1, record=3, repeat=2, skip_first=1) == "ccrRREcrRREccc"
    assert states(closed=0, ready=0, record=2) == "RERERERERERERE"
    assert states(closed=0, ready=1, record=1, repeat=1) == "rEcccccccccccc"
    with pytest.raises(ValueError, match="make_scheduler: .*expected record >= 1"):
        profiler.make_scheduler(closed=0, ready=0, record=0)


@pytest.mark.parametrize("scheduler, ends, steps", [((2, 5), [5], 3), ((0, 2), [2], 2), (None, [8], 8)])
def test_profiler_records_the_steps_of_its_schedule(scheduler, ends, steps):
    ready = []
    with profiler.Profiler(scheduler=scheduler, on_trace_ready=lambda p: ready.append((p.step_num, p.profiler_result))) as p:
        for i in range(8):
            (paddle.ones([i + 1]) * 3.7).numpy()
            p.step()
    assert [n for n, _ in ready] == ends
    assert len(ready[0][1].steps) == steps and len(ready[0][1].core["kernels"]) >= steps
    assert RECORDER.users == 0


def test_profiler_exports_and_prints(tmp_path, capsys):
    with profiler.Profiler(on_trace_ready=profiler.export_chrome_tracing(str(tmp_path), "mine")) as p:
        with profiler.RecordEvent("my part"):
            (paddle.ones([4, 4]) @ paddle.ones([4, 4])).numpy()
        p.step(num_samples=4)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("mine_time_") and file.name.endswith(".paddle_trace.json")
    events = check_trace(json.loads(file.read_text()))
    assert "my part" in [e["name"] for e in events] and "step" in [e["name"] for e in events]
    p.summary(sorted_by=profiler.SortedKeys.CPUAvg, time_unit="us")
    shown = capsys.readouterr().out
    assert "my part" in shown and "matmul" in shown and "1 steps" in shown
    p.summary(views=profiler.SummaryView.MemoryView)
    assert "matmul" not in capsys.readouterr().out.split("alive then:")[0]
    with pytest.raises(ValueError, match="time_unit"):
        p.summary(time_unit="h")


def test_timer_only():
    p = profiler.Profiler(timer_only=True)
    p.start()
    assert RECORDER.users == 0
    for _ in range(3):
        p.step(num_samples=4)
    info = p.step_info(unit="images")
    assert "batch_cost:" in info and info.endswith("images/s") and p.step_info() == ""
    p.stop()


def test_profiler_says_what_it_cannot_do():
    for call in (lambda: profiler.export_protobuf("x"), lambda: profiler.load_profiler_result("x")):
        with pytest.raises(NotImplementedError, match="Hint"):
            call()
    with pytest.raises(TypeError, match="Profiler: scheduler"):
        profiler.Profiler(scheduler=3)
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        profiler.Profiler().export("x")


# -- the command ---------------------------------------------------------------------------------------------


def command(tmp_path, code, *args):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(code))
    return subprocess.run([sys.executable, "-m", "yuloh.cli", "profile", "--out", str(tmp_path / "out"), *args, str(script), "7"],
                          capture_output=True, text=True, timeout=180, cwd=tmp_path)


def test_command(tmp_path):
    done = command(tmp_path, """
        import sys
        import paddle
        net = paddle.nn.Linear(64, 64)
        opt = paddle.optimizer.SGD(learning_rate=0.1, parameters=net.parameters())
        x = paddle.ones([32, 64])
        for _ in range(int(sys.argv[1])):
            loss = net(x).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
        print("loss", loss.item())
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("loss ")
    for words in ("7 steps", "Measured peaks", "GFLOP/s", "matmul", "train.py:", "waiting for the DataLoader", "alive then"):
        assert words in done.stdout
    check_trace(json.loads((tmp_path / "out" / "trace.json").read_text()))
    assert (tmp_path / "out" / "profile.txt").read_text().strip() in done.stdout
    page = (tmp_path / "out" / "profile.html").read_text()
    assert "matmul" in page and "<svg" in page and "http" not in page.split("</style>")[1]


def test_command_reports_a_failing_script_too(tmp_path):
    done = command(tmp_path, "import paddle\npaddle.ones([3]).numpy()\nraise ValueError('mine')", "--no-peaks")
    assert done.returncode == 1 and "ValueError: mine" in done.stderr and "Profile:" in done.stdout
    assert "Measured peaks" not in done.stdout
    done = command(tmp_path, "import paddle, sys\npaddle.ones([3]).numpy()\nsys.exit(3)", "--no-peaks")
    assert done.returncode == 3 and "Profile:" in done.stdout


def test_command_refuses_bad_options(tmp_path):
    done = command(tmp_path, "", "--kernels", "0")
    assert done.returncode != 0 and "--kernels must be positive" in done.stderr


# -- what the sentence says ----------------------------------------------------------------------------------


def made(loader=0.0, compile_s=0.0, python=0.0, run=0.0):
    core = {"plans": [{"steps": [("matmul:x", "x", "", "", "float32", 1e9, 1e6)], "arena": [], "results": []}],
            "kernels": [(0, 0, 0, 0, int(run * 1e9))] if run else [], "memory": [], "held_at_start": 0, "recording_ns": 0,
            "recorded": 0, "phases": [("run", 0, 0, int(run * 1e9)), ("compile", 0, int(run * 1e9), int((run + compile_s) * 1e9))]}
    from yuloh.profiler.recorder import Event

    begin = int((run + compile_s) * 1e9)
    events = [Event("loader", "DataLoader", "MainThread", begin, begin + int(loader * 1e9))] if loader else []
    return Analysis(Recording(0, begin + int((loader + python) * 1e9), core, events), PEAKS)


@pytest.mark.parametrize("parts, words", [
    ({"loader": 3.0, "run": 1.0}, "DataLoader is waited for 75%"),
    ({"compile_s": 3.0, "run": 1.0}, "Compiling takes 75%"),
    ({"python": 3.0, "run": 1.0}, "Python and recording take 75%"),
    ({"run": 0.02}, "at 50% of this machine's measured compute peak"),
    ({}, "Nothing was computed"),
])
def test_conclusion_names_the_largest_part(parts, words):
    assert words in text.conclusion(made(**parts))
