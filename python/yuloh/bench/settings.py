# SPDX-License-Identifier: Apache-2.0
"""What a run is asked to do: filled by the command line, read by the runner, written into results.json."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import List, Optional, Union

from . import workloads
from .contenders import Contender


@dataclass(frozen=True)
class Script:
    """A .py file of the user. steps: it has build(options) and is driven step by step; else it is run
    whole."""

    path: Path
    steps: bool
    batch: int = 64
    unit: str = "samples"
    per_item: int = 1
    data: str = "made"
    learning_rate: float = 1e-3

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def title(self) -> str:
        return self.path.name

    title_zh = title

    def script(self, framework: str) -> Path:
        twin = self.path.with_name(f"{self.path.stem}_torch.py")
        return twin if framework == "torch" and twin.exists() else self.path


def find_workload(word: str) -> Union[workloads.Workload, Script]:
    """A built-in workload by name, or a user's script by path."""
    if not word.endswith(".py"):
        return workloads.find(word)
    path = Path(word).expanduser().resolve()
    if not path.is_file():
        raise FileNotFoundError(
            f"bench: no such script, got {word!r}; expected a Python file. "
            "Hint: give its path, or the name of a built-in workload."
        )
    text = path.read_text(encoding="utf-8", errors="replace")
    uses_images = "cifar100" in text and re.search(r"options\[?.*images", text)
    return Script(
        path, bool(re.search(r"^def build\(", text, re.M)), data="cifar100" if uses_images else "made"
    )


@dataclass
class Settings:
    """precisions, fusion: None means the main job's choice: Yuloh fp32, bf16 and fusion off, the others
    fp32."""

    contenders: List[Contender]
    workloads: list
    precisions: Optional[List[str]] = None
    fusion: Optional[List[bool]] = None
    batch: Optional[int] = None
    threads: Optional[List[int]] = None
    data: str = "auto"
    seed: int = 0
    base: Optional[str] = None
    sweep: Union[None, str, List[int]] = None  # "knee", "fit", or a list of batch sizes
    loader: List[int] = field(default_factory=list)  # worker counts to try
    max_rounds: int = 40
    script_args: List[str] = field(default_factory=list)
    torch_compile: bool = False  # every PyTorch contender a second time, with torch.compile

    def variants(self, contender: Contender, framework: str) -> list:
        """[(precision, fusion or None)] of one contender; fusion can be switched on Yuloh only."""
        own = framework == "yuloh"
        precisions = self.precisions or (["fp32", "bf16"] if own and contender.kind == "yuloh" else ["fp32"])
        out = [(p, True if own else None) for p in precisions]
        if own and (
            self.fusion is None and contender.kind == "yuloh" or self.fusion and False in self.fusion
        ):
            out.append((precisions[0], False))
        if own and self.fusion == [False]:
            out = [(p, False) for p in precisions]
        return out

    def compiled(self, framework: str, whole: bool = False) -> List[bool]:
        """Whether the arms of a contender run as written, under torch.compile, or both."""
        return [False, True] if self.torch_compile and framework == "torch" and not whole else [False]

    def describe(self) -> dict:
        out = asdict(self)
        out["contenders"] = [c.spec for c in self.contenders]
        out["workloads"] = [w.name for w in self.workloads]
        return out
