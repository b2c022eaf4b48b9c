# SPDX-License-Identifier: Apache-2.0
"""Advice room: what one training step or one inference of a model needs, without running it.

The model's own code records a few real steps in a dry run of the core (gradients, passes, Plans and the allocator are
those of a real run; no kernel runs, no memory is touched), and the core reads the figures off the Plans.
"""
from __future__ import annotations

import contextlib
import copy
import inspect
import json
import os
import threading
from typing import Any, Callable, Dict, List

from .. import _core
from ..framework.kept import Keeper, keep

__all__ = ["dry_run", "facts", "recomputed_layers"]

PRECISIONS = ("float32", "amp-bfloat16", "amp-float16", "bfloat16", "float16")
ALIASES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "amp-bf16": "amp-bfloat16", "amp-fp16": "amp-float16"}
RECURRENT = ("LSTM", "GRU", "SimpleRNN")
STEPS = 3  # the first makes parameters and moments, the third is a steady one


class dry_run(contextlib.ContextDecorator):
    """Inside the block nothing is computed: tensors have types, take part in the accounting of paddle.device, and read
    as zeros. Tensors made inside are of no use outside; optimizers and loss scalers that were there before have the state that
    they had. ``pending_limit``: bytes that may be pending before a
    plan is cut, as the memory of a machine would (0: any number).

    The random stream goes on afterwards as if nothing had happened. Raises RuntimeError inside another dry run, and when it
    is left in another thread than it was entered in.
    """

    _number = 0

    def __init__(self, pending_limit: int = 0) -> None:
        self._limit = pending_limit

    def __enter__(self) -> None:
        self._number = _core.dry_begin(self._limit)  # of the run that is this object's to end
        self._thread, self._keeper = threading.get_ident(), Keeper()

    def __exit__(self, *_) -> None:
        try:
            _core.dry_end(self._number)
        finally:  # an interrupt ends it, too
            if self._thread == threading.get_ident():
                self._number = 0
                self._keeper.give_back()

    def __del__(self) -> None:
        if self._number:  # entered by hand and forgotten
            self.__exit__()


def facts(model: Any, inputs: Any = None, *, training: bool = True, loss: Callable | None = None, labels: Any = None,
          optimizer: Any = "Adam", precision: str = "float32", batch: int | None = None, accumulate: int = 1,
          recompute: Any = False, pending_limit: int | None = None, device: Any = None) -> Dict[str, Any]:
    """What one step needs: the record of src/advise/facts.h as a dict (docs/facts.md explains it).

    ``model``: a Layer (its parameters stay what they are), a callable that makes one (made dry, so any size
    will do) or the path of a saved model, ours or Paddle's (whose own ``inputs`` hold where none are given). ``inputs``: a list of InputSpec, (shape, dtype) pairs or Tensors; None or -1 as first
    extent is ``batch``. ``loss(outputs, *labels)`` gives a scalar; without it cross-entropy over the last axis
    (a 2-D or 3-D output) or the mean. ``labels``: specs as ``inputs``. ``optimizer``: a name of paddle.optimizer, a callable
    from parameters, or an optimizer (not changed). ``precision``: float32, amp-bfloat16 / amp-float16 (auto_cast) or bfloat16 /
    float16 (parameters too), or bf16, fp16, fp32 as `yuloh advise` says. ``recompute``: True for the blocks of the longest LayerList or Sequential, or a list of
    sublayer names.

    Raises ValueError or TypeError for settings that make no sense, and whatever the model itself raises.
    """
    precision = ALIASES.get(precision, precision)
    _check(precision, batch, accumulate)
    if isinstance(model, (str, os.PathLike)):
        from .model_file import layer_of_file, specs_of_layer
        model = layer_of_file(model)
        inputs = specs_of_layer(model) if inputs is None else inputs
    limit = _machine() if pending_limit is None else pending_limit
    with dry_run(limit):
        run = _Run(model, inputs, labels, loss, optimizer, precision, batch, accumulate, recompute, training)
        return run.facts(device)


