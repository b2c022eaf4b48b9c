# SPDX-License-Identifier: Apache-2.0
"""Where data files lie, whether they are whole, and how they get there.

Looked for in the folder of YULOH_DATA_HOME, then in Yuloh's cache, then in Paddle's.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import sys
import tarfile
import time
import urllib.error
import urllib.request
from typing import Any, Iterator, Sequence

_CHUNK = 1 << 20
_OF_DATA = (
    "pass data_file= to use a file of your own",
    "use made-up data: yuloh run --data synthetic SCRIPT (YULOH_DATA=synthetic)",
)


def data_folders(name: str) -> list:
    """Folders that may hold the files of data set `name`, in the order in which they are searched."""
    home = os.path.join(os.path.expanduser("~"), ".cache")
    own = os.environ.get("YULOH_DATA_HOME")
    roots = ([own] if own else []) + [
        os.path.join(home, "yuloh", "dataset"),
        os.path.join(home, "paddle", "dataset"),
    ]
    return [os.path.join(root, name) for root in roots]


def data_mode() -> str:
    """ "auto", "synthetic", or the path of an archive: what YULOH_DATA (``--data``) says."""
    return os.environ.get("YULOH_DATA") or "auto"


def find(name: str, filename: str) -> "str | None":
    """Path of `filename` of data set `name` in the first folder that has it."""
    return find_in(data_folders(name), filename)


def find_in(folders: Sequence[str], filename: str) -> "str | None":
    for folder in folders:
        path = os.path.join(folder, filename)
        if os.path.isfile(path):
            return path
    return None


def md5_of(path: str) -> str:
    digest = hashlib.md5()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(_CHUNK), b""):
            digest.update(block)
    return digest.hexdigest()


def obtain(
    what: str,
    folders: Sequence[str],
    filename: str,
    md5: str,
    urls: Sequence[str],
    download: bool = True,
    hints: "tuple[str, str]" = _OF_DATA,
) -> str:
    """Path of a verified `filename` in one of `folders`; downloaded into the first one if it is in none and
    `download` allows it. `hints`: how to go on with a file of one's own, and without a network.

    Raises:
        RuntimeError: a damaged file in the cache, or no network; the message names the file and the folder.
        ValueError: the file is missing and download is False.
    """
    path = find_in(folders, filename)
    if path is not None:
        got = md5_of(path)
        if got != md5:
            raise RuntimeError(
                f"{what}: {path} is damaged or not the official file, got MD5 {got} and "
                f"{os.path.getsize(path)} bytes; expected MD5 {md5}. Hint: delete it, or {hints[0]}."
            )
        return path
    if not download:
        raise ValueError(
            f"{what}: {filename} lies in none of {list(folders)} and download is False. "
            f"Hint: put it into {folders[0]}."
        )
    return _download(what, folders[0], filename, md5, urls, hints[1])


def _download(what: str, folder: str, filename: str, md5: str, urls: Sequence[str], hint: str) -> str:
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, filename)
    part = f"{target}.{os.getpid()}.part"
    reasons = []
    try:
        for url in urls:
            try:
                _fetch(url, part)
            except (urllib.error.URLError, OSError, ValueError) as e:
                reasons.append(f"{url}: {getattr(e, 'reason', e)}")
                continue
            got = md5_of(part)
            if got == md5:
                os.replace(part, target)
                return target
            reasons.append(f"{url}: MD5 {got}, expected {md5}")
    finally:
        if os.path.exists(part):
            os.unlink(part)
    raise RuntimeError(
        f"{what}: {filename} is missing and could not be downloaded ({'; '.join(reasons)}); expected it "
        f"in {folder}. "
        f"Hint: copy the file there by hand, or {hint}."
    )


def _fetch(url: str, path: str) -> None:
    with urllib.request.urlopen(url, timeout=15) as source, open(path, "wb") as sink:
        size = int(source.headers.get("Content-Length") or 0)
        done, started, shown = 0, time.monotonic(), 0.0
        for block in iter(lambda: source.read(_CHUNK), b""):
            sink.write(block)
            done += len(block)
            now = time.monotonic()
            if now - shown > 0.2 or done == size:
                shown = now
                _show(os.path.basename(path).split(".part")[0], done, size, now - started)
        sink.flush()
        os.fsync(sink.fileno())
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if size and done != size:
        raise OSError(f"connection ended after {done} of {size} bytes")


def _show(name: str, done: int, size: int, seconds: float) -> None:
    if not sys.stderr.isatty():
        return
    mib = done / 2**20
    rate = mib / max(seconds, 1e-9)
    if size:
        filled = int(30 * done / size)
        bar = "#" * filled + "." * (30 - filled)
        text = f"[{bar}] {100 * done / size:5.1f} %  {mib:.1f} of {size / 2**20:.1f} MiB  {rate:.1f} MiB/s"
    else:
        text = f"{mib:.1f} MiB  {rate:.1f} MiB/s"
    print(f"\r{name} {text}", end="", file=sys.stderr, flush=True)


class _NumbersOnly(pickle.Unpickler):
    """Unpickler that builds containers, strings, numbers and NumPy arrays, and nothing else."""

    _ALLOWED = {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
        ("collections", "OrderedDict"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it wants to run {module}.{name}, which no data file needs")
        if module.startswith("numpy") and "multiarray" in module:
            import numpy as np

            core = getattr(np, "_core", None) or np.core
            return getattr(core.multiarray, name)
        return super().find_class(module, name)


def unpickle(data: bytes, where: str) -> Any:
    """The object in `data` (bytes keys, as Python 2 wrote them). Raises ValueError naming `where`."""
    try:
        return _NumbersOnly(io.BytesIO(data), encoding="bytes").load()
    except Exception as e:
        raise ValueError(f"{where}: not a readable pickle, {e}") from e


def tar_members(path: str, wanted: Any) -> Iterator[tuple]:
    """(name, bytes) of the plain files in a .tar.gz for which ``wanted(name)``.

    Raises ValueError naming the file when it is no archive, or a damaged one.
    """
    try:
        with tarfile.open(path, "r:gz") as tar:
            for member in tar:
                if member.isfile() and wanted(member.name):
                    source = tar.extractfile(member)
                    if source is not None:
                        yield member.name, source.read()
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, OSError) as e:
        if isinstance(e, FileNotFoundError):
            raise
        raise ValueError(f"{path}: not a readable .tar.gz archive, {type(e).__name__}: {e}") from e
    except Exception as e:  # zlib.error
        if type(e).__module__ != "zlib":
            raise
        raise ValueError(f"{path}: damaged .tar.gz archive, {e}") from e
