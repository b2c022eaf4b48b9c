# SPDX-License-Identifier: Apache-2.0
"""The `yuloh` command.

Each command is a module of this package with `add(subparsers)`, which declares its options and names the
function that carries it out; COMMANDS lists the modules, so a further command is one file and one word here.
A command's function returns the exit status. Mistakes of the user end in one line on standard error and
status 2.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from typing import List, Optional

COMMANDS = (
    "run",
    "profile",
    "bench",
    "report",
    "convert",
    "inspect",
    "diff",
    "pack",
    "advise",
    "calibrate",
    "doctor",
)


#: Commands that print names found in somebody's file.
OF_FILES = ("convert", "inspect", "diff", "pack")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="yuloh", description="Yuloh, a deep-learning system that speaks Paddle."
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f"{__name__}.{name}").add(commands)
    return parser


def main(argv: Optional[List[str]] = None) -> int:
    """Entry point of the `yuloh` script."""
    parser = make_parser()
    argv = list(sys.argv[1:] if argv is None else argv)
    # What follows -- is a script's: argparse would hand it to whichever positional argument is still open.
    cut = argv.index("--") if argv[:1] == ["advise"] and "--" in argv else len(argv)
    args = parser.parse_args(argv[:cut])
    args.argv, args.after_dashes = argv, argv[cut + 1 :]
    if args.version:
        print(f"yuloh {own_version()}")
        return 0
    if not args.command:
        parser.print_help()
        return 2
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show is no reason to stop
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        if args.command in OF_FILES and sys.stdout is not None and sys.stderr is not None:
            with contextlib.redirect_stdout(Printable(sys.stdout)), contextlib.redirect_stderr(Printable(sys.stderr)):
                return _carry_out(args)
        return _carry_out(args)
    except KeyboardInterrupt:  # also one that was held back while the core computed
        print(f"yuloh {args.command}: interrupted", file=sys.stderr)
        return 130


def _carry_out(args) -> int:
    """The exit status of a command; what its user did wrong becomes a sentence."""
    try:
        status = args.carry_out(args)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk or a closed pipe shows here, not after the status is given
        return status
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except (ValueError, FileNotFoundError, MissingExtra) as error:
        if isinstance(error, FileNotFoundError) and error.errno is not None:  # the system's, not a sentence of ours
            return _refused(args, error)
        if args.command in ("run", "profile"):  # a script's own errors are shown by run itself
            raise
        print(f"yuloh {args.command}: {str(error).removeprefix(args.command + ': ')}", file=sys.stderr)
        return 2
    except OSError as error:
        return _refused(args, error)
    except (ArithmeticError, MemoryError, RecursionError) as error:  # sizes, divisors and nesting of somebody's file
        if args.command in ("run", "profile"):
            raise
        print(f"yuloh {args.command}: {error or type(error).__name__}", file=sys.stderr)
        return 2


def _refused(args, error: OSError) -> int:
    """What the system refused, in one sentence."""
    if args.command in ("run", "profile"):
        raise error
    what = f"{error.strerror or error}".rstrip(".") + (f": {error.filename}" if error.filename else "")
    print(f"yuloh {args.command}: {what}. Hint: check the path, the permissions and the free space there.", file=sys.stderr)
    return 2


class Printable:
    """A text stream that shows control characters as \\xNN: names in a model must not steer the user's terminal."""

    _SHOWN = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160)) if chr(c) not in "\n\t"}

    def __init__(self, stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text.translate(self._SHOWN))

    def __getattr__(self, name):
        return getattr(self._stream, name)


@contextlib.contextmanager
def readable(command: str):
    """What the core raises about somebody's file (a type, an index, memory) is a mistake in the input, not in the command."""
    try:
        yield
    except (TypeError, IndexError, KeyError, ArithmeticError, MemoryError, RuntimeError) as error:
        text = str(error).strip() or type(error).__name__
        raise ValueError(text.removeprefix(f"{command}: ")) from error


def own_version() -> str:
    """Version of the product itself; yuloh.__version__ is the Paddle API's that scripts ask for."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("yuloh")
    except PackageNotFoundError:
        return "(source tree, not installed)"


class MissingExtra(ImportError):
    """A library of an optional part is not installed; the message names the extra that brings it."""


def need(library: str, extra: str):
    """Imports a library that only some commands use, or says how to get it."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise MissingExtra(
            f"needs the library {library!r}, which is not installed ({error}). "
            f"Hint: pip install 'yuloh[{extra}]'"
        ) from None
