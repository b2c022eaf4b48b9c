# SPDX-License-Identifier: Apache-2.0
"""Images per second of the DataLoader alone, beside those of other frameworks, in interleaved rounds.

    python bench/loader.py --with paddle=PYTHON --with torch=PYTHON [--json loader.json]
    python bench/loader.py --workload jpeg --workers 0,2 --rounds 6        Yuloh alone

Workloads: `cifar` (a synthetic archive in CIFAR-100's official format, ToTensor + Normalize) and `jpeg` (a
synthetic
folder of photographs' size, decode + RandomResizedCrop 224 + flip + ToTensor + Normalize). A window is
steady state:
epochs back to back, workers kept, the first batches off the clock. Every framework runs in each of its
usual ways
(`WAYS`) and counts with its best median. PyTorch needs torchvision in its environment.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time

BATCH = {"cifar": 64, "jpeg": 32}
LIMIT = 30  # seconds for a window with its start; a contender that takes longer hangs
MEAN, STD = [0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]
#: framework -> workload -> ways of writing the same loader
WAYS = {
    "yuloh": {"cifar": ["plain"], "jpeg": ["plain"]},
    "paddle": {"cifar": ["tensor", "array"], "jpeg": ["tensor", "array"]},
    "torch": {"cifar": ["torchvision", "rows", "batched"], "jpeg": ["pil", "tensor"]},
}


# -- in the contender's process (its own Python: NumPy and its framework only) ---------------------------


def paddle_loader(paddle, workload, way, data, workers):
    """Paddle's API, for PaddlePaddle and Yuloh."""
    T = paddle.vision.transforms
    if way == "array":  # NumPy all the way: no kernel of the framework's in the samples
        tail = [T.Transpose(), T.Normalize([255 * v for v in MEAN], [255 * v for v in STD])]
    else:
        tail = [T.ToTensor(), T.Normalize(MEAN, STD)]
    if workload == "cifar":
        backend = "cv2" if way == "array" else "pil"
        dataset = paddle.vision.datasets.Cifar100(
            data["cifar"], mode="train", transform=T.Compose(tail), backend=backend
        )
    else:
        steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *tail]
        dataset = paddle.vision.datasets.DatasetFolder(data["jpeg"], transform=T.Compose(steps))
    return paddle.io.DataLoader(
        dataset,
        batch_size=BATCH[workload],
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def torch_loader(workload, way, data, workers):
    import torch
    import torchvision
    from torchvision.transforms import v2

    tail = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    rest = {}
    if workload == "cifar":

        class Synthetic(torchvision.datasets.CIFAR100):  # the members have no official checksum
            train_list = [["train", None]]
            test_list = [["test", None]]
            meta = {"filename": "meta", "key": "fine_label_names", "md5": None}

        dataset = Synthetic(data["torch_root"], transform=v2.Compose(tail))
        if way != "torchvision":
            dataset = _Rows(torch, dataset)
        if way == "batched":
            dataset.__class__ = _Batches
            rest["collate_fn"] = _same
    else:
        steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
        loader = {"loader": torchvision.io.decode_image} if way == "tensor" else {}
        tail = tail[1:] if way == "tensor" else tail
        dataset = torchvision.datasets.ImageFolder(data["jpeg"], transform=v2.Compose(steps + tail), **loader)
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=BATCH[workload],
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        **rest,
    )


class _Rows:
    """CIFAR-100 as one tensor, normalised image by image without PIL."""

    def __init__(self, torch, dataset):
        self.images = torch.from_numpy(dataset.data).permute(0, 3, 1, 2).contiguous()
        self.labels = torch.tensor(dataset.targets)
        self.mean, self.std = (torch.tensor(v).reshape(3, 1, 1) for v in (MEAN, STD))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i].float().div_(255).sub_(self.mean).div_(self.std), self.labels[i]


class _Batches(_Rows):
    """The same, a whole batch at a time (PyTorch's __getitems__)."""

    def __getitems__(self, order):
        return self[order]


def _same(batch):
    return batch


def endless(loader):
    while True:
        yield from loader


