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
            assert row[-2] == ("yes" if high <= has else "tight" if point <= has else "unlikely" if low <= has else "no")
        ranks = [("yes", "tight").index(r[-2]) if r[-2] in ("yes", "tight") else 2 for r in section.rows]
        assert ranks == sorted(ranks)


def test_a_given_number_is_what_the_verdict_answers():
    """--count beyond --most, no power of two, with prices and without: it is the first; where it does not do, that is said."""
    assert "Take 1024 x H100 80 GB SXM5: as asked, " in top("deepseek-v3", "--device", "h100", "--count", "1024")
    assert "建议 2 x RTX 4090：按所给数量" in top("llama-7b", "--lora", "16", "--device", "rtx4090", "--count", "2", language="zh")
    question = ("llama-13b", "--device", "h100", "--count", "48", "--batch", "768", "--tokens", "1e12")
    found = json.loads(run(*question, "--json").stdout)
    first = found["verdict"]["first"]
    assert (first["count"], found["verdict"]["given"], found["layouts"]["count"]) == (48, True, 48)
    seconds = found["layouts"]["found"][0]["seconds"][1]
    assert first["hours"][1] == pytest.approx(seconds * found["goals"]["samples"] / 768 / 3600)
    said = run(*question).stdout
    assert "Why: the number is yours" in said and any(line.split()[:3] == ["48", "x", "H100"] for line in said.splitlines())
    late = top("resnet50", "--device", "t4", "--samples", "1e8", "--hours", "20", "--count", "1")
    assert "1 x T4 are done in" in late and "later than the 20.0 h allowed" in late and "would do it" in late


