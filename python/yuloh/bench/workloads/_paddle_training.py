# SPDX-License-Identifier: Apache-2.0
"""The training loop of the built-in workloads in Paddle's API: runs on Yuloh and on PaddlePaddle unchanged.

`Training` is what the performance test drives; `main` is the plain script: 100 steps, total and mean step
time.
"""

import argparse
import contextlib
import time

import paddle
from _data import batches, exchange_weights


class Training:
    """One model in training. step() records or runs a step, read() forces it to be finished."""

    def __init__(self, net, loss, data, options):
        self.net, self.loss, self.options = net, loss, options
        named = [(name, p) for name, p in net.named_parameters() if not p.stop_gradient]
        start = exchange_weights(
            options.get("weights"), {name: p.shape for name, p in named}, options["seed"]
        )
        for name, p in named:
            p.set_value(start[name])
        self.parameters = [p for _, p in named]
        self.parameter_count = sum(a.size for a in start.values())
        del start
        self.watched = min(self.parameters, key=lambda p: int(p.size))
        self.optimizer = paddle.optimizer.Adam(
            learning_rate=options["learning_rate"], parameters=self.parameters
        )
        self.batches = [(paddle.to_tensor(x), paddle.to_tensor(y)) for x, y in data]
        self.cast = contextlib.nullcontext
        if options["precision"] == "bf16":
            self.cast = lambda: paddle.amp.auto_cast(dtype="bfloat16")
        net.train()
        self.done = 0

    def step(self, batch=None):
        """One training step on the next batch; returns the loss, which may still be pending."""
        x, y = batch or self.batches[self.done % len(self.batches)]
        self.done += 1
        with self.cast():
            loss = self.loss(self.net, x, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss.detach()

    def read(self, loss):
        """Waits until the step is finished: reads the loss and one updated parameter. Returns the loss."""
        self.watched.numpy()
        return float(loss.astype("float32").numpy())

    def loader(self, archive, workers):
        """A paddle.io.DataLoader over the CIFAR-100 archive with the usual transforms."""
        from paddle.vision import datasets, transforms as T

        transform = T.Compose([T.Transpose(), T.Normalize([127.5] * 3, [127.5] * 3, data_format="CHW")])
        data = datasets.Cifar100(
            data_file=archive, mode="train", transform=transform, download=False, backend="cv2"
        )
        return paddle.io.DataLoader(
            data,
            batch_size=self.options["batch"],
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            use_shared_memory=True,
        )

    def from_loader(self, item):
        x, y = item
        return x, y.flatten()


def start(make_model, loss, kind, options):
    """Builds the Training of a workload; used by the worker (`build(options)`) and by main()."""
    options = {"batch": 64, "seed": 0, "precision": "fp32", "learning_rate": 1e-3, **options}
    paddle.seed(options["seed"])
    if options.get("flags"):
        paddle.set_flags(options["flags"])
    return Training(
        make_model(), loss, batches(kind, options["batch"], options["seed"], options.get("images")), options
    )


def main(build, batch):
    """The plain script: so many steps, timed with time.time() and nothing else."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--images", help=".npz with images and labels (image workloads only)")
    args = parser.parse_args()
    training = build({"batch": args.batch, "precision": args.precision, "images": args.images})
    for _ in range(3):
        loss = training.step()
    training.read(loss)
    begin = time.time()
    for _ in range(args.steps):
        loss = training.step()
    last = training.read(loss)
    total = time.time() - begin
    print(
        f"{args.steps} steps in {total:.3f} s, mean step {total / args.steps * 1000:.2f} ms, last "
        f"loss {last:.4f}"
    )
