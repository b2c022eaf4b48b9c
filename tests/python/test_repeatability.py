# SPDX-License-Identifier: Apache-2.0
"""Bit-identical training: the same program gives the same bits in every process, at a given thread count.

Across thread counts only what oneDNN splits by threads may differ (docs/performance.md says which); our own kernels do
not.
"""

import functools
import json
import pathlib
import subprocess
import sys

import pytest

WORKER = pathlib.Path(__file__).with_name("repeat_worker.py")
MODELS = ("lenet", "resnet18", "gpt", "lenet_without_library")


@functools.lru_cache(None)
def trained(threads, run):
    """{model: [(what, digest)]} of one process; `run` only tells processes apart."""
    done = subprocess.run([sys.executable, str(WORKER), str(threads)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def differing(a, b):
    return [x[0] for x, y in zip(a, b) if x != y]


@pytest.mark.parametrize("threads", [1, 2])
def test_two_runs_give_the_same_bits(threads):
    first, second = trained(threads, 0), trained(threads, 1)
    for model in MODELS:
        assert len(first[model]) == len(second[model]) > 20
        assert differing(first[model], second[model]) == [], f"{model} at {threads} threads"


def test_thread_counts_differ_only_where_the_library_does():
    one, two = trained(1, 0), trained(2, 0)
    assert differing(one["lenet_without_library"], two["lenet_without_library"]) == []
    for model in MODELS:
        found = differing(one[model], two[model])
        print(f"{model}: {len(found)} of {len(one[model])} differ between 1 and 2 threads; first {found[:3]}")
        assert "step 0 loss" not in found  # forward products are not split along their sums


def test_the_digests_tell_models_and_steps_apart():
    found = trained(1, 0)
    assert len({d for model in MODELS for w, d in found[model] if w.endswith("loss")}) == 3 * len(MODELS)
