# SPDX-License-Identifier: Apache-2.0
"""The report: figures, sentences, both languages, and the page as headless Chromium lays it out."""

import html
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from yuloh.bench.summarise import summarise_workload  # noqa: E402
from yuloh.report import make_report, pictures, summary, text, view  # noqa: E402
from yuloh.report.cost import hours_saved_by, yearly_saving  # noqa: E402

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


def arm(name, step_s, rng, rounds=12, peak=500.0, contender=None, error=None, **more):
    blocks = [
        {
            "round": r,
            "position": p,
            "steps": 3,
            "seconds": 3 * step_s * float(rng.normal(1, 0.01)),
            "cpu_s": 5.4 * step_s,
            "peak_mb": peak,
            "rss_mb": peak - 20,
            "t": r * 1.0,
            "others_cpus": 0.0,
            "steal_cpus": 0.0,
            "flags": [],
        }
        for r in range(rounds)
        for p in (0, 1)
    ]
    launch = {
        "threads": 2,
        "flags": {},
        "batch": 64,
        "version": "1",
        "import_s": 0.2,
        "build_s": 0.3,
        "first_step_s": 0.9,
        "loss": 4.6,
        "parameters": 23_712_932,
        "peak_mb": peak,
        "rss_mb": peak,
    }
    return {
        "id": name,
        "label": name,
        "label_zh": name.replace("fusion off", "关融合"),
        "framework": "yuloh",
        "fusion": "fusion off" not in name,
        "contender": contender or name.split()[0],
        "version": "0.1.0",
        "precision": "bf16" if "bf16" in name else "fp32",
        "threads": 2,
        "flags": {},
        "launches": [launch],
        "calibration": [{"threads": 2, "flags": {}, "step_s": step_s}],
        "blocks": [] if error else blocks,
        "losses": [4.6 * math.exp(-i / 60) for i in range(120)],
        "error": error,
        **more,
    }


@pytest.fixture
def record():
    rng = np.random.default_rng(0)
    workload = {
        "name": "resnet50_cifar100",
        "title": "ResNet-50 on CIFAR-100",
        "title_zh": "ResNet-50 / CIFAR-100",
        "batch": 64,
        "unit": "images",
        "per_item": 1,
        "comparisons": [],
        "ended": "decided",
        "rounds": [{"round": r, "flags": []} for r in range(12)],
        "arms": [
            arm("yuloh", 0.146, rng),
            arm("yuloh bf16", 0.102, rng, peak=330.0),
            arm("yuloh fusion off", 0.155, rng),
            arm("paddlepaddle 3.3.1", 2.24, rng, peak=890.0, framework="paddle", fusion=None),
            arm("broken", 1.0, rng, error="broken: the worker was killed by SIGKILL (out of memory?)."),
        ],
        "sweep": [
            {
                "arm": "yuloh",
                "batch": b,
                "fits": b < 1024,
                "estimated": b >= 1024,
                "step_s": 0.02 + b / 500,
                "throughput": b / (0.02 + b / 500),
                "peak_mb": 200.0 + 4 * b,
                "knee": b == 64,
            }
            for b in (16, 32, 64, 128, 1024)
        ],
        "loader": [
            {
                "arm": "yuloh",
                "workers": w,
                "batches": 20,
                "seconds": 5.0,
                "images_per_s": 250.0 + 40 * w,
                "waiting": 0.4 / (1 + w),
                "cpus_used": 1.8,
            }
            for w in (0, 2)
        ],
    }
    out = {
        "schema": "yuloh-bench/1",
        "created": "2026-11-30T08:15:00+0000",
        "status": "complete",
        "errors": ["broken: the worker was killed by SIGKILL (out of memory?)."],
        "workloads": [workload],
        "seed": 0,
        "command": ["yuloh bench --with paddlepaddle==3.3.1 --seed 0"],
        "data": {"source": "synthetic", "note": ""},
        "judge": {"floor": math.log(1.01)},
        "budget": {"max_time_s": 600.0, "elapsed_s": 402.0},
        "environment": {
            "os": "Debian 12",
            "kernel": "6.1",
            "cpu": "AMD EPYC",
            "cpus": 2,
            "usable_cpus": 2,
            "gpus": [],
            "instructions": ["avx2", "avx512f"],
            "memory_mb": 24106,
        },
        "contenders": [
            {
                "name": "yuloh",
                "spec": "yuloh",
                "python": "3.11.7",
                "packages": ["numpy==2.4.6"],
                "error": None,
            },
            {"name": "gone", "spec": "gone=/x", "error": "gone: no such Python"},
        ],
    }
    summarise_workload(workload, final=True)
    return out


