# SPDX-License-Identifier: Apache-2.0
"""Ends what a script left running. As a program, beside the script: `watcher.py MARK`, whose standard input is a pipe that
only the asking process holds; its first line is the number of the script's group. When the pipe ends before this process is
ended itself, the asking one was killed, by whatever signal, and everything of the script is ended here."""

from __future__ import annotations

import os
import signal
import sys
import time

MARK = "YULOH_ADVISE_SCRIPT"  # in the environment of all that a script starts


def end_marked(mark: str) -> None:
    """Ends what left the group: daemons in sessions of their own, and what those start meanwhile."""
    for _ in range(20):
        found = False
        for number in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
            try:
                process = os.pidfd_open(int(number))  # holds the number for as long as it is looked at
            except (OSError, AttributeError):
                continue
            try:
                if marked(number, mark):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    found = True
            except OSError:
                pass
            finally:
                os.close(process)
        if not found:
            return
        time.sleep(0.01)


def marked(number: str, mark: str) -> bool:
    try:
        with open(f"/proc/{number}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def watch(mark: str) -> None:
    group = sys.stdin.buffer.read().strip().decode()  # until the pipe ends
    if group and marked(group, mark):  # the number is still its own
        try:
            os.killpg(int(group), signal.SIGKILL)
        except OSError:
            pass
    end_marked(mark)


if __name__ == "__main__":
    watch(sys.argv[1])
