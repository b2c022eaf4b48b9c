# SPDX-License-Identifier: Apache-2.0
"""Framework room: ``FLAGS_*`` switches.

A flag lives in the core. Names that only mean something to Paddle's GPU libraries are kept and given back, so
that scripts that set them run; the core decides which of them change anything (``FLAGS_eager``, fusion, ...).
As in Paddle, an environment variable of a flag's name sets it at import.
"""
import os
import warnings

from .. import _core

__all__ = ["get_flags", "set_flags"]

# What Paddle answers for these before anybody sets them; they steer nothing here.
_PADDLE_ONLY = {
    "FLAGS_cudnn_exhaustive_search": False,
    "FLAGS_cudnn_deterministic": False,
    "FLAGS_conv_workspace_size_limit": 512,
    "FLAGS_eager_delete_tensor_gb": 0.0,
    "FLAGS_fraction_of_gpu_memory_to_use": 0.92,
    "FLAGS_allocator_strategy": "auto_growth",
    "FLAGS_check_nan_inf": False,
    "FLAGS_use_autotune": False,
    "FLAGS_benchmark": False,
    "FLAGS_use_cinn": False,
}
_kept = {}


def _full(name):
    return name if name.startswith("FLAGS_") else "FLAGS_" + name


def _from_text(text, like):
    if isinstance(like, bool):
        return text.strip().lower() in ("1", "true", "yes", "on")
    if isinstance(like, (int, float)):
        return type(like)(float(text))
    return text


def _core_flag(name):
    """The core's value of a flag, None where it has none of that name."""
    return _core.get_flag(name[len("FLAGS_"):])


def _warn_unknown(name):
    import difflib

    known = [flag[len("FLAGS_"):] for flag in (*_PADDLE_ONLY, "FLAGS_fusion", "FLAGS_eager")]
    close = difflib.get_close_matches(name[len("FLAGS_"):], known, 1)
    warnings.warn(f"set_flags: {name} is not known and changes nothing here."
                  + (f" Hint: did you mean FLAGS_{close[0]}?" if close else ""), stacklevel=3)


def _from_environment():
    """The core's flags from variables of their names; a value that is no number or switch is said and left out."""
    for name, text in os.environ.items():
        like = _core_flag(name) if name.startswith("FLAGS_") else None
        if like is None:
            continue
        try:
            _core.set_flag(name[len("FLAGS_"):], _from_text(text, like))
        except (ValueError, OverflowError):
            warnings.warn(f"{name}: the environment says {text!r}; expected {type(like).__name__}. It keeps its "
                          f"default {like}.", stacklevel=2)


_from_environment()


def set_flags(flags):
    """Sets flags from ``{'FLAGS_name': value}``. Raises TypeError when ``flags`` is not a dict.

    A name that is known neither here nor to Paddle's scripts is kept, with a warning: it has no effect.
    """
    if not isinstance(flags, dict):
        raise TypeError(f"set_flags: flags must be a dict, got {type(flags).__name__}.")
    for name, value in flags.items():
        name = _full(name)
        if _core_flag(name) is not None:
            _core.set_flag(name[len("FLAGS_"):], value)
        else:
            if name not in _PADDLE_ONLY and name not in _kept:
                _warn_unknown(name)
            if name == "FLAGS_check_nan_inf" and value:
                warnings.warn("set_flags: FLAGS_check_nan_inf changes nothing here yet. Hint: paddle.isfinite(x).all() "
                              "of the values in question.", stacklevel=2)
            _kept[name] = bool(value) if isinstance(_PADDLE_ONLY.get(name), bool) else value


def get_flags(flags):
    """Values of one flag (str) or several (list, tuple) as ``{'FLAGS_name': value}``.

    Raises ValueError for a name that was never set and is not known.
    """
    names = [flags] if isinstance(flags, str) else list(flags)
    result = {}
    for given in names:
        name = _full(given)
        value = _core_flag(name)
        if value is not None:
            result[given] = value
        elif name in _kept:
            result[given] = _kept[name]
        elif name in _PADDLE_ONLY:
            value = _PADDLE_ONLY[name]
            result[given] = _from_text(os.environ[name], value) if name in os.environ else value
        else:
            raise ValueError(f"get_flags: flag {given!r} is not known. Hint: set it first with "
                             "paddle.set_flags.")
    return result