def recomputed_layers(net, wanted) -> list:
    """The sublayers that ``recompute=wanted`` means: those named, or for True the blocks of the longest LayerList or Sequential
    (of equal ones the first). Raises ValueError where there are none such."""
    from .. import nn
    named = dict(net.named_sublayers())
    if wanted is True:
        lists = [layer for layer in named.values() if isinstance(layer, (nn.LayerList, nn.Sequential))]
        if not lists:
            raise ValueError("facts: recompute=True needs a LayerList or Sequential of blocks; give the names of sublayers.")
        return list(max(lists, key=len).children())
    missing = [n for n in wanted if n not in named]
    if missing:
        raise ValueError(f"facts: recompute names no sublayer, got {missing[0]!r}; expected one of the model's "
                         f"{len(named)} names, such as {next(iter(named), '')!r}.")
    return [named[n] for n in wanted]


def _check(precision, batch, accumulate):
    if precision not in PRECISIONS:
        raise ValueError(f"facts: unknown precision, got {precision!r}; expected one of {', '.join(PRECISIONS)}.")
    for name, value in (("batch", 1 if batch is None else batch), ("accumulate", accumulate)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"facts: {name} must be a positive int, got {value!r}.")


def _machine():
    """Bytes of this machine or container: what decides in a real run when pending work is cut."""
    return _core.machine_memory()[0]


def _bytes(tensors):
    return float(sum(t.size * t.element_size() for t in tensors))


