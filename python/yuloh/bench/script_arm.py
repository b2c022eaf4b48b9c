# SPDX-License-Identifier: Apache-2.0
"""An arm that runs a user's script whole: every block is one run in a fresh process, from start to exit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from . import environments
from .arms import Arm
from .errors import ContenderError


@dataclass
class ScriptArm(Arm):
    """Same face as Arm towards the runner; a "step" is one whole run of the script."""

    request: dict = None

    def calibrate(self, request, thread_choices, allows, timeout) -> None:
        self.request, best = request, None
        for threads in thread_choices:
            self.threads, self.flags = threads, {}
            answer = self.measure(timeout)
            self.record["calibration"].append({"threads": threads, "flags": {}, "step_s": answer["seconds"]})
            self.record["launches"].append(
                {
                    "threads": threads,
                    "flags": {},
                    "batch": request["options"]["batch"],
                    "version": self.environment.version,
                    "import_s": None,
                    "build_s": None,
                    "first_step_s": None,
                    "loss": None,
                    "parameters": 0,
                    "peak_mb": answer["peak_mb"],
                    "rss_mb": answer["peak_mb"],
                }
            )
            if best is None or answer["seconds"] < best[1]:
                best = (threads, answer["seconds"])
            if threads != thread_choices[-1] and not allows(answer["seconds"] * 1.2):
                self.record["calibrated"] = False
                break
        self.threads, self.step_s = best
        self.record.update(threads=self.threads, flags={})

    def choose_block(self, seconds: float) -> None:
        self.block_steps = 1

    def measure(self, timeout: float) -> dict:
        """One run: seconds, CPU seconds and peak memory of the process."""
        framework, script = self.environment.framework, self.request["script"]
        runner = ["-m", "yuloh.cli", "run"] if framework == "yuloh" else []
        env = environments.scrubbed(framework, self.threads, {}, self.environment.contender.kind == "yuloh")
        if framework == "yuloh":
            env["YULOH_NUM_THREADS"] = str(self.threads)
        log = self.logs / f"{''.join(c if c.isalnum() or c in '.-' else '_' for c in self.label)}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as out:
            begin = time.perf_counter()
            process = subprocess.Popen(
                [self.environment.python, *runner, script, *self.request.get("args", [])],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=env,
                cwd=Path(script).parent,
                start_new_session=True,
            )
            status, usage = self._wait(process, begin + timeout)
        seconds = time.perf_counter() - begin
        if status:
            how = f"signal {-status}" if status < 0 else f"code {status}"
            last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
            raise ContenderError(f"{self.label}: the script ended with {how}: {last[:200]} (log: {log}).")
        peak = usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1024)
        return {
            "seconds": seconds,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "losses": [],
            "peak_mb": peak,
            "rss_mb": peak,
        }

    def _wait(self, process, deadline):
        try:
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    return process.returncode, usage
                if time.perf_counter() > deadline:
                    raise ContenderError(f"{self.label}: the script did not end in time, stopped.")
                time.sleep(0.002)
        except BaseException:
            os.killpg(process.pid, 9)
            process.wait()
            raise
