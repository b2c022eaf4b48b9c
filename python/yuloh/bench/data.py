# SPDX-License-Identifier: Apache-2.0
"""Image data for the workloads: CIFAR-100's archive when it is there, else the synthetic one in the same
format.

The archive is read by Yuloh's own dataset class (checksum verified there), and a part of it is laid down once
as an .npz file, so that every contender trains on the very same pixels without needing Yuloh.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import numpy as np

from ..vision import datasets

IMAGES = 8192  # images in the shared file


@dataclass(frozen=True)
class ImageData:
    """source: "cifar100", "synthetic" or "file"; archive: the .tar.gz; images: .npz (uint8 [n,3,32,32], int64
    [n])."""

    source: str
    archive: Optional[str]
    images: Optional[str]
    note: str


def prepare(choice: str, folder: Path, say: Callable[[str], None] = lambda text: None) -> ImageData:
    """choice: "auto", "synthetic" or the path of an archive. Raises what the dataset raises for a damaged
    archive."""
    folder.mkdir(parents=True, exist_ok=True)
    if choice == "auto":
        archive = datasets.cifar100_archive()
        if archive:
            return _official(Path(archive), folder, say)
        choice = "synthetic"
    if choice == "synthetic":
        archive = folder / "synthetic-cifar-100-python.tar.gz"
        if not archive.exists():
            say("making the synthetic data set")
            scratch = archive.with_name("making-" + archive.name)
            datasets.make_synthetic_cifar100(str(scratch))
            scratch.replace(archive)
        note = "synthetic images in CIFAR-100's format (the official archive was not in the cache)"
        return _laid_down("synthetic", archive, folder, note, {"data_file": str(archive)}, say)
    archive = Path(choice).expanduser()
    if not archive.is_file():
        raise FileNotFoundError(
            f"bench: no such data file, got {choice!r}; expected an archive like cifar-100-python.tar.gz. "
            "Hint: --data synthetic needs no file."
        )
    return _laid_down("file", archive, folder, f"archive {archive.name}", {"data_file": str(archive)}, say)


def _official(archive: Path, folder: Path, say) -> ImageData:
    """Lets the dataset find the archive itself, since only then does it verify the official checksum."""
    wish = os.environ.pop("YULOH_DATA", None)
    try:
        return _laid_down("cifar100", archive, folder, "CIFAR-100, official archive", {}, say)
    finally:
        if wish is not None:
            os.environ["YULOH_DATA"] = wish


def _laid_down(source: str, archive: Path, folder: Path, note: str, where: dict, say) -> ImageData:
    images = folder / f"{source}-{archive.stat().st_size}-{IMAGES}.npz"
    if not images.exists():
        say("reading the images")
        _write_images(datasets.Cifar100(mode="train", download=False, backend="cv2", **where), images)
    return ImageData(source, str(archive), str(images), note)


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
