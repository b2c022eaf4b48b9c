# SPDX-License-Identifier: Apache-2.0
"""The PyTorch twin of _paddle_training.py: same batches, same start weights, same optimiser, same reads.

Parameters carry Paddle's names; a Linear weight is [in, out] there and [out, in] here, so it is transposed on
the way.
"""

import contextlib

import numpy as np
import torch
from _data import batches, exchange_weights


def _paddle_view(net):
    """{Paddle's name: (parameter, whether its layout is transposed)} of the trainable parameters."""
    transposed = {f"{name}.weight" for name, m in net.named_modules() if isinstance(m, torch.nn.Linear)}
    return {name: (p, name in transposed) for name, p in net.named_parameters()}


class Training:
    """See _paddle_training.Training. Flags: channels_last, fused_adam, compile."""

    def __init__(self, net, loss, data, options):
        self.net, self.loss, self.options = net, loss, options
        flags = options.get("flags") or {}
        named = _paddle_view(net)
        shapes = {n: tuple(reversed(p.shape)) if t else tuple(p.shape) for n, (p, t) in named.items()}
        start = exchange_weights(options.get("weights"), shapes, options["seed"])
        with torch.no_grad():
            for name, (p, transposed) in named.items():
                p.copy_(torch.from_numpy(start[name].T.copy() if transposed else start[name]))
        self.parameters = [p for p, _ in named.values()]
        self.parameter_count = sum(a.size for a in start.values())
        del start
        self.watched = min(self.parameters, key=lambda p: p.numel())
        layout = torch.channels_last if flags.get("channels_last") else torch.contiguous_format
        pairs = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in data]
        if flags.get("channels_last"):
            net.to(memory_format=layout)
            pairs = [(x.to(memory_format=layout) if x.dim() == 4 else x, y) for x, y in pairs]
        self.batches = pairs
        fused = {"fused": True} if flags.get("fused_adam") else {}
        self.optimizer = torch.optim.Adam(self.parameters, lr=options["learning_rate"], **fused)
        if flags.get("compile"):
            self.net = torch.compile(net)
        self.cast = contextlib.nullcontext
        if options["precision"] == "bf16":
            self.cast = lambda: torch.autocast("cpu", dtype=torch.bfloat16)
        net.train()
        self.done = 0

    def step(self, batch=None):
        x, y = batch or self.batches[self.done % len(self.batches)]
        self.done += 1
        with self.cast():
            loss = self.loss(self.net, x, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def read(self, loss):
        self.watched.detach().numpy().copy()
        return float(loss)

    def loader(self, archive, workers):
        return torch.utils.data.DataLoader(
            _Archive(archive),
            batch_size=self.options["batch"],
            shuffle=True,
            drop_last=True,
            num_workers=workers,
        )

    def from_loader(self, item):
        return item


class _Archive(torch.utils.data.Dataset):
    """CIFAR-100 training images out of the official archive, one normalised CHW image at a time."""

    def __init__(self, path):
        import pickle
        import tarfile

        with tarfile.open(path) as tar:
            member = next(m for m in tar if m.name.endswith("/train"))
            held = pickle.load(
                tar.extractfile(member), encoding="bytes"
            )  # the archive's checksum was verified
        self.images, self.labels = held[b"data"].reshape(-1, 3, 32, 32), held[b"fine_labels"]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return (self.images[i].astype(np.float32) - 127.5) / 127.5, self.labels[i]


def start(make_model, loss, kind, options):
    options = {"batch": 64, "seed": 0, "precision": "fp32", "learning_rate": 1e-3, **options}
    torch.manual_seed(options["seed"])
    return Training(
        make_model(), loss, batches(kind, options["batch"], options["seed"], options.get("images")), options
    )
