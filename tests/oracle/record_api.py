# SPDX-License-Identifier: Apache-2.0
"""Records the argument names and defaults of Paddle's public API; run by an interpreter that has PaddlePaddle.

Part of the oracle room: scripts here are run with the *real* Paddle to make reference files for the tests; the
product never needs them. Usage: ``<oracle python> tests/oracle/record_api.py tests/oracle/paddle_api.json``.

The file maps a public dotted name (``paddle.nn.functional.relu``, ``paddle.Tensor.abs``, ``paddle.nn.Linear``) to a
list of strings, one per argument: ``"x"``, ``"axis=-1"``, ``"*"`` (what follows is keyword-only), ``"*args"``,
``"**kw"``. ``self`` is left out. A class stands for its constructor; its public methods follow as ``name.method``
for the classes that users call methods on. A value of ``null`` means: exists, signature unknown (built in C).
A string value is the kind of a thing that is not called: ``"module"``, ``"property"``, ``"value"``.
"""
import enum
import inspect
import json
import sys
import types

import paddle
import paddle.vision.models  # noqa: F401  (makes every module below reachable by attribute)
import paddle.vision.ops  # noqa: F401

MODULES = """paddle paddle.nn paddle.nn.functional paddle.nn.initializer paddle.nn.utils paddle.optimizer
paddle.optimizer.lr paddle.amp paddle.io paddle.metric paddle.linalg paddle.fft paddle.autograd paddle.regularizer
paddle.vision paddle.vision.models paddle.vision.transforms paddle.vision.datasets paddle.vision.ops paddle.jit
paddle.static paddle.device paddle.callbacks paddle.distribution paddle.sparse paddle.signal paddle.hub
paddle.utils paddle.inference paddle.distributed paddle.incubate paddle.profiler""".split()
METHODS_OF = ("Layer", "Sequential", "LayerList", "ParameterList", "Optimizer", "LRScheduler", "GradScaler",
              "DataLoader", "Model", "Metric", "Accuracy", "Dataset", "PyLayer")


def default_text(value):
    """Text of a default: a literal where there is one, else a stable name without addresses."""
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum):
        return repr(value)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(default_text(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict) and not value:
        return "{}"
    return getattr(value, "__name__", None) or type(value).__name__


def arguments(fn):
    """List of argument texts of a callable, or None where Python cannot tell."""
    try:
        params = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None
    out, starred = [], False
    for i, p in enumerate(params):
        if i == 0 and p.name in ("self", "cls"):
            continue
        if p.kind is p.VAR_POSITIONAL:
            out.append("*" + p.name)
            starred = True
            continue
        if p.kind is p.VAR_KEYWORD:
            out.append("**" + p.name)
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            out.append("*")
            starred = True
        out.append(p.name if p.default is p.empty else f"{p.name}={default_text(p.default)}")
    return out


def entry(obj):
    """What is recorded for one public object."""
    if isinstance(obj, types.ModuleType):
        return "module"
    if isinstance(obj, property) or inspect.isgetsetdescriptor(obj):
        return "property"
    if inspect.isclass(obj):
        return arguments(obj.__init__) if obj.__init__ is not object.__init__ else []
    return arguments(obj) if callable(obj) else "value"


def public_names(module):
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return sorted(set(n for n in names if hasattr(module, n)))


def main(path):
    table = {}
    for dotted in MODULES:
        module = paddle
        for part in dotted.split(".")[1:]:
            module = getattr(module, part)
        for name in public_names(module):
            obj = getattr(module, name)
            table[f"{dotted}.{name}"] = entry(obj)
            if inspect.isclass(obj) and name in METHODS_OF:
                for m in dir(obj):
                    if not m.startswith("_"):
                        table[f"{dotted}.{name}.{m}"] = entry(inspect.getattr_static(obj, m)) \
                            if isinstance(inspect.getattr_static(obj, m), property) else entry(getattr(obj, m))
    for name in dir(paddle.Tensor):
        if not name.startswith("_") or (name.startswith("__") and name.endswith("__")):
            table[f"paddle.Tensor.{name}"] = entry(getattr(paddle.Tensor, name))
    with open(path, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(table.items())) + "\n}\n")
    print(f"{len(table)} names -> {path}")


if __name__ == "__main__":
    main(sys.argv[1])
