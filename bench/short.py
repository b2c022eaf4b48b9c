# SPDX-License-Identifier: Apache-2.0
"""The performance test in short: every built-in workload a few steps on Yuloh alone, judged by its numbers only.

    python bench/short.py                    all workloads, fp32 and bf16: a minute or two
    python bench/short.py lenet --steps 3

Prints this machine's measured peaks and each workload's time per step, which never fails anything; exit status 1 if a
parameter count or a loss curve departs from the reference (tests/python/bench_workloads.json, recorded from PaddlePaddle
by bench/record_workloads.py). bf16 is held to the same fp32 curve within its own tolerance. Needs no other framework.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

from record_workloads import BATCH, LEARNING_RATE, STEPS, images

from yuloh.bench import contenders, environments, peaks
from yuloh.bench.process import Worker
from yuloh.bench.workloads import CATALOGUE, SHORT

REFERENCE = pathlib.Path(__file__).parents[1] / "tests" / "python" / "bench_workloads.json"
# Relative difference allowed by step, the last for all further ones. The first loss comes from equal weights; later ones
# amplify rounding: PyTorch and PaddlePaddle themselves are 3.5 % apart at ResNet-50's fourth step, we lie on PyTorch there.
ALLOWED = {"fp32": (1e-5, 5e-3, 1e-2, 5e-2), "bf16": (6e-2, 1e-1)}


def complaints(precision, parameters, losses, reference):
    """What departs from the reference, in words; [] if nothing does."""
    found = []
    if parameters != reference["parameters"]:
        found.append(f"{parameters} parameters, expected {reference['parameters']}")
    for i, (got, wanted) in enumerate(zip(losses, reference["losses"])):
        allowed = ALLOWED[precision][min(i, len(ALLOWED[precision]) - 1)]
        if not abs(got - wanted) <= allowed * abs(wanted):
            found.append(f"step {i}: loss {got:.7g}, expected {wanted:.7g} within {allowed:g}")
    return found


def run(environment, workload, precision, steps, threads, folder):
    """(parameters, losses of the first `steps` steps, seconds per step after the first two)."""
    worker = Worker(environment, threads, {}, folder / "log", workload.name)
    try:
        options = {"batch": min(BATCH, workload.batch), "seed": 0, "precision": precision,
                   "learning_rate": LEARNING_RATE, "images": str(folder / "images.npz")}
        opened = worker.ask("open", timeout=300, framework="yuloh", threads=threads,
                            script=str(workload.script("yuloh")), options=options)
        losses = [opened["loss"], *worker.ask("steps", timeout=300, n=max(1, steps - 1))["losses"]]
        timed = worker.ask("steps", timeout=300, n=3)
        return opened["parameters"], losses, timed["seconds"] / 3
    finally:
        worker.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=list(CATALOGUE))
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--steps", type=int, default=STEPS, help="losses to compare, at most as many as were recorded")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--reference", type=pathlib.Path, default=REFERENCE, metavar="FILE")
    args = parser.parse_args()
    reference = json.loads(args.reference.read_text())
    own, bad = environments.prepare(contenders.parse("yuloh")), 0
    print(f"This machine: {peaks.describe(peaks.measure())}")
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        images(folder / "images.npz")
        for name in args.workloads:
            workload = CATALOGUE[SHORT.get(name, name)]
            for precision in args.precision.split(","):
                begin = time.perf_counter()
                parameters, losses, step_s = run(own, workload, precision, args.steps, args.threads, folder)
                wrong = complaints(precision, parameters, losses, reference[workload.name])
                bad += bool(wrong)
                compared = min(len(losses), len(reference[workload.name]["losses"]))
                print(f"{workload.name:20} {precision:5} {step_s * 1e3:9.2f} ms a step, {time.perf_counter() - begin:5.1f} s in all; "
                      f"{compared} losses {'WRONG: ' + '; '.join(wrong) if wrong else 'as recorded'}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
