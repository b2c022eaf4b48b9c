# SPDX-License-Identifier: Apache-2.0
"""Images in folders: one folder per class (DatasetFolder), or just all images below a folder
(ImageFolder).
"""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence

from ...io import Dataset
from ._native import folder_source
from ..image import get_image_backend, image_load, load_rgb

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def default_loader(path: str) -> Any:
    """An RGB PIL image, or what the image backend gives."""
    backend = get_image_backend()
    return load_rgb(path) if backend == "pil" else image_load(path, backend)


def _plain(loader: Any) -> bool:
    return loader is default_loader and get_image_backend() == "pil"


def has_valid_extension(filename: str, extensions: Sequence[str]) -> bool:
    """Whether the name ends in one of `extensions` (case does not matter)."""
    return filename.lower().endswith(tuple(e.lower() for e in extensions))


def _filter(extensions: Any, is_valid_file: Any, what: str) -> Callable[[str], bool]:
    if extensions is not None and is_valid_file is not None:
        raise ValueError(f"{what}: extensions and is_valid_file were both given; expected at most one.")
    if is_valid_file is not None:
        return is_valid_file
    allowed = IMG_EXTENSIONS if extensions is None else tuple(extensions)
    return lambda path: has_valid_extension(path, allowed)


def _files_below(folder: str, valid: Callable[[str], bool]) -> list:
    found = []
    for base, _, names in sorted(os.walk(folder, followlinks=True)):
        found += [path for path in (os.path.join(base, n) for n in sorted(names)) if valid(path)]
    return found


def _check_root(root: str, what: str) -> None:
    if not os.path.isdir(root):
        raise FileNotFoundError(f"{what}: root {root!r} is no folder; expected a folder of images.")


class DatasetFolder(Dataset):
    """One folder per class: root/cat/1.png, root/dog/2.png ... A sample is (image, class number).

    Args:
        loader: path -> image; default reads an RGB image. extensions: allowed file name endings.
        transform: applied to each image. is_valid_file: path -> bool, in place of extensions.

    Attributes: classes (sorted names), class_to_idx, samples (list of (path, class)), targets.
    Raises:
        RuntimeError: no class folder, or no image in them.
    """

    def __init__(
        self,
        root: str,
        loader: "Callable | None" = None,
        extensions: "Sequence[str] | None" = None,
        transform: "Callable | None" = None,
        is_valid_file: "Callable | None" = None,
    ) -> None:
        _check_root(root, "DatasetFolder")
        self.root = root
        self.transform = transform
        valid = _filter(extensions, is_valid_file, "DatasetFolder")
        self.extensions = IMG_EXTENSIONS if extensions is None else extensions
        self.classes, self.class_to_idx = self._find_classes(root)
        self.samples = [
            (path, self.class_to_idx[name])
            for name in self.classes
            for path in _files_below(os.path.join(root, name), valid)
        ]
        if not self.samples:
            raise RuntimeError(
                f"DatasetFolder: found no image in the folders below {root}; expected files ending in "
                f"{', '.join(self.extensions)}."
            )
        self.loader = default_loader if loader is None else loader
        self.targets = [target for _, target in self.samples]
        self.dtype = "float32"

    @staticmethod
    def _find_classes(root: str) -> tuple:
        classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        if not classes:
            raise RuntimeError(f"DatasetFolder: found no folder below {root}; expected one per class.")
        return classes, {name: i for i, name in enumerate(classes)}

    def _native_source_(self) -> Any:
        """For the loader's thread path (io/native.py); None where only Python gives the right samples."""
        if type(self).__getitem__ is not DatasetFolder.__getitem__ or not _plain(self.loader):
            return None
        samples = self.samples
        return folder_source(
            samples, self.transform, lambda i: samples[i][0], lambda order: [samples[i][1] for i in order]
        )

    def __getitem__(self, index: int) -> tuple:
        path, target = self.samples[index]
        sample = self.loader(path)
        return (sample if self.transform is None else self.transform(sample)), target

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(Dataset):
    """All images below a folder, without labels. A sample is the list [image].

    Args and errors: as DatasetFolder. Attributes: samples (list of paths).
    """

    def __init__(
        self,
        root: str,
        loader: "Callable | None" = None,
        extensions: "Sequence[str] | None" = None,
        transform: "Callable | None" = None,
        is_valid_file: "Callable | None" = None,
    ) -> None:
        _check_root(root, "ImageFolder")
        self.root = root
        self.transform = transform
        self.extensions = IMG_EXTENSIONS if extensions is None else extensions
        self.samples = _files_below(root, _filter(extensions, is_valid_file, "ImageFolder"))
        if not self.samples:
            raise RuntimeError(
                f"ImageFolder: found no image below {root}; expected files ending in "
                f"{', '.join(self.extensions)}."
            )
        self.loader = default_loader if loader is None else loader

    def _native_source_(self) -> Any:
        """As DatasetFolder's."""
        if type(self).__getitem__ is not ImageFolder.__getitem__ or not _plain(self.loader):
            return None
        return folder_source(self.samples, self.transform, self.samples.__getitem__, None)

    def __getitem__(self, index: int) -> list:
        sample = self.loader(self.samples[index])
        return [sample if self.transform is None else self.transform(sample)]

    def __len__(self) -> int:
        return len(self.samples)