class _Run:
    """The steps of one question, and what they leave to count."""

    def __init__(self, model, inputs, labels, loss, optimizer, precision, batch, accumulate, recompute, training):
        import yuloh as paddle
        self.paddle, self.training, self.batch = paddle, training, batch
        self.precision, self.accumulate, self.loss = precision, accumulate if training else 1, loss
        net = model
        if not isinstance(net, paddle.nn.Layer):
            if not callable(model):
                raise TypeError(f"facts: model must be a Layer, a callable that makes one or a path, got {type(model).__name__}.")
            net = model()
            if not isinstance(net, paddle.nn.Layer):
                raise TypeError(f"facts: the callable must return a Layer, got {type(net).__name__}.")
        elif precision in ("bfloat16", "float16"):  # changes dtypes: of a copy
            net = copy.deepcopy(net)
        else:
            for layer in [net, *net.sublayers()]:
                keep(layer)
            for t in [*net.parameters(), *net.buffers()]:
                _core.dry_borrow(t)
        self.net = net
        self.read = 0.0
        self.optimizer = self._optimizer(optimizer) if training else None
        if precision in ("bfloat16", "float16"):
            if training:
                paddle.amp.decorate(net, self.optimizer, level="O2", dtype="bfloat16")  # stands for float16
            else:
                net.to(dtype=precision)
        specs = _specs(inputs, net)
        self.inputs = [[self._make(s) for s in specs] for _ in range(self.accumulate)]  # per micro-batch
        specs = None if labels is None else _specs(labels, None)
        self.labels = [None if specs is None else [self._make(s) for s in specs] for _ in range(self.accumulate)]
        self.recompute = bool(recompute)
        self.recomputed = recomputed_layers(net, recompute) if training and recompute else []

    def _optimizer(self, given):
        paddle, parameters = self.paddle, self.net.parameters()
        if isinstance(given, str):
            kind = getattr(paddle.optimizer, given, None)
            if not (isinstance(kind, type) and issubclass(kind, paddle.optimizer.Optimizer)):
                raise ValueError(f"facts: unknown optimizer, got {given!r}; expected a class of paddle.optimizer.")
            rate = inspect.signature(kind).parameters["learning_rate"]
            return _steps_alone(kind(parameters=parameters, **({"learning_rate": 0.001} if rate.default is rate.empty else {})))
        if isinstance(given, paddle.optimizer.Optimizer):
            twin = copy.copy(given)
            twin._states, twin._masters, twin._report = {}, {}, None
            if {id(p) for p in twin._parameter_list} != {id(p) for p in parameters}:
                twin = type(given)(parameters=parameters, learning_rate=given.get_lr())
            return _steps_alone(twin)
        if callable(given):
            return _steps_alone(given(parameters))
        raise TypeError(f"facts: optimizer must be a name, an optimizer or a callable, got {type(given).__name__}.")

    def _make(self, spec):
        shape, dtype = spec
        if shape and shape[0] == -1:
            shape = [self.batch or 1, *shape[1:]]
        if any(n < 0 for n in shape):
            raise ValueError(f"facts: only the first extent of an input may be open, got {list(shape)}.")
        if self.precision in ("bfloat16", "float16") and dtype == "float32":  # amp has bfloat16 stand for float16
            dtype = "bfloat16" if self.training else self.precision
        return _core.dry_tensor(list(shape), dtype)

    # ---- layers ----------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _marked(self, records):
        """Every layer's forward pass is recorded under its scope; blocks that are recomputed are wrapped."""
        from ..distributed.fleet.utils import recompute
        stack, handles, wrapped = [], [], []
        layers = [self.net, *self.net.sublayers()]
        number = {id(layer): n for n, layer in enumerate(layers)}

        def enter(layer, inputs):
            stack.append(_core.set_scope(_core.first_layer_scope + number[id(layer)]))
            records[number[id(layer)]]["input_bytes"] = _bytes(_tensors(inputs))

        def leave(layer, inputs, outputs):
            _core.set_scope(stack.pop())
            records[number[id(layer)]]["output_bytes"] = _bytes(_tensors(outputs))

        inside = {id(child) for layer in layers if type(layer).__name__ in RECURRENT for child in layer.sublayers()}
        for layer in layers:
            if id(layer) in inside:  # a cell with a hook is called step by step
                continue
            handles += [layer.register_forward_pre_hook(enter), layer.register_forward_post_hook(leave)]
        for layer in self.recomputed:
            forward = layer.forward
            layer.forward = lambda *a, _f=forward, **k: recompute(_f, *a, **k)
            wrapped.append(layer)
        modes = [(layer, layer.training) for layer in layers]
        self.net.train() if self.training else self.net.eval()
        before, grad = _core.set_scope(0), _core.grad_enabled()
        _core.set_grad_enabled(True)
        try:
            yield
        finally:
            _core.set_grad_enabled(grad)
            _core.set_scope(before)
            for handle in handles:
                handle.remove()
            for layer in wrapped:
                del layer.forward
            for layer, mode in modes:
                layer.training = mode

    def _records(self):
        found, number, seen = [], {"": 0}, set()
        for name, layer in [("", self.net), *self.net.named_sublayers()]:
            number[name] = len(found)
            own = [p for p in layer.parameters() if p is not None]
            parent = -1 if not name else next(number[p] for p in _prefixes(name) if p in number)
            found.append({**json.loads(_core.empty_layer_facts()), "name": name, "type": type(layer).__name__,
                          "parent": parent, "depth": 0 if not name else found[parent]["depth"] + 1,
                          "parameters": sum(p.size for p in own), "weight_bytes": _bytes(own)})
        return found

    # ---- steps -----------------------------------------------------------------------------------------------
    def _forward(self, micro=0):
        half = "bfloat16" if self.precision.startswith("amp-") else None
        with self.paddle.amp.auto_cast(dtype=half) if half else contextlib.nullcontext():
            out = self.net(*self.inputs[micro])
            return self._loss(out, micro) if self.training else out

    def _loss(self, out, micro):
        F = self.paddle.nn.functional
        first = _tensors(out)[0]
        if self.loss is not None:
            return self.loss(out, *(self.labels[micro] or ()))
        if self.labels[micro] is None:
            self.labels[micro] = [_core.dry_tensor(first.shape[:-1], "int64")] if first.ndim in (2, 3) else []
        if not self.labels[micro]:
            return first.mean()
        return F.cross_entropy(first.reshape([-1, first.shape[-1]]), self.labels[micro][0].reshape([-1]))

    def _step(self):
        if not self.training:
            with self.paddle.no_grad():
                out = self._forward()
            _core.run_pending()
            self.read = _bytes(_tensors(out))
            return None
        for micro in range(self.accumulate):
            loss = self._forward(micro)
            (loss / self.accumulate if self.accumulate > 1 else loss).backward()
        _core.set_scope(_core.optimizer_scope)
        self.optimizer.step()
        _core.set_scope(0)
        self.optimizer.clear_grad()
        loss.numpy()
        return loss

    def facts(self, device):
        record = json.loads(_core.empty_facts())
        layers = self._records()
        with self._marked(layers):
            for _ in range(STEPS):
                steady = _core.dry_flushes()
                self._step()
        net, opt = self.net, self.optimizer
        parameters, trained = net.parameters(), [p for p in net.parameters() if not p.stop_gradient]
        memory = record["memory"]
        memory["scratch"] = self.read  # a result that is read is copied
        memory["weights"], memory["buffers"] = _bytes(parameters), _bytes(net.buffers())
        memory["inputs"] = _bytes(_tensors([self.inputs, self.labels]))
        if self.accumulate > 1 and self.training:  # held from one micro-batch to the next
            memory["gradients"] = _bytes(trained)
        memory["gradients_all"] = _bytes(trained) if self.training else 0.0
        if opt is not None:
            memory["optimizer"] = _bytes(_tensors(list(opt._states.values()))) + _bytes(opt._masters.values())
        record.update(subject=type(net).__name__, training=self.training, precision=self.precision,
                      optimizer=type(opt).__name__ if opt is not None else "", batch=self._batch(),
                      accumulate=self.accumulate, recompute=bool(self.recomputed),
                      parameters=sum(p.size for p in parameters), trainable=sum(p.size for p in trained), layers=layers)
        from . import device_file
        written, unused = device_file.own() if device is None else (device_file.text(device), "")
        made = json.loads(_core.dry_facts(json.dumps(record), steady, written))
        made["notes"] += device_file.notes(written) if written and device is None else [unused] if unused else []
        return made

    def _batch(self):
        return self.batch or next((t.shape[0] for t in self.inputs[0] if t.ndim), 1)


