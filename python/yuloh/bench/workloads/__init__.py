# SPDX-License-Identifier: Apache-2.0
"""Catalogue of the built-in workloads. Each is a plain script with `import paddle` plus a PyTorch twin
`*_torch.py`.

The scripts run inside the contenders' own Pythons, so they import nothing of Yuloh; see docs/bench.md for how
to write one of your own (a file with `build(options)`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Workload:
    """name: word on the command line; unit: what throughput counts; per_item: units in one sample of the
    batch."""

    name: str
    title: str
    title_zh: str
    batch: int
    unit: str = "images"
    per_item: int = 1
    data: str = "cifar100"  # "cifar100": needs the image file; "made": the script makes its own data
    learning_rate: float = 1e-3

    def script(self, framework: str) -> Path:
        return FOLDER / (f"{self.name}_torch.py" if framework == "torch" else f"{self.name}.py")


CATALOGUE = {
    w.name: w
    for w in (
        Workload("resnet50_cifar100", "ResNet-50 on CIFAR-100", "ResNet-50 / CIFAR-100", 64),
        Workload("mobilenet_v2", "MobileNetV2 on CIFAR-100", "MobileNetV2 / CIFAR-100", 64),
        Workload("lenet", "LeNet on 28x28 digits", "LeNet / 28x28 数字", 64, data="made"),
        Workload(
            "gpt",
            "GPT, 6 layers, width 256",
            "GPT，6 层，宽 256",
            8,
            unit="tokens",
            per_item=128,
            data="made",
            learning_rate=3e-4,
        ),
        Workload(
            "lstm", "LSTM classifier, 2 x 256", "LSTM 分类器，2 x 256", 32, unit="sequences", data="made"
        ),
    )
}
SHORT = {"resnet50": "resnet50_cifar100", "mobilenet": "mobilenet_v2"}


def find(name: str) -> Workload:
    """The built-in workload of this name or short name; ValueError that lists them all otherwise."""
    try:
        return CATALOGUE[SHORT.get(name, name)]
    except KeyError:
        raise ValueError(
            f"bench: unknown workload, got {name!r}; expected one of {', '.join(CATALOGUE)} or a .py "
            "file. Hint: a file needs a function build(options), or is run whole."
        ) from None
