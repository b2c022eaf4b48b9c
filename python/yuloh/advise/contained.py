# SPDX-License-Identifier: Apache-2.0
"""Somebody's script in a process of its own: it may print, fork, exit, crash or never end, and the answer still comes,
or one sentence that names the script's line. `network_of` is the side that asks; `main` is
the other, which writes what it found as JSON into an inherited file.

The script runs in a dry run first: parameters of any size cost nothing, and what it reads of a tensor that was computed
is zero. Where that makes it fail it is run once more for real.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from typing import Dict, List, Optional, Sequence

from . import watcher

SECONDS = 120.0  # of the script, until its first optimizer step
START = "import sys; from yuloh.advise.contained import main; main(sys.argv[1])"
GRACE = 5.0  # more, for what does not end by itself
HELD = 1.0  # after so much more a script that does not let the interpreter go is told from outside of it


def network_of(file: str, name: Optional[str], specs, job: Dict[str, object], title: str, args: Sequence[str] = (),
               seconds: float = SECONDS):
    """(network, title, unit, source, facts) of a Python file; `job` gains what the script says of batch and optimizer.
    Raises ValueError in one sentence."""
    asked = {"file": file, "name": name, "specs": specs, "job": job, "title": title, "args": list(args)}
    found = _ask({**asked, "dry": True}, seconds)
    if found.get("again"):
        found = _ask({**asked, "dry": False}, seconds)
    if "error" in found:
        raise ValueError(found["error"])
    job.update(found["job"])
    return tuple(found["network"])


def _ask(question: dict, seconds: float) -> dict:
    _open_standard_files()
    with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as crash:
        words = [sys.executable, "-c", START, json.dumps(
            {**question, "result": result.fileno(), "crash": crash.fileno(), "seconds": seconds})]
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        mark = uuid.uuid4().hex
        watch = subprocess.Popen([sys.executable, "-IS", watcher.__file__, mark], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        child = None
        try:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=_error_stream(), pass_fds=(result.fileno(), crash.fileno()),
                start_new_session=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), watcher.MARK: mark})
            with contextlib.suppress(OSError):  # it could not start: memory lacks
                watch.stdin.write(b"%d" % child.pid)
                watch.stdin.flush()
            end = _watch(child, seconds)
        finally:  # whatever it left running, too; the leader is not reaped before, so the number is still its own
            if child is not None:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
            watcher.end_marked(mark)
            watch.kill()
            watch.communicate()
        return _outcome(question["file"], "it was planned" if question["name"] else "its first optimizer step", seconds, child.returncode, end, _text(result), _text(crash))


def _watch(child: subprocess.Popen, seconds: float) -> str:
    """Waits for the end; says why, where it was not the child's own."""
    from .. import _core

    most = 0.8 * _core.machine_memory()[1]  # of what is free
    last = time.monotonic() + seconds + GRACE
    while True:
        try:
            child.wait(0.05)
            return ""
        except subprocess.TimeoutExpired:
            if time.monotonic() > last:
                return "late"
        try:
            with open(f"/proc/{child.pid}/statm", encoding="ascii") as file:
                held = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            continue
        if held > most:
            os.kill(child.pid, signal.SIGABRT)  # its crash handler writes the line down
            time.sleep(0.2)
            return f"holds {held / 2**30:.3g} GiB of memory"


