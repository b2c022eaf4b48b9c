# SPDX-License-Identifier: Apache-2.0
"""Datasets and child scripts of the trap tests; importable, so that worker processes can have them.

Parity room.
"""

import os
import signal
import sys

import numpy as np
import paddle
from paddle.io import Dataset, IterableDataset


class KilledAt20(Dataset):
    """Its worker kills itself at sample 20."""

    def __getitem__(self, index):
        if index == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.full([2], index, "float32")

    def __len__(self):
        return 64


class BadAt20(Dataset):
    """Sample 20 raises a ValueError."""

    def __getitem__(self, index):
        if index == 20:
            raise ValueError("bad sample twenty")
        return np.full([2], index, "float32")

    def __len__(self):
        return 64


class Draws(Dataset):
    """Every sample is a draw of NumPy's global stream."""

    def __getitem__(self, index):
        return np.array([np.random.randint(0, 2**31)], "int64")

    def __len__(self):
        return 32


class Ten(IterableDataset):
    """0..9, with no regard to workers, or shared between them."""

    def __init__(self, share):
        self.share = share

    def __iter__(self):
        info = paddle.io.get_worker_info() if self.share else None
        start, step = (info.id, info.num_workers) if info else (0, 1)
        for k in range(start, 10, step):
            yield np.array([k], "int64")


def save_for_ever(path):
    """Overwrites one checkpoint again and again; the parent kills us at any time."""
    n = 0
    while True:
        paddle.save({"w": paddle.full([1 << 20], float(n)), "n": n}, path)
        n += 1
        print(n, flush=True)


if __name__ == "__main__":
    save_for_ever(sys.argv[1])
