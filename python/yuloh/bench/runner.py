# SPDX-License-Identifier: Apache-2.0
"""Runs the performance test: environments, calibration, interleaved rounds until the judge decides, then the
extras.

Everything measured goes into Results at once, so Ctrl-C, a spent budget or a dying contender loses nothing.
"""

from __future__ import annotations

import math
import time
from typing import List, Optional

from . import environments, machine, peaks, statistics
from .arms import Arm
from .budget import Budget
from .errors import BudgetSpent, ContenderError
from .results import Results, now
from .script_arm import ScriptArm
from .settings import Script, Settings
from .sweep import measure_loader, measure_sweep
from .watch import Watch

BLOCK_S = 0.35  # aimed length of one timed block; a round has two of each arm
FIRST_LOSS = {"fp32": 1e-3, "bf16": 5e-2}  # largest relative difference of first losses from the same weights


class Progress:
    """What the command line shows; this one is silent. cli.progress has the bar."""

    def say(self, text: str) -> None: ...

    def phase(self, text: str) -> None: ...

    def advance(self, fraction: float) -> None: ...


class Runner:
    """One `yuloh bench` command."""

    def __init__(
        self, settings: Settings, results: Results, budget: Budget, progress: Optional[Progress] = None
    ):
        self.settings, self.results, self.budget = settings, results, budget
        self.progress = progress or Progress()
        self.images = None  # data.ImageData, where a workload wants pictures
        self.arms: List[Arm] = []
        self.watch: Optional[Watch] = None

    # -- the whole run ---------------------------------------------------------------------------------
    def run(self) -> dict:
        """Runs everything and returns the data of results.json; "status" says how it ended."""
        record = self.results.data
        record.update(
            environment=machine.describe(),
            options=self.settings.describe(),
            seed=self.settings.seed,
            contenders=[],
            data=None,
            judge={"looks": statistics.LOOKS, "floor": statistics.FLOOR},
        )
        try:
            found = self._environments()
            self._data()
            self.budget.start_measuring()
            self.progress.phase("measuring this machine")
            record["environment"]["peaks"] = peaks.measure(0.03)
            for i, workload in enumerate(self.settings.workloads):
                self._workload(workload, found, share=1 / (len(self.settings.workloads) - i))
            failed = all(a["error"] for w in record["workloads"] for a in w["arms"])
            spent = any(
                w.get("ended") == "budget" or any(a["left_out"] for a in w["arms"])
                for w in record["workloads"]
            )
            record["status"] = "failed" if failed else "budget" if spent else "complete"
        except KeyboardInterrupt:
            record["status"] = "interrupted"
        except BudgetSpent as end:
            record["status"] = "budget"
            self.progress.say(f"bench: stopped by the limit: {end}")
        finally:
            self._close_arms()
            record.update(finished=now(), budget=self.budget.describe())
            self.results.save()
        return record

    def _environments(self) -> list:
        found = []
        for contender in self.settings.contenders:
            self.progress.phase(f"environment of {contender.name}")
            if not self.budget.allows(1) and self.budget.money:
                raise BudgetSpent("less than 1 s is left while environments are made. Hint: a larger --budget")
            try:
                environment = environments.prepare(contender, self.progress.say)
                found.append(environment)
                self.results.data["contenders"].append({**environment.describe(), "error": None})
            except ContenderError as error:
                self.results.data["contenders"].append(
                    {"name": contender.name, "spec": contender.spec, "error": str(error)}
                )
                self.results.error(str(error))
        return found

    def _data(self) -> None:
        if not any(w.data == "cifar100" for w in self.settings.workloads):
            return
        self.progress.phase("data")
        folder = environments.cache_folder() / "bench"
        from . import data  # loads the vision part: only where pictures are wanted

        self.images = data.prepare(self.settings.data, folder, self.progress.say)
        self.results.data["data"] = {"source": self.images.source, "note": self.images.note}

    # -- one workload ----------------------------------------------------------------------------------
    def _workload(self, workload, found: list, share: float) -> None:
        whole = isinstance(workload, Script) and not workload.steps
        batch = 1 if whole else self.settings.batch or workload.batch
        record = {
            "name": workload.name,
            "title": workload.title,
            "title_zh": workload.title_zh,
            "batch": batch,
            "unit": "runs" if whole else workload.unit,
            "per_item": workload.per_item,
            "arms": [],
            "comparisons": [],
            "sweep": [],
            "loader": [],
            "rounds": [],
            "ended": None,
            "needed_s": None,
        }
        self.results.data["workloads"].append(record)
        end = self.budget.elapsed() + self.budget.left() * share
        weights = self.results.folder / f"weights-{workload.name}.npz"
        try:
            arms = self._make_arms(workload, found, record, whole)
            self._calibrate(workload, arms, batch, str(weights), end)
            alive = self._fit(self._same_computation([a for a in arms if a.ready()]), end)
            if alive:
                extras = 0.0 if whole else 0.2 * bool(self.settings.sweep) + 0.1 * bool(self.settings.loader)
                left = end - self.budget.elapsed()
                until = end if math.isinf(end) else end - extras * left
                self._rounds(record, alive, until, end)
                if not whole:
                    self._extras(workload, record, alive, batch, str(weights), end)
        finally:
            record["needed_s"] = self._needed(self.arms)
            self._close_arms()
            if weights.exists():
                weights.unlink()
            self._summarise(record, final=True)
            self.results.save()

    def _make_arms(self, workload, found, record, whole: bool) -> List[Arm]:
        self.arms = []
        for environment in found:
            for precision, fusion in (
                [("fp32", None)]
                if whole
                else self.settings.variants(environment.contender, environment.framework)
            ):
                label = label_zh = environment.contender.name
                if precision != "fp32":
                    label, label_zh = f"{label} {precision}", f"{label_zh} {precision}"
                if fusion is False:
                    label, label_zh = f"{label} fusion off", f"{label_zh} 关融合"
                kind = ScriptArm if whole else Arm
                for compiled in self.settings.compiled(environment.framework, whole):
                    end = " compile" if compiled else ""
                    arm = kind(environment, precision, fusion, label + end, label_zh + end, self.results.folder / "logs")
                    arm.compiled = compiled
                    record["arms"].append(arm.begin_record())
                    self.arms.append(arm)
        wished = self.settings.base
        if wished:
            if not any(wished in (a.label, a.environment.contender.spec) for a in self.arms):
                self.progress.say(
                    f"bench: no arm is called {wished!r}; the base is {self.arms[0].label!r}. Hint: the "
                    f"arms are {', '.join(a.label for a in self.arms)}."
                )
            self.arms.sort(key=lambda a: wished not in (a.label, a.environment.contender.spec))
            record["arms"] = [a.record for a in self.arms]
        return self.arms

    def _request(self, workload, framework: str, batch: int, weights: str) -> dict:
        script = workload.script(framework)
        if (
            framework == "torch"
            and not script.name.endswith("_torch.py")
            and isinstance(workload, Script)
            and workload.steps
        ):
            raise ContenderError(
                f"{workload.title}: no PyTorch twin, expected {script.stem}_torch.py beside it. "
                "Hint: write one, or leave torch out."
            )
        return {
            "script": str(script),
            "args": self.settings.script_args,
            "options": {
                "batch": batch,
                "seed": self.settings.seed,
                "weights": weights,
                "learning_rate": workload.learning_rate,
                "images": self.images.images if self.images else None,
            },
        }

    def _calibrate(self, workload, arms, batch, weights, end) -> None:
        usable = machine.usable_threads()
        choices = self.settings.threads or sorted({1, min(2, usable), usable}, reverse=True)
        for i, arm in enumerate(arms):
            begin = self.budget.elapsed()
            ready = [a for a in arms[:i] if a.ready()]
            if ready or begin >= end:
                least = min((a.trial_s for a in ready), default=0.0)
                if begin + least + self._round_s(ready) * (1 + 1 / max(1, len(ready))) >= end:
                    arm.leave_out("no time left to start it")
                    continue
            self.progress.phase(f"{workload.title}: calibrating {arm.label}")
            self.progress.advance(0.3 * i / len(arms))
            # calibration may use a part of the time that is left, shared by the arms that still wait
            allowance = (end - begin) * 0.35 / (len(arms) - i)
            try:
                request = self._request(workload, arm.environment.framework, batch, weights)
                arm.calibrate(
                    request,
                    choices,
                    lambda seconds, share=1.0: self.budget.elapsed() - begin + seconds <= share * allowance,
                    self._timeout(),
                )
                arm.trial_s = (self.budget.elapsed() - begin) / len(arm.record["calibration"])
                arm.choose_block(BLOCK_S)
            except ContenderError as error:
                if self.budget.left() <= 0 and "no answer within" in str(error):  # the limit stopped it
                    arm.trial_s = 2 * (self.budget.elapsed() - begin)
                    arm.leave_out("its first steps took longer than the limit")
                else:
                    arm.record["error"] = str(error)
                    self.results.error(str(error))
            self.results.save()

    def _round_s(self, arms: List[Arm]) -> float:
        """Seconds that a round of these arms takes: two blocks of each and the rest before each."""
        return sum(2 * (a.block_steps * a.step_s * 1.1 + self.REST) for a in arms)

    def _fit(self, arms: List[Arm], end: float) -> List[Arm]:
        """The arms for which one round fits before the end, with shorter blocks where that is needed."""
        arms = list(arms)
        while arms:
            left = min(end - self.budget.elapsed(), self.budget.left())
            if self._round_s(arms) <= left:
                return arms
            for arm in arms:  # blocks as short as make it fit
                room = left / (2 * len(arms)) - self.REST
                arm.block_steps = max(1, min(arm.block_steps, int(room / (1.1 * arm.step_s))))
            if self._round_s(arms) <= left:
                return arms
            arms[-1].leave_out("no time left for one round")
            arms.pop().close()
        return arms

    def _needed(self, arms: List[Arm]) -> Optional[float]:
        """Seconds from which on all arms can be compared, where the limit left some out; else None."""
        tried = [a for a in arms if a.trial_s]
        if not tried or not any(a.record["left_out"] for a in arms):
            return None
        each = sum(a.trial_s for a in tried) / len(tried)
        step = sum(max(BLOCK_S, a.step_s) for a in tried) / len(tried)
        rounds = min(statistics.LOOKS[0][0], self.settings.max_rounds)
        return float(math.ceil(len(arms) * (2 * each + 2 * rounds * (1.1 * step + self.REST))))

    def _timeout(self) -> float:
        return max(10.0, min(900.0, self.budget.left() + 5))

    def _same_computation(self, arms: List[Arm]) -> List[Arm]:
        """Arms whose model has the base's parameter count and, from the same weights, its first loss."""
        if not arms:
            return []
        base, same = arms[0].record["launches"][0], []
        for arm in arms:
            first, tolerance = arm.record["launches"][0], FIRST_LOSS[arm.precision]
            error = None
            if first["parameters"] != base["parameters"]:
                error = (
                    f"{arm.label}: not the same model as {arms[0].label}, got "
                    f"{first['parameters']:,} parameters; "
                    f"expected {base['parameters']:,}. Hint: its times would compare nothing."
                )
            elif base["loss"] is not None and not abs(first["loss"] - base["loss"]) <= tolerance * abs(
                base["loss"]
            ):
                error = (
                    f"{arm.label}: not the same computation as {arms[0].label}, got first loss "
                    f"{first['loss']:.6g}; "
                    f"expected {base['loss']:.6g} within {tolerance:g}. Hint: its times would "
                    "compare nothing."
                )
            if error:
                arm.record["error"] = error
                self.results.error(error)
                arm.close()
            else:
                same.append(arm)
        return same

    # -- rounds ----------------------------------------------------------------------------------------
    def _rounds(self, record, arms: List[Arm], until: float, end: float) -> None:
        """Rounds until every comparison is decided; before the first look the extras' time may be used
        too."""
        self.watch = Watch()
        looks = [n for n, _ in statistics.LOOKS if n <= self.settings.max_rounds] or [
            self.settings.max_rounds
        ]
        active = list(arms)
        for number, order in enumerate(statistics.orders(len(arms), looks[-1], self.settings.seed)):
            cost = self._round_s(active)
            if self.budget.elapsed() + cost > (
                until if number >= looks[0] else end
            ) or not self.budget.allows(cost):
                record["ended"] = "budget"
                return
            flags = self.watch.round_flags()
            record["rounds"].append({"round": number, "flags": flags})
            for position, index in enumerate(order):
                if arms[index] in active:
                    self._block(arms[index], number, position)
                    if arms[index].record["error"]:
                        active.remove(arms[index])
                self._show(record, number, looks[-1], arms[index].label)
            if not active:
                return
            undecided = self._summarise(record)
            if not any(arm.label in undecided for arm in active[1:]) and number + 1 >= looks[0]:
                record["ended"] = "decided"
                return
            # a decided arm rests; the base goes on as long as anyone is compared with it
            active = [a for a in active if a is active[0] or a.label in undecided]
        record["ended"] = "rounds"

    def _show(self, record, number: int, last: int, label: str) -> None:
        self.progress.phase(f"{record['title']}: round {number + 1} of at most {last}")
        self.progress.advance(0.3 + 0.6 * (number + 1) / last)

    # Seconds before each block: the threads of the contender before it spin for up to 0.2 s after its last step.
    REST = 0.3

    def _block(self, arm: Arm, number: int, position: int) -> None:
        time.sleep(self.REST)
        start = self.watch.before()
        try:
            answer = arm.measure(timeout=self._timeout())
        except ContenderError as error:
            arm.record["error"] = str(error)
            self.results.error(str(error))
            arm.close()
            return
        block = {
            "round": number,
            "position": position,
            "steps": arm.block_steps,
            "seconds": answer["seconds"],
            "cpu_s": answer["cpu_s"],
            "peak_mb": answer["peak_mb"],
            "rss_mb": answer["rss_mb"],
            "t": round(self.budget.elapsed(), 3),
            **self.watch.after(start, answer["cpu_s"]),
        }
        arm.record["blocks"].append(block)
        arm.keep_losses(answer["losses"])
        self.results.save()

    def _summarise(self, record, final: bool = False) -> set:
        """Writes comparisons and summaries from the raw samples; returns the labels that are still
        undecided."""
        from .summarise import summarise_workload

        return summarise_workload(record, final)

    # -- batch sweep, loader ---------------------------------------------------------------------------
    def _extras(self, workload, record, alive, batch, weights, end) -> None:
        arm = next((a for a in alive if not a.record["error"]), None)
        if arm is None:
            return
        for other in alive:
            if other is not arm:
                other.close()
        try:
            if self.settings.loader and self.images and self.images.archive:
                self.progress.phase(f"{workload.title}: feeding through the DataLoader")
                record["loader"] += measure_loader(
                    arm, self.settings.loader, self.images.archive, batch, self.budget, end, self._timeout()
                )
                self.results.save()
            if self.settings.sweep:
                arm.close()
                for row in measure_sweep(
                    arm,
                    self._request(workload, arm.environment.framework, batch, ""),
                    self.settings.sweep,
                    self.budget,
                    end,
                    self._timeout(),
                ):
                    record["sweep"].append(row)
                    self.progress.phase(f"{workload.title}: batch {row['batch']}")
                    self.results.save()
        except ContenderError as error:
            self.results.error(str(error))

    def _close_arms(self) -> None:
        for arm in self.arms:
            try:
                arm.close()
            except OSError:
                pass
        self.arms = []
        if self.watch:
            self.watch.close()
            self.watch = None


def repeat_commands(argv: List[str], record: dict) -> List[str]:
    """Shell lines that repeat the run: the command with the resolved seed."""
    import shlex

    line = "yuloh bench " + " ".join(shlex.quote(a) for a in argv)
    return [line if "--seed" in argv else f"{line} --seed {record.get('seed', 0)}"]
