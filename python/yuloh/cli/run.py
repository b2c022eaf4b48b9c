# SPDX-License-Identifier: Apache-2.0
"""`yuloh run script.py`: a script written for `import paddle` runs on Yuloh, unchanged.

`install()` puts a finder in front of Python's own: `paddle` and every `paddle.x.y` *are* the modules `yuloh`
and `yuloh.x.y` (the same objects, so isinstance and monkey-patching hold across both names).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds paddle.x.y by importing yuloh.x.y."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "paddle" and not fullname.startswith("paddle."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        name = "yuloh" + spec.name[len("paddle") :]
        module = _module(name, spec.name)
        spec.loader_state = (module.__spec__, getattr(module, "__loader__", None))
        return module

    def exec_module(self, module):
        # The import machinery has just written our spec into the module: put its own back.
        module.__spec__, module.__loader__ = module.__spec__.loader_state


def _module(name: str, asked: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise  # something that the module itself imports is missing
        parent, _, last = name.rpartition(".")
        found = getattr(importlib.import_module(parent), last, None) if parent else None
        if isinstance(found, types.ModuleType):
            return found
        raise ModuleNotFoundError(f"No module named {asked!r} in Yuloh", name=asked) from None


def install() -> None:
    """Makes `import paddle` give Yuloh, in this process, from now on. Twice is once."""
    import yuloh

    held = sys.modules.get("paddle")
    if held is not None and held is not yuloh:
        raise ImportError(
            "run: PaddlePaddle itself is loaded already; expected a fresh process. "
            "Hint: call install() before anything imports paddle."
        )
    if not any(isinstance(finder, _Alias) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Alias())


def run_script(path: str, argv: list) -> int:
    """Runs the script as __main__ with sys.argv = [path, *argv]; its traceback shows only its own frames."""
    with open(path, "rb") as f:
        source = f.read()
    install()
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = path, __builtins__
    sys.modules["__main__"] = main
    sys.argv = [path, *argv]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    return _guarded(lambda: exec(compile(source, path, "exec"), main.__dict__), own_frames=2)


def run_module(name: str, argv: list) -> int:
    """`yuloh run -m package.module`: as python -m."""
    import runpy

    install()
    sys.argv = [name, *argv]
    sys.path.insert(0, os.getcwd())
    return _guarded(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), own_frames=2)


def _guarded(body, own_frames: int) -> int:
    try:
        body()
        return 0
    except SystemExit:
        raise
    except KeyboardInterrupt:
        print("KeyboardInterrupt", file=sys.stderr)
        return 130
    except BaseException as error:
        trace = error.__traceback__
        for _ in range(own_frames):
            trace = trace.tb_next if trace is not None and trace.tb_next is not None else trace
        # A SyntaxError of the script has no frame of its own: nothing of ours should show then.
        if (
            isinstance(error, SyntaxError)
            and trace is not None
            and trace.tb_frame.f_code.co_filename == __file__
        ):
            trace = None
        error = error.with_traceback(trace)
        sys.excepthook(type(error), error, trace)
        return 1


def carry_out(args) -> int:
    if args.data:
        if args.data not in ("auto", "synthetic") and not os.path.exists(args.data):
            raise SystemExit(
                f"yuloh run: no such data file, got {args.data!r}; expected auto, synthetic or a path. "
                "Hint: --data synthetic needs no file."
            )
        os.environ["YULOH_DATA"] = args.data
    if args.fusion:
        import yuloh

        yuloh.set_flags({"FLAGS_fusion": int(args.fusion == "on")})
    threads = args.threads or int(os.environ.get("YULOH_NUM_THREADS") or 0)
    if threads:
        import yuloh

        yuloh._core.set_num_threads(threads)
    if args.module:
        return run_module(args.script, args.args)
    if not os.path.isfile(args.script):
        print(
            f"yuloh run: no such script, got {args.script!r}; expected a Python file. Hint: options "
            "of yuloh come "
            "before the script, the script's own after it.",
            file=sys.stderr,
        )
        return 2
    return run_script(args.script, args.args)


def add(commands) -> None:
    import argparse

    p = commands.add_parser(
        "run",
        help="run a script written for `import paddle` on Yuloh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(p)
    p.set_defaults(carry_out=carry_out)


def add_options(p) -> None:
    """The options of everything that runs a script (`run`, `profile`)."""
    p.add_argument(
        "--data",
        metavar="auto|synthetic|FILE",
        help="where paddle.vision.datasets take their data: synthetic makes a learnable set in the same "
        "file format (default: the archive in the cache, or a download)",
    )
    p.add_argument(
        "--threads", type=int, metavar="N", help="threads to compute with (default: all usable CPUs)"
    )
    p.add_argument("--fusion", choices=("on", "off"), help="operator fusion (default: on)")
    p.add_argument("-m", dest="module", action="store_true", help="script is a module name, as in python -m")
    p.add_argument("script")
    p.add_argument("args", nargs="...", help="arguments of the script")
