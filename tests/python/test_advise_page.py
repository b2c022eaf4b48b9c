# SPDX-License-Identifier: Apache-2.0
"""The page of the advice: self-contained, in two languages, its sliders agree with the core (headless Chromium)."""

from __future__ import annotations

import html
import json
import math
import random
import re
import shutil
import subprocess

import pytest
from test_advise import A100, floats, run

from yuloh import _core
from yuloh.advise import catalogue, cost_picture, tables
from yuloh.advise.question import from_preset

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SET = """<script>
for (const [id, v] of Object.entries({settings})) {{
  const e = document.getElementById("knob-" + id); e.value = v; e.dispatchEvent(new Event("input")); e.dispatchEvent(new Event("change"));
}}
const box = document.querySelector("tr[data-device=a100-80] input"); box.value = 2; box.dispatchEvent(new Event("change"));
const e = document.documentElement;
const out = document.createElement("pre"); out.id = "out";
out.textContent = JSON.stringify({{scroll: e.scrollWidth, view: e.clientWidth, shown: [...document.querySelectorAll("main")].filter(m => m.getBoundingClientRect().height > 0).map(m => m.lang),
  cells: [...document.querySelector("tr[data-device=a100-80]").cells].map(c => c.innerText), bars: document.querySelectorAll("div.en .meter").length,
  points: document.querySelectorAll("circle").length}});
document.body.append(out);
</script></body>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "advice.html"
    run("llama-7b", "--samples", "156e3", "--hours", "24", "--html", str(path))
    return path.read_text(encoding="utf-8")


def in_chromium(page, tmp_path, settings, width=1200):
    return _shown(page.replace("</body>", SET.format(settings=json.dumps(settings))), tmp_path, width)


def _shown(page, tmp_path, width):
    """What the page's own script has put into #out."""
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    words = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=3000",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},900",
        "--dump-dom",
        path.as_uri(),
    ]
    dom = subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
    return json.loads(html.unescape(re.search(r'<pre id="out">(.*?)</pre>', dom, re.S)[1]))


def test_page_needs_no_network(page):
    assert (
        not re.search(r'(src|href)="(?!data:)', page)
        and "url(" not in page
        and "@import" not in page
        and "fetch(" not in page
    )


def test_page_escapes_names(tmp_path):
    path = tmp_path / "devices.json"
    path.write_text(
        json.dumps(
            {
                "id": "mine",
                "name": "</script><script>alert(1)</script>",
                "memory": 64,
                "bandwidth": 900,
                "fp16": 100,
            }
        )
    )
    run("resnet50", "--devices-file", str(path), "--html", str(tmp_path / "x.html"))
    assert "<script>alert" not in (tmp_path / "x.html").read_text()


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
def test_sliders_show_what_the_core_reckons(page, tmp_path):
    network = _core.advise_network(_floats_of("llama-7b"))["network"]
    axes = json.loads(re.search(r'id="grid">(.*?)</script>', page, re.S)[1])["axes"]
    chosen = {
        "precision": "bf16",
        "recompute": "full",
        "mp": 4.0,
        "pp": 1.0,
        "data": 8.0,
        "stage": 2.0,
        "micro": 4.0,
    }
    settings = {a: axes[a].index(v) for a, v in chosen.items()}
    seen = in_chromium(page, tmp_path, {**settings, "samples": 1000})
    job = {
        "precision": "bf16",
        "recompute": "full",
        "mp": 4.0,
        "sharding": 8.0,
        "stage": 2.0,
        "micro": 4.0,
        "batch": 64.0,  # llama-7b's default, in two passes
    }
    made = _core.advise_layout(network, job, A100, catalogue.fabric("infiniband-200")[0])
    cells = seen["cells"]
    assert cells[0].startswith("32 x NVIDIA A100 80 GB")
    assert float(cells[1].split()[0]) == pytest.approx(made["total"][1] / 2**30, rel=0.006)
    assert cells[2] == {"yes": "yes", "tight": "tight"}[made["verdict"]]
    assert float(cells[3]) == pytest.approx(64 / made["seconds"][1], rel=0.006)
    hours = made["seconds"][1] / 64 * 1000 / 3600
    assert float(cells[4]) == pytest.approx(hours, rel=0.006)
    assert float(cells[7]) == pytest.approx(hours * 32 * 2, rel=0.006)
    assert seen["bars"] >= 30 and seen["points"] > 50
    impossible = in_chromium(page, tmp_path, {"pp": axes["pp"].index(4.0), "data": 2, "stage": 3})
    assert impossible["cells"][2] == "cannot be"