def child(framework):
    """Answers requests, one JSON line each, until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what frameworks print goes to stderr
    feeds = {}
    for line in sys.stdin:
        ask = json.loads(line)
        key = (ask["workload"], ask["way"], ask["workers"])
        if key not in feeds:
            if framework == "torch":
                loader = torch_loader(*key[:2], ask["data"], key[2])
            else:
                import importlib

                loader = paddle_loader(importlib.import_module(framework), *key[:2], ask["data"], key[2])
            feeds[key] = endless(loader)
        feed, size = feeds[key], BATCH[key[0]]
        for _ in range(ask["skip"]):
            images, labels = next(feed)
        assert tuple(images.shape) == (size, 3, *((32, 32) if key[0] == "cifar" else (224, 224)))
        begin, count = time.perf_counter(), 0
        while count < ask["least"] or time.perf_counter() - begin < ask["seconds"]:
            next(feed)
            count += 1
        answers.write(json.dumps({"rate": count * size / (time.perf_counter() - begin)}) + "\n")
        answers.flush()


# -- the runner -------------------------------------------------------------------------------------------


class Contender:
    def __init__(self, name, environment):
        from yuloh.bench.environments import scrubbed

        self.name, self.framework = name, environment.framework
        self.command = [environment.python, __file__, "--child", self.framework]
        self.env = scrubbed(
            "yuloh", 0, {}, own=self.framework == "yuloh"
        )  # thread counts: each at its default
        self.process = self.start()

    def start(self):
        return subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.env,
            text=True,
            start_new_session=True,
        )

    def rate(self, **ask):
        """images/s of one window, None where the process dies or hangs three times (PaddlePaddle's does at
        times, of
        a segmentation fault in its workers)."""
        for _ in range(3):
            self.process.stdin.write(json.dumps(ask) + "\n")
            self.process.stdin.flush()
            answered = select.select([self.process.stdout], [], [], LIMIT)[0]
            answer = self.process.stdout.readline() if answered else ""
            if answer:
                return json.loads(answer)["rate"]
            self.close()
            self.process = self.start()
        return None

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own session: what its workers left
        except ProcessLookupError:
            pass
        self.process.wait()


def make_data(folder, n_cifar, n_jpeg):
    """Synthetic archive and folder below `folder`; kept between runs."""
    import numpy as np
    from PIL import Image

    from yuloh.vision import datasets

    archive = folder / "cifar-100-python.tar.gz"
    if not archive.exists():
        datasets.make_synthetic_cifar100(str(archive), n_train=n_cifar, n_test=100)
    for mode in ("train", "test"):  # torchvision reads unpacked members with str keys
        member = folder / "cifar-100-python" / mode
        member.parent.mkdir(exist_ok=True)
        if not member.exists():
            made = datasets.Cifar100(str(archive), mode=mode)
            pixels, labels = zip(*made.data)
            member.write_bytes(pickle.dumps({"data": np.stack(pixels), "fine_labels": list(labels)}))
    (folder / "cifar-100-python" / "meta").write_bytes(
        pickle.dumps({"fine_label_names": [str(i) for i in range(100)]})
    )
    sizes = [(500, 375), (375, 500), (500, 333), (500, 375), (640, 480), (333, 500), (500, 400), (400, 300)]
    rng = np.random.default_rng(0)
    for i in range(n_jpeg):
        path = folder / "jpeg" / f"class{i % 8}" / f"{i}.jpg"
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        width, height = sizes[i % len(sizes)]
        image = np.zeros((height, width, 3), np.float32)
        for cells, strength in (
            (4, 60),
            (16, 30),
            (64, 20),
        ):  # structure at several scales, as photographs have
            coarse = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
            image += (np.asarray(coarse.resize((width, height), 3), np.float32) - 128) * (strength / 60)
        image += rng.normal(0, 9, image.shape) + 128
        Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(path, quality=90)
    return {"cifar": str(archive), "torch_root": str(folder), "jpeg": str(folder / "jpeg")}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--workload", default="cifar,jpeg")
    parser.add_argument("--workers", default="0,2")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a window")
    parser.add_argument(
        "--rest", type=float, default=0, help="seconds of sleep before every round (shared machines)"
    )
    parser.add_argument("--data", type=pathlib.Path, help="folder for the synthetic data; kept")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--child", metavar="FRAMEWORK", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the contenders are ended, too
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.data or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        run(args, make_data(folder, 20000, 256))


def run(args, data):
    import numpy as np

    from yuloh.bench import contenders, environments, statistics

    chosen = [contenders.parse(w) for w in ["yuloh", *args.others]]
    live = [Contender(c.name, environments.prepare(c)) for c in chosen]
    records = []
    print(
        f"{'workload':8} {'workers':>7}  {'contender':20} {'images/s':>10} {'quartiles':>19}  Yuloh is ... times as fast"
    )
    try:
        for workload, workers in itertools.product(
            args.workload.split(","), map(int, args.workers.split(","))
        ):
            arms = [(c, way) for c in live for way in WAYS[c.framework][workload]]
            rates = {arm: [] for arm in arms}
            for number, order in enumerate(statistics.orders(len(arms), args.rounds, 0)):
                time.sleep(args.rest)
                for i in order:
                    c, way = arms[i]
                    if None not in rates[arms[i]]:
                        rates[arms[i]].append(
                            c.rate(
                                workload=workload,
                                way=way,
                                workers=workers,
                                data=data,
                                seconds=args.seconds,
                                least=4,
                                skip=8 if number == 0 else 4,
                            )
                        )
            for arm in [a for a in arms if None in rates[a]]:
                print(
                    f"{workload:8} {workers:7}  {arm[0].name + ' ' + arm[1]:20} its process died or hung three times"
                )
                arms.remove(arm)
                del rates[arm]
            # A round holds every arm twice (forwards and backwards): their geometric mean is its figure.
            log = {arm: np.log(r).reshape(-1, 2).mean(axis=1) for arm, r in rates.items()}
            for arm in arms:
                s = statistics.summary(rates[arm])
                record = {
                    "workload": workload,
                    "workers": workers,
                    "contender": arm[0].name,
                    "way": arm[1],
                    "images_per_s": s,
                    "windows": rates[arm],
                }
                text = ""
                if arm[0] is not live[0]:
                    centre, low, high = statistics.interval(log[arms[0]] - log[arm], 0.05)
                    record["ratio"] = ratio = [float(np.exp(v)) for v in (centre, low, high)]
                    text = "{:.2f} ({:.2f} to {:.2f})".format(*ratio)
                records.append(record)
                print(
                    f"{workload:8} {workers:7}  {arm[0].name + ' ' + arm[1]:20} {s['median']:10,.0f} "
                    f"{s['q1']:9,.0f}-{s['q3']:9,.0f}  {text}",
                    flush=True,
                )
    finally:
        for c in live:
            c.close()
    if args.json:
        args.json.write_text(json.dumps({"batch": BATCH, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