def test_why_so_many(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("device,price_hour,currency\nrtx3060,1.2,CNY\n")
    question = ("resnet50", "--device", "rtx3060", "--batch", "256", "--samples", "1.15e8", "--prices", str(path))
    # Within the hours allowed being faster is worth nothing.
    found = json.loads(run(*question, "--hours", "240", "--json").stdout)
    assert found["verdict"]["first"]["cost"] == min(r["cost"] for r in found["training"]["rows"])
    assert "Why 1: " in top(*question, "--hours", "240")
    found = json.loads(run(*question, "--json").stdout)
    first, cheaper = found["verdict"]["first"], found["verdict"]["cheaper"]
    assert first["count"] > 1 and cheaper["cost"] < first["cost"]
    said = run(*question).stdout
    times = words.times(cheaper["time"] / first["time"])
    assert f"Why {first['count']}: {cheaper['count']} x RTX 3060 12 GB costs less" in " ".join(said.split()) and f"takes {times} as long" in " ".join(said.split())
    assert any(line.split()[:2] == [str(first["count"]), "x"] for line in said.split("Cheapest that trains")[1].splitlines())
    assert found["layouts"]["count"] == first["count"]


@pytest.mark.parametrize("preset,device,job", [("llama-7b", "rtx4090", {}), ("resnet50", "rtx3060", {"batch": 1024}), ("mixtral-8x7b", "h100", {}),
                                               ("llama3-8b", "l4", {"training": False, "new_tokens": 64})])
def test_what_to_type_is_the_change(preset, device, job):
    entry = catalogue.find_device(device)
    found = ask(preset, job=job, devices=[entry], focus=device)
    focus = found["devices"][0]
    seen = 0
    for change in found["changes"]:
        option = words.options(focus["job"], change["after"]["job"])
        if option == "–":
            assert change["after"]["job"]["recompute_layers"] > 0
            continue
        pairs = option.replace("--", "").replace("micro-batch", "micro").replace("-bits", "_bits").split()
        typed = {k: v if k in ("precision", "optimizer", "recompute", "offload") else float(v) for k, v in zip(pairs[::2], pairs[1::2])}
        made = ask(preset, job={**job, "batch": focus["job"]["batch"], "micro": focus["job"]["micro"], **typed}, devices=[entry], focus=device)["devices"][0]
        assert made["total"] == pytest.approx(change["after"]["total"]), option
        seen += 1
    assert seen >= 3


def test_what_would_fit_the_devices_is_tried():
    """Where no layout fits, offload and LoRA are tried over the same devices, and what is offered does fit."""
    question = ("llama-7b", "--device", "rtx4090", "--count", "2")
    offered = json.loads(run(*question, "--json").stdout)["layouts"]["instead"]
    assert {o["option"] for o in offered} >= {"--offload all", "--lora 16"}
    for o in offered:
        best = json.loads(run(*question, *o["option"].split(), "--json").stdout)["layouts"]["found"][0]
        assert best["seconds"][1] == pytest.approx(o["seconds"])
    assert "it would fit with " + offered[0]["option"] in top(*question) and offered[0]["option"] in top(*question, language="zh")


def test_headlines_say_what_was_assumed():
    """Tokens and batch that nobody gave; what was given is not called assumed."""
    shown = " ".join(run("bert-base", "--device", "rtx4090").stdout.split())
    assert "batch 32, 512 tokens, adamw" in shown and "512 tokens a sequence assumed (--seq); batch assumed: 32 (--batch)" in shown
    given = run("bert-base", "--device", "rtx4090", "--seq", "128", "--batch", "16").stdout
    assert "batch 16, 128 tokens" in given and "assumed (--seq)" not in given and "batch assumed" not in given
    shown = " ".join(run("bert-base", "--device", "rtx4090", "--language", "zh").stdout.split())
    assert "（1.10 亿参数），训练（bf16、批大小 32、512 词元、adamw）" in shown and "假设批大小 32（--batch）" in shown


def test_details_are_of_what_is_recommended():
    for question in (("llama3-8b", "--inference"), ("--params", "7e9", "--layers", "32", "--hidden", "4096", "--seq", "4096")):
        found = json.loads(run(*question, "--json").stdout)
        assert found["focus"] == found["layouts"]["device"] == found["verdict"]["first"]["id"]


def test_the_class_promises_nothing_of_another_job():
    claim = "training does not fit one common card"
    assert claim in top("llama-7b", "--device", "a100-80")
    assert claim not in top("llama-7b", "--device", "rtx4090", "--lora", "16") and claim not in top("llama3-8b", "--inference", "--device", "l4")


def test_a_network_is_named_where_it_is_used():
    one = run("llama-7b", "--lora", "16", "--device", "rtx4090", "--count", "2", "--language", "zh").stdout
    assert "InfiniBand" not in one and "PCIe 单向" in one
    assert "300 GB/s each way between devices" in run("llama-7b", "--device", "a100-80", "--count", "8").stdout
    assert "InfiniBand HDR，200 Gbit/s/设备" in run("llama-7b", "--device", "a100-80", "--count", "16", "--language", "zh").stdout


def test_no_change_costs_much_for_little():
    found = ask("resnet50", job={"training": False}, devices=[catalogue.find_device("t4")], focus="t4")
    assert all(c["time_factor"] <= 2 for c in found["changes"])
    found = ask("llama-7b", job={"lora": 16.0}, devices=[catalogue.find_device("rtx4090")], focus="rtx4090")
    assert all(c["time_factor"] <= 1.05 or c["saved"] > 0.05 * 24 * 2**30 for c in found["changes"])
    assert any(c["time_factor"] > 2 for c in ask("llama-7b", devices=[catalogue.find_device("rtx4090")], focus="rtx4090")["changes"])


def test_a_year_has_its_hours(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("device,price_hour,currency\nt4,3,CNY\n")
    question = ("resnet50", "--device", "t4", "--samples", "1.15e8", "--prices", str(path), "--runs-per-day", "2")
    found = json.loads(run(*question, "--json").stdout)
    year, first = found["yearly"], found["verdict"]["first"]
    assert (year["count"], year["hours_run"]) == (first["count"], first["hours"][1])
    assert (year["machines"] - 1) * 8760 < year["hours"] <= year["machines"] * 8760 and year["machines"] > 1
    assert f"{year['machines']} of these machines" in " ".join(run(*question).stdout.split())


def test_a_serving_rate_has_one_maximum():
    found = json.loads(run("resnet50", "--device", "t4", "--inference", "--rate", "500", "--p99", "20", "--json").stdout)
    said = top("resnet50", "--device", "t4", "--inference", "--rate", "500", "--p99", "20")
    assert f"up to {words.three(found['verdict']['first']['most_rate'])}/s within 20.0 ms" in said and "keeps up with" not in said