ALL = """<script>
const grid_ = JSON.parse(document.getElementById("grid").textContent), seen_ = [];
for (const setting of {settings}) {{
  for (const [id, v] of Object.entries(setting)) {{
    const e = document.getElementById("knob-" + id); e.value = v; e.dispatchEvent(new Event(id === "samples" ? "change" : "input"));
  }}
  seen_.push([...document.querySelectorAll("#whatif-rows tr")].map(r => [r.dataset.device, ...[...r.cells].map(c => c.innerText)]));
}}
const out = document.createElement("pre"); out.id = "out"; out.textContent = JSON.stringify(seen_); document.body.append(out);
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("preset", ["llama-7b", "resnet50"])
def test_sliders_at_random_positions(preset, request, tmp_path):
    """Every device's row, as the browser shows it, is what the core reckons for that setting: bytes, verdict, time, energy.
    resnet50's has a Jetson among the cards: its runtime shares the memory."""
    if preset == "llama-7b":
        page = request.getfixturevalue("page")
    else:
        run(preset, "--html", str(tmp_path / "page.html"))
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
    grid = json.loads(re.search(r'id="grid">(.*?)</script>', page, re.S)[1])
    axes, draw = grid["axes"], random.Random(11)
    settings = [{**{a: draw.randrange(len(v)) for a, v in axes.items() if len(v) > 1}, "samples": draw.randrange(1, 10**6)} for _ in range(60)]
    rows = _shown(page.replace("</body>", ALL.format(settings=json.dumps(settings))), tmp_path, 1200)
    assert preset == "llama-7b" or {catalogue.find_device(d["id"])["kind"] for d in grid["devices"]} >= {"gpu", "edge"}
    network = _core.advise_network(_floats_of(preset))["network"]
    fabric, possible = catalogue.fabric("infiniband-200")[0], 0
    for setting, shown in zip(settings, rows):
        v = {a: axes[a][setting.get(a, 0)] for a in axes}
        cannot = v["pp"] > 1 and v["stage"] > 1 or v["stage"] > 0 and v["data"] == 1
        job = {k: v[k] for k in ("precision", "recompute", "mp", "pp", "stage", "micro")}
        job["dp" if v["stage"] == 0 else "sharding"] = v["data"]
        passes = max(1, 64 // (v["data"] * v["micro"]))  # both have batches of 64 by default
        job.update(batch=v["micro"] * v["data"] * passes)
        count = v["mp"] * v["pp"] * v["data"]
        assert [r[0] for r in shown] == [d["id"] for d in grid["devices"]]
        for r in shown:
            assert r[1].startswith(f"{count:.0f} x ")
            if cannot:
                assert r[3] == "cannot be" and r[5] == "–"
                continue
            possible += 1
            device = catalogue.core_device(catalogue.find_device(r[0]))
            made = _core.advise_layout(network, job, device, fabric)
            hours = made["seconds"][1] / job["batch"] * setting["samples"] / 3600
            assert _number(r[2]) == pytest.approx(made["total"][1] / 2**30, rel=0.006)
            assert r[3] == made["verdict"]
            assert _number(r[4]) == pytest.approx(job["batch"] / made["seconds"][1], rel=0.006)
            assert _number(r[5]) == pytest.approx(hours, rel=0.006, abs=1e-6)
            assert _number(r[6]) == pytest.approx(hours * count * device["watts"] / 1e3, rel=0.006, abs=1e-6)
    assert possible > 100


OPENED = """<script>
const out = document.createElement("pre"); out.id = "out";
out.textContent = JSON.stringify([...document.querySelectorAll("#whatif-rows tr")].map(r => [r.dataset.device, ...[...r.cells].map(c => c.innerText)]));
document.body.append(out);
</script></body>"""
QUESTIONS = [
    ("llama3-8b", "--inference", "--device", "l4"),
    ("llama2-70b", "--inference", "--rate", "2", "--p99", "30000", "--device", "h100"),
    ("llama-7b", "--inference", "--pp", "2", "--device", "a100-80", "--batch", "4"),
    ("resnet50", "--inference", "--precision", "fp8", "--device", "h100", "--batch", "48"),
    ("bert-large", "--precision", "fp16", "--device", "v100", "--batch", "24"),
    ("llama-7b", "--count", "64", "--device", "a100-80"),
    ("llama-7b", "--count", "12", "--batch", "48", "--device", "a100-80"),
    ("llama-13b", "--count", "64", "--device", "a100-40", "--sharding", "8", "--stage", "2"),
    ("llama3-8b", "--seq", "65536", "--count", "32", "--device", "h100", "--cp", "4"),
    ("gpt3-175b", "--count", "128", "--device", "a100-80", "--pp", "8", "--mp", "8", "--vpp", "2", "--batch", "64", "--micro-batch", "1"),
    ("mixtral-8x7b", "--count", "32", "--device", "h100", "--sharding", "32", "--stage", "3", "--ep", "4"),
    ("mixtral-8x7b", "--count", "32", "--device", "h200", "--samples", "1e6", "--hours", "900"),
]


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_sliders_open_at_the_answer(words, tmp_path):
    """What the sliders show first of the answer's device are the bytes and the time of the answer."""
    found = json.loads(run(*words, "--html", str(tmp_path / "page.html"), "--json").stdout)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    grid = json.loads(re.search(r'id="grid">(.*?)</script>', page, re.S)[1])
    first = found["verdict"]["first"]
    layout = first["layout"] or found["layouts"]["found"][0]
    at, i = {a: axis.index(grid["start"][a]) for a, axis in grid["axes"].items()}, 0
    for a, axis in grid["axes"].items():
        assert axis == sorted(axis, key=None if isinstance(axis[0], float) else _core.advise_terms()[a].index)
        i = i * len(axis) + at[a]
    k = next(k for k, d in enumerate(grid["devices"]) if d["id"] == first["id"])
    kind = grid["memory_of"][k]
    shown = [grid[end][kind][i] * 2**30 for end in ("low", "point", "high")]
    assert shown == pytest.approx(layout["total"], rel=1e-3)
    assert grid["seconds"][k][i] == pytest.approx(layout["seconds"][1] / layout["job"]["batch"], rel=1e-3)
    if CHROMIUM is None:
        return
    row = next(r for r in _shown(page.replace("</body>", OPENED), tmp_path, 1200) if r[0] == first["id"])
    assert row[1].startswith(f"{layout['devices']:.0f} x ") and row[3] == layout["verdict"]
    assert _number(row[2]) == pytest.approx(layout["total"][1] / 2**30, rel=0.006)
    fixed = {k: layout["job"][k] for k in ("cp", "vpp", "ep") if layout["job"][k] > 1}
    assert all(f"{k} {v:.0f}" in grid["shared"][0] for k, v in fixed.items()) and (grid["shared"] or not fixed)


def _number(text):
    return float(text.split()[0].replace(",", ""))


def test_page_tells_what_the_text_tells(page):
    """Without JavaScript, in both languages: the sentences and the tables of the text."""
    plain = html.unescape(re.sub(r"<[^>]+>", "\n", re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)))
    for language in ("en", "zh"):
        shown = run("llama-7b", "--samples", "156e3", "--hours", "24", "--language", language, "--json").stdout
        found = json.loads(shown)
        for sentence in tables.lines(found, language):
            assert sentence in plain
        for section in tables.sections(found, language, True):
            assert section.title in plain, section.title
            for cell in (c for row in section.rows for c in row if c.strip()):
                assert cell in plain, cell
    assert "noscript" in page and "@media print" in page


