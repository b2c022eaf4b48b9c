# SPDX-License-Identifier: Apache-2.0
"""What the first step and the memory of a training cost, Yuloh beside other frameworks, each in fresh processes.

    python bench/first_step.py                                          Yuloh alone, ResNet-50
    python bench/first_step.py resnet50 gpt --with torch=PYTHON --with paddle=PYTHON --write docs/performance.md

A process imports the framework, builds the model, does one step (for Yuloh: recording, compiling, running), then ten more.
PyTorch counts twice: eager and under torch.compile, whose caches on disk are off. Contenders take turns, `--rounds` each
(PaddlePaddle and torch.compile one); medians. Memory is the peak resident size (VmHWM) after the eleven steps.
"""

import argparse
import os
import pathlib
import statistics
import tempfile

from record_workloads import images
from tables import markdown, write_section

from yuloh.bench import contenders, environments
from yuloh.bench.process import Worker
from yuloh.bench.workloads import CATALOGUE, SHORT

FLAGS = {"torch": {"channels_last": True, "fused_adam": True}}


def launch(environment, label, workload, precision, compiled, folder, threads):
    """The launch record of one process, with `peak_mb` after eleven steps and `step_s` of the last ten."""
    flags = {**FLAGS.get(environment.framework, {}), **({"compile": True} if compiled else {})}
    with tempfile.TemporaryDirectory(dir=folder) as empty:  # a compiler keeps its results under TMPDIR: nothing is found there
        os.environ["TMPDIR"] = empty
        worker = Worker(environment, threads, flags, folder / "log", label)
        return _steps(worker, environment, workload, precision, flags, folder, threads)


def _steps(worker, environment, workload, precision, flags, folder, threads):
    try:
        options = {"batch": workload.batch, "seed": 0, "precision": precision, "learning_rate": workload.learning_rate,
                   "images": str(folder / "images.npz"), "flags": flags if environment.framework == "torch" else None}
        opened = worker.ask("open", timeout=900, framework=environment.framework, threads=threads,
                            script=str(workload.script(environment.framework)), options=options)
        later = worker.ask("steps", timeout=900, n=10)
        return {**opened, "step_s": later["seconds"] / 10, "peak_mb": max(later["peak_mb"], opened["peak_mb"])}
    finally:
        worker.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=["resnet50"])
    parser.add_argument("--with", dest="more", action="append", default=[], metavar="CONTENDER")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--write", metavar="FILE", help="put the tables into this document")
    args = parser.parse_args()
    found = [environments.prepare(c) for c in contenders.parse_all(["yuloh", *args.more])]
    arms = []
    for e in found:
        for precision in ("fp32", "bf16"):
            arms.append((e, precision, False))
        if e.framework == "torch" and not args.no_compile:
            arms.append((e, "fp32", True))
    parts = []
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        images(folder / "images.npz")
        for name in args.workloads:
            workload, runs = CATALOGUE[SHORT.get(name, name)], {}
            for round_ in range(args.rounds):
                for e, precision, compiled in arms:
                    if round_ and (compiled or e.framework == "paddle"):
                        continue
                    label = f"{e.contender.name} {precision}" + (" torch.compile" if compiled else "")
                    r = launch(e, label, workload, precision, compiled, folder, args.threads)
                    runs.setdefault(label, []).append(r)
                    print(f"{workload.name}: {label}: first step {r['first_step_s']:.2f} s, {r['peak_mb']:.0f} MB", flush=True)
            rows, base = [], None
            for label, launches in runs.items():
                m = {k: statistics.median(x[k] for x in launches) for k in ("import_s", "build_s", "first_step_s", "step_s", "peak_mb")}
                base = base or m
                rows.append([label, f"{m['import_s']:.2f}", f"{m['build_s']:.2f}", f"{m['first_step_s']:.2f}",
                             f"{m['first_step_s'] / base['first_step_s']:.1f}x", f"{m['peak_mb']:,.0f}",
                             f"{m['peak_mb'] / base['peak_mb']:.2f}x", f"{m['step_s'] * 1e3:.1f}"])
            head = ["contender", "import s", "build s", "first step s", "against Yuloh", "peak MB", "against Yuloh", "later steps ms"]
            parts.append(f"{workload.title}, batch {workload.batch}:\n\n{markdown(head, rows)}")
    text = (f"## First step and memory\n`python bench/first_step.py {' '.join(args.workloads)} --with ...`, {args.threads} threads. "
            "The first step of Yuloh is recording, compiling and running; of torch.compile with its disk caches off. Later steps are "
            "not interleaved here, so `yuloh bench` judges speed, not this column.\n\n" + "\n\n".join(parts))
    print(text)
    if args.write:
        write_section(args.write, "first_step", text)


if __name__ == "__main__":
    main()
