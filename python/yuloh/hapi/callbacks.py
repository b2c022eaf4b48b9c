# SPDX-License-Identifier: Apache-2.0
"""paddle.callbacks: what runs at the begin and end of training, epochs and batches of ``Model.fit``."""

from __future__ import annotations

import numbers
import os
import sys
from typing import Any, Sequence

import numpy as np

from .progress import ProgressBar

__all__ = [
    "Callback",
    "ProgBarLogger",
    "ModelCheckpoint",
    "VisualDL",
    "LRScheduler",
    "EarlyStopping",
    "ReduceLROnPlateau",
    "WandbCallback",
]


class Callback:
    """Base of callbacks. ``self.model`` is the Model, ``self.params`` a dict (epochs, steps, verbose,
    metrics ...).
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict = {}

    def set_params(self, params: dict) -> None:
        self.params = params

    def set_model(self, model: Any) -> None:
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Before the first epoch."""

    def on_train_end(self, logs: Any = None) -> None:
        """After the last epoch."""

    def on_eval_begin(self, logs: Any = None) -> None:
        """Before an evaluation; logs: steps, metrics."""

    def on_eval_end(self, logs: Any = None) -> None:
        """After an evaluation; logs: loss, metrics, step, batch_size."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Before a prediction."""

    def on_predict_end(self, logs: Any = None) -> None:
        """After a prediction."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before epoch number `epoch`."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After epoch number `epoch`."""

    def on_train_batch_begin(self, step: int, logs: Any = None) -> None:
        """Before a training step."""

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """After a training step."""

    def on_eval_batch_begin(self, step: int, logs: Any = None) -> None:
        """Before a batch of an evaluation."""

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        """After a batch of an evaluation."""

    def on_predict_batch_begin(self, step: int, logs: Any = None) -> None:
        """Before a batch of a prediction."""

    def on_predict_batch_end(self, step: int, logs: Any = None) -> None:
        """After a batch of a prediction."""


class CallbackList:
    """Calls several callbacks in a row."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = list(callbacks)

    def __iter__(self) -> Any:
        return iter(self.callbacks)

    def set_up(self, model: Any, params: dict) -> None:
        for one in self.callbacks:
            one.set_model(model)
            one.set_params(params)

    def call(self, name: str, *args: Any) -> None:
        """Call method ``on_<name>`` of each."""
        for one in self.callbacks:
            getattr(one, f"on_{name}")(*args)


def config_callbacks(
    callbacks: Any,
    model: Any,
    epochs: "int | None" = None,
    steps: "int | None" = None,
    log_freq: int = 2,
    verbose: int = 2,
    save_freq: int = 1,
    save_dir: "str | None" = None,
    metrics: "list | None" = None,
    mode: str = "train",
    batch_size: "int | None" = None,
) -> CallbackList:
    """The user's callbacks with the standard ones added where the user gave none of that kind."""
    given = (
        callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks is not None else []
    )
    chosen = list(given)

    def has(kind: type) -> bool:
        return any(isinstance(c, kind) for c in chosen)

    if not has(ProgBarLogger) and verbose:
        chosen = [ProgBarLogger(log_freq, verbose=verbose), *chosen]
    if not has(LRScheduler):
        chosen = [LRScheduler(), *chosen]
    if not has(ModelCheckpoint):
        chosen = [*chosen, ModelCheckpoint(save_freq, save_dir)]
    for one in chosen:
        if isinstance(one, EarlyStopping):
            one.save_dir = save_dir
    result = CallbackList(chosen)
    params = {"batch_size": batch_size, "epochs": epochs, "steps": steps, "verbose": verbose}
    params["metrics"] = (metrics or []) if mode != "test" else []
    result.set_up(model, params)
    return result


