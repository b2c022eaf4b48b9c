# SPDX-License-Identifier: Apache-2.0
"""Predicted against measured: the allocator's peak, the process's peak and the step time of 12 models on this machine.

    python bench/estimates.py                       the whole table (some minutes), JSON into estimates.json
    python bench/estimates.py --models resnet50 gpt --batches 16
    python bench/estimates.py --times --json F      step times for the rows of F (two minutes of a quiet machine)
    python bench/estimates.py --write docs/estimates.md --json estimates.json --torch torch.json   the page

Every memory row is a fresh process that runs an ordinary training loop (`--measure`); times are measured by one process a
model. The predictions are made by `yuloh.advise.facts` in another process. They share the model's code, and which of its
sublayers `recompute` means; nothing else.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

import numpy as np

import yuloh as paddle
from yuloh import nn
from yuloh.advise.facts import recomputed_layers
from yuloh.nn import functional as F

IMAGE = 64
BATCHES = (4, 16, 32)
STEPS = 3


class UNet(nn.Layer):
    """Four scales, two 3x3 convolutions each, 16 classes per pixel."""

    def __init__(self, width=16, classes=16):
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width, 8 * width]
        self.down = nn.LayerList([self.pair(a, b) for a, b in zip(sizes, sizes[1:])])
        self.up = nn.LayerList([nn.Conv2DTranspose(b, a, 2, stride=2) for a, b in zip(sizes[1:], sizes[2:])])
        self.join = nn.LayerList([self.pair(2 * a, a) for a in sizes[1:-1]])
        self.head = nn.Conv2D(width, classes, 1)

    @staticmethod
    def pair(a, b):
        return nn.Sequential(nn.Conv2D(a, b, 3, padding=1), nn.BatchNorm2D(b), nn.ReLU(),
                             nn.Conv2D(b, b, 3, padding=1), nn.BatchNorm2D(b), nn.ReLU())

    def forward(self, x):
        kept = []
        for n, layer in enumerate(self.down):
            x = layer(x if n == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for n in reversed(range(len(self.up))):
            x = self.join[n](paddle.concat([kept[n], self.up[n](x)], axis=1))
        return self.head(x)


# The one GPT of layers here and in tests/python/test_advise_plan.py (formulas against its Plan). Three others stay apart: PyTorch's
# twin (estimates_torch.py), the workload of `yuloh bench`, which runs under Paddle too, and calibrate's own networks
# (advise/calibrate_nets.py), because no model of this page may be among those that set the rates.
class Block(nn.Layer):
    def __init__(self, width, heads, dropout=0.1):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape([batch, length, 3, self.heads, width // self.heads]).unbind(2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(y.reshape([batch, length, width])))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Layer):
    def __init__(self, layers=4, width=192, heads=6, vocabulary=4096, length=128, dropout=0.1, bias_attr=None):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.LayerList([Block(width, heads, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias_attr=bias_attr)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(paddle.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class ViT(nn.Layer):
    def __init__(self, width=192, depth=4, patch=8, classes=100):
        super().__init__()
        self.patch = nn.Conv2D(3, width, patch, stride=patch)
        self.layers = nn.LayerList([nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0) for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose([0, 2, 1])
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(axis=1))


class Recurrent(nn.Layer):
    def __init__(self, vocabulary=2000, width=256, classes=20):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(vocabulary, width), nn.LSTM(width, width, num_layers=2)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.head(self.lstm(self.embed(tokens))[0][:, -1])


def pixels(out, label):
    return F.cross_entropy(out.transpose([0, 2, 3, 1]).reshape([-1, out.shape[1]]), label.reshape([-1]))


def zoo(name, **settings):
    return lambda: getattr(paddle.vision.models, name)(num_classes=100, **settings)


def classes(batch):
    return ([batch], "int64")


def image(size=IMAGE):
    return lambda batch: ([batch, 3, size, size], "float32")


def tokens(batch):
    return ([batch, 128], "int64")


# name: (makes the model, input, labels, loss, sublayers that recompute suits)
MODELS = {
    "lenet": (lambda: paddle.vision.models.LeNet(), lambda b: ([b, 1, 28, 28], "float32"), classes, None, False),
    "mobilenet_v1": (zoo("mobilenet_v1"), image(), classes, None, False),
    "resnet18": (zoo("resnet18"), image(), classes, None, ["layer1", "layer2", "layer3", "layer4"]),
    "resnet50": (zoo("resnet50"), image(), classes, None, ["layer1", "layer2", "layer3", "layer4"]),
    "mobilenet_v2": (zoo("mobilenet_v2"), image(), classes, None, True),
    "mobilenet_v3": (zoo("mobilenet_v3_small"), image(), classes, None, True),
    "squeezenet": (zoo("squeezenet1_1"), image(128), classes, None, False),
    "shufflenet": (zoo("shufflenet_v2_x1_0"), image(), classes, None, False),
    "densenet": (zoo("densenet121"), image(), classes, None, False),
    "unet": (UNet, image(), lambda b: ([b, IMAGE, IMAGE], "int64"), pixels, ["down.0", "down.1", "join.0", "join.1"]),
    "gpt": (GPT, tokens, tokens, None, True),
    "vit": (ViT, image(), classes, None, True),
    "lstm": (Recurrent, tokens, classes, None, False),
}


def decayed(parameters):
    return paddle.optimizer.Momentum(parameters=parameters, weight_decay=1e-4)


# As such models are trained; Adam for the others.
OPTIMIZERS = {"resnet50": decayed, "mobilenet_v2": decayed, "vit": lambda p: paddle.optimizer.AdamW(parameters=p),
              "gpt": lambda p: paddle.optimizer.AdamW(parameters=p)}


def optimizer_of(name):
    return OPTIMIZERS.get(name, lambda p: paddle.optimizer.Adam(parameters=p))


HELD_OUT = ("mobilenet_v1", "resnet50", "mobilenet_v3", "squeezenet", "shufflenet", "densenet", "vit")  # of the time model


def loss_of(name):
    own = MODELS[name][3]
    return own or (lambda out, y: F.cross_entropy(out.reshape([-1, out.shape[-1]]), y.reshape([-1])))


# ---- measured ------------------------------------------------------------------------------------------------
def made(spec):
    shape, dtype = spec
    rng = np.random.default_rng(0)
    return paddle.to_tensor(rng.standard_normal(shape).astype(dtype) if dtype == "float32" else rng.integers(0, 10, shape))


def loop(case, times):
    """A plain loop, as users write it; seconds of its steps after the first ones."""
    name, batch, half = case["model"], case["batch"], case["precision"] != "float32"
    make, inputs, labels, _, blocks = MODELS[name]
    net = make()
    if case["recompute"]:
        wrap(net, blocks)
    x, y, loss_fn = made(inputs(batch)), made(labels(batch)), loss_of(name)
    spent = []
    if case["training"]:
        opt = optimizer_of(name)(net.parameters())
        for _ in range(STEPS + times):
            begin = time.perf_counter()
            with paddle.amp.auto_cast(enable=half, dtype="bfloat16"):
                loss = loss_fn(net(x), y)
            loss.backward()
            opt.step()
            opt.clear_grad()
            loss.numpy()
            spent.append(time.perf_counter() - begin)
    else:
        net.eval()
        with paddle.no_grad(), paddle.amp.auto_cast(enable=half, dtype="bfloat16"):
            for _ in range(STEPS + times):
                begin = time.perf_counter()
                net(x).numpy()
                spent.append(time.perf_counter() - begin)
    return spent[STEPS - 1:]


def measure(cases, times):
    """One JSON line per case: seconds if `times`, else memory (of this process, so one case only)."""
    for case in cases:
        spent = loop(case, times)
        if times:
            print(json.dumps({"seconds": statistics.median(spent)}), flush=True)
            continue
        with open("/proc/self/status", encoding="ascii") as f:
            high = next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))
        print(json.dumps({"allocator": paddle.device.max_memory_allocated(), "reserved": paddle.device.max_memory_reserved(),
                          "process": high}))


def wrap(net, blocks):
    """Calls to these sublayers are recomputed.

    Which ones is part of the question, asked of both sides by one rule (`advise.facts.recomputed_layers`); were it another rule
    here, another step would be measured than was asked about. What recompute then saves is measured: nothing of that is shared.
    """
    for layer in recomputed_layers(net, blocks):
        layer.forward = (lambda f: lambda *a: paddle.distributed.fleet.utils.recompute(f, *a))(layer.forward)


def measured(cases, times=0):
    """What a fresh process measures of the cases; times under real-time priority where $YULOH_QUIET names a lock."""
    command = [sys.executable, __file__, "--measure", json.dumps(cases), "--times", str(times)]
    if times and "YULOH_QUIET" in os.environ:
        command = ["flock", os.environ["YULOH_QUIET"], "chrt", "-f", "10", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{cases}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- predicted -----------------------------------------------------------------------------------------------
def asked(case):
    make, inputs, labels, _, blocks = MODELS[case["model"]]
    batch = case["batch"]
    return paddle.advise.facts(
        make, [inputs(batch)], labels=[labels(batch)], loss=loss_of(case["model"]), optimizer=optimizer_of(case["model"]), training=case["training"],
        precision="float32" if case["precision"] == "float32" else "amp-bfloat16", recompute=blocks if case["recompute"] else False)


def predicted(case):
    begin = time.perf_counter()
    f = asked(case)
    m = f["memory"]
    return {"allocator": m["peak"], "reserved": m["reserved"], "process": m["process"], "seconds": f["seconds"],
            "code": m["code"], "took": time.perf_counter() - begin}


def cases(args):
    for name in args.models:
        for batch in args.batches:
            for precision in ("float32", "bfloat16"):
                for training in (True, False):
                    for recompute in (False, True):
                        if recompute and not (training and MODELS[name][4]):
                            continue
                        yield {"model": name, "batch": batch, "precision": precision, "training": training,
                               "recompute": recompute}


def share(row, key):
    return row["predicted"][key]["value"] / row["measured"][key] - 1


def inside(row, key):
    p = row["predicted"][key]
    return p["low"] <= row["measured"][key] <= p["high"]


def summary(rows, keys=("allocator", "process")):
    lines = []
    for key in keys:
        off = [abs(share(r, key)) for r in rows]
        width = max((r["predicted"][key]["high"] - r["predicted"][key]["low"]) / r["predicted"][key]["value"] / 2 for r in rows)
        lines.append(f"{key}: largest difference {100 * max(off):.1f} %, median {100 * statistics.median(off):.2f} %; interval "
                     f"+-{100 * width:.1f} %, covers {100 * sum(inside(r, key) for r in rows) / len(rows):.1f} % of {len(rows)} rows")
    timed = [r for r in rows if "seconds" in r["measured"]]
    for which, some in (("", timed), (f", {len(HELD_OUT)} models that no choice was tuned on",
                                      [r for r in timed if r["case"]["model"] in HELD_OUT])):
        if some:
            ordered, p = sorted(abs(share(r, "seconds")) for r in some), some[0]["predicted"]["seconds"]
            lines.append(f"step time{which}: median difference {100 * statistics.median(ordered):.1f} %, nine of ten within "
                         f"{100 * ordered[9 * len(ordered) // 10]:.0f} %, largest {100 * ordered[-1]:.0f} %; interval a factor of "
                         f"{p['high'] / p['value']:.2f} either way ({p['origin']}), covers "
                         f"{100 * sum(inside(r, 'seconds') for r in some) / len(some):.1f} % of {len(some)} rows")
    return lines


HEAD = """# Estimates against measurements

