# SPDX-License-Identifier: Apache-2.0
"""The interval of time where nothing was measured (0.7 to 1.6 times): how many published times it holds, and that this is what is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import test_advise_serving as serving
from test_advise import PUBLISHED, published, run

import yuloh as paddle
from yuloh.advise import facts
from yuloh.advise import words as w

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "advise.md").read_text(encoding="utf-8")


def trainings():
    """(id, has experts, took / ours, low / ours, high / ours) of the runs whose speed is published and set no share."""
    for row in PUBLISHED["layouts"]:
        if "tokens_per_gpu" in row:
            net, made, _ = published(row)
            low, point, high = made["seconds"]
            took = row["job"]["batch"] * net["seq"] / made["devices"] / row["tokens_per_gpu"]
            yield row["id"], bool(net["experts"]), took / point, low / point, high / point


def servings():
    """took / ours of the published times of serving that set no share, "explained" or not."""
    for row in serving.PUBLISHED["rows"]:
        if row["kind"] != "room" and "sets" not in row:
            ours = serving.ours(row)
            yield row["value"] / ours if row["kind"] == "first" else ours / row["value"]


def test_coverage_is_what_is_said():
    dense = [(took, low, high) for _, experts, took, low, high in trainings() if not experts]
    (low, high), = {(round(x, 6), round(y, 6)) for _, x, y in dense}  # every row has the assumed interval
    train, serve = [took for took, *_ in dense], list(servings())
    held = [sum(low <= t <= high for t in some) for some in (train, serve)]
    outside = sorted(t for t in train + serve if not low <= t <= high)
    count, inside = len(train) + len(serve), sum(held)
    assert outside and outside[0] > high
    said = re.sub(r"\s+", " ", DOCS)
    assert f"{low:g} to {high:g} times the figure, holds {inside} of the {count} published times of dense models" in said
    assert f"({held[0]} of {len(train)} trainings, {held[1]} of {len(serve)} servings;" in said
    assert f"took longer, {outside[0]:.2f} to {outside[-1]:.1f} times" in said
    assert f"None took less than {int(100 * min(train + serve)) / 100}" in said
    english, chinese = (w.word("sure_assumed", language) for language in ("en", "zh"))
    assert f"{low:g} to {high:g} times the figure ({inside} of {count} published times lie within)" in english
    assert f"{count} 个公开数据中 {inside} 个" in chinese and f"{low:g} 至 {high:g}" in chinese
    source = re.sub(r"\s*\n\s*// ", " ", (ROOT / "src" / "advise" / "step.cpp").read_text(encoding="utf-8"))
    assert f"Of {count} published times of dense models that set none of the shares above {inside} lie within, none below" in source


def test_with_experts_the_interval_is_as_wide_as_is_said():
    rows = [row for row in trainings() if row[1]]
    assert len(rows) == 4 and all(low <= took <= high for _, _, took, low, high in rows)
    low, high = rows[0][3], rows[0][4]
    for language, text in (("en", f"{low:g} to {high:.1f} times"), ("zh", f"{low:g} 至 {high:.1f} 倍")):
        assert text in w.word("sure_assumed_experts", language)


def test_coverage_of_measured_steps_is_what_is_said():
    """docs/estimates.md's own table: the assumed factors around the calibrated figures."""
    page = (ROOT / "docs" / "estimates.md").read_text(encoding="utf-8")
    steps = re.findall(r"\| ([\d.e-]+) / ([\d.e-]+) \([+-]\d+ %\) \|$", page, re.M)
    off = [float(measured) / float(ours) for ours, measured in steps]
    assert len(off) > 100 and sum(0.7 <= x <= 1.6 for x in off) == len(off)
    assert f"the same factors would hold all {len(off)} steps ({min(off):.2f} to {max(off):.2f} times)" in DOCS


def test_without_a_file_facts_say_a_factor_of_three(monkeypatch, tmp_path):
    monkeypatch.setenv("YULOH_DEVICE_FILE", str(tmp_path / "none.json"))
    seconds = facts(lambda: paddle.nn.Linear(64, 64), [([None, 64], "float32")], batch=8)["seconds"]
    assert seconds["origin"] == "assumed"
    assert [seconds[k] / seconds["value"] for k in ("low", "high")] == pytest.approx([1 / 3, 3])


def test_the_example_of_the_page_is_what_is_printed(tmp_path):
    """docs/advise.md's first command, line by line (the lines between are left out there)."""
    begin = DOCS.index("$ cat prices.csv\n") + len("$ cat prices.csv\n")
    prices, shown = DOCS[begin : DOCS.index("\n```", begin)].split("$ yuloh advise ", 1)
    command, *lines = shown.splitlines()
    (tmp_path / "prices.csv").write_text(prices)
    words = [str(tmp_path / "prices.csv") if word == "prices.csv" else word for word in command.split()]
    printed = run(*words).stdout.splitlines()
    assert [line for line in lines if line != "..." and line not in printed] == []