@pytest.fixture
def made(record, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(record))
    return make_report(tmp_path, tmp_path / "out", cost={"hours_saved": 0.34})


# -- sums ----------------------------------------------------------------------------------------------
def test_the_articles_sum_comes_out():
    saving = yearly_saving(runs_per_day=50, hours_saved=0.34, servers=4, price=3)
    assert saving.hours == 6205 and saving.money == 74460


def test_the_articles_hours_follow_from_its_speed():
    assert hours_saved_by(2, 1 / (1 - 0.17)) == 0.34


@pytest.mark.parametrize("bad", [{"runs_per_day": -1}, {"price": float("nan")}, {"servers": float("inf")}])
def test_senseless_prices_are_refused(bad):
    with pytest.raises(ValueError, match=f"cost: {next(iter(bad))}"):
        yearly_saving(**{"runs_per_day": 1, "hours_saved": 1, "servers": 1, "price": 1, **bad})


def test_the_sum_stands_in_page_and_markdown(made):
    for kind in ("html", "markdown", "markdown zh"):
        content = html.unescape(made[kind].read_text())
        assert "6,205" in content and "74,460 CNY" in content
        assert "50 × 0.34 h × 365 = 6,205 h" in content


# -- sentences -----------------------------------------------------------------------------------------
def test_verdict_sentences(record):
    (line,) = summary.verdicts(record)
    assert re.match(
        r"ResNet-50 on CIFAR-100: yuloh trains 15\.\d× as fast as paddlepaddle 3\.3\.1 \(99\.\d+ % interval "
        r"15\.\d to 15\.\d\)\. 2 more comparisons",
        line,
    )
    assert "yuloh 的训练速度是 paddlepaddle 3.3.1 的 15." in summary.verdicts(record, "zh")[0]


def test_three_parts_have_figures_in_both_languages(record):
    for language, words in (("en", ("Speed", "Recommendation")), ("zh", ("速度", "建议"))):
        parts = summary.three_parts(record, {}, language)
        assert [parts[0]["title"], parts[2]["title"]] == list(words) and len(parts) == 3
        assert all(any(re.search(r"\d", line) for line in p["lines"]) for p in parts)
    english = " ".join(line for p in summary.three_parts(record, {}, "en") for line in p["lines"])
    assert (
        re.search(r"Use bf16: it saves (29|30|31)\.", english)
        and "Leave operator fusion on: it saves" in english
    )
    assert "Move from paddlepaddle 3.3.1 to yuloh" in english and "Batch 64 is the knee" in english


def test_what_was_not_established_is_not_claimed(record):
    workload = record["workloads"][0]
    workload["arms"] = workload["arms"][:1] + [
        dict(
            workload["arms"][0],
            id="same",
            label="same",
            label_zh="same",
            contender="same",
            blocks=workload["arms"][0]["blocks"],
        )
    ]
    summarise_workload(workload, final=True)
    (line,) = summary.verdicts(record)
    assert "cannot be told apart (8 rounds; they differ by at most 0.0 %)" in line
    assert summary.priced(record, {})["money_year"] == 0
    assert "speed alone is no reason to change" in summary.three_parts(record, {}, "en")[2]["lines"][0]


