# SPDX-License-Identifier: Apache-2.0
"""Every figure of an answer says where it comes from, row by row."""

from __future__ import annotations

import json

import pytest
from test_advise import ask, run

from yuloh.advise import catalogue

KNOWN = {"computed", "assumed", "measured", "user", "catalogue", "article", "recalled", "vendor", "secondary", "derived"}
PRICES = {"t4": 3.0, "a10": 5.0}
# What is no figure of the reckoning: names, places and what was asked; intervals and items are inside rows that have origins.
NOT_FIGURES = {"device", "count", "group", "batch", "devices", "passes", "micro_batch", "flops", "context", "token", "cache", "tokens", "requests",
               "largest_tight", "memory_bytes", "rank", "memory", "new_tokens", "params", "fits", "same", "tight", "sure", "pareto", "in_time",
               "possible", "measured", "for_training", "watts", "price", "host", "of_server"}


def rows_of(v, path=""):
    """(path, row) of every dict that has origins, and of those beside it in the same list, which must have them too."""
    if isinstance(v, dict):
        if "origins" in v and path:
            yield path, v
        for k, one in v.items():
            yield from rows_of(one, f"{path}/{k}")
    elif isinstance(v, (list, tuple)):
        dicts = [one for one in v if isinstance(one, dict)]
        assert len({"origins" in one for one in dicts}) <= 1, path
        for one in v:
            yield from rows_of(one, f"{path}[]")


@pytest.mark.parametrize("preset,options", [
    ("llama-7b", {"count": 4}),
    ("resnet50", {"goals": {"samples": 1e8, "hours": 40}, "prices": PRICES, "currency": "X"}),
    ("resnet50", {"job": {"training": False}, "goals": {"rate": 2400, "p99": 0.018}, "prices": PRICES, "currency": "X"}),
    ("llama2-70b", {"job": {"training": False}}),
], ids=str)  # fmt: skip
def test_every_row_has_origins(preset, options):
    found = ask(preset, **{k: dict(v) if isinstance(v, dict) else v for k, v in options.items()})
    seen = {}
    for path, row in rows_of(found):
        seen[path] = row
        assert set(row["origins"].values()) <= KNOWN
        figures = {k for k, v in row.items() if v is not None and not isinstance(v, (str, bool, dict)) and k not in ("origins", *NOT_FIGURES)}
        numbers = {k for k in figures if isinstance(row[k], (int, float)) or (row[k] and isinstance(row[k][0], (int, float)))}
        assert numbers <= set(row["origins"]), (path, numbers - set(row["origins"]))
    wanted = {"/devices[]", "/verdict/first", "/verdict/picks[]"} | ({"/changes[]", "/changes[]/after"} if found["changes"] else set())
    wanted |= {"/layouts/found[]"} if options.get("count") else set()
    wanted |= {"/decoding/own", "/rates[]"} if preset == "llama2-70b" else set()
    wanted |= {"/training/rows[]"} if "samples" in options.get("goals", {}) else {"/serving/rows[]", "/rates[]"} if "goals" in options else set()
    assert wanted <= set(seen), wanted - set(seen)
    cost = seen["/verdict/first"]["origins"].get("cost")
    assert cost == ("user" if "prices" in options else None)


def test_measured_is_said_of_what_was_measured(tmp_path):
    """A device of a file with measured shares, and one of the catalogue beside it."""
    path = tmp_path / "box.json"
    path.write_text(json.dumps({"id": "box", "memory": 64, "bandwidth": 900, "fp16": 100, "fp32": 50, "matrix_efficiency": 0.7,
                                "stream_efficiency": 0.8, "spread": 1.2}))
    words = ("resnet50", "--devices-file", str(path), "--device", "box,t4")
    found = json.loads(run(*words, "--json").stdout)
    box, t4 = found["devices"]
    assert box["origins"]["seconds"] == "measured" and t4["origins"]["seconds"] == "assumed"
    assert box["origins"]["total"] == t4["origins"]["total"] == "computed"
    assert found["origins"]["time"] == ["assumed", "measured"] and found["origins"]["prices"] == []
    assert {r["id"]: r["origins"]["time"] for r in found["recommended"]} == {"box": "measured", "t4": "assumed"}
    text = " ".join(run(*words).stdout.split())
    assert "time is computed with rates measured on box, else with assumed shares of the peaks" in text and "your prices" not in text
    alone = " ".join(run(*words[:3], "--device", "box").stdout.split())
    assert "with rates measured on box; device figures" in alone


def test_the_page_says_it_too(tmp_path):
    page = tmp_path / "a.html"
    run("resnet50", "--device", "t4", "--html", str(page))
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "time is computed with assumed shares of the peaks" in text and "按峰值的假设效率" in text
    assert catalogue.find_device("t4")["name"] in text