def _open_standard_files() -> None:
    """A daemon's may be closed, and the next files that are opened would be taken for them."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(file, True)
    os.close(file)


def _error_stream():
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # a notebook, a test that captures
        return subprocess.DEVNULL


def _text(file) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _outcome(file: str, goal: str, seconds: float, status: int, end: str, result: str, crash: str) -> dict:
    try:
        return json.loads(result)
    except ValueError:
        pass
    line = re.search(rf'File "{re.escape(os.path.abspath(file))}", line (\d+)', crash) or re.search(r"^line (\d+)", crash)
    at = f"advise: {file}{f', line {line[1]}' if line else ''}: "
    if end == "late" or crash.startswith("Timeout"):
        end = f"still runs after {seconds:g} s"
    if end:
        return {"error": f"{at}{end} before {goal}. Hint: --time-limit S, or FILE.py:NAME with --input."}
    if status < 0:
        number = -status
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        memory = ", perhaps for lack of memory" if name == "SIGKILL" and not line else ""
        return {"error": f"{at}the script was ended by {name} before {goal}{memory}. "
                "Hint: FILE.py:NAME with --input plans one model of it."}
    return {"error": f"{at}the script ended the process with status {status} before {goal}."}


# -- the other side ------------------------------------------------------------------------------------
def main(text: str) -> None:
    import faulthandler

    asked = json.loads(text)
    own, result = os.getpid(), asked["result"]
    path = os.path.abspath(asked["file"])
    crash = os.fdopen(os.dup(asked["crash"]), "w")
    faulthandler.enable(crash)
    # This one reads frames that may be changing, so it is only for a script that stands still in a call.
    faulthandler.dump_traceback_later(asked["seconds"] + HELD, exit=True, file=crash)
    _end_late(path, asked["crash"], asked["seconds"])
    _note_ends(path, asked["crash"], own)
    found: Dict[str, object]
    try:
        found = _found(asked)
    except ValueError as error:
        found = {"error": str(error), "again": asked["dry"] and bool(getattr(error, "again", False))}
    if os.getpid() == own:
        with os.fdopen(result, "w", encoding="utf-8") as file:
            json.dump(found, file)
    for stream in (sys.stdout, sys.stderr):  # the script's, as it left them
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass
    os.kill(os.getpid(), signal.SIGKILL)  # nothing that the script registered runs, no thread of it is waited for


def _found(asked: dict) -> dict:
    from ..device import place
    from . import from_plan, spared, user_file
    from .facts import dry_run

    place.only_planned = True
    spared.spare_files()
    job = asked["job"]
    specs = asked["specs"] and [(list(shape), dtype) for shape, dtype in asked["specs"]]
    with dry_run() if asked["dry"] else contextlib.nullcontext():
        model, specs = user_file.model_of(asked["file"], asked["name"], specs, job, asked["args"])
    if specs[0][0] and specs[0][0][0] > 0:
        job.setdefault("batch", specs[0][0][0])
    try:
        network = from_plan.network_of_model(model, specs, job, asked["title"])
    except ValueError as error:
        if error.__cause__ is None:
            raise
        at = f"{asked['file']}{user_file.line_of(asked['file'], error.__cause__)}"
        raise ValueError(str(error).replace("advise: ", f"advise: {at}: ", 1)) from None
    script = job.pop("script", {})
    network[4]["notes"] = [*script.get("remarks", []), *network[4]["notes"]]
    return {"network": network, "job": job}


def _end_late(path: str, crash: int, seconds: float) -> None:
    """Ends this process after `seconds`, with the line of the script that the main thread is at."""
    main_thread = threading.get_ident()

    def end() -> None:
        time.sleep(seconds)
        frame = sys._current_frames().get(main_thread)
        while frame is not None and frame.f_code.co_filename != path:
            frame = frame.f_back
        at = "" if frame is None else f'  File "{path}", line {frame.f_lineno}\n'
        os.write(crash, f"Timeout\n{at}".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=end, daemon=True).start()


def _note_ends(path: str, crash: int, own: int) -> None:
    """The script's line when it ends the process by itself (os._exit, a signal to itself)."""

    def note() -> None:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != path:
            frame = frame.f_back
        if frame is not None and os.getpid() == own:
            os.write(crash, f"line {frame.f_lineno}\n".encode())

    def audit(event: str, words) -> None:
        if event == "os.kill" and words[0] in (own, 0, -1) or event == "os.killpg":
            note()

    leave = os._exit

    def leaving(status):
        note()
        leave(status)

    os._exit = leaving
    sys.addaudithook(audit)
