# SPDX-License-Identifier: Apache-2.0
"""Records this machine's timing noise for the test of the judge (tests/python/test_bench_statistics.py).

Two processes of the very same program (a NumPy matrix product loop) run blocks in turn, P Q Q P P Q Q P ...;
the seconds of every block go into a small JSON file.

    python bench/record_noise.py --slots 400 --seconds 0.3 --out tests/python/bench_noise.json --name quiet
"""

import argparse
import json
import os
import subprocess
import sys
import time

CHILD = """
import sys, time, numpy as np
a = np.random.default_rng(0).standard_normal((384, 384), dtype=np.float32)
def work(n):
    b = a
    for _ in range(n):
        b = a @ b
        b = b / (np.abs(b).max() + 1)
    return float(b[0, 0])
work(20)
for line in sys.stdin:
    t = time.perf_counter(); work(int(line)); print(time.perf_counter() - t, flush=True)
"""


def busy_jiffies() -> int:
    with open("/proc/stat") as f:
        field = [int(x) for x in f.readline().split()[1:]]
    return sum(field) - field[3] - field[4]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a block")
    parser.add_argument("--out", required=True)
    parser.add_argument("--name", default="quiet", help="name of the series in the file")
    args = parser.parse_args()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]

    def block(child, n):
        child.stdin.write(f"{n}\n")
        child.stdin.flush()
        return float(child.stdout.readline())

    n = 10
    while block(children[0], n) < args.seconds:
        n = int(n * 1.5)
    slots, busy, start = [], busy_jiffies(), time.time()
    for i in range(args.slots):
        slots.append(round(block(children[(0, 1, 1, 0)[i % 4]], n), 6))
    wall = time.time() - start
    load = (busy_jiffies() - busy) / os.sysconf("SC_CLK_TCK") / wall
    for child in children:
        child.stdin.close()
        child.wait()
    try:
        with open(args.out) as f:
            series = json.load(f)
    except FileNotFoundError:
        series = {}
    series[args.name] = {
        "program": "numpy 384x384 float32 matmul loop, 2 processes in turn P Q Q P",
        "cpus": os.cpu_count(),
        "mean_busy_cpus": round(load, 2),
        "seconds": slots,
    }
    with open(args.out, "w") as f:
        f.write("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in series.items()) + "\n}\n")
    print(f"{args.name}: {args.slots} blocks of {n} products, {load:.2f} CPUs busy on average")


if __name__ == "__main__":
    main()
