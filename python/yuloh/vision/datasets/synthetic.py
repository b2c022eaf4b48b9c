# SPDX-License-Identifier: Apache-2.0
"""Made-up image data in the official file formats: learnable, small, the same bytes for the same seed.

Every class has a colour and a coarse pattern of its own; an image is its class's picture, shifted and mixed
with noise. A manifest inside the archive says that it is synthetic.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle
import sys
import tarfile
import tempfile
from typing import Any

import numpy as np

MANIFEST = "yuloh-synthetic.json"


def class_pictures(classes: int, size: int, channels: int, seed: int) -> np.ndarray:
    """float32 [classes, channels, size, size] in 0..255: smooth patterns on distinct base colours."""
    rng = np.random.RandomState(seed)
    coarse = rng.uniform(-60, 60, (classes, channels, 4, 4))
    # Colours on a grid, dealt at random, keep any two classes apart.
    steps = int(np.ceil(classes ** (1.0 / channels)))
    grid = np.stack(np.meshgrid(*[np.linspace(50, 205, steps)] * channels, indexing="ij"), -1).reshape(
        -1, channels
    )
    base = grid[rng.permutation(len(grid))[:classes]]
    positions = np.clip((np.arange(size) + 0.5) * 4 / size - 0.5, 0, 3)
    low = np.minimum(positions.astype(int), 2)
    weights = np.zeros((size, 4), np.float32)
    weights[np.arange(size), low] = 1 - (positions - low)
    weights[np.arange(size), low + 1] = positions - low
    pattern = np.einsum("hi,ncij,wj->nchw", weights, coarse, weights)
    return (pattern + base[:, :, None, None]).astype(np.float32)


def make_images(pictures: np.ndarray, labels: np.ndarray, seed: int) -> np.ndarray:
    """uint8 [N, channels, size, size]: each label's picture, shifted by up to 3 pixels, brighter or
    darker, noisy.
    """
    rng = np.random.RandomState(seed)
    count, size = len(labels), pictures.shape[-1]
    out = np.empty((count, *pictures.shape[1:]), np.uint8)
    shifts = rng.randint(-3, 4, (count, 2))
    light = rng.uniform(-12, 12, count).astype(np.float32)
    rows = np.arange(size)
    for start in range(0, count, 1000):
        part = slice(start, min(start + 1000, count))
        n = part.stop - part.start
        y = np.clip(rows + shifts[part, :1], 0, size - 1)
        x = np.clip(rows + shifts[part, 1:], 0, size - 1)
        picked = pictures[
            labels[part, None, None], :, y[:, :, None], x[:, None, :]
        ]  # [n, size, size, channels]
        noise = rng.randint(-20, 21, (n, *pictures.shape[1:])).astype(np.float32)
        values = picked.transpose(0, 3, 1, 2) + noise + light[part, None, None, None]
        out[part] = np.clip(values, 0, 255).astype(np.uint8)
    return out


def make_labels(count: int, classes: int, seed: int) -> np.ndarray:
    """int64 [count]: every class equally often, in random order."""
    return np.random.RandomState(seed).permutation(np.arange(count) % classes)


def _split(classes: int, count: int, seed: int, shuffle: bool, pictures: np.ndarray) -> tuple:
    labels = make_labels(count, classes, seed)
    images = make_images(pictures, labels, seed + 1)
    if shuffle:
        labels = np.random.RandomState(seed + 2).permutation(labels)
    return images, labels


def make_synthetic_cifar100(
    path: str, n_train: int = 10000, n_test: int = 2000, seed: int = 0, shuffle_labels: bool = False
) -> str:
    """Write a learnable data set in CIFAR-100's own archive format (tar.gz of pickles); returns `path`.

    With shuffle_labels the labels say nothing about the images: no model can learn them.
    """
    return _make_cifar(path, 100, n_train, n_test, seed, shuffle_labels)


def make_synthetic_cifar10(
    path: str, n_train: int = 10000, n_test: int = 2000, seed: int = 0, shuffle_labels: bool = False
) -> str:
    """As make_synthetic_cifar100, in CIFAR-10's format (five training batches)."""
    return _make_cifar(path, 10, n_train, n_test, seed, shuffle_labels)


