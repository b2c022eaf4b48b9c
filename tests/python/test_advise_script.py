# SPDX-License-Identifier: Apache-2.0
"""`yuloh advise FILE.py`: the script runs in a process of its own. Whatever it does, there is an answer or one sentence
with its line, and nothing of it is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from test_advise import run

HEAD = """import os, sys, time
import paddle
net = paddle.nn.Sequential(paddle.nn.Linear(64, 64), paddle.nn.Linear(64, 10))
opt = paddle.optimizer.Adam(parameters=net.parameters())
def step():
    loss = net(paddle.ones([16, 64])).mean(); loss.backward(); opt.step()
"""
FIRST = HEAD.count("\n") + 1


def script(tmp_path, text, head=HEAD):
    path = tmp_path / "train.py"
    path.write_text(head + text)
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        "print('hello'); step(); print('NOT THIS')",
        "paddle.set_device('gpu:0'); net.to('gpu'); step()",
        "os.chdir('/'); step()",
        "os.fork(); step()",
        "import threading; threading.Thread(target=lambda: time.sleep(1000)).start(); step()",
        "import atexit; atexit.register(time.sleep, 1000); step()",
        "try: step()\nexcept Exception: pass\nwhile True: step()",
        "assert len(sys.argv) == 3 and sys.argv[1:] == ['--epochs', '3'], sys.argv\nstep()",
        # The dry run reads zero of what was computed: where that misleads, the script is run for real.
        "if float(net(paddle.ones([16, 64])).abs().max()) == 0: raise ValueError('all is zero')\nstep()",
    ],
)
def test_answers(tmp_path, text):
    done = run(script(tmp_path, text), "--device", "t4", "--json", "--", "--epochs", "3")
    found = json.loads(done.stdout)
    assert "NOT THIS" not in done.stderr and ("hello" in done.stderr) == ("hello" in text)
    assert (found["model"]["params"], found["job"]["batch"], found["job"]["optimizer"]) == (4810, 16, "adam")


@pytest.mark.parametrize(
    "text,said",
    [
        ("os.kill(os.getpid(), 9)", "ended by SIGKILL"),
        ("os.abort()", "ended by SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "ended by SIGSEGV"),
        ("os._exit(0)", "with status 0"),
        ("sys.exit(0)", "ended itself (exit status 0)"),
        ("while True: pass", "still runs after 2 s before its first optimizer step"),
        ("time.sleep(1000)", "still runs after 2 s before its first optimizer step"),
        ("sum(range(10 ** 14))", "still runs after 2 s before its first optimizer step"),
        ("input('name?')", "no standard input"),
        ("import argparse; p = argparse.ArgumentParser(); p.add_argument('--x', required=True); p.parse_args()", "after --"),
        ("open('/no/such/data')", "No such file"),
        ("x = (", "SyntaxError"),
        ("import no_such_library", "No module named"),
        ("net(paddle.ones([16, 63]))", "matmul"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit('over')", "GeneratorExit: over"),
        ("raise type('Odd', (BaseException,), {'__str__': lambda self: 1 / 0})", "Odd"),
    ],
)
def test_one_sentence_with_the_line(tmp_path, text, said):
    done = run(script(tmp_path, text), "--time-limit", "2", "--json", ok=2)
    last = done.stderr.splitlines()[-1]
    assert said in last and f"train.py, line {FIRST}: " in last, done.stderr
    assert "Traceback" not in done.stderr and not done.stdout


def test_a_model_that_fits_nowhere_costs_no_memory(tmp_path):
    """5.4e9 parameters, made and stepped by a script: the process stays small."""
    text = (
        "import resource\nnet = paddle.nn.Sequential(*[paddle.nn.Linear(16384, 16384) for _ in range(20)])\n"
        "opt = paddle.optimizer.AdamW(parameters=net.parameters())\n"
        "loss = net(paddle.rand([16, 16384])).mean(); print(float(loss)); loss.backward()\n"
        "print('MB:', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000, file=sys.stderr)\nopt.step()\n"
    )
    done = run(script(tmp_path, text), "--json")
    assert json.loads(done.stdout)["model"]["params"] > 5.3e9
    assert int(done.stderr.split("MB:")[1].split()[0]) < 300


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_running_after_a_signal(tmp_path, number):
    """Neither the script nor what it started, in its session or in one of its own."""
    text = (
        "import subprocess\nothers = [subprocess.Popen(['sleep', '1000'], start_new_session=new) for new in (False, True)]\n"
        "with open(sys.argv[1] + '.new', 'w') as f: f.write(' '.join(str(p) for p in (os.getpid(), *(o.pid for o in others))))\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\ntime.sleep(1000)"
    )
    mark = tmp_path / "pids"
    command = subprocess.Popen([sys.executable, "-m", "yuloh.cli", "advise", script(tmp_path, text), "--", str(mark)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    end = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < end:
        time.sleep(0.05)
    command.send_signal(number)
    _, said = command.communicate(timeout=30)
    assert command.returncode == (130 if number == signal.SIGINT else -number) and "Traceback" not in said
    numbers = mark.read_text().split()
    end = time.monotonic() + 30
    while any(runs(n) for n in numbers) and time.monotonic() < end:
        time.sleep(0.05)
    assert len(numbers) == 3 and not any(runs(n) for n in numbers)


def runs(number):
    try:
        with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(") ", 1)[1][0] not in "ZX"  # a zombie waits for its parent only
    except OSError:
        return False


def test_daemons_of_a_script_end_with_it(tmp_path):
    text = "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid(); open(sys.argv[1], 'a').write(f'{os.getpid()} ')\n        time.sleep(1000)\n"
    mark = tmp_path / "pids"
    run(script(tmp_path, text + "time.sleep(0.5); step()"), "--device", "t4", "--", str(mark))
    numbers = mark.read_text().split()
    assert numbers and not any(runs(number) for number in numbers)


def test_a_step_in_a_thread_stops_there_without_a_traceback(tmp_path):
    done = run(script(tmp_path, "import threading; t = threading.Thread(target=step); t.start(); t.join()"), "--device", "t4")
    assert "Traceback" not in done.stderr


LAYERS = """import paddle
class Of(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.l = paddle.nn.Linear(4, 4)
class Raises(Of):
    def forward(self, x):
        raise RuntimeError("boom")
class Endless(Of):
    def forward(self, x):
        while float(self.l(x).sum()) < 1e9: pass
class Kills(Of):
    def forward(self, x):
        import os; os.kill(os.getpid(), 9)
class Branches(Of):
    def forward(self, x):
        return self.l(x) if x.sum() > 0 else self.l(self.l(x))
"""


@pytest.mark.parametrize(
    "name,said",
    [
        ("Raises", "line 8: the model cannot be traced: RuntimeError: boom"),
        ("Endless", "line 11: still runs after 2 s before it was planned"),
        ("Kills", "line 14: the script was ended by SIGKILL before it was planned"),
    ],
)
def test_a_layer_that_cannot_be_planned(tmp_path, name, said):
    done = run(script(tmp_path, LAYERS, "") + f":{name}", "--input", "8,4", "--time-limit", "2", ok=2)
    assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_layer_that_branches_on_data_is_planned_along_zeros(tmp_path):
    found = json.loads(run(script(tmp_path, LAYERS, "") + ":Branches", "--input", "8,4", "--json").stdout)
    assert found["model"]["params"] == 20


def test_arguments_without_a_script():
    assert "arguments after --" in run("resnet50", "--", "--epochs", "3", ok=2).stderr


@pytest.mark.parametrize("then", ["", "assert float(net(paddle.ones([16, 64])).abs().max()) > 0\n"])
def test_checkpoints_of_a_script_stay(tmp_path, then):
    """What it saves before its first step is not written, dry or for real; loading it gives it back."""
    mine = tmp_path / "init.pdparams"
    mine.write_bytes(b"trained for weeks")
    text = (
        f"paddle.save(net.state_dict(), {str(mine)!r})\nfrom paddle.framework import save, load\nsave(net.state_dict(), 'new.pdparams')\n"
        f"os.chdir({str(tmp_path)!r})\nnet.set_state_dict(paddle.load('init.pdparams'))\nassert set(load({str(mine)!r}, return_numpy=True)) == set(net.state_dict())\n"
        "paddle.jit.save(net, 'saved', input_spec=[paddle.static.InputSpec([None, 64])])\n"
    )
    found = json.loads(run(script(tmp_path, text + then + "step()"), "--device", "t4", "--json").stdout)
    assert found["model"]["params"] == 4810
    assert mine.read_bytes() == b"trained for weeks" and sorted(p.name for p in tmp_path.iterdir()) == ["init.pdparams", "train.py"]


def test_closed_standard_files(tmp_path):
    """As a daemon has them."""
    command = ["bash", "-c", 'exec "$@" <&- 2>&-', "-", sys.executable, "-m", "yuloh.cli", "advise", script(tmp_path, "step()"), "--device", "t4", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["model"]["params"] == 4810
