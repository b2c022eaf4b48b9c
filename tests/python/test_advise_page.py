# SPDX-License-Identifier: Apache-2.0
"""The page of the advice: self-contained, in two languages, its sliders agree with the core (headless Chromium)."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest
from test_advise import A100, floats, run

from yuloh import _core
from yuloh.advise import catalogue
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
  cells: [...document.querySelector("tr[data-device=a100-80]").cells].map(c => c.innerText), bars: document.querySelectorAll("main.en .meter").length,
  points: document.querySelectorAll("circle").length}});
document.body.append(out);
</script></body>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "advice.html"
    run("llama-7b", "--samples", "156e3", "--hours", "24", "--html", str(path))
    return path.read_text(encoding="utf-8")


def in_chromium(page, tmp_path, settings, width=1200):
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", SET.format(settings=json.dumps(settings))), encoding="utf-8")
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
        "batch": 32.0,
        "sequence_parallel": True,
    }
    made = _core.advise_layout(network, job, A100, catalogue.fabric("infiniband-200")[0])
    cells = seen["cells"]
    assert cells[0].startswith("32 x NVIDIA A100 80 GB")
    assert float(cells[1].split()[0]) == pytest.approx(made["total"][1] / 2**30, rel=0.006)
    assert cells[2] == {"yes": "yes", "tight": "tight"}[made["verdict"]]
    assert float(cells[3]) == pytest.approx(32 / made["seconds"][1], rel=0.006)
    hours = made["seconds"][1] / 32 * 1000 / 3600
    assert float(cells[4]) == pytest.approx(hours, rel=0.006)
    assert float(cells[7]) == pytest.approx(hours * 32 * 2, rel=0.006)
    assert seen["bars"] >= 30 and seen["points"] > 50
    impossible = in_chromium(page, tmp_path, {"pp": axes["pp"].index(4.0), "data": 2, "stage": 3})
    assert impossible["cells"][2] == "cannot be"


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
