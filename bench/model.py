# SPDX-License-Identifier: Apache-2.0
"""Step time of the built-in workloads, and which share of this machine's measured peak the step reaches.

    python bench/model.py                         ResNet-50, fp32 and bf16, all usable threads
    python bench/model.py lenet gpt --precision fp32 --kernels 15 --json model.json

The peak is what a large matrix product reaches in the same process, in the same dtype, best of many: the
figure to beat, not a data sheet's. For comparisons with other frameworks use `yuloh bench`; this one looks
inside.
"""

import argparse
import collections
import json
import pathlib
import sys
import tempfile
import time

import numpy as np

import yuloh
from yuloh.bench.workloads import CATALOGUE, FOLDER, SHORT
from yuloh.cli.run import install

SIZE = 1536  # of the matrix product that stands for the peak


def seconds_of(body, at_least=0.5, most=200):
    """(best, median) seconds of body(), after one call that does not count."""
    body()
    times = []
    while (sum(times) < at_least or len(times) < 5) and len(times) < most:
        begin = time.perf_counter()
        body()
        times.append(time.perf_counter() - begin)
    return min(times), float(np.median(times))


def peak_flops(dtype):
    """FLOP/s of a SIZE^3 matrix product."""
    a, b = (yuloh.randn([SIZE, SIZE]).astype(dtype) for _ in range(2))

    def product():
        yuloh.matmul(a, b)[0, 0].item()

    return 2 * SIZE**3 / seconds_of(product)[0]


def profile(training):
    """Rows (kernel, how, seconds, FLOP, bytes) of one step."""
    core = yuloh._core
    core.start_profile()
    training.read(training.step())
    rows = core._profile_rows()
    core.stop_profile()
    return rows


def measure(name, precision, batch, images):
    """One record of the table."""
    import importlib

    workload = CATALOGUE[SHORT.get(name, name)]
    module = importlib.import_module(workload.name)
    begin = time.perf_counter()
    options = {"batch": batch or workload.batch, "precision": precision, "images": images}
    training = module.build({**options, "learning_rate": workload.learning_rate})
    training.read(training.step())
    first = time.perf_counter() - begin
    for _ in range(3):
        training.read(training.step())
    best, median = seconds_of(lambda: training.read(training.step()), at_least=2.0)
    yuloh._core.reset_max_memory()
    rows = profile(training)
    flops, moved = sum(r[3] for r in rows), sum(r[4] for r in rows)
    return {
        "workload": workload.name,
        "precision": precision,
        "batch": options["batch"],
        "build_and_first_step_s": first,
        "best_s": best,
        "median_s": median,
        "gflop": flops / 1e9,
        "gbyte": moved / 1e9,
        "kernels": len(rows),
        "rows": rows,
    }


def table_of_kernels(rows, count):
    """Lines: the kernels that take most time, grouped by name."""
    grouped = collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0, ""])
    for what, how, seconds, flops, moved in rows:
        g = grouped[(what, how.split("\n")[0][:60])]
        g[0], g[1], g[2], g[3] = g[0] + 1, g[1] + seconds, g[2] + flops, g[3] + moved
    total = sum(g[1] for g in grouped.values())
    yield f"    {'ms':>8} {'share':>6} {'calls':>5} {'GFLOP/s':>8} {'GB/s':>7}  kernel"
    for (what, how), g in sorted(grouped.items(), key=lambda kv: -kv[1][1])[:count]:
        speed, flow = g[2] / g[1] / 1e9 if g[1] else 0, g[3] / g[1] / 1e9 if g[1] else 0
        yield f"    {g[1] * 1e3:8.2f} {g[1] / total:6.1%} {g[0]:5d} {speed:8.1f} {flow:7.1f}  {what}  {how}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", default=["resnet50"])
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--kernels", type=int, default=0, metavar="N", help="show the N kernels that take most"
    )
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    install()
    sys.path.insert(0, str(FOLDER))
    if args.threads:
        yuloh._core.set_num_threads(args.threads)
    records, peaks = [], {}
    with tempfile.TemporaryDirectory() as folder:
        images = pathlib.Path(folder) / "images.npz"
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (4096, 3, 32, 32), dtype=np.uint8)
        np.savez(images, images=pixels, labels=rng.integers(0, 100, 4096))
        print(f"{yuloh._core.get_num_threads()} threads")
        print(
            f"{'workload':20} {'prec':5} {'batch':>5} {'best ms':>9} {'median':>9} {'GFLOP':>8} "
            f"{'GFLOP/s':>8} of peak"
        )
        for name in args.workloads:
            for precision in args.precision.split(","):
                dtype = {"fp32": "float32", "bf16": "bfloat16"}[precision]
                peaks.setdefault(precision, peak_flops(dtype))
                r = measure(name, precision, args.batch, str(images))
                rate = r["gflop"] * 1e9 / r["best_s"]
                r["share_of_peak"] = rate / peaks[precision]
                print(
                    f"{r['workload']:20} {precision:5} {r['batch']:5d} {r['best_s'] * 1e3:9.2f} "
                    f"{r['median_s'] * 1e3:9.2f} {r['gflop']:8.2f} {rate / 1e9:8.1f} {r['share_of_peak']:.1%}"
                )
                for line in table_of_kernels(r["rows"], args.kernels) if args.kernels else ():
                    print(line)
                records.append({k: v for k, v in r.items() if k != "rows"})
    print("measured peak: " + ", ".join(f"{p} {v / 1e9:.0f} GFLOP/s" for p, v in peaks.items()))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"peaks": peaks, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
