# SPDX-License-Identifier: Apache-2.0
"""What recording costs: microseconds of Python and core per op, layer, backward and optimizer node, no
kernels run.

    python bench/overhead.py [--json overhead.json]

Targets (issue "one plan"): F.relu(x) 1, layer(x) 2.5, backward and optimizer 1 a node; a LeNet step 250 in
all.
"""

import argparse
import json
import pathlib
import sys
import time

import numpy as np

import yuloh
from yuloh.bench.workloads import FOLDER
from yuloh.cli.run import install
from yuloh.nn import functional as F


def per_call(body, after, calls=200, repeats=30):
    """Best microseconds per call of body() over `repeats` rounds of `calls`; after() clears up, off the
    clock."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(calls):
            body()
        best = min(best, time.perf_counter() - begin)
        after()
    return best / calls * 1e6


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    x = yuloh.to_tensor(np.ones((2, 2), np.float32))
    layer = yuloh.nn.ReLU()
    run = yuloh._core.run_pending
    found = {"F.relu(x)": per_call(lambda: F.relu(x), run), "layer(x)": per_call(lambda: layer(x), run)}
    found["x + x"] = per_call(lambda: x + x, run)

    install()
    sys.path.insert(0, str(FOLDER))
    import lenet

    training = lenet.build({"batch": 64})
    for _ in range(5):
        training.read(training.step())
    stats, rows = yuloh._core.stats, []
    first = stats()
    for _ in range(200):
        before, begin = stats(), time.perf_counter()
        training.read(training.step())  # clear_grad at its end runs the step: the kernels' time is taken off
        whole, after = time.perf_counter() - begin, stats()
        ran, looked = (after[k] - before[k] for k in ("run_seconds", "lookup_seconds"))
        rows.append((whole, ran, looked, whole - ran, after["nodes"] - before["nodes"]))
    whole, ran, looked, python, nodes = np.median(np.array(rows), axis=0)
    found["LeNet step, whole"], found["LeNet step, kernels"] = whole * 1e6, ran * 1e6
    found["LeNet step, hash and lookup"] = looked * 1e6
    found["LeNet step, Python + hash + lookup"] = python * 1e6
    found["LeNet nodes a step"] = nodes
    found["plans made in 200 steps"] = stats()["plans"] - first["plans"]
    for name, value in found.items():
        print(f"{name:36} {value:10.2f}" + (" us" if "plans" not in name and "nodes" not in name else ""))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
