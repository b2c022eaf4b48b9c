# SPDX-License-Identifier: Apache-2.0
"""A Python for every contender: made once, cached, never shared with the user's own environment.

Cache folder: $YULOH_CACHE, else the platform's own (XDG on Linux). An environment counts only once its
ready.json is written, which is the last step; a broken or interrupted installation is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict

from .contenders import Contender
from .errors import ContenderError

#: The only variables of the user's environment that a worker sees.
KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "YULOH_CACHE",
    "XDG_CACHE_HOME",
)

PROBE = """
import importlib.util as u, json, sys, platform
def version(dist):
    try:
        from importlib.metadata import version as v
        return v(dist)
    except Exception:
        return None
found = [m for m in ("yuloh", "paddle", "torch") if u.find_spec(m)]
from importlib.metadata import distributions
names = sorted({f"{d.metadata['Name']}=={d.version}" for d in distributions() if d.metadata["Name"]})
print(json.dumps({"found": found, "python": platform.python_version(), "packages": names,
    "versions": {"yuloh": version("yuloh"), "torch": version("torch"),
                 "paddle": version("paddlepaddle") or version("paddlepaddle-gpu")}}))
"""


@dataclass
class Environment:
    """What a contender resolved to. framework: "yuloh", "paddle" or "torch"."""

    contender: Contender
    python: str
    framework: str
    version: str
    python_version: str
    packages: list = field(default_factory=list)

    def describe(self) -> dict:
        return {
            "name": self.contender.name,
            "spec": self.contender.spec,
            "framework": self.framework,
            "version": self.version,
            "python": self.python_version,
            "packages": self.packages,
        }


def cache_folder() -> Path:
    """Where environments and prepared data live; made if missing."""
    if os.environ.get("YULOH_CACHE"):
        folder = Path(os.environ["YULOH_CACHE"])
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "yuloh"
    elif os.name == "nt":
        folder = Path(os.environ.get("LOCALAPPDATA", Path.home())) / "yuloh" / "cache"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "yuloh"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def scrubbed(framework: str, threads: int, flags: Dict[str, object], own: bool = False) -> Dict[str, str]:
    """Environment variables of a worker: a short whitelist, the thread count, and the framework's own
    FLAGS_*.

    own: the worker runs this very Yuloh, so it may be found through PYTHONPATH as we were.
    """
    env = {k: os.environ[k] for k in KEPT if k in os.environ}
    env.update(PYTHONNOUSERSITE="1", PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
    if own and os.environ.get("PYTHONPATH"):
        env["PYTHONPATH"] = os.environ["PYTHONPATH"]
    if framework != "yuloh":  # Yuloh binds its own team and takes the count by call, never from OMP_*
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            env[name] = str(threads)
        env.update({k: str(v) for k, v in flags.items() if k.startswith("FLAGS_")})
    return env


def prepare(contender: Contender, say: Callable[[str], None] = lambda text: None) -> Environment:
    """Finds or makes the contender's Python and asks it what it has. ContenderError in one line if it
    cannot."""
    if contender.kind == "yuloh":
        python = sys.executable
    elif contender.kind == "python":
        python = shutil.which(os.path.expanduser(contender.target)) or ""
        if not python:
            raise ContenderError(
                f"{contender.name}: no such Python, got {contender.target!r}; expected an executable "
                "file. Hint: give the path of the environment's bin/python."
            )
    else:
        python = str(_made(contender, say))
    return _probe(contender, python)


def _probe(contender: Contender, python: str) -> Environment:
    env = scrubbed("other", 1, {}, own=contender.kind == "yuloh")
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=120, env=env)
        facts = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise ContenderError(
            f"{contender.name}: {python} does not answer as a Python ({type(error).__name__}). "
            "Hint: run it by hand with -c 'print(1)'."
        ) from None
    order = ["yuloh"] if contender.kind in ("yuloh", "revision") else ["paddle", "torch", "yuloh"]
    wish = contender.name.lower()
    order.sort(key=lambda f: 0 if f in wish else 1)
    framework = next((f for f in order if f in facts["found"]), None)
    if framework is None:
        raise ContenderError(
            f"{contender.name}: {python} has none of paddle, torch and yuloh. "
            "Hint: install one of them there."
        )
    version = (
        facts["versions"][framework] or _revision() if framework == "yuloh" else facts["versions"][framework]
    )
    return Environment(contender, python, framework, version or "source", facts["python"], facts["packages"])


def _revision() -> str:
    """ "source abc1234" of the clone that this package lies in; "source" outside one."""
    try:
        return "source " + _git("-C", str(Path(__file__).resolve().parent), "rev-parse", "--short", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return "source"


def _base_python(contender: Contender) -> str:
    wanted = contender.base_python
    found = shutil.which(wanted) if wanted else getattr(sys, "_base_executable", sys.executable)
    if not found:
        raise ContenderError(
            f"{contender.name}: no such Python, got {wanted!r}; expected an interpreter on PATH. "
            "Hint: install it, or write NAME=/path/to/python."
        )
    return found


def _made(contender: Contender, say) -> Path:
    base = _base_python(contender)
    source = _source_of(contender) if contender.kind == "revision" else None
    target = source[0] if source else contender.target
    key = hashlib.sha256(
        f"{contender.kind} {target} {os.path.realpath(base)} {sys.platform}".encode()
    ).hexdigest()
    folder = (
        cache_folder()
        / "environments"
        / f"{''.join(c if c.isalnum() else '-' for c in target)[:40]}-{key[:10]}"
    )
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (folder / "ready.json").exists() and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    log = folder.with_suffix(".log")
    say(f"making the environment of {contender.name} (log: {log})")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w") as out:
            _step([base, "-m", "venv", str(folder)], contender, out, log)
            wanted = (
                [_unpacked(*source, folder, contender, out, log)]
                if source
                else [contender.target, "setuptools"]
            )
            _step(
                [
                    str(python),
                    "-m",
                    "pip",
                    "install",
                    "--no-input",
                    "--disable-pip-version-check",
                    "numpy",
                    *wanted,
                ],
                contender,
                out,
                log,
            )
        shutil.rmtree(folder / "source", ignore_errors=True)
        (folder / "ready.json.new").write_text(json.dumps({"spec": contender.spec, "base_python": base}))
        os.replace(folder / "ready.json.new", folder / "ready.json")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ContenderError(
            f"{contender.name}: cannot make its environment in {folder.parent}: {error.strerror}. "
            "Hint: free space there or set YULOH_CACHE to another folder."
        ) from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return python


def _step(command, contender: Contender, out, log: Path) -> None:
    out.write("$ " + " ".join(command) + "\n")
    out.flush()
    if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode:
        lines = [x.strip() for x in log.read_text(errors="replace").splitlines() if x.strip()]
        blamed = [x for x in lines if x.lower().startswith("error") or "No space left" in x] or lines
        cause = next((x for x in blamed if "No matching" in x or "No space left" in x), blamed[-1])
        raise ContenderError(
            f"{contender.name}: installation failed: {cause[:240]} (log: {log}). "
            "Hint: check the requirement's name, version and supported Python."
        )


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout.strip()


def _source_of(contender: Contender):
    """(commit, top folder) of a revision of the repository that holds this package or the working folder."""
    for start in (str(Path(__file__).resolve().parent), os.getcwd()):
        try:
            top = _git("-C", start, "rev-parse", "--show-toplevel")
            return _git("-C", top, "rev-parse", "--verify", "--quiet", contender.target + "^{commit}"), top
        except (OSError, subprocess.CalledProcessError):
            continue
    raise ContenderError(
        f"{contender.name}: no such revision, got {contender.target!r}; expected a commit, tag or "
        "branch of the Yuloh repository. Hint: run the command inside a clone that has it."
    )


def _unpacked(commit: str, top: str, folder: Path, contender: Contender, out, log: Path) -> str:
    source = folder / "source"
    source.mkdir()
    archive = folder / "source.tar"
    _step(["git", "-C", top, "archive", "-o", str(archive), commit], contender, out, log)
    shutil.unpack_archive(str(archive), str(source))
    archive.unlink()
    return str(source)