def _floats_of(preset):
    return floats(from_preset(preset)[0])


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_page_on_a_narrow_screen(page, tmp_path, language):
    if language == "zh":
        page = page.replace('id="pick-en" checked', 'id="pick-en"').replace(
            'id="pick-zh"', 'id="pick-zh" checked'
        )
    seen = in_chromium(page, tmp_path, {}, width=500)
    assert seen["shown"] == [language] and seen["scroll"] <= seen["view"]


PHONE = """<iframe id="phone" width="390" height="800" style="border:0" srcdoc="{page}"></iframe><script>
const frame = document.getElementById("phone");
frame.addEventListener("load", () => {{
  const d = frame.contentDocument, seen = (e) => e.getClientRects().length > 0, all = (s) => [...d.querySelectorAll(s)].filter(seen);
  const edge = (e) => Math.max(0, ...all(e).map((c) => c.getBoundingClientRect().right));
  const svg = all("svg")[0], rows = () => all("div.meters > div").length, few = rows();
  const told = {{
    view: d.documentElement.clientWidth, scroll: d.documentElement.scrollWidth, svgs: all("svg").map((s) => s.getAttribute("class")),
    letters: Math.min(...[...svg.querySelectorAll("text")].map((t) => t.getBoundingClientRect().height)),
    cells: edge("td"), words: edge(".meters .words"), figures: all(".meters .words").every((e) => /GiB \\/ /.test(e.innerText)),
    heads: all("table.fold td:not(.lead)").every((c) => d.defaultView.getComputedStyle(c, "::before").content.length > 2), few,
  }};
  all(".more-label").forEach((l) => l.click());
  told.many = rows();
  const out = document.createElement("pre"); out.id = "out"; out.textContent = JSON.stringify(told); document.body.append(out);
}});
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_page_on_a_phone(page, tmp_path, language):
    """375 px beside a scroll bar of 15: nothing is cut off, rows are cards that name their figures, the picture is one that was laid out for it."""
    page = page.replace(' checked', "").replace(f'id="pick-{language}"', f'id="pick-{language}" checked')
    seen = _shown(PHONE.format(page=html.escape(page)), tmp_path, 800)
    assert seen["view"] == 375 and seen["scroll"] <= 375 and seen["cells"] <= 375 and seen["words"] <= 375
    assert seen["svgs"] == ["narrow"] and seen["letters"] >= 10
    assert seen["figures"] and seen["heads"] and 3 <= seen["few"] < 12 < 30 <= seen["many"]


def test_legend_and_axes(page):
    legend = re.search(r'<p class="legend">(.*?)</p>', page)[1]
    assert "activations" in legend and not any(item in legend for item in ("experts", "adapters", "key-value"))
    for size in ("wide", "narrow"):
        drawn = re.search(rf'<svg class="{size}".*?</svg>', page, re.S)[0]
        across = re.findall(r'text-anchor="middle" fill="#4b5563">([\d,.]+) h<', drawn)
        up = re.findall(r'text-anchor="end" fill="#4b5563">([\d,.]+)<', drawn)
        assert len(across) >= 3 and len(up) >= 3, (across, up)


@pytest.mark.parametrize("low,high,most", [(0, 0.2, 5), (0.3, 0.9, 5), (-2, 7, 5), (-0.1, 2.05, 8), (3.01, 3.3, 8)])
def test_ticks_are_few_and_round(low, high, most):
    found = cost_picture._ticks(low, high, most)
    assert 2 <= len(found) <= most and all(low <= math.log10(v) <= high for v in found)
