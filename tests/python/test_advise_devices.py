# SPDX-License-Identifier: Apache-2.0
"""Devices of the user: what a file may say, this machine, other machines' device files."""

from __future__ import annotations

import json

import pytest
from test_advise import run

from yuloh import _core
from yuloh.advise import catalogue

GOOD = {"id": "mine", "memory": 64, "bandwidth": 900, "fp16": 100}


def written(tmp_path, content):
    path = tmp_path / "devices.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    "change,said",
    [
        ({"per_node": [1]}, "per_node must be a whole number"),
        ({"per_node": "x"}, "per_node must be a whole number"),
        ({"per_node": 0.5}, "per_node must be a whole number"),
        ({"matrix_efficiency": None}, "matrix_efficiency must be a number above 0"),
        ({"stream_efficiency": 2}, "stream_efficiency must be a number above 0"),
        ({"spread": 0.5}, "spread must be a number from 1"),
        ({"memory": 10**400}, "memory must be a number above 0 and at most 1e9"),
        ({"memory": True}, "memory must be a number"),
        ({"watts": float("nan")}, "watts must be a number"),
        ({"bandwidth": float("inf")}, "bandwidth must be a number"),
        ({"kind": "toaster"}, "kind must be one of gpu, npu, edge, cpu"),
        ({"kind": ["gpu"]}, "kind must be one of"),
        ({"bandwith": 3}, "unknown key 'bandwith'"),
        ({"bandwith": 3}, "Near: bandwidth"),
        ({"name": 3}, "name must be a text"),
        ({"id": "t4"}, "the name 't4' is taken"),
        ({"fp16": -1}, "fp16 must be a number above 0"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, change, said):
    with pytest.raises(ValueError) as raised:
        catalogue.user_devices(written(tmp_path, {**GOOD, **change}))
    assert said in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "content,said",
    [
        ("[]", "holds no device"),
        ([GOOD, GOOD], "the name 'mine' is taken"),
        ("3", "a device needs id"),
        ({k: v for k, v in GOOD.items() if k != "fp16"}, "has no rate"),
        ('{"id": "x", "memory": 1' + "0" * 5000 + "}", "is no JSON"),
        ("[" * 100000, "is no JSON"),
    ],
)
def test_files_that_are_none(tmp_path, content, said):
    with pytest.raises(ValueError, match=said):
        catalogue.user_devices(written(tmp_path, content))


def test_the_command_ends_in_a_sentence(tmp_path):
    done = run("resnet50", "--devices-file", written(tmp_path, {**GOOD, "per_node": [1]}), ok=2)
    assert "per_node" in done.stderr and done.stderr.count("\n") == 1
    more = {**GOOD, "kind": "npu", "per_node": 4, "matrix_efficiency": 0.5, "stream_efficiency": 0.8, "spread": 1.5, "watts": 200, "note": "ours"}
    (row,) = json.loads(run("resnet50", "--devices-file", written(tmp_path, more), "--device", "mine", "--json").stdout)["devices"]
    assert row["measured"] and row["seconds"][2] / row["seconds"][1] == pytest.approx(1.5)


def test_the_core_refuses_what_it_does_not_know():
    network = _core.advise_network({"params": 1e9})["network"]
    on = catalogue.core_device(catalogue.find_device("t4"))
    for change, said in (({"kind": "toaster"}, "kind of device"), ({"spread": 0.5}, "spread"), ({"spread": float("nan")}, "spread")):
        with pytest.raises(ValueError, match=said):
            _core.advise_layout(network, {}, {**on, **change}, {})


def test_this_machine_has_its_containers_memory_and_assumes_what_it_did_not_measure(monkeypatch, tmp_path):
    monkeypatch.setenv("YULOH_DEVICE_FILE", str(tmp_path / "none.json"))
    catalogue.this_machine.cache_clear()
    try:
        here = catalogue.this_machine()
    finally:
        catalogue.this_machine.cache_clear()
    core = catalogue.core_device(here)
    assert core["memory"] == pytest.approx(_core.machine_memory()[0], rel=1e-4)
    assert not set(catalogue.SHARES) & set(core) and core["bandwidth"] == core["host_link"]
    network = _core.advise_network({"params": 1e9})["network"]
    assert not _core.advise_layout(network, {}, core, {})["measured"]


def test_shares_that_a_file_does_not_hold_are_assumed():
    rows = [{"name": "gemm/matmul", "log2_roof_ns": 18.0, "efficiency": 0.6}]
    record = {"name": "CPU", "date": "2026-11-30", "peaks": {"fp32": 1e12, "copy": 5e10, "read": 9e10}, "efficiencies": rows,
              "memory_bytes": 2**34, "spread": 1.4}
    made = catalogue.core_device(catalogue.calibrated(record, "box"))
    assert made["matrix_efficiency"] == 0.6 and "stream_efficiency" not in made
    assert made["spread"] == catalogue.TWO_SHARES["spread"]  # the file's is of steps that are planned
    assert made["memory"] == 2**34 and made["bandwidth"] == 5e10