class ProgBarLogger(Callback):
    """Shows progress, loss and metrics. verbose: 0 nothing, 1 a bar redrawn in place, 2 a line each
    `log_freq` steps.
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        self.log_freq = log_freq
        self.verbose = verbose
        self.epochs: Any = None
        self._steps: Any = None
        self._bar: Any = None
        self._samples = 0
        self._names: list = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.epochs = self.params.get("epochs")
        if self.verbose:
            print("Training: the loss shown is the current step's, metrics are means over the epoch so far.")

    def _begin(self, steps: Any, names: list) -> None:
        self._steps = steps
        self._names = names
        self._samples = 0
        self._bar = ProgressBar(steps, verbose=self.verbose)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin(self.params.get("steps"), self.params.get("metrics") or [])
        if self.verbose:
            print(f"Epoch {epoch + 1}/{self.epochs}")
        self._bar.start()

    def _step(self, step: int, logs: Any) -> None:
        logs = logs or {}
        self._samples += int(logs.get("batch_size") or 0)
        if not self.verbose:
            return
        current = step + 1
        if current % self.log_freq == 0 and (self._steps is None or current < self._steps):
            self._bar.update(current, self._values(logs))

    def _values(self, logs: dict) -> list:
        return [(name, logs[name]) for name in self._names if name in logs]

    def _end(self, logs: Any) -> None:
        logs = logs or {}
        if self.verbose and "step" in logs:
            last = int(logs["step"]) + 1
            if self._bar._num is None or last != self._bar._num:
                self._bar._num = last  # a loader without length, or one cut short by num_iters
            self._bar.update(last, self._values(logs))

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        self._step(step, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._end(logs)

    def on_eval_begin(self, logs: Any = None) -> None:
        logs = logs or {}
        self._begin(logs.get("steps"), logs.get("metrics") or [])
        if self.verbose:
            print("Evaluation:")
        self._bar.start()

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        self._step(step, logs)

    def on_eval_end(self, logs: Any = None) -> None:
        self._end(logs)
        if self.verbose:
            print(f"Evaluated {self._samples} samples")

    def on_predict_begin(self, logs: Any = None) -> None:
        self._begin((logs or {}).get("steps"), [])
        if self.verbose:
            print("Prediction:")
        self._bar.start()

    def on_predict_batch_end(self, step: int, logs: Any = None) -> None:
        self._step(step, logs)

    def on_predict_end(self, logs: Any = None) -> None:
        self._end(logs)
        if self.verbose:
            print(f"Predicted {self._samples} samples")


class ModelCheckpoint(Callback):
    """Saves parameters and optimizer state to save_dir/<epoch> each `save_freq` epochs, and to
    save_dir/final.
    """

    def __init__(self, save_freq: int = 1, save_dir: "str | None" = None) -> None:
        super().__init__()
        self.save_freq = save_freq
        self.save_dir = save_dir

    def _save(self, name: str) -> None:
        path = os.path.abspath(os.path.join(str(self.save_dir), name))
        self.model.save(path)
        if self.params.get("verbose"):
            print(f"saved checkpoint {path}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.save_dir and epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: Any = None) -> None:
        if self.save_dir:
            self._save("final")


class LRScheduler(Callback):
    """Advances the optimizer's learning rate scheduler after every step (by_step) or epoch (by_epoch)."""

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step and by_epoch:
            raise ValueError("LRScheduler: by_step and by_epoch are both True; expected at most one.")
        self.by_step = by_step
        self.by_epoch = by_epoch

    def _advance(self) -> None:
        from ..optimizer.lr import LRScheduler as Schedule

        rate = getattr(getattr(self.model, "_optimizer", None), "_learning_rate", None)
        if isinstance(rate, Schedule):
            rate.step()

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        if self.by_step:
            self._advance()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.by_epoch:
            self._advance()


class _Monitor(Callback):
    """Shared part of callbacks that watch one logged value."""

    def __init__(self, monitor: str, mode: str, min_delta: float) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"{type(self).__name__}: mode is {mode!r}; expected 'auto', 'min' or 'max'.")
        self.monitor = monitor
        self.mode = mode
        self.bigger = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.min_delta = abs(min_delta)

    def better(self, value: float, than: float) -> bool:
        return value > than + self.min_delta if self.bigger else value < than - self.min_delta

    def worst(self) -> float:
        return -np.inf if self.bigger else np.inf

    def watched(self, logs: Any) -> "float | None":
        value = (logs or {}).get(self.monitor)
        if value is None:
            print(
                f"{type(self).__name__}: {self.monitor!r} is not among the logs {sorted(logs or {})}; "
                "nothing done.",
                file=sys.stderr,
            )
            return None
        while isinstance(value, (list, tuple, np.ndarray)) and not isinstance(value, numbers.Number):
            value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value[0]
        return float(value)


