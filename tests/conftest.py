# SPDX-License-Identifier: Apache-2.0
"""For all tests: a background job starts with Ctrl-C ignored, and so would every process that a test interrupts."""
import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
