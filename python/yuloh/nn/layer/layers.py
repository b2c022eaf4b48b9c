# SPDX-License-Identifier: Apache-2.0
"""Layer room: ``Layer``, the base class of every network.

A layer owns parameters, buffers and sublayers by attribute name and turns a call into ``forward``. The call
itself is kept light (no hooks: two dict tests and one method call), since all of a step's recording goes
through it. Walking, hooks and membership are here; ``state.py`` holds state dicts and dtype changes.
"""
import re

from ... import _core
from ...tensor import to_tensor
from ...framework import unique_name
from ...framework.dtype import dtype_name, get_default_dtype
from ...framework.parameter import Parameter, make_parameter
from .registry import Registry
from .state import LayerState

_layer_exit = _core.cut_point

__all__ = ["HookRemoveHelper", "Layer"]


def snake_case(name):
    """``BatchNorm2D`` -> ``batch_norm2d``, ``LSTMCell`` -> ``lstm_cell``."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


class HookRemoveHelper:
    """What registering a hook returns; ``remove()`` takes the hook away again."""

    _next_id = 0

    def __init__(self, hooks, *flags):
        self._hooks, self._flags = hooks, flags
        self._hook_id = HookRemoveHelper._next_id
        HookRemoveHelper._next_id += 1

    def remove(self):
        """Removes the hook; a second call does nothing."""
        self._hooks.pop(self._hook_id, None)
        for flag in self._flags:
            flag.pop(self._hook_id, None)


def _add_hook(hooks, hook, prepend, *flags):
    helper = HookRemoveHelper(hooks, *flags)
    hooks[helper._hook_id] = hook
    if prepend:
        rest = [(k, v) for k, v in hooks.items() if k != helper._hook_id]
        for key, _ in rest:
            del hooks[key]
        hooks.update(rest)
    return helper


class Layer(LayerState):
    """Base class of networks and of their parts. Subclasses call ``super().__init__()`` and define
    ``forward``.
    """

    def __init__(self, name_scope=None, dtype="float32"):
        attributes = self.__dict__
        attributes["training"] = True
        prefix = snake_case(type(self).__name__ if name_scope is None else name_scope)
        attributes["_full_name"] = unique_name.generate(prefix)
        attributes["_dtype"] = dtype_name(dtype) if dtype else get_default_dtype()
        attributes["_parameters"] = Registry(self)
        attributes["_buffers"] = Registry(self)
        attributes["_non_persistable_buffer_names_set"] = set()
        attributes["_sub_layers"] = Registry(self)
        attributes["_forward_pre_hooks"] = {}
        attributes["_forward_post_hooks"] = {}
        attributes["_with_kwargs"] = {}
        attributes["_always_call"] = {}
        attributes["_state_dict_hooks"] = {}

    # ---- calling -------------------------------------------------------------------------------------------
    def __call__(self, *inputs, **kwargs):
        if self._forward_pre_hooks or self._forward_post_hooks:
            return self._call_with_hooks(inputs, kwargs)
        out = self.forward(*inputs, **kwargs)
        _layer_exit()  # a place where a pending graph beyond the byte bound may run (DESIGN 3.1)
        return out

    def _call_with_hooks(self, inputs, kwargs):
        with_kwargs = self._with_kwargs
        try:
            for key, hook in list(self._forward_pre_hooks.items()):
                if with_kwargs.get(key):
                    result = hook(self, inputs, kwargs)
                    if result is not None:
                        inputs, kwargs = result
                else:
                    result = hook(self, inputs)
                    if result is not None:
                        inputs = result if isinstance(result, tuple) else (result,)
            outputs = self.forward(*inputs, **kwargs)
        except BaseException:
            self._call_after_failure(inputs, kwargs)
            raise
        for key, hook in list(self._forward_post_hooks.items()):
            given = (inputs, kwargs, outputs) if with_kwargs.get(key) else (inputs, outputs)
            result = hook(self, *given)
            if result is not None:
                outputs = result
        return outputs

    def _call_after_failure(self, inputs, kwargs):
        for key in self._always_call:
            hook = self._forward_post_hooks.get(key)
            if hook is not None:
                hook(self, inputs, kwargs, None) if self._with_kwargs.get(key) else hook(self, inputs, None)

    def forward(self, *inputs, **kwargs):
        """What a call computes; defined by every subclass."""
        raise NotImplementedError(f"{type(self).__name__}: forward is not defined.")

    def backward(self, *inputs):
        """Not used: gradients come from ``loss.backward()``."""
        raise ValueError("Layer: backward is not a method to call or define. Hint: use loss.backward().")

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls ``hook(layer, inputs)`` before ``forward``; what it returns, if not None, replaces the
        inputs.

        With ``with_kwargs`` it is ``hook(layer, inputs, kwargs) -> (inputs, kwargs) | None``.
        """
        helper = _add_hook(self._forward_pre_hooks, hook, prepend, self._with_kwargs)
        if with_kwargs:
            self._with_kwargs[helper._hook_id] = True
        return helper

    def register_forward_post_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Calls ``hook(layer, inputs, outputs)`` after ``forward``; what it returns, if not None, is the
        output.

        ``with_kwargs`` adds the keyword arguments before the outputs; ``always_call`` calls it on errors too.
        """
        helper = _add_hook(self._forward_post_hooks, hook, prepend, self._with_kwargs, self._always_call)
        if with_kwargs:
            self._with_kwargs[helper._hook_id] = True
        if always_call:
            self._always_call[helper._hook_id] = True
        return helper

    register_forward_hook = register_forward_post_hook

    # ---- membership ----------------------------------------------------------------------------------------
    def __setattr__(self, name, value):
        kind = type(value)
        if isinstance(value, Parameter):
            self._place(self.__dict__.get("_parameters"), name, value)
        elif isinstance(value, Layer):
            self._place(self.__dict__.get("_sub_layers"), name, value)
        elif kind is _core.Tensor and not isinstance(getattr(type(self), name, None), property):
            buffers = self.__dict__.get("_buffers")
            self._place(buffers, name, value)
            if not value.name:
                value.name = unique_name.generate("_buffers_" + name)
        else:
            self._set_plain(name, value)

    def _place(self, registry, name, value):
        if registry is None:
            raise ValueError(f"{type(self).__name__}: super().__init__() must be called before {name!r} is "
                             "set.")
        if name not in registry:
            self._forget(name)
            if registry is self._buffers:
                self._non_persistable_buffer_names_set.add(name)
        registry[name] = value

    def _forget(self, name):
        """Takes ``name`` out of every registry and of the attributes."""
        for key in ("_parameters", "_buffers", "_sub_layers"):
            self.__dict__[key].pop(name, None)
        self._non_persistable_buffer_names_set.discard(name)
        self.__dict__.pop(name, None)

    def _set_plain(self, name, value):
        for key in ("_parameters", "_buffers", "_sub_layers"):
            registry = self.__dict__.get(key)
            if registry is not None and name in registry:
                if value is not None:
                    raise TypeError(f"{type(self).__name__}: {name!r} is one of {key[1:]}, "
                                    f"it cannot be set to a {type(value).__name__}.")
                registry[name] = None
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        for key in ("_parameters", "_buffers", "_sub_layers"):
            if name in self.__dict__.get(key, ()):
                del self.__dict__[key][name]
                self._non_persistable_buffer_names_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return sorted(set(super().__dir__()))

    def create_parameter(self, shape, attr=None, dtype=None, is_bias=False, default_initializer=None,
                         device=None):
        """New Parameter of this layer (not yet placed in it), or None where ``attr`` is False."""
        return make_parameter(attr, shape, dtype or self._dtype, is_bias, default_initializer,
                              self._full_name)

    def create_tensor(self, name=None, persistable=None, dtype=None):
        """New empty tensor of this layer."""
        value = to_tensor([], dtype=dtype_name(dtype or self._dtype))
        value.name = name or unique_name.generate(self._full_name + "._generated_var")
        if persistable is not None:
            value.persistable = persistable
        return value

    create_variable = create_tensor

    def add_parameter(self, name, parameter):
        """Places ``parameter`` (or None) under ``name`` and returns it."""
        if not isinstance(name, str):
            raise TypeError(f"add_parameter: name must be a str, got {type(name).__name__}.")
        if "." in name or name == "":
            raise KeyError(f"add_parameter: name must be non-empty and hold no dot, got {name!r}.")
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"add_parameter: attribute {name!r} exists already.")
        if parameter is not None and not isinstance(parameter, Parameter):
            raise TypeError(f"add_parameter: expected a Parameter or None, got {type(parameter).__name__}.")
        self._parameters[name] = parameter
        return parameter

    def register_parameter(self, name, param):
        """torch's spelling of ``add_parameter``."""
        return self.add_parameter(name, param)

    def register_buffer(self, name, tensor, persistable=True):
        """Places a tensor that is part of the state but not trained; ``persistable`` ones are saved."""
        if not isinstance(name, str):
            raise TypeError(f"register_buffer: name must be a str, got {type(name).__name__}.")
        if "." in name or name == "":
            raise KeyError(f"register_buffer: name must be non-empty and hold no dot, got {name!r}.")
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"register_buffer: attribute {name!r} exists already.")
        if tensor is not None and not isinstance(tensor, _core.Tensor):
            raise TypeError(f"register_buffer: expected a Tensor or None, got {type(tensor).__name__}.")
        self._buffers[name] = tensor
        if persistable:
            self._non_persistable_buffer_names_set.discard(name)
        else:
            self._non_persistable_buffer_names_set.add(name)

    def add_sublayer(self, name, sublayer):
        """Places ``sublayer`` (or None) under ``name`` and returns it."""
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise TypeError(f"add_sublayer: expected a Layer or None, got {type(sublayer).__name__}.")
        self._sub_layers[str(name)] = sublayer
        return sublayer

    def add_module(self, name, module):
        """torch's spelling of ``add_sublayer``."""
        return self.add_sublayer(name, module)

    register_module = add_module

    # ---- walking -------------------------------------------------------------------------------------------
    def named_children(self):
        """(name, layer) of each direct sublayer, each layer once."""
        seen = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                yield name, layer

    def children(self):
        """Each direct sublayer."""
        for _, layer in self.named_children():
            yield layer

    def named_sublayers(self, prefix="", include_self=False, layers_set=None, remove_duplicate=True):
        """(dotted name, layer) of everything below, parents before children."""
        seen = set() if layers_set is None else layers_set
        if remove_duplicate:
            if self in seen:
                return
            seen.add(self)
        if include_self:
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                inner = prefix + ("." if prefix else "") + name
                yield from layer.named_sublayers(inner, True, seen, remove_duplicate)

    def sublayers(self, include_self=False):
        """List of everything below, parents before children."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """``named_sublayers`` with this layer itself first."""
        return self.named_sublayers(prefix, True, memo, remove_duplicate)

    def modules(self):
        """This layer and everything below."""
        for _, layer in self.named_modules():
            yield layer

    def _named_members(self, registry, prefix, include_sublayers, remove_duplicate):
        layers = (self.named_sublayers(prefix, True, remove_duplicate=remove_duplicate) if include_sublayers
                  else [(prefix, self)])
        seen = set()
        for layer_name, layer in layers:
            for name, value in getattr(layer, registry).items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield layer_name + ("." if layer_name else "") + name, value

    def named_parameters(self, prefix="", include_sublayers=True, remove_duplicate=True):
        """(dotted name, parameter), each parameter once."""
        return self._named_members("_parameters", prefix, include_sublayers, remove_duplicate)

    def named_buffers(self, prefix="", include_sublayers=True, remove_duplicate=True):
        """(dotted name, buffer), each buffer once."""
        return self._named_members("_buffers", prefix, include_sublayers, remove_duplicate)

    def parameters(self, include_sublayers=True):
        """List of the parameters, each once."""
        return [p for _, p in self.named_parameters(include_sublayers=include_sublayers)]

    def buffers(self, include_sublayers=True):
        """List of the buffers, each once."""
        return [b for _, b in self.named_buffers(include_sublayers=include_sublayers)]

    def apply(self, fn):
        """Calls ``fn(layer)`` on everything below, then on this layer; returns this layer."""
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def train(self, mode=True):
        """Training behaviour (dropout, batch statistics) for this layer and everything below; returns this
        layer.
        """
        for layer in self.sublayers(include_self=True):
            layer.training = bool(mode)
        return self

    def eval(self):
        """Inference behaviour for this layer and everything below; returns this layer."""
        return self.train(False)

    def get_sublayer(self, target):
        """The layer at a dotted name; AttributeError when there is none."""
        layer = self
        for part in target.split(".") if target else ():
            layer = getattr(layer, part, None)
            if not isinstance(layer, Layer):
                raise AttributeError(f"{type(self).__name__}: there is no sublayer {target!r} (at {part!r}).")
        return layer

    get_submodule = get_sublayer

    def set_sublayer(self, target, layer, strict=False):
        """Places ``layer`` at a dotted name; with ``strict`` something must stand there already."""
        parent, _, name = target.rpartition(".")
        owner = self.get_sublayer(parent)
        if strict and name not in owner._sub_layers:
            raise AttributeError(f"{type(self).__name__}: there is no sublayer {target!r}.")
        owner._sub_layers[name] = layer

    set_submodule = set_sublayer

    def _get_member(self, target, registry, kind):
        parent, _, name = target.rpartition(".")
        members = getattr(self.get_sublayer(parent), registry)
        if name not in members:
            raise AttributeError(f"{type(self).__name__}: there is no {kind} {target!r}.")
        return members[name]

    def get_parameter(self, target):
        """The parameter at a dotted name; AttributeError when there is none."""
        return self._get_member(target, "_parameters", "parameter")

    def get_buffer(self, target):
        """The buffer at a dotted name; AttributeError when there is none."""
        return self._get_member(target, "_buffers", "buffer")

    # ---- names and printing --------------------------------------------------------------------------------
    def full_name(self):
        """Name under which this layer's parameters were named, such as ``linear_0``."""
        return self._full_name

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What ``repr`` says inside the brackets; subclasses override it."""
        return ""

    def __repr__(self):
        lines = []
        for name, layer in self._sub_layers.items():
            lines.append(f"({name}): " + "\n".join(_indent(repr(layer).split("\n"))))
        text = f"{self._get_name()}({self.extra_repr()}"
        if lines:
            text += "\n  " + "\n  ".join(lines) + "\n"
        return text + ")"


def _indent(lines):
    return lines[:1] + ["  " + line for line in lines[1:]]
