# SPDX-License-Identifier: Apache-2.0
"""Records what the built-in workloads give under another framework: parameter count and first losses.

    python bench/record_workloads.py --python PYTHON_WITH_PADDLE --out tests/python/bench_workloads.json

tests/python/test_bench_workloads.py holds Yuloh to these figures, so it needs no other framework.
"""

import argparse
import json
import pathlib
import tempfile

import numpy as np

from yuloh.bench import contenders, environments
from yuloh.bench.process import Worker
from yuloh.bench.workloads import CATALOGUE

BATCH, STEPS = 32, 5  # or the workload's own batch, where that is smaller
LEARNING_RATE = 1e-4  # small: Adam's first steps follow the gradient's sign, and rounding decides the sign of small ones


def images(path):
    """A small made-up .npz of pictures, the same everywhere."""
    rng = np.random.default_rng(11)
    pixels = rng.integers(0, 256, (64, 3, 32, 32), dtype=np.uint8)
    np.savez(path, images=pixels, labels=rng.integers(0, 100, 64))
    return str(path)


def first_losses(environment, workload, folder, steps=STEPS):
    """(parameter count, losses of the first `steps` steps, fp32)."""
    worker = Worker(environment, 1, {}, folder / "log", workload.name)
    try:
        options = {
            "batch": min(BATCH, workload.batch),
            "seed": 0,
            "precision": "fp32",
            "learning_rate": LEARNING_RATE,
        }
        options["images"] = images(folder / "images.npz")
        opened = worker.ask(
            "open",
            timeout=300,
            framework=environment.framework,
            threads=1,
            script=str(workload.script(environment.framework)),
            options=options,
        )
        losses = [opened["loss"], *worker.ask("steps", timeout=300, n=steps - 1)["losses"]]
        return opened["parameters"], losses
    finally:
        worker.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    environment = environments.prepare(contenders.parse(f"reference={args.python}"))
    found = {"framework": environment.framework, "version": environment.version}
    with tempfile.TemporaryDirectory() as folder:
        for name, workload in CATALOGUE.items():
            parameters, losses = first_losses(environment, workload, pathlib.Path(folder))
            found[name] = {"parameters": parameters, "losses": losses}
            print(name, parameters, losses)
    pathlib.Path(args.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
