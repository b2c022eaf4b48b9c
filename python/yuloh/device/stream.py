# SPDX-License-Identifier: Apache-2.0
"""Device room: streams and events. The CPU has one stream, in which the core runs plans in order."""
import contextlib
import time

from .. import _core

__all__ = ["Event", "Stream", "current_stream", "set_stream", "stream_guard", "synchronize"]


def synchronize(device=None):
    """Runs what is pending and waits for it."""
    _core.run_pending()


class Event:
    """A point in time: ``record()`` runs what is pending and notes the clock."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        self._time = None

    def record(self, stream=None):
        """Notes the time behind everything recorded so far."""
        synchronize()
        self._time = time.perf_counter()

    def query(self):
        """True: what was recorded is done."""
        return True

    def elapsed_time(self, end_event):
        """Milliseconds from this event to ``end_event``."""
        if self._time is None or end_event._time is None:
            raise RuntimeError("Event: both events must be recorded first.")
        return (end_event._time - self._time) * 1e3

    def synchronize(self):
        """Waits for everything recorded."""
        synchronize()


class Stream:
    """The one stream of the CPU."""

    def __init__(self, device=None, priority=2, stream_base=None):
        self.device = device or "cpu"

    def synchronize(self):
        """Waits for everything recorded."""
        synchronize()

    def query(self):
        """True once everything recorded ran; it does so here."""
        synchronize()
        return True

    def record_event(self, event=None):
        """Records ``event`` (or a new one) and returns it."""
        event = event or Event()
        event.record()
        return event

    def wait_event(self, event):
        """Nothing to wait for: there is one stream."""

    def wait_stream(self, stream):
        """Nothing to wait for: there is one stream."""


_stream = Stream()


def current_stream(device=None):
    """The one stream."""
    return _stream


def set_stream(stream):
    """Accepts the one stream; returns it."""
    return _stream


@contextlib.contextmanager
def stream_guard(stream=None):
    """Nothing to switch: there is one stream."""
    yield
