# SPDX-License-Identifier: Apache-2.0
"""For all tests: a background job starts with Ctrl-C ignored, under nohup with SIGHUP ignored, and so would every process that
a test interrupts. A test that hangs fails after half an hour; how fast one is decides nothing.
"""
import os
import signal

import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
_HANGS = 1800  # seconds


@pytest.fixture(autouse=True)
def fails_instead_of_hanging():
    def hangs(*_):
        raise TimeoutError(f"the test has not ended within {_HANGS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(_HANGS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def in_child():
    """run(check): whether `check` is true in a forked child, within two minutes."""

    def run(check):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(120)
            try:
                os._exit(0 if check() else 1)
            except BaseException:  # noqa: BLE001
                os._exit(2)
        return os.waitpid(pid, 0)[1] == 0

    return run