def test_too_few_rounds_are_said_to_be_too_few(record):
    workload = record["workloads"][0]
    for a in workload["arms"]:
        a["blocks"] = a["blocks"][:4]
    summarise_workload(workload, final=True)
    assert "2 rounds are too few" in summary.verdicts(record)[0]
    assert workload["comparisons"][0]["low"] is None
    json.dumps(record, allow_nan=False)


def test_who_was_not_tried_at_the_winners_threads_has_not_lost(record):
    workload = record["workloads"][0]
    for a in workload["arms"][1:]:
        a["threads"] = 1
    workload["arms"][0]["calibrated"] = False  # the base, tried with 2 threads only
    summarise_workload(workload, final=True)
    found = {c["arm"]: (c["verdict"], c["untried"]) for c in workload["comparisons"]}
    assert found["yuloh bf16"] == ("cannot tell", "yuloh")
    assert found["paddlepaddle 3.3.1"] == ("slower", None)  # the one that is not at its best wins all the same
    lines = [line for p in summary.three_parts(record, {}, "en") for line in p["lines"]]
    assert any("cannot be compared: no time to try every thread count of yuloh" in x for x in lines)
    assert any("Repeat it with more time (--max-time)" in x for x in lines)
    rows = {r["name"]: r for r in view._workload(workload, "en", {})["rows"]}
    assert (rows["yuloh bf16"]["speedup"], rows["yuloh bf16"]["verdict"]) == ("–", "cannot tell")


def test_contamination_and_partial_results_are_banners(record):
    record["status"] = "budget"
    for block in record["workloads"][0]["arms"][0]["blocks"][:12]:
        block["flags"] = ["other processes"]
    record["workloads"][0]["rounds"][3]["flags"] = ["slow clock"]
    summarise_workload(record["workloads"][0])
    banners = " ".join(b["text"] for b in view.build(record, {}, "en", {})["banners"])
    assert (
        "partial" in banners
        and "50.0 %" in banners
        and "slow clock" in banners
        and "Synthetic data" in banners
    )
    chinese = " ".join(b["text"] for b in view.build(record, {}, "zh", {})["banners"])
    assert "频率下降" in chinese and "slow clock" not in chinese


@pytest.mark.parametrize(
    "value,shown",
    [
        (2.24, "2.24 s"),
        (0.146, "146 ms"),
        (0.00218, "2.18 ms"),
        (2.5e-6, "2.50 µs"),
        (250, "4 min 10 s"),
        (None, "–"),
        (0.9999, "1,000 ms"),
    ],
)
def test_durations_are_shown_with_three_digits(value, shown):
    assert text.duration(value) == shown


def test_every_word_has_two_languages():
    for key, (english, chinese) in text.WORDS.items():
        assert english and chinese, key


