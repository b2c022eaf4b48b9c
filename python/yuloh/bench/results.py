# SPDX-License-Identifier: Apache-2.0
"""results.json: everything measured, with what is needed to repeat it. Schema: docs/results_schema.md.

The file is rewritten after every block by temp file, fsync and rename, so that whatever ends the run, the
last whole state is on disk.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Callable

SCHEMA = "yuloh-bench/1"


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def write_atomically(path: Path, text: str) -> None:
    """Old or new content, never half of it; OSError passes on after the temp file is removed. A device or pipe is written
    to, as framework/io.py says."""
    from ..framework import io

    io.write_atomically(os.fspath(path), lambda file: file.write(text.encode("utf-8")))


class Results:
    """The growing record of a run. `data` is plain JSON data; save() never loses what was measured before."""

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda text: None):
        self.folder, self._say, self._complained = Path(folder), say, False
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "results.json"
        self.data = {"schema": SCHEMA, "created": now(), "status": "running", "workloads": [], "errors": []}

    def save(self) -> bool:
        """Writes the file. A full disk is said once and does not stop the run: the data stay in memory."""
        try:
            write_atomically(self.path, json.dumps(self.data, indent=1, ensure_ascii=False) + "\n")
            self._complained = False
            return True
        except OSError as error:
            if not self._complained:
                self._say(
                    f"bench: cannot write {self.path}: {error.strerror}. The run goes on and tries "
                    "again after "
                    "every block. Hint: free some space."
                )
            self._complained = True
            return False

    def error(self, line: str) -> None:
        self.data["errors"].append(line)
        self._say(line)
        self.save()


def load(path: Path) -> dict:
    """Reads results.json (or the folder that holds it) and checks that it is one; ValueError or OSError
    otherwise."""
    path = Path(path)
    if path.is_dir():
        path = path / "results.json"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"report: no such file, got {str(path)!r}; expected a results.json of `yuloh bench`. "
            "Hint: run `yuloh bench` first."
        ) from None
    try:
        data = json.loads(text)
        schema = data.get("schema")
    except (ValueError, AttributeError) as error:
        raise ValueError(
            f"report: {path} is not a results file ({error}); expected JSON written by `yuloh bench`. "
            "Hint: the file may be cut off; run the command again."
        ) from None
    if schema != SCHEMA:
        raise ValueError(
            f"report: unknown schema, got {schema!r}; expected {SCHEMA!r}. "
            "Hint: make the report with the version that made the file."
        )
    return data
