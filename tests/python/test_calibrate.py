# SPDX-License-Identifier: Apache-2.0
"""yuloh calibrate: what it writes is what facts reads; bad files end in one sentence."""
import json
import math
import subprocess
import sys

import pytest

import yuloh as paddle
from yuloh import cli
from yuloh.advise import calibrate as room
from yuloh.advise import device_file, facts


@pytest.fixture
def record(monkeypatch, tmp_path):
    """The whole way with one small network and no further processes."""
    tiny = next(entry for entry in room.suite(True) if entry[0] == "tiny")
    monkeypatch.setattr(room, "suite", lambda quick: [tiny])
    monkeypatch.setattr(room, "_process", lambda tell: {"interpreter": 5e7, "spread": 0.1, "scratch": 1e6, "code_share": 1.0, "node_bytes": 100.0})
    path = tmp_path / "deep" / "device.json"
    assert room.calibrate(path, quick=True)[0] == path
    return path


def test_facts_rest_on_what_was_measured(record, monkeypatch):
    written = json.loads(record.read_text())
    assert written["version"] == room.VERSION and written["peaks"]["fp32"] > 1e9 and written["peaks"]["copy"] > 1e8
    assert all(row["read"] > 0 and row["write"] > 0 and row["copy"] > 0 for row in written["memory"])
    names = {row["name"] for row in written["efficiencies"]}
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
    samples = [(1e-6, 2.0, 4e-6), (1.1e-6, 2.1, 2e-6), (1e-3, 8.0, 2e-3)]
    rows = room._efficiencies(("gemm/matmul", "float32"), samples)
    assert [row["samples"] for row in rows] == [2, 1]
    assert rows[0]["efficiency"] == pytest.approx(2.1e-6 / 6e-6) and rows[1]["efficiency"] == pytest.approx(0.5)
    assert rows[1]["log2_roof_ns"] == pytest.approx(math.log2(1e6))


def test_the_fit_of_a_process():
    rows = [(1e6 + 2.0 * p + 3e3 * n, p, n) for p, n in ((1e6, 100), (2e6, 900), (4e6, 300), (5e5, 50))]
    found = room._fit(rows)
    assert found["scratch"] == pytest.approx(1e6) and found["code_share"] == pytest.approx(2) and found["node_bytes"] == pytest.approx(3e3)
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
