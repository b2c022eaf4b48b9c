# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10 and CIFAR-100, read straight from the official archive (or a synthetic one of the same format)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from . import _files, synthetic
from ._array import ImageArrayDataset

# data set -> (archive, MD5, member prefixes for train and test, label key)
_KINDS = {
    "Cifar10": (
        "cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        {"train": "data_batch", "test": "test_batch"},
        b"labels",
    ),
    "Cifar100": (
        "cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        {"train": "train", "test": "test"},
        b"fine_labels",
    ),
}
_SOURCES = ("https://dataset.bj.bcebos.com/cifar/", "https://www.cs.toronto.edu/~kriz/")


def cifar100_archive() -> "str | None":
    """Path of the official CIFAR-100 archive in the cache folders (not verified), or None."""
    return _files.find("cifar", _KINDS["Cifar100"][0])


class _Cifar(ImageArrayDataset):
    _kind = ""

    def __init__(
        self,
        data_file: "str | None" = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,
        backend: "str | None" = None,
    ) -> None:
        what = self._kind
        if not isinstance(mode, str) or mode.lower() not in ("train", "test"):
            raise ValueError(f"{what}: mode is {mode!r}; expected 'train' or 'test'.")
        super().__init__(transform, backend)
        self.mode = mode.lower()
        self.data_file = self._find(what, data_file, download)
        self._load(what)

    @staticmethod
    def _find(what: str, data_file: "str | None", download: bool) -> str:
        filename, md5, _, _ = _KINDS[what]
        if data_file is not None:
            if not os.path.isfile(data_file):
                raise FileNotFoundError(
                    f"{what}: data_file {data_file!r} does not exist; expected {filename}."
                )
            return data_file
        mode = _files.data_mode()
        if mode == "synthetic":
            return _synthetic(what)
        if mode != "auto":
            if not os.path.isfile(mode):
                raise FileNotFoundError(
                    f"{what}: YULOH_DATA is {mode!r}; expected auto, synthetic or an archive."
                )
            return mode
        return _files.obtain(
            what, _files.data_folders("cifar"), filename, md5, [s + filename for s in _SOURCES], download
        )

    def _load(self, what: str) -> None:
        _, _, prefixes, key = _KINDS[what]
        prefix, path = prefixes[self.mode], self.data_file
        members: dict = {}
        manifest = None
        wanted = lambda name: os.path.basename(name).startswith(prefix) or name.endswith(synthetic.MANIFEST)  # noqa: E731
        try:
            for name, data in _files.tar_members(path, wanted):
                if name.endswith(synthetic.MANIFEST):
                    manifest = data
                else:
                    members[os.path.basename(name)] = data
            if manifest is not None:
                synthetic.check_manifest(members, manifest, path)
                synthetic.say_once(what, path)
            parts = [self._parse(f"{path}: {name}", members[name], key) for name in sorted(members)]
        except ValueError as e:
            raise ValueError(f"{what}: {e}") from e
        if not parts:
            raise ValueError(
                f"{what}: {path} has no member {prefix}*; expected the official archive's layout."
            )
        images = np.concatenate([p[0] for p in parts])
        labels = np.concatenate([p[1] for p in parts])
        self._set_arrays(images.reshape(-1, 3, 32, 32), labels)

    @staticmethod
    def _parse(where: str, data: bytes, key: bytes) -> tuple:
        content = _files.unpickle(data, where)
        images = content.get(b"data") if isinstance(content, dict) else None
        labels = content.get(key) if isinstance(content, dict) else None
        if (
            not isinstance(images, np.ndarray)
            or images.ndim != 2
            or images.shape[1] != 3072
            or labels is None
        ):
            raise ValueError(f"{where}: expected a dict with b'data' [N, 3072] and {key!r}")
        labels = np.asarray(labels, dtype=np.int64)
        if labels.shape != (len(images),):
            raise ValueError(f"{where}: got {len(images)} images and labels of shape {labels.shape}")
        return images.astype(np.uint8, copy=False), labels

    @property
    def data(self) -> list:
        """Samples as a list of (uint8 [3072], label), as Paddle keeps them."""
        return list(zip(self._images.reshape(len(self), -1), self._targets.tolist()))


def _synthetic(what: str) -> str:
    folder = _files.data_folders("cifar")[0]
    path = os.path.join(folder, "synthetic-" + _KINDS[what][0])
    if not os.path.isfile(path):
        make = synthetic.make_synthetic_cifar100 if what == "Cifar100" else synthetic.make_synthetic_cifar10
        make(path)
    return path


class Cifar10(_Cifar):
    """CIFAR-10: 50,000 training and 10,000 test images of 32x32, ten classes.

    Args:
        data_file: the archive; None takes it from the cache folder (checksum verified) or downloads it.
        mode: "train" or "test". transform: applied to each image. backend: "pil" or "cv2".
        download: whether it may be fetched.

    A sample is (image, int64 label).
    """

    _kind = "Cifar10"


class Cifar100(_Cifar):
    """CIFAR-100: as Cifar10, with 100 classes (the fine labels)."""

    _kind = "Cifar100"