def _steps_alone(opt):
    """The optimizer. Raises ValueError for one whose step evaluates the loss itself and decides by what comes out."""
    if any(p.default is p.empty for p in inspect.signature(opt.step).parameters.values()):
        raise ValueError(f"facts: {type(opt).__name__} steps by a closure and decides by values, which a dry run does not have. "
                         "Hint: name an optimizer that steps once per backward.")
    return opt


def _prefixes(name):
    """"a.b.c" -> "a.b", "a", ""."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(len(parts) - 1, -1, -1)]


def _tensors(value) -> list:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(value, _core.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _specs(given, net):
    """(shape, dtype name) pairs of what the user gave."""
    from ..framework.dtype import dtype_name
    if given is None:
        raise ValueError("facts: inputs must be given, a list of InputSpec or (shape, dtype).")
    if isinstance(given, _core.Tensor) or hasattr(given, "shape") or (
            isinstance(given, tuple) and given and isinstance(given[0], (list, tuple)) and isinstance(given[-1], str)):
        given = [given]
    found = []
    for item in given:
        shape, dtype = (item.shape, dtype_name(item.dtype)) if hasattr(item, "shape") else (
            (item[0], dtype_name(item[1])) if isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], (list, tuple))
            else (item, "float32"))
        if not isinstance(shape, (list, tuple)) or not all(n is None or isinstance(n, int) for n in shape):
            raise TypeError(f"facts: an input is an InputSpec, a Tensor or (shape, dtype), got {item!r}.")
        found.append(([-1 if n is None else n for n in shape], dtype))
    return found