`yuloh.advise.facts` and `yuloh advise` say what a step needs before it runs; this page says how far that is from what
happens. Every measured row is a fresh process that runs an ordinary loop of a few steps ({machine}); allocator is
`paddle.device.max_memory_allocated()`, process is VmHWM, seconds are the median of the last steps, of all cases of a model in
one process. vit and gpt train with AdamW, resnet50 and mobilenet_v2 with Momentum and weight decay, the others with Adam. Made by `python bench/estimates.py --json F` (memory, at any time), `yuloh calibrate` and `bench/estimates.py --times
--json F` one after the other on a quiet machine, then `--write docs/estimates.md --json F`.

Which kinds of layers `yuloh calibrate` trains and the form of the time model (`src/advise/rates.cpp`) were chosen while looking at
{tuned}; the other models were left out of that. None of the models is among calibrate's networks. The interval of the time is
calibrate's own: it predicts each of its networks from the others and takes the factor that covers 95 % of them.
"""


def page(rows, torch_rows, machine):
    tuned = ", ".join(m for m in MODELS if m not in HELD_OUT)
    lines = [HEAD.format(machine=machine, tuned=tuned), *(f"* {line}" for line in summary(rows))]
    lines += ["", "Predicted / measured; MB and ms. `again`: with recompute.", "",
              "| model | batch | precision | what | allocator | process | step |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        c, p, m = r["case"], r["predicted"], r["measured"]
        cells = [f"{p[k]['value'] / 1e6:.1f} / {m[k] / 1e6:.1f} ({100 * share(r, k):+.1f} %)" for k in ("allocator", "process")]
        cells.append(f"{1e3 * p['seconds']['value']:.4g} / {1e3 * m['seconds']:.4g} ({100 * share(r, 'seconds'):+.0f} %)" if "seconds" in m else "")
        what = ("training" if c["training"] else "inference") + (", again" if c["recompute"] else "")
        lines.append(f"| {c['model']} | {c['batch']} | {c['precision']} | {what} | {' | '.join(cells)} |")
    if torch_rows:
        lines += ["", "## PyTorch's peak, predicted by us", "",
                  "The same recorded step accounted op by op (`memory.eager`), plus what a PyTorch process of one weight takes "
                  f"({torch_rows[0]['base'] / 1e6:.0f} MB), against VmHWM of a fresh PyTorch process (CPU, float32, Adam; "
                  "`bench/estimates_torch.py`).", "", "| model | batch | predicted MB | measured MB | difference | of what is beside "
                  f"these {torch_rows[0]['base'] / 1e6:.0f} MB |", "|---|---|---|---|---|---|"]
        lines += [f"| {r['model']} | {r['batch']} | {r['predicted'] / 1e6:.0f} | {r['measured'] / 1e6:.0f} | "
                  f"{100 * (r['predicted'] / r['measured'] - 1):+.1f} % | "
                  f"{100 * ((r['predicted'] - r['base']) / (r['measured'] - r['base']) - 1):+.1f} % |" for r in torch_rows]
    lines += ["", NOT, ""]
    return "\n".join(lines)


NOT = """## What is not in the figures
Loader processes and their queues, copies that the user's code makes (a result that inference reads is counted once), other
plans of the same process (an evaluation between epochs), transparent huge pages on machines where small blocks get them. A model that
decides by values (`if loss.item() > x`) is recorded as if they were zeros. Step times rest on `yuloh calibrate`: kernels at
sizes far from its networks, or on a machine that is shared, are further off than the median."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--times", type=int, nargs="?", const=6, default=0, help="measure so many steps of the rows of --json")
    parser.add_argument("--json", default="estimates.json")
    parser.add_argument("--predict-only", action="store_true", help="new predictions beside the measured figures of --json")
    parser.add_argument("--write", metavar="FILE", help="write the page from --json (and --torch), measure nothing")
    parser.add_argument("--torch", help="JSON of bench/estimates_torch.py, for the page (default: as they are there)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(json.loads(args.measure), args.times)
    rows = json.load(open(args.json, encoding="utf-8")) if args.write or args.predict_only or args.times else []
    if args.write:
        with open(args.torch or os.devnull, encoding="utf-8") as f:
            torch_rows = json.loads(f.read() or "[]")
        from yuloh.bench.machine import cpu_facts
        machine = f"{cpu_facts()['model']}, {paddle._core.get_num_threads()} threads"
        text = page(rows, torch_rows, machine)
        if not args.torch and os.path.exists(args.write):  # PyTorch's rows stay as they were
            with open(args.write, encoding="utf-8") as f:
                kept = re.search(r"## PyTorch's peak.*?(?=^## )", f.read(), re.S | re.M)
            text = text.replace("## What is not in the figures", (kept[0] if kept else "") + "## What is not in the figures")
        with open(args.write, "w", encoding="utf-8") as f:
            f.write(text)
        return None
    if args.times:
        for name in args.models:
            some = [r for r in rows if r["case"]["model"] == name]
            for row, got in zip(some, measured([r["case"] for r in some], args.times)):
                row["measured"].update(got)
    if args.times or args.predict_only:
        for row in rows:
            row["predicted"] = predicted(row["case"])
    else:
        for case in cases(args):
            row = {"case": case, "predicted": predicted(case), "measured": measured([case])[0]}
            rows.append(row)
            print(case["model"], case["batch"], case["precision"], "train" if case["training"] else "infer", "again" * case["recompute"],
                  *(f"{k} {row['measured'][k] / 1e6:.1f} {100 * share(row, k):+.1f}%" for k in ("allocator", "process")), flush=True)
    json.dump(rows, open(args.json, "w", encoding="utf-8"), indent=0)
    print("\n".join(summary(rows)))
    return None


if __name__ == "__main__":
    sys.exit(main())
