# SPDX-License-Identifier: Apache-2.0
"""For all tests: a background job starts with Ctrl-C ignored, and so would every process that a test interrupts. A test that
hangs fails after half an hour; how fast one is decides nothing.
"""
import signal

import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
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
