# SPDX-License-Identifier: Apache-2.0
"""Mixed-precision room: which dtype recorded ops compute in.

The core casts while recording, by op name (``lists.py``): ops of the white list take half precision, those of
the black list float32, the rest what they are given. CPUs compute in bfloat16 where float16 is asked: it has
the same size and float32's range, and this CPU back end has no float16 arithmetic. That is said once.
"""
import copy
import warnings

from .. import _core
from ..framework.dtype import dtype_name
from . import lists

__all__ = ["amp_guard", "auto_cast", "autocast", "decorate", "get_autocast_cpu_dtype", "get_autocast_dtype",
           "get_autocast_gpu_dtype", "is_autocast_enabled", "is_bfloat16_supported", "is_float16_supported"]

_said = False
_stack = []  # settings of the enclosing blocks, innermost last: None or (level, dtype, white, black)


def is_float16_supported(device=None):
    """False: the CPU back end computes in bfloat16 instead."""
    return False


def is_bfloat16_supported(device=None):
    """True: every CPU computes in bfloat16 here, in hardware or by widening."""
    return True


def computed_dtype(dtype):
    """The half-precision dtype that stands for ``dtype``; float16 becomes bfloat16, which is said once."""
    global _said
    name = dtype_name(dtype)
    if name not in ("float16", "bfloat16", "float32"):
        raise ValueError(f"auto_cast: dtype must be 'float16' or 'bfloat16', got {dtype!r}.")
    if name == "float16":
        if not _said:
            _said = True
            warnings.warn("amp: float16 is computed in bfloat16 on the CPU. Hint: dtype='bfloat16' says so "
                          "itself.", UserWarning, stacklevel=3)
        name = "bfloat16"
    return name


def _names(ops, what):
    if ops is None:
        return set()
    if not isinstance(ops, (list, tuple, set, frozenset)) or not all(isinstance(op, str) for op in ops):
        raise TypeError(f"auto_cast: {what} must be a set of op names, got {ops!r}.")
    return set(ops)


def _apply(settings):
    if settings is None:
        _core.set_amp(None, "bfloat16", None, None)
    else:
        level, dtype, white, black = settings
        # With O2 the parameters are half precision already, so the same two lists serve: what is in neither
        # follows
        # its inputs, and batch statistics stay in float32.
        _core.set_amp("O1", dtype, *lists.chosen(level, white, black))


def half_for(op):
    """The half-precision dtype that the op of this name computes in here, or None: for layers whose one op
    holds several others.
    """
    settings = _stack[-1] if _stack else None
    return settings[1] if settings is not None and op in lists.chosen(settings[0], *settings[2:])[0] else None


class auto_cast:
    """Context manager (or decorator) of mixed precision.

    ``level`` is 'O0' (off), 'OD' (only the white list), 'O1' or 'O2'. ``custom_white_list`` and
    ``custom_black_list`` move ops, by their names in the op table, from one list to the other.
    """

    def __init__(self, enable=True, custom_white_list=None, custom_black_list=None, level="O1",
                 dtype="float16", use_promote=True):
        level = level.upper()
        if level not in ("O0", "OD", "O1", "O2"):
            raise ValueError(f"auto_cast: level must be 'O0', 'OD', 'O1' or 'O2', got {level!r}.")
        white = {lists.row_name(n) for n in _names(custom_white_list, "custom_white_list")}
        black = {lists.row_name(n) for n in _names(custom_black_list, "custom_black_list")}
        if white & black:
            raise ValueError(f"auto_cast: {sorted(white & black)} stand in both custom lists.")
        self._settings, self._asked = None, dtype_name(dtype)
        if enable and level != "O0" and dtype_name(dtype) != "float32":
            self._settings = (level, computed_dtype(dtype), white, black)

    def __enter__(self):
        _stack.append(self._settings)
        _apply(self._settings)
        return self

    def __exit__(self, *error):
        _stack.pop()
        _apply(_stack[-1] if _stack else None)

    def __call__(self, func):
        import functools

        @functools.wraps(func)
        def run(*args, **kwargs):
            with copy.copy(self):
                return func(*args, **kwargs)
        return run


amp_guard = auto_cast


class autocast(auto_cast):
    """torch's spelling: the first argument is the device type."""

    def __init__(self, device_type=None, dtype=None, enabled=True, cache_enabled=None):
        super().__init__(enable=enabled, dtype="bfloat16" if dtype is None else dtype)


def is_autocast_enabled(device_type=None):
    """True inside an enabled ``auto_cast`` block."""
    return bool(_stack) and _stack[-1] is not None


def get_autocast_dtype(device_type=None):
    """The dtype that the innermost ``auto_cast`` computes in, ``bfloat16`` outside of any."""
    import yuloh
    return getattr(yuloh, _stack[-1][1] if is_autocast_enabled() else "bfloat16")


get_autocast_cpu_dtype = get_autocast_gpu_dtype = get_autocast_dtype


def decorate(models, optimizers=None, level="O1", dtype="float16", master_weight=None, save_dtype=None,
             master_grad=False, excluded_layers=None):
    """Prepares models (and optimizers) for ``level``; with 'O2' parameters become half precision.

    Normalisation layers and ``excluded_layers`` (layers or classes) stay in float32. Optimizers then keep
    float32 twins of the parameters unless ``master_weight`` is False. ``save_dtype`` is the dtype of
    ``state_dict``. Returns models, or (models, optimizers), as lists where lists were given.
    """
    if level not in ("O1", "O2"):
        raise ValueError(f"decorate: level must be 'O1' or 'O2', got {level!r}.")
    model_list = list(models) if isinstance(models, (list, tuple)) else [models]
    optimizer_list = [] if optimizers is None else (
        list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers])
    if level == "O2":
        half = computed_dtype(dtype)
        skip = _excluded(excluded_layers)
        for model in model_list:
            _halve(model, half, skip)
            if save_dtype is not None:
                model.register_state_dict_hook(_saving_as(dtype_name(save_dtype)))
        for optimizer in optimizer_list:
            optimizer._multi_precision = master_weight is not False
    if optimizers is None:
        return models
    return models, optimizers


def _excluded(layers):
    """(layer objects, layer classes) that stay in float32."""
    from ..nn.layer.norm import _NormBase
    layers = [] if layers is None else list(layers) if isinstance(layers, (list, tuple)) else [layers]
    classes = tuple(layer for layer in layers if isinstance(layer, type))
    objects = {id(below) for layer in layers if not isinstance(layer, type)
               for below in layer.sublayers(True)}
    return objects, (_NormBase, *classes)


def _halve(model, dtype, skip):
    from ..nn.layer.state import _convert_tensor
    objects, classes = skip
    for layer in model.sublayers(include_self=True):
        if id(layer) in objects or isinstance(layer, classes):
            continue
        for members in (layer._parameters, layer._buffers):
            for tensor in members.values():
                if tensor is not None and dtype_name(tensor.dtype) == "float32":
                    _convert_tensor(tensor, dtype)
        layer._dtype = dtype


def _saving_as(dtype):
    def hook(state):
        for name, value in state.items():
            if dtype_name(value.dtype) in ("float16", "bfloat16", "float32"):
                twin = value.detach().astype(dtype)
                twin.name = value.name
                state[name] = twin
        return state
    return hook
