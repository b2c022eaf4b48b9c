# SPDX-License-Identifier: Apache-2.0
"""Latency of requests, Yuloh beside other engines: the same model and weights, blocks of requests in turn.

    python bench/infer.py --with onnxruntime=PYTHON --with openvino=PYTHON
    python bench/infer.py resnet50 bert --batches 1,8 --threads 1,2 --write docs/performance.md

For each model, batch and number of threads every engine runs in a process of its own; they rest, then take turns with blocks of
requests, so that what else the machine does hits all. Before the first block their answers must agree within 1e-3. Medians over all
requests; "times as fast" is the median ratio of the blocks of one round, its range the quartiles. The engines compute in fp32.
"""

import argparse
import statistics
import tempfile
import time

from serving import FORMAT, Contender, contenders_of, write_models
from tables import markdown, write_section

NAMES = {"resnet50": "ResNet-50", "mobilenet_v2": "MobileNetV2", "bert": "BERT-like (6 x 768, 128 tokens)"}


def agree(found):
    """Raises where the engines' answers differ."""
    values = {c.framework: c.ask("values") for c in found}
    want = values["yuloh"]
    for name, got in values.items():
        worst = max(abs(a - b) / (1 + abs(b)) for a, b in zip(got[1:], want[1:]))
        if not worst < 1e-3:
            raise SystemExit(f"{name} answers {got}, yuloh {want}.")


def measure(found, seconds, rounds):
    """{framework: [[times] of each round]}"""
    counts = {}
    for c in found:
        time.sleep(0.2)
        counts[c.framework] = max(1, round(seconds / statistics.median(c.ask(3))))
    blocks = {c.framework: [] for c in found}
    for k in range(rounds):
        for c in found[k % len(found):] + found[:k % len(found)]:
            time.sleep(0.1)  # whoever was before lets go of the processors
            c.ask(1)
            blocks[c.framework].append(c.ask(counts[c.framework]))
    return blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(NAMES))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--with", dest="more", action="append", default=[], metavar="FRAMEWORK=PYTHON")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a block")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", metavar="FOLDER", help="keeps the model files here")
    parser.add_argument("--write", metavar="FILE", help="puts the table into this document")
    args = parser.parse_args()
    pythons = contenders_of(args.more)
    others = [n for n in pythons if n != "yuloh"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            for batch in map(int, args.batches.split(",")):
                files, dtype, shape = write_models(model, batch, args.folder or folder, {FORMAT[f] for f in pythons})
                for threads in map(int, args.threads.split(",")):
                    found = [Contender(n, p, files, shape, dtype, threads) for n, p in pythons.items()]
                    agree(found)
                    blocks = measure(found, args.seconds, args.rounds)
                    for c in found:
                        c.close()
                    row = [NAMES.get(model, model), batch, threads]
                    row += [f"{statistics.median(t for b in blocks[n] for t in b) * 1e3:.2f}" for n in pythons]
                    for n in others:
                        ratios = [statistics.median(o) / statistics.median(m) for o, m in zip(blocks[n], blocks["yuloh"])]
                        low, middle, high = statistics.quantiles(ratios, n=4)
                        row.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
                    rows.append(row)
                    print(*row, sep="  ", flush=True)
    head = ["model", "batch", "threads", *[f"{n}, ms" for n in pythons], *[f"times as fast as {n}" for n in others]]
    text = markdown(head, rows)
    print(text)
    if args.write:
        write_section(args.write, "infer", text)


if __name__ == "__main__":
    main()
