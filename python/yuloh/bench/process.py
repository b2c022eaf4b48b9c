# SPDX-License-Identifier: Apache-2.0
"""One worker process seen from the runner: start, one question and answer at a time, clear words when it
dies."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Dict, Optional

from . import environments, workloads
from .environments import Environment
from .errors import ContenderError

WORKER = workloads.FOLDER / "_worker.py"


class Worker:
    """A running _worker.py. ask() raises ContenderError in one line when the script fails or the process
    dies."""

    def __init__(
        self, environment: Environment, threads: int, flags: Dict[str, object], log: Path, name: str
    ):
        self.name, self.log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        env = environments.scrubbed(
            environment.framework, threads, flags, environment.contender.kind == "yuloh"
        )
        self._log_file = open(log, "ab")
        try:
            self._process = subprocess.Popen(
                [environment.python, str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log_file,
                env=env,
                start_new_session=True,
            )  # Ctrl-C is ours to handle, not the worker's
        except OSError as error:
            self._log_file.close()
            raise ContenderError(
                f"{name}: cannot start {environment.python}: {error.strerror}. "
                "Hint: is the environment still there?"
            ) from None
        self._pending = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, timeout: Optional[float] = None, **fields) -> dict:
        """Sends one request and waits for its answer, at most timeout seconds."""
        try:
            self._process.stdin.write((json.dumps({"do": do, **fields}) + "\n").encode())
            self._process.stdin.flush()
            line = self._line(timeout)
        except (BrokenPipeError, EOFError):
            raise ContenderError(f"{self.name}: {self._obituary()} (log: {self.log}).") from None
        answer = json.loads(line)
        if "error" in answer:
            raise ContenderError(
                f"{self.name}: the script failed at {answer['where']}: {answer['error']} (log: {self.log})."
            )
        return answer

    def _line(self, timeout: Optional[float]) -> bytes:
        deadline = None if timeout is None else time.monotonic() + timeout
        out = self._process.stdout
        while b"\n" not in self._pending:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([out], [], [], left)[0]:
                self.close(kill=True)
                raise ContenderError(
                    f"{self.name}: no answer within {timeout:.0f} s, stopped (log: {self.log})."
                )
            chunk = os.read(out.fileno(), 1 << 16)
            if not chunk:
                raise EOFError
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        return line

    def _obituary(self) -> str:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            code = None
        self.close(kill=True)
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
            reason = " (out of memory?)" if -code == signal.SIGKILL else ""
            return f"the worker was killed by {name}{reason}"
        return f"the worker ended by itself with code {code}"

    def close(self, kill: bool = False) -> None:
        """Ends the process and everything that it started; safe to call twice."""
        if self._process.poll() is None:
            try:
                self._process.stdin.close()
                self._process.wait(timeout=0.1 if kill else 5)
            except (subprocess.TimeoutExpired, OSError):
                pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # its own session: loader workers go too
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log_file):
            try:
                pipe.close()
            except OSError:
                pass
