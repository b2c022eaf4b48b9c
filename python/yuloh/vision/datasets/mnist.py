# SPDX-License-Identifier: Apache-2.0
"""MNIST and FashionMNIST, read from their idx files."""

from __future__ import annotations

import gzip
import os
import zlib
from typing import Any

import numpy as np

from . import _files, synthetic
from ._array import ImageArrayDataset

_MD5 = {
    "mnist": {
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    },
    "fashion-mnist": {
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    },
}


class MNIST(ImageArrayDataset):
    """MNIST: 60,000 training and 10,000 test images of 28x28 grey pixels, ten classes.

    Args:
        image_path, label_path: the idx files (gzip or plain); None takes them from the cache folder (checksum
            verified) or downloads them.
        mode: "train" or "test". transform: applied to each image. backend: "pil" (an "L" image) or "cv2"
            (an array [28, 28]). download: whether they may be fetched.

    A sample is (image, int64 label of shape [1]).
    """

    NAME = "mnist"
    _arrays_are_float = True
    _sources = ("https://dataset.bj.bcebos.com/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/")

    def __init__(
        self,
        image_path: "str | None" = None,
        label_path: "str | None" = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,
        backend: "str | None" = None,
    ) -> None:
        what = type(self).__name__
        if not isinstance(mode, str) or mode.lower() not in ("train", "test"):
            raise ValueError(f"{what}: mode is {mode!r}; expected 'train' or 'test'.")
        super().__init__(transform, backend)
        self.mode = mode.lower()
        prefix = "train" if self.mode == "train" else "t10k"
        self.image_path = image_path or self._find(f"{prefix}-images-idx3-ubyte.gz", download)
        self.label_path = label_path or self._find(f"{prefix}-labels-idx1-ubyte.gz", download)
        images = read_idx(self.image_path, 3, what)
        labels = read_idx(self.label_path, 1, what)
        if len(images) != len(labels):
            raise ValueError(f"{what}: got {len(images)} images and {len(labels)} labels; expected as many.")
        self._set_arrays(images, labels.astype(np.int64)[:, None])

    def _find(self, filename: str, download: bool) -> str:
        what = type(self).__name__
        if _files.data_mode() == "synthetic":
            folder = os.path.join(_files.data_folders(self.NAME)[0], "synthetic")
            if not os.path.isfile(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")):
                synthetic.make_synthetic_mnist(folder)
            synthetic.say_once(what, folder)
            return os.path.join(folder, filename)
        urls = [source + filename for source in self._sources]
        return _files.obtain(
            what, _files.data_folders(self.NAME), filename, _MD5[self.NAME][filename], urls, download
        )

    @property
    def images(self) -> np.ndarray:
        """uint8 [N, 784]: the pixels."""
        return self._images.reshape(len(self), -1)

    @property
    def labels(self) -> np.ndarray:
        """int64 [N, 1]."""
        return self._targets


class FashionMNIST(MNIST):
    """Fashion-MNIST: clothes in MNIST's format."""

    NAME = "fashion-mnist"
    _sources = (
        "https://dataset.bj.bcebos.com/fashion_mnist/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    )


def read_idx(path: str, ndim: int, what: str) -> np.ndarray:
    """The uint8 array of an idx file with `ndim` axes. Raises ValueError naming the file when it is
    damaged.
    """
    try:
        opener = gzip.open if path.endswith(".gz") else open
        with opener(path, "rb") as f:
            data = f.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as e:
        raise ValueError(f"{what}: {path} is damaged, {e}") from e
    if len(data) < 4 + 4 * ndim or data[:4] != bytes([0, 0, 8, ndim]):
        raise ValueError(
            f"{what}: {path} is no idx file of {ndim} axes; its first bytes are {data[:4].hex()}."
        )
    shape = np.frombuffer(data, ">i4", ndim, 4).tolist()
    size = len(data) - 4 - 4 * ndim
    if min(shape) < 0 or size != int(np.prod(shape, dtype=np.int64)):
        raise ValueError(
            f"{what}: {path} holds {size} bytes; expected {shape} by its header. It may be cut off."
        )
    return np.frombuffer(data, np.uint8, offset=4 + 4 * ndim).reshape(shape)
