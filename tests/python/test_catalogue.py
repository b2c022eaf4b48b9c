# SPDX-License-Identifier: Apache-2.0
"""The figures of the catalogue against each other: units and sources, buses, dense rates, the article's rows."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest

from yuloh.advise import catalogue

DEVICES = {d["id"]: d for d in catalogue.devices()}
ENTRIES = [(d["id"], f, v) for d in catalogue.devices() for f, values in d["figures"].items() for v in values]
# What the user's article says: memory, bandwidth, FP16 (table C2 of the mission).
ARTICLE = {
    "t4": (16, 320, 65),
    "rtx3060": (12, 360, 25),
    "a10": (24, 600, 125),
    "a4000": (16, 448, 25),
    "a5000": (24, 768, 50),
    "v100": (32, 900, 112),
    "a100-40": (40, 1500, 312),
    "h100": (80, 3350, 756),
}


def kind(entry):
    return catalogue.sources()[entry["source"]]["kind"]


def first(ident, figure):
    values = DEVICES[ident]["figures"].get(figure)
    return values and values[0]["value"]


def numbers(pattern):
    """[(device, figure, value, groups)] of the figures whose note matches."""
    found = [(d, f, v["value"], re.search(pattern, v.get("note", ""))) for d, f, v in ENTRIES]
    return [(d, f, v, [float(g.replace(",", "")) for g in m.groups()]) for d, f, v, m in found if m]


def test_every_figure_has_unit_source_date_and_kind():
    units = catalogue._file("devices.json")["units"]
    tomorrow = str(date.today() + timedelta(days=1))  # whoever read it may be ahead of this clock by a zone
    for ident, figure, v in ENTRIES:
        assert v["value"] > 0 and units[figure], (ident, figure)
        assert "2026-01-01" <= v["date"] <= tomorrow and date.fromisoformat(v["date"]), (ident, figure)
        assert kind(v) in catalogue.KINDS, (ident, figure)
    titles = [s["title"] for s in catalogue.sources().values()]
    assert len(set(titles)) == len(titles)
    assert {v["source"] for _, _, v in ENTRIES} <= set(catalogue.sources())


def test_articles_rows_stand_as_they_are():
    for ident, row in ARTICLE.items():
        for figure, value in zip(("memory", "bandwidth", "fp16"), row):
            said = [v["value"] for v in DEVICES[ident]["figures"][figure] if kind(v) == "article"]
            assert said == [value], (ident, figure)
    assert sum(kind(v) == "article" for _, _, v in ENTRIES) == 3 * len(ARTICLE)


def test_what_was_read_comes_first():
    """An article's or a recalled figure is reckoned with only where nothing was read; few are left."""
    for ident, d in DEVICES.items():
        for figure, values in d["figures"].items():
            assert kind(values[0]) != "article", (ident, figure)
    left = {(i, f) for i, f, v in ENTRIES if kind(v) == "recalled"}
    assert {i for i, _ in left} <= {"epyc-9654", "kunpeng-920", "kunlun-r200", "kunlun-r300", "kunlun-p800"}
    assert len(left) <= 7


# What is reckoned with though a document of the maker says otherwise, and why.
NOT_THE_MAKERS = {
    ("b200", "host_link"): "its planner counts PCIe 6, which the servers' hosts do not have",
    ("rtx5090", "bf16"): "its planner gives the rate that accumulates in FP16",
}


def test_the_makers_figure_comes_first():
    """But for memory, where what the driver reports does (below)."""
    behind = {(i, f) for i, d in DEVICES.items() for f, v in d["figures"].items() if "vendor" in map(kind, v) and kind(v[0]) != "vendor"}
    assert {(i, f) for i, f in behind if f != "memory"} == set(NOT_THE_MAKERS)


def test_memory_is_what_the_driver_reports():
    """First what can be used, the sheet's beside it. ECC in GDDR6 takes a sixteenth of the memory."""
    for ident in ("t4", "a10", "a40", "l4", "l40s"):
        values = [v["value"] for v in DEVICES[ident]["figures"]["memory"]]
        assert values[0] == pytest.approx(15 / 16 * values[1], rel=1e-3) and values[1] in (16, 24, 48), ident
    rows = numbers(r"([\d,]+) MiB, as the driver reports")
    assert len(rows) == 8 and all(f == "memory" and v == pytest.approx(mib / 1024, abs=0.1) for _, f, v, (mib,) in rows)
    for ident, d in DEVICES.items():
        values = d["figures"]["memory"]
        assert all(values[0]["value"] <= v["value"] for v in values) or ident == "kunlun-p800", ident


def test_bridges_join_pairs():
    """A card has a link to all or to one other; what its note says of a bridge stands there as a figure."""
    for ident, d in DEVICES.items():
        assert ("pair_link" in d["figures"]) == ("bridge for pairs" in d.get("note", "")), ident
        assert not {"link", "pair_link"} <= set(d["figures"]), ident
        host = first(ident, "host_link")
        assert first(ident, "pair_link") is None or first(ident, "pair_link") > host, ident
    assert {i for i, d in DEVICES.items() if "article_link" in d} == {"a5000"} and DEVICES["a5000"]["article_link"] == "2-way"


