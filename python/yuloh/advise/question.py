# SPDX-License-Identifier: Apache-2.0
"""A question put to the adviser: a network, a job, devices and goals, all checked before anything is reckoned."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from .. import _core
from . import catalogue
from .terms import DEGREES

# Samples of one optimizer step where none are given, by class of size.
WIDEST = 100.0  # the core takes no wider interval of time; a disturbed device file may say one
DEFAULT_BATCH = (64, 32, 64, 512)
# Tokens of an answer where none are given; 99 of 100 requests are then answered within a second and this for each token,
# about as fast as one reads.
NEW_TOKENS, FIRST_SECONDS, TOKEN_SECONDS = 256, 1.0, 0.05


@dataclass
class Question:
    """network, job: fields of the core (src/advise/network.h, job.h). devices: entries of the catalogue.
    count: devices to lay the job out on. goals: samples, hours, rate, p99 (s), max_batch. prices: {id: an hour}.
    """

    network: Dict[str, object]
    title: str = ""
    unit: str = "sample"
    source: str = "user"  # user, preset, plan
    source_text: str = ""
    job: Dict[str, object] = field(default_factory=dict)
    devices: List[dict] = field(default_factory=list)
    focus: Optional[str] = None
    count: Optional[int] = None
    network_word: str = "infiniband-200"
    goals: Dict[str, float] = field(default_factory=dict)
    prices: Dict[str, float] = field(default_factory=dict)
    currency: str = ""
    most: int = 128
    remarks: List[object] = field(default_factory=list)  # sentences, and (key, ...) of words.remark
    facts: Optional[dict] = None  # of the planned model, where there is one
    own_micro: Optional[float] = None  # samples of a pass as the script has it; a search may choose others

    def __post_init__(self) -> None:
        completed = _core.advise_network(floats(self.network))
        self.network = completed["network"]
        self.remarks = list(self.remarks) + completed["remarks"]
        self.size_class = completed["class"]
        self.forward_flops = completed["forward_flops"]
        self.given_batch = "batch" in self.job
        self.given_micro = "micro" in self.job
        training = self.job.get("training", True)
        self.job.setdefault("batch", DEFAULT_BATCH[self.size_class] if training else 1)
        if training and not self.given_micro:
            replicas = float(self.job.get("dp", 1)) * float(self.job.get("sharding", 1))  # type: ignore[arg-type]
            if self.own_micro and replicas > 0 and float(self.job["batch"]) % (self.own_micro * replicas) == 0:  # type: ignore[arg-type]
                self.job["micro"] = self.own_micro
            elif self.size_class >= 2:
                self.job["micro"] = 1
        if training and not self.given_batch:
            self.remarks.append(("assumed_batch", f"{self.job['batch']:.0f}"))
        generates = not training and self.network["kind"] == "decoder"
        if generates and "new_tokens" not in self.job:
            self.job["new_tokens"] = NEW_TOKENS
            self.remarks.append(("assumed_tokens", f"{NEW_TOKENS}"))
        if "rate" in self.goals and "p99" not in self.goals:
            self.goals = {**self.goals, "p99": FIRST_SECONDS + (max(0.0, self.job["new_tokens"]) * TOKEN_SECONDS if generates else 0)}
            if self.goals["p99"] > FIRST_SECONDS:
                self.remarks.append(("assumed_p99", f"{self.goals['p99']:.3g}", f"{TOKEN_SECONDS * 1e3:.0f}"))
        self.job = floats(self.job)
        if not self.devices:
            self.devices = catalogue.reckoned(bool(training))
        self.fabric, self.fabric_name = catalogue.fabric(self.network_word)
        if self.fabric.get("alone"):
            self._one_server()
        for name, value in self.goals.items():
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise ValueError(
                    f"advise: {name} must be a number above 0, got {value}. Hint: check --{name.replace('_', '-')}."
                )
        if self.count is not None and not 1 <= self.count <= 1 << 17:
            raise ValueError(f"advise: --count must be 1 to {1 << 17}, got {self.count}.")
        self._check_split()

    def _check_split(self) -> None:
        """Refuses degrees that no layout of these devices has."""
        given = {k: float(self.job[k]) for k in ("dp", "mp", "pp", "sharding", "cp") if float(self.job.get(k, 1)) > 1}  # type: ignore[arg-type]
        made, stage = math.prod(given.values()), float(self.job.get("stage", 0))  # type: ignore[arg-type]
        if self.count is not None and self.count % made:
            said = ", ".join(f"{k} {v:.0f}" for k, v in given.items())
            raise ValueError(f"advise: --count must be a multiple of the degrees that are given, got {self.count} and {said} (together {made:.0f}).")
        if stage > 0 and self.training and self.count == 1:
            raise ValueError(f"advise: sharding lies over several devices, got --stage {stage:.0f} and --count 1. Hint: --count N, or --stage 0.")
        if stage > 1 and "pp" in given:
            raise ValueError(f"advise: a pipeline goes with sharding stage 1 at most, got --stage {stage:.0f} and pp {given['pp']:.0f}. Hint: --stage 1.")

    def _one_server(self) -> None:
        """Without a network only devices are left of which one server holds as many as are asked for. Raises ValueError."""
        split = math.prod(self.job.get(k, 1) for k in ("dp", "mp", "pp", "sharding", "cp"))
        needed = int(max(self.count or 1, split))
        held = [d for d in self.devices if needed <= d["per_node"]]
        wanted = next((d for d in self.devices if d["id"] == self.focus), None) or max(self.devices, key=lambda d: d["per_node"])
        if wanted not in held:
            raise ValueError(f"advise: --network none is one server, which holds {wanted['per_node']} x {wanted['id']}, got {needed}. "
                             "Hint: --network NAME (yuloh advise --list networks).")
        self.devices = held

    @property
    def training(self) -> bool:
        return bool(self.job.get("training", True))

    def core_device(self, entry: dict) -> dict:
        core = catalogue.core_device(entry, self.prices.get(entry["id"]))
        return {**core, **self._planned(core)} if entry["id"] == "this" and self.facts else core

    def _planned(self, core: dict) -> dict:
        """Of the machine at hand: what the Plans of the model say, kernel by kernel, not what two shares say of any model."""
        f = self.facts
        batch, took, process = float(f["batch"]), f["seconds"], f["memory"]["process"]
        one = {k: v for k, v in self.job.items() if k not in (*DEGREES, "stage", "micro")}
        made = _core.advise_layout(self.network, {**one, "batch": batch}, core, self.fabric)
        rest = made["total"][1] - next(x[2] for x in made["memory"] if x[0] == "runtime")
        found = {"runtime": max(1.0, process["value"] - rest), "runtime_doubt": (process["high"] - process["low"]) / 2}
        if took["value"] > 0:
            slower = core.get("slower", 1.0) * took["value"] / made["seconds"][1]
            found.update(slower=min(max(slower, 1e-6), 1e6), spread=min(max(1.0, took["high"] / took["value"]), WIDEST))
        return found

    def freedom(self) -> Dict[str, object]:
        """What a search may change, and the degrees that were given."""
        free: Dict[str, object] = {
            "recompute": "recompute" not in self.job and not self.network.get("again_flops"),
            "stage": "stage" not in self.job,
            "micro": not self.given_micro,
        }
        return {**free, **{k: self.job[k] for k in DEGREES if k in self.job}}

    def search(self, entry: dict, count: float, keep: int = 1) -> List[dict]:
        """The fastest layouts of the job on `count` of a device; [] where none fits."""
        job = {k: v for k, v in self.job.items() if k not in DEGREES}
        if not self.given_micro:
            job.pop("micro", None)
        return _core.advise_search(
            self.network, job, self.core_device(entry), self.fabric, float(count), self.freedom(), keep
        )


def floats(d: Dict[str, object]) -> Dict[str, object]:
    return {k: float(v) if isinstance(v, int) and not isinstance(v, bool) else v for k, v in d.items()}


def from_preset(word: str) -> Tuple[dict, str, str, str]:
    """(network, title, unit, source) of a preset."""
    ident, preset = catalogue.find_preset(word)
    network = {k: v for k, v in preset.items() if k not in ("title", "unit", "source")}
    network["name"] = ident
    return network, preset["title"], preset["unit"], preset["source"]
