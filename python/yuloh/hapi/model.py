# SPDX-License-Identifier: Apache-2.0
"""paddle.Model: a network with optimizer, loss and metrics, trained by ``fit``.

A training step records forward, loss, metrics, backward and the optimizer's step, and only then reads the
loss and
the metrics: the whole step is one graph.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from typing import Any

import numpy as np

from ..io import DataLoader, Dataset, DistributedBatchSampler
from .callbacks import CallbackList, config_callbacks

_AMP_CAST = ("custom_white_list", "custom_black_list", "dtype", "use_promote")
_AMP_SCALE = (
    "init_loss_scaling",
    "incr_ratio",
    "decr_ratio",
    "incr_every_n_steps",
    "decr_every_n_nan_or_inf",
)


def _as_list(value: Any) -> list:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _flat(value: Any) -> list:
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in _flat(part)]
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _flat(part)]
    return [value]


def _positional(function: Any) -> tuple:
    """(required, all) numbers of positional arguments; all is None with *args."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return 0, None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p for p in parameters if p.kind in kinds]
    return sum(p.default is inspect.Parameter.empty for p in positional), len(positional)


class Model:
    """A network and everything it takes to train it.

    Args:
        network: an ``nn.Layer``.
        inputs, labels: InputSpec, or a list or dict of them; None takes the number of inputs from
            ``forward``.
    """

    mode = "train"

    def __init__(self, network: Any, inputs: Any = None, labels: Any = None) -> None:
        self.network = network
        self._inputs = list(inputs.values()) if isinstance(inputs, dict) else _as_list(inputs) or None
        self._labels = _as_list(labels) or None
        self._optimizer: Any = None
        self._loss: Any = None
        self._metrics: list = []
        self._scaler: Any = None
        self._amp_level = "O0"
        self._amp_cast: dict = {}
        self._arguments: Any = None
        self.stop_training = False

    # -- set-up ----------------------------------------

    def prepare(
        self, optimizer: Any = None, loss: Any = None, metrics: Any = None, amp_configs: Any = None
    ) -> None:
        """Choose optimizer, loss, metrics and mixed precision.

        Args:
            loss: called as ``loss(*outputs, *labels)``; gives one Tensor or a list that is summed.
            metrics: a Metric or a list.
            amp_configs: "O0", "O1", "O2", or a dict with "level" and arguments of auto_cast and GradScaler.
        """
        from ..metric import Metric

        if loss is not None and not callable(loss):
            raise TypeError(f"Model.prepare: loss is {type(loss).__name__}; expected a Layer or a function.")
        for metric in _as_list(metrics):
            if not isinstance(metric, Metric):
                raise TypeError(
                    f"Model.prepare: metrics hold a {type(metric).__name__}; expected paddle.metric.Metric."
                )
        self._optimizer = optimizer
        self._loss = loss
        self._metrics = _as_list(metrics)
        self._prepare_amp(amp_configs)

    def _prepare_amp(self, configs: Any) -> None:
        self._amp_level, self._amp_cast, self._scaler = "O0", {}, None
        if configs is None:
            return
        configs = {"level": configs} if isinstance(configs, str) else dict(configs)
        level = configs.pop("level", "O1")
        if level not in ("O0", "O1", "O2"):
            raise ValueError(f"Model.prepare: amp level is {level!r}; expected 'O0', 'O1' or 'O2'.")
        unknown = (
            set(configs) - set(_AMP_CAST) - set(_AMP_SCALE) - {"use_dynamic_loss_scaling", "use_fp16_guard"}
        )
        if unknown:
            raise ValueError(f"Model.prepare: amp_configs has unknown keys {sorted(unknown)}.")
        self._amp_level = level
        if level == "O0":
            return
        import yuloh

        self._amp_cast = {k: configs[k] for k in _AMP_CAST if k in configs}
        scale = {k: configs[k] for k in _AMP_SCALE if k in configs}
        scale["use_dynamic_loss_scaling"] = configs.get("use_dynamic_loss_scaling", True)
        self._scaler = yuloh.amp.GradScaler(**scale)
        if level == "O2":
            dtype = self._amp_cast.get("dtype", "float16")
            if self._optimizer is None:
                self.network = yuloh.amp.decorate(models=self.network, level="O2", dtype=dtype)
            else:
                self.network, self._optimizer = yuloh.amp.decorate(
                    models=self.network, optimizers=self._optimizer, level="O2", dtype=dtype
                )

    def _cast(self) -> Any:
        if self._amp_level == "O0":
            return contextlib.nullcontext()
        import yuloh

        return yuloh.amp.auto_cast(enable=True, level=self._amp_level, **self._amp_cast)

    def parameters(self, *args: Any, **kwargs: Any) -> list:
        """The network's parameters."""
        return self.network.parameters(*args, **kwargs)

    # -- one batch ----------------------------------------

    @staticmethod
    def _tensors(values: Any) -> list:
        import yuloh

        return [v if isinstance(v, yuloh.Tensor) else yuloh.to_tensor(v) for v in _as_list(values)]

    def _need_loss(self, what: str) -> None:
        if self._loss is None:
            raise RuntimeError(f"Model.{what}: no loss was given. Hint: call prepare(optimizer, loss) first.")

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """One training step. Returns [loss], or ([loss], [metric]) with metrics, as NumPy values.

        update False keeps the gradients for a later step.
        """
        self._need_loss("train_batch")
        if self._optimizer is None:
            raise RuntimeError(
                "Model.train_batch: no optimizer was given. Hint: call prepare(optimizer, loss) first."
            )
        self.network.train()
        self.mode = "train"
        inputs, labels = self._tensors(inputs), self._tensors(labels)
        with self._cast():
            outputs = _as_list(self.network(*inputs))
            losses = _as_list(self._loss(*outputs, *labels))
        total = losses[0]
        for other in losses[1:]:
            total = total + other
        found = self._compute_metrics(outputs, labels)
        if self._scaler is None:
            total.backward()
        else:
            self._scaler.scale(total).backward()
        if update:
            if self._scaler is None:
                self._optimizer.step()
            else:
                self._scaler.step(self._optimizer)
                self._scaler.update()
            self._optimizer.clear_grad()
        return self._read(losses, found)

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Loss and metrics of one batch without training; returns as train_batch (only metrics without
        a loss).
        """
        import yuloh

        self.network.eval()
        self.mode = "eval"
        inputs, labels = self._tensors(inputs), self._tensors(labels)
        with yuloh.no_grad(), self._cast():
            outputs = _as_list(self.network(*inputs))
            losses = _as_list(self._loss(*outputs, *labels)) if self._loss is not None else []
            found = self._compute_metrics(outputs, labels)
        return self._read(losses, found)

    def predict_batch(self, inputs: Any) -> list:
        """The network's outputs for one batch, as a list of NumPy arrays."""
        import yuloh

        self.network.eval()
        self.mode = "test"
        with yuloh.no_grad(), self._cast():
            outputs = _flat(self.network(*self._tensors(inputs)))
        return [self._array(o) for o in outputs]

    def _compute_metrics(self, outputs: list, labels: list) -> list:
        return [_as_list(metric.compute(*outputs, *labels)) for metric in self._metrics]

    @staticmethod
    def _array(value: Any) -> Any:
        if not hasattr(value, "numpy"):
            return value
        if str(value.dtype).endswith("bfloat16"):
            value = value.astype("float32")
        return value.numpy()

    def _read(self, losses: list, found: list) -> Any:
        results = [m.update(*[self._array(v) for v in values]) for m, values in zip(self._metrics, found)]
        values = [self._array(loss) for loss in losses]
        if not self._metrics:
            return values
        return (values, results) if losses else results

    # -- files ----------------------------------------

    def save(self, path: str, training: bool = True) -> None:
        """Save to path.pdparams and path.pdopt; training False exports for inference by
        ``paddle.jit.save``.
        """
        import yuloh

        if os.path.basename(path) == "":
            raise ValueError(f"Model.save: path is {path!r}; expected folder/name without ending.")
        if not training:
            if self._inputs is None:
                raise RuntimeError(
                    "Model.save: training=False needs input shapes. Hint: Model(network, inputs=[...])."
                )
            yuloh.jit.save(self.network, path, input_spec=self._inputs)
            return
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        yuloh.save(self.network.state_dict(), path + ".pdparams")
        if self._optimizer is not None:
            yuloh.save(self._optimizer.state_dict(), path + ".pdopt")

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Load what save wrote.

        Args:
            path: with or without ".pdparams". skip_mismatch: leave out entries with another shape or name.
            reset_optimizer: do not load path.pdopt.
        """
        import yuloh

        base = path[: -len(".pdparams")] if path.endswith(".pdparams") else path
        state = yuloh.load(base + ".pdparams")
        own = self.network.state_dict()
        fitting = {}
        for key, value in own.items():
            got = state.get(key)
            shape = None if got is None else list(got.shape)
            if shape == list(value.shape):
                fitting[key] = got
            elif not skip_mismatch:
                raise ValueError(
                    f"Model.load: {key} has shape {list(value.shape)} here and {shape or 'no entry'} in "
                    f"{base}.pdparams. "
                    "Hint: skip_mismatch=True leaves it as it is."
                )
        self.network.set_state_dict({**own, **fitting})
        if self._optimizer is None or reset_optimizer or not os.path.exists(base + ".pdopt"):
            return
        self._optimizer.set_state_dict(yuloh.load(base + ".pdopt"))

    # -- loops ----------------------------------------

    @staticmethod
    def _loader(
        data: Any, batch_size: int, shuffle: bool, drop_last: bool, num_workers: int, what: str
    ) -> Any:
        if isinstance(data, Dataset):
            if hasattr(type(data), "__iter__"):
                return DataLoader(data, batch_size=batch_size, drop_last=drop_last, num_workers=num_workers)
            sampler = DistributedBatchSampler(
                data, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last
            )
            return DataLoader(data, batch_sampler=sampler, num_workers=num_workers)
        if data is None or not hasattr(data, "__iter__"):
            raise TypeError(
                f"Model.{what}: data is {type(data).__name__}; expected a Dataset or a DataLoader."
            )
        return data

    @staticmethod
    def _length(loader: Any) -> "int | None":
        try:
            return len(loader)
        except (TypeError, ValueError, RuntimeError):
            return None

    def _metric_names(self) -> list:
        names = ["loss"] if self._loss is not None else []
        for metric in self._metrics:
            names += _as_list(metric.name())
        return names

    _metrics_name = _metric_names

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: Any = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: "str | None" = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: "int | None" = None,
    ) -> None:
        """Train for `epochs` over train_data, evaluating on eval_data each `eval_freq` epochs.

        Args:
            train_data, eval_data: Dataset or DataLoader. batch_size: int, or [train, eval].
            log_freq, verbose: see callbacks.ProgBarLogger. save_dir, save_freq: see
                callbacks.ModelCheckpoint.
            accumulate_grad_batches: batches per optimizer step. num_iters: stop after so many steps in all.
        """
        if isinstance(batch_size, (list, tuple)):
            if len(batch_size) != 2:
                raise ValueError(
                    f"Model.fit: batch_size is {batch_size!r}; expected an int or [train, eval]."
                )
            train_size, eval_size = batch_size
        else:
            train_size = eval_size = batch_size
        loader = self._loader(train_data, train_size, shuffle, drop_last, num_workers, "fit")
        eval_loader = None
        if eval_data is not None:
            eval_loader = self._loader(eval_data, eval_size, False, False, num_workers, "fit")
        steps = self._length(loader)
        if num_iters is not None and steps is not None:
            steps = min(steps, num_iters)
        called = config_callbacks(
            callbacks,
            self,
            epochs=epochs,
            steps=steps,
            log_freq=log_freq,
            save_freq=save_freq,
            save_dir=save_dir,
            verbose=verbose,
            metrics=self._metric_names(),
        )
        self.stop_training = False
        self._accumulate = accumulate_grad_batches
        left = num_iters
        logs: dict = {}
        called.call("train_begin")
        for epoch in range(epochs):
            called.call("epoch_begin", epoch)
            logs = self._run_one_epoch(loader, called, "train", left)
            called.call("epoch_end", epoch, logs)
            if eval_loader is not None and epoch % eval_freq == 0:
                self._evaluate(eval_loader, called, None)
            if left is not None:
                left -= logs.get("step", -1) + 1
            if self.stop_training or (left is not None and left <= 0):
                break
        called.call("train_end", logs)

    def _evaluate(self, loader: Any, called: CallbackList, num_iters: "int | None") -> dict:
        steps = self._length(loader)
        if num_iters is not None:
            steps = num_iters if steps is None else min(steps, num_iters)
        called.call("eval_begin", {"steps": steps, "metrics": self._metric_names()})
        logs = self._run_one_epoch(loader, called, "eval", num_iters)
        called.call("eval_end", logs)
        return logs

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: "int | None" = None,
    ) -> dict:
        """Loss (of the last batch) and metrics (over all) on eval_data, as a dict."""
        loader = self._loader(eval_data, batch_size, False, False, num_workers, "evaluate")
        called = config_callbacks(
            callbacks, self, log_freq=log_freq, verbose=verbose, metrics=self._metric_names()
        )
        logs = self._evaluate(loader, called, num_iters)
        return {name: logs[name] for name in self._metric_names() if name in logs}

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list:
        """Outputs for test_data: per output a tuple of batches, or with stack_outputs one array."""
        loader = self._loader(test_data, batch_size, False, False, num_workers, "predict")
        called = config_callbacks(callbacks, self, verbose=verbose, metrics=None, log_freq=1)
        called.call("predict_begin", {"steps": self._length(loader)})
        outputs: list = []
        logs = self._run_one_epoch(loader, called, "predict", None, outputs)
        called.call("predict_end", logs)
        columns = list(zip(*outputs))
        return [np.vstack(c) for c in columns] if stack_outputs else columns

    def _input_count(self, fields: int, with_labels: bool) -> int:
        if self._inputs is not None:
            return len(self._inputs)
        if self._arguments is None:
            self._arguments = _positional(self.network.forward)
        required, most = self._arguments
        if most is None:  # forward takes *args
            return max(fields - 1, 1) if with_labels else fields
        # An optional argument of forward does not swallow the label.
        return most if most < fields or not with_labels else max(required, 1)

    def _run_one_epoch(
        self,
        loader: Any,
        called: CallbackList,
        mode: str,
        num_iters: "int | None",
        outputs: "list | None" = None,
    ) -> dict:
        for metric in self._metrics:
            metric.reset()
        logs: dict = {}
        accumulate = getattr(self, "_accumulate", 1)
        total = self._length(loader)
        for step, data in enumerate(loader):
            if num_iters is not None and step >= num_iters:
                break
            fields = _flat(data)
            count = self._input_count(len(fields), mode != "predict")
            inputs, labels = fields[:count], fields[count:]
            called.call(f"{mode}_batch_begin", step, logs)
            logs = dict(logs)
            if mode == "predict":
                outputs.append(self.predict_batch(inputs))
            elif mode == "train":
                last = total is not None and step + 1 == total
                update = (step + 1) % accumulate == 0 or last
                self._log(logs, self.train_batch(inputs, labels, update=update))
            else:
                self._log(logs, self.eval_batch(inputs, labels))
            logs["step"] = step
            logs["batch_size"] = int(inputs[0].shape[0]) if len(inputs[0].shape) else 1
            called.call(f"{mode}_batch_end", step, logs)
            if num_iters is not None and step + 1 >= num_iters:
                break
        return logs

    def _log(self, logs: dict, result: Any) -> None:
        if self._loss is not None:
            losses = result[0] if self._metrics else result
            logs["loss"] = [float(np.asarray(v).reshape(-1)[0]) for v in losses]
        for metric in self._metrics:
            values = _as_list(metric.accumulate())
            logs.update(zip(_as_list(metric.name()), values))

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict:
        """Table of layers, see ``paddle.summary``; input_size None uses the shapes of `inputs`."""
        from .summary import summary

        if input_size is None:
            if self._inputs is None:
                raise ValueError("Model.summary: no input_size and no inputs; expected one of the two.")
            input_size = [tuple(spec.shape) for spec in self._inputs]
            dtype = dtype or [str(spec.dtype).replace("paddle.", "") for spec in self._inputs]
        return summary(self.network, input_size, dtypes=dtype)
