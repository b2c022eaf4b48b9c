# SPDX-License-Identifier: Apache-2.0
"""The built-in workloads on Yuloh: same parameter count and loss curves as recorded from PaddlePaddle.

bench_workloads.json is made by bench/record_workloads.py; the PyTorch twins are held to the first loss by
every `yuloh bench` run itself.
"""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from yuloh.bench import contenders, environments
from yuloh.bench.process import Worker
from yuloh.bench.workloads import CATALOGUE

HERE = pathlib.Path(__file__).parent
RECORDED = json.loads((HERE / "bench_workloads.json").read_text())
SCRIPTS = HERE.parents[1] / "bench"


@pytest.fixture(scope="module")
def short():
    """bench/short.py as a module."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        import short as module
    finally:
        sys.path.remove(str(SCRIPTS))
    return module


@pytest.fixture(scope="module")
def own():
    return environments.prepare(contenders.parse("yuloh"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_losses_follow_paddle(name, precision, own, short, tmp_path):
    """The short form of the performance test: every workload, a few steps, judged by its numbers, never by time."""
    short.images(tmp_path / "images.npz")
    parameters, losses, _ = short.run(own, CATALOGUE[name], precision, short.STEPS, 1, tmp_path)
    assert len(losses) == len(RECORDED[name]["losses"]) == 5
    assert short.complaints(precision, parameters, losses, RECORDED[name]) == []


def test_short_form_fails_on_a_wrong_loss_and_on_nothing_else(tmp_path):
    def run(record):
        (tmp_path / "reference.json").write_text(json.dumps(record))
        command = [sys.executable, str(SCRIPTS / "short.py"), "lenet", "--precision", "fp32", "--reference",
                   str(tmp_path / "reference.json")]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    right = run(RECORDED)
    assert right.returncode == 0 and "as recorded" in right.stdout and "This machine: " in right.stdout, right.stderr
    losses = RECORDED["lenet"]["losses"]
    wrong = run({**RECORDED, "lenet": {**RECORDED["lenet"], "losses": [losses[0], losses[1] * 1.02, *losses[2:]]}})
    assert wrong.returncode == 1 and "WRONG: step 1" in wrong.stdout


def test_plain_mean_step_time_agrees_with_ours(own, tmp_path):
    """A script's own time.time() mean over 100 plain steps is within 5 % of the bench's blocks."""
    lenet = CATALOGUE["lenet"]
    worker = Worker(own, 1, {}, tmp_path / "log", "lenet")
    options = {"batch": 64, "seed": 0, "precision": "fp32", "learning_rate": 1e-3}
    script = str(lenet.script("yuloh"))
    command = [sys.executable, "-m", "yuloh.cli", "run", "--threads", "1", script]
    try:
        worker.ask("open", timeout=120, framework="yuloh", threads=1, script=script, options=options)
        worker.ask("steps", timeout=120, n=20)
        ours, plain = [], []
        for _ in range(12):  # in turn; the best of each stands for the undisturbed machine
            ours.append(min(worker.ask("steps", timeout=120, n=100)["seconds"] / 100 for _ in range(3)))
            text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
            plain.append(float(re.search(r"mean step ([\d.]+) ms", text)[1]) / 1000)
            if len(ours) >= 3 and abs(min(plain) / min(ours) - 1) < 0.05:
                break
    finally:
        worker.close()
    agree = min(plain) == pytest.approx(min(ours), rel=0.05)
    spread = max(max(ours) / min(ours), max(plain) / min(plain)) - 1
    if not agree and spread > 0.05:
        pytest.skip(f"cannot tell: other work on this machine; {min(plain):.5f} s against {min(ours):.5f} s, runs "
                    f"of the same thing differ by {spread:.0%}")
    assert agree