# -- files ---------------------------------------------------------------------------------------------
def test_all_files_are_made(made, tmp_path):
    out = tmp_path / "out"
    for name in (
        "report.html",
        "report.md",
        "report.zh.md",
        "comparison.png",
        "loss_comparison.png",
        "batch_sweep.png",
        "memory.png",
    ):
        assert (out / name).stat().st_size > 500, name
    for name in ("comparison.png", "loss_comparison.png"):
        assert (out / name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_pictures_fall_back_to_english_without_a_chinese_font(record, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "CJK", ())
    drawn = pictures.draw_all(record, tmp_path, ("zh",))
    assert drawn["zh"]["resnet50_cifar100"]["loss"] == "loss_comparison.png"


def test_page_is_self_contained_and_escapes(record, tmp_path):
    record["errors"].append("x<script>alert(1)</script>: failed")
    (tmp_path / "results.json").write_text(json.dumps(record))
    page = make_report(tmp_path / "results.json", tmp_path)["html"].read_text()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert not re.search(r'(src|href)="(?!data:)', page) and "url(" not in page and "@import" not in page


def test_markdown_tables_are_rectangular(made):
    rows = [line for line in made["markdown"].read_text().splitlines() if line.startswith("|")]
    assert len(rows) > 15
    for block in made["markdown"].read_text().split("\n\n"):
        widths = {line.count("|") for line in block.splitlines() if line.startswith("|")}
        assert len(widths) <= 1, block


def test_one_language_only(record, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(record))
    made = make_report(tmp_path, tmp_path, languages=("zh",))
    page = made["html"].read_text()
    assert '<html lang="zh">' in page and "English" not in page and "markdown" not in made


def test_report_of_a_running_or_empty_test(record, tmp_path):
    record["status"] = "running"
    record["workloads"][0]["arms"] = [dict(a, blocks=[], losses=[]) for a in record["workloads"][0]["arms"]]
    record["workloads"][0].update(sweep=[], loader=[])
    (tmp_path / "results.json").write_text(json.dumps(record))
    assert "nothing was measured" in make_report(tmp_path, tmp_path)["html"].read_text()
    record["workloads"] = []
    (tmp_path / "results.json").write_text(json.dumps(record))
    assert "Nothing was measured" in make_report(tmp_path, tmp_path)["html"].read_text()


# -- headless Chromium ---------------------------------------------------------------------------------
PROBE = """<!doctype html><body style="margin:0"><iframe id="f" style="border:0;width:{width}px;height:900px"
srcdoc="{page}"></iframe><pre id="out"></pre><script>
document.getElementById("f").onload = function () {{
  const d = this.contentDocument, e = d.documentElement, seen = [];
  for (const n of d.querySelectorAll("body *")) {{
    const r = n.getBoundingClientRect();
    if (r.width && r.right > e.clientWidth + 0.5) seen.push(n.tagName + "." + n.className + Math.round(r.right));
  }}
  const shown = [...d.querySelectorAll("main")].filter(m => m.getBoundingClientRect().height > 0);
  const size = n => parseFloat(d.defaultView.getComputedStyle(n).fontSize);
  document.getElementById("out").textContent = JSON.stringify({{
    scroll: e.scrollWidth, view: e.clientWidth, outside: seen.slice(0, 5), shown: shown.map(m => m.lang),
    headline: shown[0].querySelector("h1").innerText,
    images: [...shown[0].querySelectorAll("img")].map(i => i.naturalWidth),
    rows: shown[0].querySelectorAll("table.wide tbody tr").length,
    small: [...shown[0].querySelectorAll("p, td, li")].filter(n => size(n) < 11).length}});
}};</script>"""


def layout(page, width, tmp_path):
    """What Chromium makes of the page at this width."""
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.format(width=width, page=html.escape(page)), encoding="utf-8")
    dom = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=3000",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={max(width, 500)},900",
            "--dump-dom",
            probe.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    return json.loads(html.unescape(re.search(r'<pre id="out">(.*?)</pre>', dom, re.S)[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("width", [360, 390, 1200])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_page_in_chromium(made, tmp_path, width, language):
    page = made["html"].read_text(encoding="utf-8")
    if language == "zh":
        page = page.replace('id="pick-en" checked', 'id="pick-en"').replace(
            'id="pick-zh"', 'id="pick-zh" checked'
        )
    seen = layout(page, width, tmp_path)
    assert seen["scroll"] <= seen["view"] <= width and seen["outside"] == [], seen  # no sideways scrolling
    assert seen["shown"] == [language] and seen["rows"] == 5
    assert len(seen["images"]) == 4 and min(seen["images"]) > 600
    assert ("15." in seen["headline"]) and seen["small"] == 0


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
def test_page_prints(made, tmp_path):
    pdf = tmp_path / "report.pdf"
    subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--no-pdf-header-footer",
            f"--print-to-pdf={pdf}",
            made["html"].as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    content = pdf.read_bytes()
    assert content[:5] == b"%PDF-" and 1 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 5
