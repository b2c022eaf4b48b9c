# SPDX-License-Identifier: Apache-2.0
"""The files that `yuloh advise` writes: never over what it reads, nor over a file that it did not write."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import List

# In the first lines of each file; what carries it may be written anew.
MARKS = {"html": b'<meta name="generator" content="yuloh advise">', "fleet": b"# written by yuloh advise --fleet"}
HEAD = 4096


def check(args) -> None:
    """Raises ValueError, before anything is reckoned, for an output that must not be written: it is read too, or is
    somebody else's file. A device or a pipe may be written to."""
    inputs, outputs = _inputs(args), {o: getattr(args, o) for o in MARKS if getattr(args, o) is not None}
    for option, name in outputs.items():
        if not name.isprintable() or not name:
            raise ValueError(f"advise: --{option} must name a file in printable letters, got {name!r}.")
        for what, path in inputs:
            if _same(name, path):
                raise ValueError(f"advise: --{option} {name} would overwrite {what}. Hint: name another file.")
        if _foreign(name, MARKS[option]):
            raise ValueError(f"advise: --{option} {name} is there already and not of yuloh advise. Hint: remove it, or name another file.")
    if len(outputs) == 2 and _same(*outputs.values()):
        raise ValueError(f"advise: --html and --fleet are one file, got {args.fleet}. Hint: name two.")


def _inputs(args) -> List[tuple]:
    """(words, path) of the files that are read."""
    found = [(f"--{o.replace('_', '-')}", getattr(args, o)) for o in ("prices", "devices_file") if getattr(args, o)]
    if args.model:
        file = args.model.split(".py:", 1)[0] + ".py" if ".py:" in args.model else args.model
        stem = os.path.splitext(file)[0]
        # A saved model is two files, named by either or by what they have in common.
        ends = (".json", ".pdmodel", ".pdiparams") if ".py" not in args.model else ()
        found += [("the model", name) for name in (file, *(base + end for base in (file, stem) for end in ends))]
    return found


def _same(one: str, other: str) -> bool:
    """Whether both names lead to one regular file, which need not be there yet."""
    try:
        return os.path.samefile(one, other) and stat.S_ISREG(os.stat(one).st_mode)
    except FileNotFoundError:
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):
        return False


def _foreign(name: str, mark: bytes) -> bool:
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            return False
        with open(name, "rb") as file:
            head = file.read(HEAD)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ValueError(f"advise: cannot write {name} ({error.strerror}).") from None
    return bool(head) and mark not in head


def write_script(name: str, text: str) -> None:
    """The old or the new script, never half of one. Raises OSError."""
    from ..bench.results import write_atomically

    try:
        write_atomically(Path(name), f"{MARKS['fleet'].decode()}\n{text}")
    except OSError as error:  # which names the temporary file
        raise OSError(error.errno, error.strerror, name) from None