class EarlyStopping(_Monitor):
    """Stops training when `monitor` of the evaluation has not improved for `patience` evaluations.

    Args:
        monitor: name in the evaluation's logs. mode: "min", "max" or "auto" (max for names with "acc").
        min_delta: smallest change that counts. baseline: value to beat. save_best_model: keep the best in
            save_dir/best_model.
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: "float | None" = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience = patience
        self.verbose = verbose
        self.baseline = baseline
        self.save_best_model = save_best_model
        self.save_dir: "str | None" = None
        self.wait_epoch = 0
        self.stopped_epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        self.wait_epoch = 0
        self.best_value = self.worst() if self.baseline is None else self.baseline
        self.best_weights = None

    def on_eval_end(self, logs: Any = None) -> None:
        value = self.watched(logs)
        if value is None:
            return
        if self.better(value, self.best_value):
            self.best_value = value
            self.wait_epoch = 0
            if self.save_best_model and self.save_dir:
                self.model.save(os.path.join(self.save_dir, "best_model"))
        else:
            self.wait_epoch += 1
        if self.wait_epoch >= self.patience and self.wait_epoch > 0:
            self.model.stop_training = True
            if self.verbose:
                print(
                    f"EarlyStopping: {self.monitor} has not improved on {self.best_value:.5f}; training "
                    "stops."
                )
        self.stopped_epoch += 1


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor` when `monitor` has not improved for `patience` evaluations."""

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor is {factor}; expected below 1.")
        self.factor = factor
        self.patience = patience
        self.verbose = verbose
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        self.best = self.worst()
        self.cooldown_counter = 0
        self.wait = 0

    def on_eval_end(self, logs: Any = None) -> None:
        value = self.watched(logs)
        if value is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self.better(value, self.best):
            self.best = value
            self.wait = 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce()

    def _reduce(self) -> None:
        optimizer = self.model._optimizer
        old = float(optimizer.get_lr())
        new = max(old * self.factor, self.min_lr)
        if new < old:
            optimizer.set_lr(new)
            self.cooldown_counter = self.cooldown
            self.wait = 0
            if self.verbose:
                print(f"ReduceLROnPlateau: learning rate is now {new:g}.")


class VisualDL(Callback):
    """Writes logs for VisualDL; needs the visualdl package."""

    def __init__(self, log_dir: str) -> None:
        super().__init__()
        self.log_dir = log_dir
        self.epochs: Any = None
        self.steps = 0
        try:
            from visualdl import LogWriter
        except ImportError as e:
            raise ImportError(
                "VisualDL: the package visualdl is not installed. Hint: pip install visualdl."
            ) from e
        self._writer = LogWriter(log_dir)

    def _log(self, mode: str, logs: Any, step: int) -> None:
        for name in ["loss", *(self.params.get("metrics") or [])]:
            value = (logs or {}).get(name)
            if value is not None:
                value = value[0] if isinstance(value, (list, tuple)) else value
                self._writer.add_scalar(tag=f"{mode}/{name}", step=step, value=float(value))

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        self.steps += 1
        self._log("train", logs, self.steps)

    def on_eval_end(self, logs: Any = None) -> None:
        self._log("eval", logs, self.steps)


class WandbCallback(Callback):
    """Sends logs to Weights and Biases; needs the wandb package."""

    def __init__(
        self,
        project: "str | None" = None,
        entity: "str | None" = None,
        name: "str | None" = None,
        dir: "str | None" = None,
        mode: "str | None" = None,
        job_type: "str | None" = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        try:
            import wandb
        except ImportError as e:
            raise ImportError(
                "WandbCallback: the package wandb is not installed. Hint: pip install wandb."
            ) from e
        options = {
            "project": project,
            "entity": entity,
            "name": name,
            "dir": dir,
            "mode": mode,
            "job_type": job_type,
        }
        self._run = wandb.run or wandb.init(**options, **kwargs)

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        self._run.log(
            {f"train/{k}": _plain(v) for k, v in (logs or {}).items() if k not in ("step", "batch_size")}
        )

    def on_eval_end(self, logs: Any = None) -> None:
        self._run.log(
            {f"eval/{k}": _plain(v) for k, v in (logs or {}).items() if k not in ("step", "batch_size")}
        )

    def on_train_end(self, logs: Any = None) -> None:
        self._run.finish()


def _plain(value: Any) -> Any:
    return _plain(value[0]) if isinstance(value, (list, tuple)) else value
