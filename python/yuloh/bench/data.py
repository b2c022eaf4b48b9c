# SPDX-License-Identifier: Apache-2.0
"""Image data for the workloads: CIFAR-100's archive when it is there, else the synthetic one in the same
format.

The archive is read by Yuloh's own dataset class (checksum verified there), and a part of it is laid down once
as an .npz file, so that every contender trains on the very same pixels without needing Yuloh.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import numpy as np

IMAGES = 8192  # images in the shared file


@dataclass(frozen=True)
class ImageData:
    """source: "cifar100" or "synthetic"; archive: the .tar.gz; images: .npz (uint8 [n,3,32,32], int64
    [n])."""

    source: str
    archive: Optional[str]
    images: Optional[str]
    note: str


def prepare(choice: str, folder: Path, say: Callable[[str], None] = lambda text: None) -> ImageData:
    """choice: "auto", "synthetic" or the path of an archive. Raises what the dataset raises for a damaged
    archive."""
    from ..vision import datasets

    folder.mkdir(parents=True, exist_ok=True)
    if choice == "auto":
        archive = find_archive()
        choice = str(archive) if archive else "synthetic"
    if choice == "synthetic":
        archive = folder / "synthetic-cifar-100-python.tar.gz"
        if not archive.exists():
            say("making the synthetic data set")
            scratch = archive.with_name("making-" + archive.name)
            datasets.make_synthetic_cifar100(str(scratch))
            scratch.replace(archive)
        source, note = (
            "synthetic",
            "synthetic images in CIFAR-100's format (the official archive was not in the cache)",
        )
    else:
        archive = Path(choice)
        if not archive.is_file():
            raise FileNotFoundError(
                f"bench: no such data file, got {choice!r}; expected the CIFAR-100 archive "
                "cifar-100-python.tar.gz. Hint: --data synthetic needs no file."
            )
        source, note = "cifar100", "CIFAR-100, official archive"
    images = folder / f"{source}-{archive.stat().st_size}-{IMAGES}.npz"
    if not images.exists():
        say("reading the images")
        _write_images(
            datasets.Cifar100(data_file=str(archive), mode="train", download=False, backend="cv2"), images
        )
    return ImageData(source, str(archive), str(images), note)


def find_archive() -> Optional[Path]:
    """The official archive where Yuloh's datasets keep it, or None."""
    from ..vision import datasets

    finder = getattr(datasets, "cifar100_archive", None)
    path = finder() if finder else None
    return Path(path) if path and Path(path).is_file() else None


def _write_images(dataset, path: Path) -> None:
    count = min(IMAGES, len(dataset))
    pixels, labels = np.empty((count, 3, 32, 32), np.uint8), np.empty(count, np.int64)
    for i in range(count):
        image, label = dataset[i]
        array = np.asarray(image)
        pixels[i] = array.transpose(2, 0, 1) if array.shape[-1] == 3 else array
        labels[i] = int(np.asarray(label).reshape(-1)[0])
    scratch = path.with_suffix(".tmp.npz")
    np.savez(scratch, images=pixels, labels=labels)
    scratch.replace(path)
