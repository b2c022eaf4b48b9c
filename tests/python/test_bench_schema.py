# SPDX-License-Identifier: Apache-2.0
"""docs/results_schema.md names every field that a run writes: a field without a word there fails here."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from test_bench_runner import arms, cache, make, run, script  # noqa: E402,F401

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "results_schema.md"
FREE = {
    "options",
    "losses",
    "packages",
    "looks",
    "command",
    "errors",
    "flags",
    "calibration",
}  # not looked into


def fields(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in FREE:
                yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)


@pytest.mark.skipif(not DOCUMENT.exists(), reason="installed without the documents")
def test_every_field_is_documented(make, script, tmp_path):  # noqa: F811
    record = run([make("a", 0.01), make("b", 0.03), "gone=/none"], script, tmp_path / "out", max_rounds=8)
    known = set(re.findall(r"`(\w+)(?:\[\])?`", DOCUMENT.read_text()))
    assert set(fields(record)) - known == set()
    assert arms(record)["a"]["blocks"]
