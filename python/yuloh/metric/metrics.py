# SPDX-License-Identifier: Apache-2.0
"""Accuracy, precision, recall and area under the curve.

``compute`` records tensor ops for one batch and reads nothing; ``update`` takes its result (as NumPy) and
adds it
to the running totals.
"""

from __future__ import annotations

import abc
from typing import Any, Sequence

import numpy as np


def _host(value: Any) -> np.ndarray:
    return (
        value
        if isinstance(value, np.ndarray)
        else np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    )


class Metric(abc.ABC):
    """Base of metrics: define reset, update, accumulate and name; compute may prepare update's arguments."""

    def __init__(self) -> None:
        pass

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget everything."""

    @abc.abstractmethod
    def update(self, *args: Any) -> Any:
        """Add one batch: NumPy arrays of what `compute` gave. May return the metric of this batch."""

    @abc.abstractmethod
    def accumulate(self) -> Any:
        """The metric over all batches since reset."""

    @abc.abstractmethod
    def name(self) -> Any:
        """Name, or list of names."""

    def compute(self, *args: Any) -> Any:
        """Turn outputs and labels into update's arguments by tensor ops; here: pass them through."""
        return args


class Accuracy(Metric):
    """Share of samples whose label is among the k highest scores, for each k in `topk`."""

    def __init__(
        self, topk: Sequence[int] = (1,), name: "str | None" = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.topk = topk
        self.maxk = max(topk)
        base = name or "acc"
        self._name = [base] if self.maxk == 1 else [f"{base}_top{k}" for k in topk]
        self.reset()

    def compute(self, pred: Any, label: Any, *args: Any) -> Any:
        """Whether each of the `maxk` best guesses is right.

        Args:
            pred: [N, ..., classes] scores. label: [N, ...] or [N, ..., 1] classes, or [N, ..., classes]
                one-hot.
        Returns:
            float32 [N, ..., maxk].
        """
        import yuloh

        best = yuloh.topk(pred, self.maxk, axis=-1)[1]
        if len(label.shape) == 1:
            label = label.reshape([-1, 1])
        elif len(label.shape) == len(pred.shape) and label.shape[-1] != 1:
            label = yuloh.argmax(label, axis=-1, keepdim=True)
        elif len(label.shape) < len(pred.shape):
            label = label.unsqueeze(-1)
        return (best == label.astype("int64")).astype("float32")

    def update(self, correct: Any, *args: Any) -> Any:
        """Add `compute`'s result; returns this batch's accuracy (a list for several k)."""
        correct = _host(correct)
        samples = int(np.prod(correct.shape[:-1]))
        accuracies = []
        for i, k in enumerate(self.topk):
            hits = correct[..., :k].sum()
            accuracies.append(float(hits) / samples)
            self.total[i] += hits
            self.count[i] += samples
        return accuracies[0] if len(self.topk) == 1 else accuracies

    def reset(self) -> None:
        self.total = [0.0] * len(self.topk)
        self.count = [0] * len(self.topk)

    def accumulate(self) -> Any:
        result = [float(t) / c if c > 0 else 0.0 for t, c in zip(self.total, self.count)]
        return result[0] if len(self.topk) == 1 else result

    def name(self) -> list:
        return self._name


class _Binary(Metric):
    _default = ""

    def __init__(self, name: "str | None" = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name or self._default
        self.reset()

    def name(self) -> str:
        return self._name

    @staticmethod
    def _decide(preds: Any, labels: Any) -> tuple:
        guess = np.floor(_host(preds) + 0.5).astype(np.int32).reshape(-1)
        truth = _host(labels).astype(np.int32).reshape(-1)
        if guess.shape != truth.shape:
            raise ValueError(
                f"metric: got {guess.size} predictions and {truth.size} labels; expected as many."
            )
        return guess, truth


class Precision(_Binary):
    """Share of true positives among what was predicted positive (score >= 0.5)."""

    _default = "precision"

    def update(self, preds: Any, labels: Any) -> None:
        """preds: [N] or [N, 1] probabilities; labels: [N] or [N, 1] of 0 and 1."""
        guess, truth = self._decide(preds, labels)
        self.tp += int(((guess == 1) & (truth == 1)).sum())
        self.fp += int(((guess == 1) & (truth != 1)).sum())

    def reset(self) -> None:
        self.tp = 0
        self.fp = 0

    def accumulate(self) -> float:
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(_Binary):
    """Share of the positives that were predicted positive (score >= 0.5)."""

    _default = "recall"

    def update(self, preds: Any, labels: Any) -> None:
        """preds: [N] or [N, 1] probabilities; labels: [N] or [N, 1] of 0 and 1."""
        guess, truth = self._decide(preds, labels)
        self.tp += int(((guess == 1) & (truth == 1)).sum())
        self.fn += int(((guess != 1) & (truth == 1)).sum())

    def reset(self) -> None:
        self.tp = 0
        self.fn = 0

    def accumulate(self) -> float:
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class Auc(Metric):
    """Area under the ROC curve, from a histogram of `num_thresholds` + 1 bins of the positive class's
    score.
    """

    def __init__(
        self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc", *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if curve not in ("ROC", "PR"):
            raise ValueError(f"Auc: curve is {curve!r}; expected 'ROC' or 'PR'.")
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """preds: [N, 2] probabilities of classes 0 and 1; labels: [N] or [N, 1] of 0 and 1."""
        preds, labels = _host(preds), _host(labels).reshape(-1)
        if preds.ndim != 2 or preds.shape[1] != 2 or len(preds) != len(labels):
            raise ValueError(
                f"Auc: preds have shape {preds.shape}, labels {labels.shape}; expected [N, 2] and [N]."
            )
        bins = (preds[:, 1] * self._num_thresholds).astype(np.int64)
        if len(bins) and not 0 <= bins.min() <= bins.max() <= self._num_thresholds:
            raise ValueError("Auc: got probabilities outside 0..1.")
        size = self._num_thresholds + 1
        positive = labels.astype(bool)
        self._stat_pos += np.bincount(bins[positive], minlength=size)
        self._stat_neg += np.bincount(bins[~positive], minlength=size)

    def reset(self) -> None:
        self._stat_pos = np.zeros(self._num_thresholds + 1)
        self._stat_neg = np.zeros(self._num_thresholds + 1)

    def accumulate(self) -> float:
        positives = np.concatenate([[0.0], np.cumsum(self._stat_pos[::-1])])
        negatives = np.concatenate([[0.0], np.cumsum(self._stat_neg[::-1])])
        if positives[-1] == 0 or negatives[-1] == 0:
            return 0.0
        area = (np.diff(negatives) * (positives[1:] + positives[:-1]) / 2).sum()
        return float(area / positives[-1] / negatives[-1])

    def name(self) -> str:
        return self._name


def accuracy(
    input: Any, label: Any, k: int = 1, correct: Any = None, total: Any = None, name: "str | None" = None
) -> Any:
    """Share of rows whose label is among the k highest scores, as a float32 Tensor of shape [].

    Args:
        input: [N, classes] scores. label: [N, 1] or [N] int classes.
        correct, total: taken for Paddle's sake; not written.
    """
    import yuloh

    if k < 1 or k > input.shape[-1]:
        raise ValueError(f"accuracy: k is {k}; expected 1 to {input.shape[-1]}, the number of classes.")
    best = yuloh.topk(input, k, axis=-1)[1]
    hits = (best == label.reshape([-1, 1]).astype("int64")).astype("float32")
    return hits.sum(axis=-1).mean()