def test_bandwidth_is_bus_times_data_rate():
    rows = numbers(r"(\d+) bit at ([\d.]+) Gbit/s")
    assert len(rows) >= 25
    for ident, figure, value, (bits, rate) in rows:
        assert figure == "bandwidth"
        assert value == pytest.approx(bits * rate / 8, rel=0.025), ident


def test_sparse_rates_are_halved():
    rows = numbers(r"half of ([\d,]+)(?: with sparsity)")
    assert len(rows) >= 15
    for ident, figure, value, (printed,) in rows:
        assert value == printed / 2, (ident, figure)
    for ident, figure, value, (peta,) in numbers(r"an eighth of (\d+) P(?:FLOPS|OPS), half of it"):
        assert value == peta * 1000 / 16, (ident, figure)


def test_rates_agree_with_each_other():
    """A rate with sparsity in a dense one's place would double one of these ratios."""
    for ident in DEVICES:
        fp32, tf32, fp16, bf16, fp8, int8 = (
            first(ident, f) for f in ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")
        )
        if tf32 and fp16:
            assert fp16 / tf32 == pytest.approx(2, rel=0.02), ident
        if fp32 and tf32:
            assert fp32 <= tf32, ident
        if fp32 and fp16:
            assert fp32 * 2 <= fp16 * 1.001, ident
        if bf16 and fp16 and ident != "gaudi3":  # made for bf16
            assert 0.9 < bf16 / fp16 <= 1, ident
        if fp8 and fp16 and ident not in ("gb10", "gaudi3"):  # GB10's are measured, not the peak of a sheet
            assert fp8 / fp16 == pytest.approx(2, rel=0.02), ident
        if int8 and fp16 and ident not in ("b300", "gb10", "mi250"):  # B300 gave its INT8 units up
            geforce = ident.startswith("rtx") and "6000" not in ident
            assert int8 / fp16 == pytest.approx(4 if geforce else 2, rel=0.02), ident
    assert first("mi250", "int8") == first("mi250", "fp16")
    assert first("b300", "int8") < first("b300", "fp16")


def test_derived_figures_follow_from_their_rules():
    cores = {"xeon-8480": 112, "epyc-9654": 192, "kunpeng-920": 128}
    for ident, channels, rate in (("xeon-8480", 8, 4.8), ("epyc-9654", 12, 4.8), ("kunpeng-920", 8, 2.933)):
        assert first(ident, "bandwidth") == pytest.approx(2 * channels * rate * 8, rel=1e-3)
    for ident, figure, clock, each in (
        ("xeon-8480", "fp32", 2.0, 64),
        ("xeon-8480", "bf16", 2.0, 1024),
        ("xeon-8480", "int8", 2.0, 2048),
        ("epyc-9654", "fp32", 2.4, 32),
        ("kunpeng-920", "fp32", 2.6, 16),
    ):
        assert first(ident, figure) == pytest.approx(cores[ident] * clock * each / 1000, rel=0.01)
    per_core = first("rtx3090", "fp16") / (328 * 1.695)  # TFLOPS of a tensor core at 1 GHz
    for ident, tensor_cores, clock in (("rtx3060", 112, 1.777), ("rtx3070", 184, 1.725)):
        assert first(ident, "fp16") == pytest.approx(tensor_cores * clock * per_core, rel=0.01)
    for ident, d in DEVICES.items():
        if d["kind"] in ("edge", "cpu"):
            assert first(ident, "host_link") == first(ident, "bandwidth")
        else:
            assert first(ident, "host_link") in (15.75, 31, 63, 128, None), ident


def test_networks_are_their_line_rates():
    for name, f in catalogue.fabrics().items():
        if name != "none":
            assert f.get("rate", f.get("rate_server")) == int(name.rsplit("-", 1)[1]) / 8, name


def test_scenarios_ask_what_their_words_say():
    passes = {
        "course": 90 * 50_000,
        "vision": 30 * 1.28e6,
        "nlp": 3 * 52_000,
        "pretrain": 3e11 / 2048,
    }
    rows = {s["id"]: s for s in catalogue.scenarios()}
    for ident, samples in passes.items():
        assert rows[ident]["samples"] == pytest.approx(samples, rel=1e-3)
    for s in rows.values():
        named = {i for i, _ in s["candidates"]}
        assert set(s["article"]) <= named <= set(DEVICES)
        assert s["network"] in catalogue.fabrics()


def test_the_guide_counts_the_published_runs():
    root = Path(__file__).parents[2]
    text = (root / "docs" / "advise.md").read_text(encoding="utf-8")
    published = json.loads((root / "tests" / "data" / "published_layouts.json").read_text())
    rows = published["layouts"]
    assert f"holds {len(rows)} published configurations with {len(published['sources'])} sources" in text
    assert f"{sum('explained' not in r for r in rows)} are reproduced" in text
    assert f"stacks held, {sum('measured_gb' in r for r in rows)} runs" in text


def test_the_guide_counts_the_catalogue():
    text = (Path(__file__).parents[2] / "docs" / "advise.md").read_text(encoding="utf-8")
    count = Counter(kind(v) for _, _, v in ENTRIES)
    kinds = ", ".join(f"{count[k]} {k}" for k in catalogue.KINDS)
    assert f"{len(DEVICES)} devices, {len(ENTRIES)} figures: {kinds}" in text, kinds
