# SPDX-License-Identifier: Apache-2.0
"""What new shapes cost: 100 random sequence lengths against padding, and the first step.

    python bench/shapes.py                       GPT with 100 lengths in 16..128, varying and padded to 128
    python bench/shapes.py --torch PYTHON        the same for PyTorch in that interpreter (eager), then torch.compile's
                                                 first step of ResNet-50
    python bench/shapes.py --only first replan   ResNet-50: first step; plan misses at new batch sizes

Every arm runs in a process of its own: nothing is prepared before its first step. "padded" runs as many steps at full
length, which is what one does where a new shape is dear; the target is at most 1.3 times its total. A miss is split into
passes, layouts, fusion, kernels (tile programs and kernel objects), primitives (code that oneDNN generates) and memory.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

PARTS = ("passes", "layouts", "fusion", "kernels", "primitives", "memory")


def random_lengths(count):
    return np.random.default_rng(1).integers(16, 129, count).tolist()


def module_of(framework, name):
    """The workload module of a framework, from the folder that the performance test uses."""
    import importlib

    if framework == "yuloh":
        from yuloh.cli.run import install

        install()
    return importlib.import_module(name + ("_torch" if framework == "torch" else ""))


def stats_of(framework):
    if framework != "yuloh":
        return {}
    import yuloh

    return {k: v for k, v in yuloh._core.stats().items() if k.endswith("_seconds") or k in ("plans", "kernels")}


def timed_steps(framework, training, batches):
    """One record per step: seconds and what the counters moved by."""
    rows = []
    for batch in batches:
        before, begin = stats_of(framework), time.perf_counter()
        training.read(training.step(batch))
        row = {"seconds": time.perf_counter() - begin}
        row.update({k: v - before[k] for k, v in stats_of(framework).items()})
        rows.append(row)
    return rows


def child(args):
    """Runs one arm and prints its records as JSON."""
    sys.path.insert(0, args.folder)
    if args.threads and args.framework == "yuloh":
        import yuloh

        yuloh._core.set_num_threads(args.threads)
    elif args.threads:
        import torch

        torch.set_num_threads(args.threads)
    options = {"precision": args.precision, "learning_rate": 1e-3, "flags": {}}
    if args.framework == "torch":
        options["flags"] = {"fused_adam": True, "channels_last": args.arm in ("first", "replan")}
        options["flags"]["compile"] = args.compile
    if args.arm in ("first", "replan"):
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (256, 3, 32, 32), dtype=np.uint8)
        np.savez(args.images, images=pixels, labels=rng.integers(0, 100, 256))
        options.update(batch=64, images=args.images)
        training = module_of(args.framework, "resnet50_cifar100").build(options)
        x, y = training.batches[0]
        sizes = [64] if args.arm == "first" else [64, 64, 48, 48, 40, 40, 56, 56, 33, 33]
        batches = [(x[:n], y[:n]) for n in sizes]
    else:
        training = module_of(args.framework, "gpt").build({**options, "batch": 8})
        sizes = random_lengths(args.steps) if args.arm == "varying" else [128] * args.steps
        pool = training.batches
        batches = [(pool[i % len(pool)][0][:, :n], pool[i % len(pool)][1][:, :n]) for i, n in enumerate(sizes)]
    if args.framework == "yuloh":
        for x, y in batches:
            x.numpy(), y.numpy()  # slices are data, not part of the step
    print(json.dumps({"sizes": sizes, "rows": timed_steps(args.framework, training, batches)}))


def run_arm(args, arm, framework, compile_=False):
    """Runs one arm in its own process."""
    import tempfile

    from yuloh.bench.workloads import FOLDER

    python = sys.executable if framework == "yuloh" else args.torch
    with tempfile.TemporaryDirectory() as folder:
        command = [python, __file__, "--child", "--arm", arm, "--framework", framework]
        command += ["--folder", str(FOLDER), "--precision", args.precision, "--steps", str(args.steps)]
        command += ["--threads", str(args.threads)] if args.threads else []
        command += ["--images", str(pathlib.Path(folder) / "images.npz")] + ["--compile"] * compile_
        env = dict(os.environ)
        if framework == "torch":
            env.pop("PYTHONPATH", None)
        answer = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(answer.splitlines()[-1])


def show_misses(result, name, skip=1):
    """Mean cost of a plan miss, by part; the first `skip` steps (cold caches) are told apart."""
    rows = [r for r in result["rows"][skip:] if r["plans"]]
    if not rows:
        return
    mean = {p: 1e3 * float(np.mean([r[p + "_seconds"] for r in rows])) for p in PARTS}
    total = 1e3 * np.array([r["compile_seconds"] for r in rows])
    print(
        f"  {name}: {len(rows)} steps with a miss, compile mean {total.mean():.1f} ms, median {np.median(total):.1f}, "
        f"worst {total.max():.1f}: " + ", ".join(f"{p} {v:.2f}" for p, v in mean.items())
    )


def total_of(result):
    return sum(r["seconds"] for r in result["rows"])


def show_lengths(args, framework):
    varying, padded = (run_arm(args, arm, framework) for arm in ("varying", "padded"))
    a, b = total_of(varying), total_of(padded)
    print(
        f"{framework} gpt {args.precision}, {args.steps} steps ({len(set(varying['sizes']))} lengths): varying {a:.2f} s, "
        f"padded {b:.2f} s, ratio {a / b:.3f}; first steps {1e3 * varying['rows'][0]['seconds']:.0f} and "
        f"{1e3 * padded['rows'][0]['seconds']:.0f} ms"
    )
    if framework == "yuloh":
        show_misses(varying, "varying")
        run = sum(r["run_seconds"] for r in varying["rows"])
        print(f"  varying: kernels ran {run:.2f} s, compiling {sum(r['compile_seconds'] for r in varying['rows']):.2f} s")
    return a


def show_first(args, framework, compile_=False):
    row = run_arm(args, "first", framework, compile_)["rows"][0]
    name = framework + (" compiled" if compile_ else "")
    line = f"{name} resnet50 {args.precision}: first step {1e3 * row['seconds']:.0f} ms"
    if framework == "yuloh":
        line += f", compile {1e3 * row['compile_seconds']:.0f} ms: "
        line += ", ".join(f"{p} {1e3 * row[p + '_seconds']:.1f}" for p in PARTS)
    print(line)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--only", nargs="+", choices=("lengths", "first", "replan"), default=["lengths", "first", "replan"])
    hidden = [("--arm", {}), ("--framework", {}), ("--folder", {}), ("--images", {})]
    for name, more in hidden + [("--child", {"action": "store_true"}), ("--compile", {"action": "store_true"})]:
        parser.add_argument(name, help=argparse.SUPPRESS, **more)
    args = parser.parse_args()
    if args.child:
        return child(args)
    frameworks = ["yuloh"] + ["torch"] * bool(args.torch)
    for framework in frameworks:
        if "lengths" in args.only:
            show_lengths(args, framework)
    if "first" in args.only:
        show_first(args, "yuloh")
        if args.torch:
            show_first(args, "torch")
            show_first(args, "torch", compile_=True)
    if "replan" in args.only:
        result = run_arm(args, "replan", "yuloh")
        print("yuloh resnet50: steps at batch " + " ".join(map(str, result["sizes"])))
        show_misses(result, "new batch sizes", skip=2)


if __name__ == "__main__":
    main()