def _make_cifar(path: str, classes: int, n_train: int, n_test: int, seed: int, shuffle: bool) -> str:
    if n_train < 1 or n_test < 1:
        raise ValueError(
            f"make_synthetic_cifar{classes}: n_train is {n_train}, n_test {n_test}; expected >= 1."
        )
    pictures = class_pictures(classes, 32, 3, seed)
    train = _split(classes, n_train, seed + 10, shuffle, pictures)
    test = _split(classes, n_test, seed + 20, shuffle, pictures)
    folder = "cifar-100-python" if classes == 100 else "cifar-10-batches-py"
    files: dict = {}
    if classes == 100:
        files["train"] = _cifar100_pickle(*train, "training")
        files["test"] = _cifar100_pickle(*test, "testing")
    else:
        for i, part in enumerate(np.array_split(np.arange(n_train), 5), 1):
            files[f"data_batch_{i}"] = _cifar10_pickle(
                train[0][part], train[1][part], f"training batch {i} of 5"
            )
        files["test_batch"] = _cifar10_pickle(*test, "testing batch 1 of 1")
    manifest = {
        "yuloh_synthetic": 1,
        "classes": classes,
        "n_train": n_train,
        "n_test": n_test,
        "seed": seed,
        "shuffle_labels": shuffle,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    files = {MANIFEST: json.dumps(manifest, indent=1).encode(), **files}
    _write_tar(path, {f"{folder}/{name}": data for name, data in files.items()})
    return path


def _cifar100_pickle(images: np.ndarray, labels: np.ndarray, what: str) -> bytes:
    return _python2_pickle(
        {
            b"filenames": [b"synthetic_%06d.png" % i for i in range(len(labels))],
            b"batch_label": what.encode() + b" batch 1 of 1",
            b"fine_labels": labels.tolist(),
            b"coarse_labels": (labels // 5).tolist(),
            b"data": images.reshape(len(images), -1),
        }
    )


def _cifar10_pickle(images: np.ndarray, labels: np.ndarray, what: str) -> bytes:
    return _python2_pickle(
        {
            b"batch_label": what.encode(),
            b"labels": labels.tolist(),
            b"data": images.reshape(len(images), -1),
            b"filenames": [b"synthetic_%06d.png" % i for i in range(len(labels))],
        }
    )


def _python2_pickle(content: dict) -> bytes:
    """Protocol 2, as the official files: readers load it with encoding='bytes'."""
    return pickle.dumps(content, protocol=2)


def _write_tar(path: str, files: dict) -> None:
    """A .tar.gz with fixed times, written to a temporary file and renamed."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    fd, scratch = tempfile.mkstemp(prefix=".synthetic-", dir=folder)
    try:
        with os.fdopen(fd, "wb") as raw:
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed:
                with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                    for name, data in files.items():
                        info = tarfile.TarInfo(name)
                        info.size = len(data)
                        info.mode = 0o644
                        tar.addfile(info, io.BytesIO(data))
            raw.flush()
            os.fsync(raw.fileno())
        os.chmod(scratch, 0o644)
        os.replace(scratch, path)
    except BaseException:
        if os.path.exists(scratch):
            os.unlink(scratch)
        raise


def make_synthetic_mnist(folder: str, n_train: int = 6000, n_test: int = 1000, seed: int = 0) -> str:
    """Write the four idx files of a learnable MNIST stand-in (28x28, ten classes) to `folder`; returns it."""
    os.makedirs(folder, exist_ok=True)
    pictures = class_pictures(10, 28, 1, seed)
    for name, count, offset in (("train", n_train, 10), ("t10k", n_test, 20)):
        images, labels = _split(10, count, seed + offset, False, pictures)
        header = np.array([2051, count, 28, 28], ">i4").tobytes()
        _write_gz(os.path.join(folder, f"{name}-images-idx3-ubyte.gz"), header + images.tobytes())
        header = np.array([2049, count], ">i4").tobytes()
        _write_gz(
            os.path.join(folder, f"{name}-labels-idx1-ubyte.gz"), header + labels.astype(np.uint8).tobytes()
        )
    return folder


def _write_gz(path: str, data: bytes) -> None:
    scratch = f"{path}.{os.getpid()}.part"
    with open(scratch, "wb") as raw:
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed:
            packed.write(data)
        raw.flush()
        os.fsync(raw.fileno())
    os.replace(scratch, path)


_said: set = set()


def say_once(what: str, path: str) -> None:
    """Tell on stderr, once per data set, that data are made up."""
    if what not in _said:
        _said.add(what)
        print(
            f"yuloh: {what}: using synthetic data ({path}); results say nothing about the real data set.",
            file=sys.stderr,
        )


def check_manifest(files: "dict[str, Any]", manifest: bytes, path: str) -> None:
    """Compare file contents with the manifest of a synthetic archive. Raises ValueError for a difference."""
    try:
        expected = json.loads(manifest)["sha256"]
    except (ValueError, KeyError, TypeError) as e:
        raise ValueError(f"{path}: the manifest {MANIFEST} is unreadable, {e!r}") from e
    for name, data in files.items():
        if expected.get(name) != hashlib.sha256(data).hexdigest():
            raise ValueError(
                f"{path}: {name} does not match its checksum in {MANIFEST}. Hint: delete the archive."
            )
