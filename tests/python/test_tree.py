# SPDX-License-Identifier: Apache-2.0
"""The tree itself: layering, documented hops, licence lines, op-table hygiene, machine paths."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import yuloh

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "src").is_dir(), reason="needs the source tree")


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources(*suffixes, folders=("src", "python", "tests", "tools", "bench")):
    return [p for folder in folders for p in (ROOT / folder).rglob("*")
            if p.suffix in suffixes and "__pycache__" not in p.parts]


def test_includes_point_downwards():
    assert tool("check_layers").violations() == []


def test_documented_hops_exist():
    bad, seen = tool("check_hops").broken()
    assert bad == [] and seen >= 10


def test_every_source_file_has_its_licence_line():
    missing = [str(p.relative_to(ROOT)) for p in sources(".h", ".cpp", ".py", ".inl", ".sh")
               if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(p.read_text().splitlines()[:2])]
    assert missing == []


def test_sources_are_formatted():
    """As .clang-format says; tables with several rows in a line stand between `clang-format off` and `on`."""
    tool = shutil.which("clang-format", path=os.path.dirname(sys.executable))
    if tool is None:
        pytest.skip("needs clang-format of the `test` extra")
    files = [str(f) for f in sources(".h", ".cpp", ".inl", ".c", folders=("src", "include", "tests", "bench", "examples"))]
    done = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000] + "\nHint: clang-format -i, of version 14.0.6 as in .venv/bin"


def test_no_switch_over_ops_outside_the_table():
    pattern = re.compile(r"switch *\((?:.*\b)?(?:op|opcode|op_type)\b")
    hits = [str(p) for p in (ROOT / "src").rglob("*.cpp") if "ops" not in p.parts and pattern.search(p.read_text())]
    assert hits == []


# Paddle's arguments that change nothing here: sorts are always stable, gradients of embeddings are always dense.
WITHOUT_EFFECT = {("sort", "stable"), ("argsort", "stable"), ("embedding", "sparse")}


def test_rows_read_every_argument_and_are_documented():
    text = "\n".join(p.read_text() for p in [*(ROOT / "src" / "ops").glob("*.cpp"), *(ROOT / "src").rglob("*.cpp")])
    for row in yuloh._core.op_rows():
        assert row["doc"].strip(), row["name"]
        if row["lowering"] == "scalar":
            continue
        for name, is_input, _ in row["args"]:
            if not is_input and (row["name"], name) not in WITHOUT_EFFECT:
                assert f'"{name}"' in text, f"{row['name']}: nothing reads argument {name}"


def test_no_machine_paths_or_hosts_are_tracked():
    out = subprocess.run(["git", "grep", "-nIE", r"/(work|farm)/[A-Za-z]|pypi\.org|deb\.debian\.org", "--", ".", ":!tests/python/test_tree.py"],
                         cwd=ROOT, capture_output=True, text=True)
    assert out.stdout == ""


def test_at_least_150_public_ops():
    print(yuloh._core.n_public_ops)
    assert yuloh._core.n_public_ops >= 150


def test_generated_pages_are_current():
    assert tool("generate").stale() == [], "run python tools/generate.py"
