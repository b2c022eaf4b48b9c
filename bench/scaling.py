# SPDX-License-Identifier: Apache-2.0
"""How the cost of a training step grows: batch 1..512, depth 18..152, threads 1 and 2 of ResNets on 3 x 32 x 32.

    python bench/scaling.py                                   prints the tables
    python bench/scaling.py --write docs/performance.md       and puts them into the document
    python bench/scaling.py --realtime --batches 1,64 --depths 18,50      each point at real-time priority (needs the right)

Every point is a process of its own: building, three steps that do not count, then steps for at least a second (three at
least); median. Efficiency is the arithmetic rate as a share of this machine's multiply-add peak, measured in the same run.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from tables import markdown, write_section


def point(depth, batch, precision, threads):
    """Measures one point in this process."""
    import numpy as np

    import yuloh as paddle

    core = paddle._core
    core.set_num_threads(threads)
    paddle.seed(0)
    net = getattr(paddle.vision.models, f"resnet{depth}")(num_classes=100)
    opt = paddle.optimizer.Adam(learning_rate=1e-3, parameters=net.parameters())
    draw = np.random.RandomState(0)
    x = paddle.to_tensor(draw.rand(batch, 3, 32, 32).astype("float32"))
    y = paddle.to_tensor(draw.randint(0, 100, batch))

    def step():
        begin = time.perf_counter()
        with paddle.amp.auto_cast(enable=precision == "bf16", dtype="bfloat16"):
            loss = paddle.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        loss.item()
        return time.perf_counter() - begin

    first = step()
    step()
    core.start_profile()
    step()
    core.stop_profile()
    flops = sum(row[3] for row in core._profile_rows())
    core.reset_max_memory()
    times = []
    while len(times) < 3 or (sum(times) < 1 and len(times) < 200):
        times.append(step())
    return {"first_s": first, "step_s": float(np.median(times)), "flops": flops,
            "peak_bytes": core.memory_stats()["max_allocated"], "steps": len(times)}


def peaks(threads):
    """This machine's peaks in this process."""
    import yuloh

    yuloh._core.set_num_threads(threads)
    from yuloh.bench.peaks import measure

    return measure(0.1)


def child(args, call):
    """The answer of `call` in a fresh process."""
    begin = time.monotonic()
    command = (["chrt", "-f", "10"] if args.realtime else []) + [sys.executable, __file__, "--child", json.dumps(call)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"scaling: {call} failed:\n{done.stderr[-2000:]}")
    if args.realtime:
        time.sleep(time.monotonic() - begin)  # everything else on the machine stood still meanwhile
    return json.loads(done.stdout)


def numbers(text):
    return [int(x) for x in text.split(",")]


def row_of(label, r, threads, batch, roof, base):
    one = r[threads[0]]
    cells = [label]
    for t in threads:
        cells.append(f"{r[t]['step_s'] * 1e3:.1f}")
    if len(threads) > 1:
        cells.append(f"{one['step_s'] / r[threads[-1]]['step_s']:.2f}x")
    last = r[threads[-1]]
    per_image = last["step_s"] / batch
    cells += [f"{batch / last['step_s']:,.0f}", f"{per_image / base:.2f}x" if base else "1",
              f"{last['flops'] / 1e9:.1f}", f"{last['flops'] / last['step_s'] / roof[threads[-1]]:.0%}",
              f"{last['peak_bytes'] / 2**20:,.0f}"]
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=numbers, default=[1, 4, 16, 64, 256, 512])
    parser.add_argument("--depths", type=numbers, default=[18, 34, 50, 101, 152])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--realtime", action="store_true", help="run each point under chrt -f 10")
    parser.add_argument("--write", metavar="FILE", help="put the tables into this document")
    parser.add_argument("--json", metavar="FILE", help="keep the points here")
    parser.add_argument("--resume", action="store_true", help="measure only the points that --json does not hold yet")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        call = json.loads(args.child)
        return print(json.dumps(point(**call) if "depth" in call else peaks(**call)))
    kept = pathlib.Path(args.json) if args.json else None
    earlier = json.loads(kept.read_text()) if args.resume and kept and kept.exists() else {"points": {}, "peaks": {}}
    found = earlier["points"]

    def measured(depth, batch):
        out = {}
        for t in args.threads:
            key = f"resnet{depth} batch {batch} threads {t}"
            if key not in found:
                found[key] = child(args, {"depth": depth, "batch": batch, "precision": args.precision, "threads": t})
                print(f"{key}: {found[key]['step_s'] * 1e3:.1f} ms", file=sys.stderr, flush=True)
            out[t] = found[key]
        return out

    machine = {t: earlier["peaks"].get(str(t)) or child(args, {"threads": t}) for t in args.threads}
    roof = {t: p["fp32"] if args.precision == "fp32" else p.get("bf16", p["fp32"]) for t, p in machine.items()}
    head = [*(f"ms, {t} thread{'s' if t > 1 else ''}" for t in args.threads),
            *(["gain of threads"] if len(args.threads) > 1 else []),
            "images/s", "time per image", "GFLOP", "of peak", "MB held at most"]
    batches, base = [], None
    for b in args.batches:
        r = measured(50, b)
        base = base or r[args.threads[-1]]["step_s"] / b
        batches.append(row_of(b, r, args.threads, b, roof, base))
    depths, base = [], None
    for d in args.depths:
        r = measured(d, 64)
        base = base or r[args.threads[-1]]["step_s"] / 64
        depths.append(row_of(f"ResNet-{d}", r, args.threads, 64, roof, base))
    from_peaks = "; ".join(f"{t} thread{'s' if t > 1 else ''}: {p['fp32'] / 1e9:.0f}" + (f" (bf16 {p['bf16'] / 1e9:.0f})" if "bf16" in p else "")
                           for t, p in machine.items())
    text = (f"## How the cost grows\n`python bench/scaling.py`: training steps (Adam, {args.precision}, 3 x 32 x 32), medians, each "
            f"point a process of its own. Measured multiply-add peaks in GFLOP/s, {from_peaks}. Columns from `images/s` on are for "
            f"{args.threads[-1]} threads; `time per image` is relative to the first row; memory is what the allocator held.\n\n"
            f"ResNet-50 by batch:\n\n{markdown(['batch', *head], batches)}\n\n"
            f"Depth at batch 64:\n\n{markdown(['model', *head], depths)}")
    print(text)
    if args.write:
        write_section(args.write, "scaling", text)
    if kept:
        kept.write_text(json.dumps({"peaks": machine, "points": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
