# SPDX-License-Identifier: Apache-2.0
"""`yuloh advise` answers what was asked: the layout counted on is named, figures in the sentences are those of --json."""

from __future__ import annotations

import json

import pytest
from test_advise import ask, run

from yuloh.advise import catalogue, tables_answer, tables_job, words


def top(*question, language="en"):
    """The first sentences, on one line."""
    return " ".join(run(*question, "--language", language).stdout.split("\n\n")[0].split())


def test_the_verdict_names_the_passes_it_counts_on_and_their_memory():
    question = ("resnet50", "--device", "rtx3060", "--batch", "1024")
    found = json.loads(run(*question, "--json").stdout)
    lay = found["verdict"]["first"]["layout"]
    assert lay["passes"] > 1 and lay["passes"] * lay["micro_batch"] == 1024
    assert lay["total"][2] <= found["devices"][0]["memory_bytes"] < found["devices"][0]["total"][0]
    said = top(*question)
    assert f"{lay['passes']:.0f} passes of {lay['micro_batch']:.0f} a step" in said
    assert f"{words.gib(lay['total'][1])} on each device ({words.span(lay['total'])})" in said
    assert f"{words.gib(found['devices'][0]['total'][1])} on one device in one pass" in said
    assert f"每步 {lay['passes']:.0f} 次、每次 {lay['micro_batch']:.0f}" in top(*question, language="zh")
    # What is asked for and held as it is needs no such word.
    assert "That counts on" not in top("resnet50", "--device", "rtx3060", "--batch", "64")


def test_watts_are_watts_where_prices_rank(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("device,price_hour,currency\nt4,3,CNY\na10,6.5,CNY\n")
    for goal in (("--samples", "1e7"), ("--inference", "--rate", "500", "--p99", "50")):
        found = json.loads(run("resnet50", "--device", "t4,a10", *goal, "--prices", str(path), "--json").stdout)
        section = tables_answer.by_use(found, "en")
        watts = {"t4": 70, "a10": 150}
        column = list(section.head).index("watts")
        assert [r[column] for r in section.rows] == [f"{watts[o['id']] * o['count']:,.0f} W" for o in found["verdict"]["picks"]]


def test_the_largest_batch_fits_by_the_rule_that_says_yes():
    """What is called the largest batch is asked for: "yes"; the one in brackets: "tight"; one more of each is less."""

    def verdict(batch):
        asked = {"batch": batch, "micro": batch, "precision": "fp32"}
        return ask("resnet50", job=asked, devices=[catalogue.find_device("rtx3060")], focus="rtx3060")["devices"][0]

    row = verdict(64)
    sure, tight = row["largest_micro_batch"], row["largest_tight"]
    assert 0 < sure < tight
    assert [verdict(b)["verdict"] for b in (sure, sure + 1, tight, tight + 2)] == ["yes", "tight", "tight", "unlikely"]
    shown = " ".join(run("resnet50", "--device", "rtx3060", "--precision", "fp32").stdout.split())
    assert f"Largest batch of one pass on one RTX 3060 12 GB: {sure:,.0f}, even by the high end; by the estimate {tight:,.0f}" in shown


def test_what_is_said_to_fit_fits_by_its_high_end():
    for preset, device in (("resnet50", "rtx3060"), ("llama-7b", "a100-80"), ("bert-large", "rtx3060")):
        entry = catalogue.find_device(device)
        found = ask(preset, job={"batch": 512}, devices=[entry], focus=device)
        has = found["devices"][0]["memory_bytes"]
        section = tables_job.changes(found, found["devices"][0], "en", True)
        for change, row in zip(found["changes"], section.rows):
            low, point, high = change["after"]["total"]
            assert row[-1] == ("yes" if high <= has else "tight" if point <= has else "unlikely" if low <= has else "no")
        ranks = [("yes", "tight").index(r[-1]) if r[-1] in ("yes", "tight") else 2 for r in section.rows]
        assert ranks == sorted(ranks)
