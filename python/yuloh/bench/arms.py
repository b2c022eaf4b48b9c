# SPDX-License-Identifier: Apache-2.0
"""An arm: one contender in one variant (precision, fusion) on one workload, with everything measured about
it.

Calibration starts the arm with 1 and 2 threads (and the machine's own count), then with the framework's
library flags, and keeps the fastest, so that every contender runs at its best.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Callable, Dict, List, Optional

from .environments import Environment
from .errors import ContenderError
from .process import Worker

KEPT_LOSSES = 400
#: Library flags tried per framework, besides none.
FLAGS: Dict[str, List[dict]] = {
    "torch": [{"channels_last": True, "fused_adam": True}],
    "paddle": [{"FLAGS_use_mkldnn": 1}],
    "yuloh": [],
}
#: Flags that the thread trial starts with (the framework's usual best; the flag trial confirms it).
FIRST_FLAGS: Dict[str, dict] = {
    "torch": {"channels_last": True, "fused_adam": True},
    "paddle": {},
    "yuloh": {},
}


@dataclass
class Arm:
    """label: what tables show; record: the arm's part of results.json."""

    environment: Environment
    precision: str
    fusion: Optional[bool]
    label: str
    label_zh: str
    logs: Path
    threads: int = 1
    flags: dict = field(default_factory=dict)
    worker: Optional[Worker] = None
    step_s: float = 0.0
    trial_s: float = 0.0  # what starting and trying it once took
    record: dict = field(default_factory=dict)
    block_steps: int = 1
    compiled: bool = False  # torch.compile around the model

    def begin_record(self) -> dict:
        self.record = {
            "id": self.label,
            "label": self.label,
            "label_zh": self.label_zh,
            "contender": self.environment.contender.name,
            "framework": self.environment.framework,
            "version": self.environment.version,
            "precision": self.precision,
            "fusion": self.fusion,
            "launches": [],
            "calibration": [],
            "calibrated": True,
            "blocks": [],
            "losses": [],
            "error": None,
            "left_out": None,
        }
        return self.record

    def ready(self) -> bool:
        """Can be measured: neither broken nor left out for lack of time."""
        return not self.record["error"] and not self.record["left_out"]

    def leave_out(self, why: str) -> None:
        """The limit does not allow for this arm; nothing is wrong with it."""
        self.record["left_out"] = why

    def fixed_flags(self) -> dict:
        fixed = {} if self.fusion is None else {"FLAGS_fusion": int(self.fusion)}
        return {**fixed, "compile": True} if self.compiled else fixed

    def start(self, threads: int, flags: dict, request: dict, timeout: float) -> Worker:
        """A new worker of this arm up to and including its first step; the launch goes into the record."""
        log = self.logs / ("".join(c if c.isalnum() or c in ".-" else "_" for c in self.label) + ".log")
        worker = Worker(self.environment, threads, flags, log, self.label)
        try:
            options = dict(
                request["options"], precision=self.precision, flags={**flags, **self.fixed_flags()}
            )
            if self.environment.framework == "paddle":  # Paddle's flags went in by the environment
                options["flags"] = None
            opened = worker.ask(
                "open",
                timeout=timeout,
                framework=self.environment.framework,
                threads=threads,
                script=request["script"],
                options=options,
            )
        except BaseException:
            worker.close(kill=True)
            raise
        self.record["launches"].append(
            {"threads": threads, "flags": flags, "batch": options["batch"], **opened}
        )
        return worker

    def calibrate(
        self, request: dict, thread_choices: List[int], allows: Callable[..., bool], timeout: float
    ) -> None:
        """Finds the best threads and flags; leaves the best worker running, warmed up, in self.worker.

        Thread counts may take twice the time that flags may: on a busy machine they decide more.
        """
        framework = self.environment.framework
        first_flags, best_s, cost = FIRST_FLAGS[framework], math.inf, 0.0
        thread_trials = [(t, first_flags) for t in thread_choices]
        for trials, share in ((lambda: thread_trials, 2.0), (self._flag_trials, 1.0)):
            for threads, flags in trials():
                if self.worker and not allows(cost * 1.2, share):
                    self.record["calibrated"] = False  # said in the report: it may not be at its best
                    continue
                try:
                    worker, step_s, cost, losses = self._trial(
                        threads, flags, request, timeout, best_s, lambda s, share=share: allows(s, share)
                    )
                except ContenderError as error:
                    if not self.worker:  # not a single setting has worked so far
                        raise
                    failed = {"threads": threads, "flags": flags, "step_s": None, "error": str(error)}
                    self.record["calibration"].append(failed)
                    continue
                if step_s >= best_s:
                    worker.close()
                    continue
                self.close()
                self.worker, self.step_s, self.threads, self.flags = worker, step_s, threads, flags
                self.record.update(threads=threads, flags=flags, losses=[])
                best_s = step_s
                self.keep_losses(losses)  # the curve goes on from the chosen worker's very first step

    def _flag_trials(self):
        """The library flags not yet tried, at the best thread count."""
        framework = self.environment.framework
        first = FIRST_FLAGS[framework]
        return [(self.threads, f) for f in [*([{}] if first else []), *FLAGS[framework]] if f != first]

    def _trial(self, threads, flags, request, timeout, best_step, allows):
        begin = time.monotonic()
        worker = self.start(threads, flags, request, timeout)
        try:
            losses = [self.record["launches"][-1]["loss"]]
            times: List[float] = []
            losses += worker.ask("steps", timeout=timeout, n=1)["losses"]
            while len(times) < 3 or (sum(times) < 0.6 and len(times) < 40):
                answer = worker.ask("steps", timeout=timeout, n=1)
                times.append(answer["seconds"])
                losses += answer["losses"]
                if min(times) > 1.4 * best_step or len(times) >= 2 and sum(times) > 6 or not allows(times[-1]):
                    break  # clearly slower than another setting, or long enough
        except BaseException:
            worker.close(kill=True)
            raise
        step = median(times)
        self.record["calibration"].append({"threads": threads, "flags": flags, "step_s": step})
        return worker, step, time.monotonic() - begin, losses

    def keep_losses(self, losses: List[float]) -> None:
        """Adds to the loss curve (JSON knows no NaN: None stands for it) up to KEPT_LOSSES steps."""
        held = self.record["losses"]
        room = max(0, KEPT_LOSSES - len(held))
        held += [float(f"{x:.6g}") if math.isfinite(x) else None for x in losses[:room]]

    def choose_block(self, seconds: float) -> None:
        """Steps of one timed block, so that it lasts about that long."""
        self.block_steps = int(min(500, max(1, round(seconds / self.step_s))))

    def measure(self, timeout: float) -> dict:
        """One timed block: the worker's answer with seconds, cpu_s, losses, peak_mb, rss_mb."""
        return self.worker.ask("steps", timeout=timeout, n=self.block_steps)

    def close(self) -> None:
        if self.worker:
            self.worker.close()
            self.worker = None
