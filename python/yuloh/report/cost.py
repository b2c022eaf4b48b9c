# SPDX-License-Identifier: Apache-2.0
"""The price arithmetic of the report: the core's (src/advise/choice.h), one pure function, no input or output.

saved hours a year = runs a day x hours saved by one run x days
saved money a year = saved hours x servers x price of a server hour
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .. import _core


@dataclass(frozen=True)
class Saving:
    """hours: a year, on one server; money: a year, on all servers, in the price's currency."""

    hours: float
    money: float


def yearly_saving(
    runs_per_day: float, hours_saved: float, servers: float, price: float, days: int = 365
) -> Saving:
    """Saving of a year. hours_saved may be negative (the change costs time); the rest must not be.

    >>> yearly_saving(50, 0.34, 4, 3)
    Saving(hours=6205.0, money=74460.0)
    """
    hours, money, _ = _core.advise_yearly(runs_per_day, hours_saved, servers, price, days)
    return Saving(hours, money)


def hours_saved_by(hours_per_run: float, speedup: float) -> float:
    """Hours that one run saves when its steps become `speedup` times as fast, to 0.01 h: 2 h at 1.2048x are
    0.34 h.

    Rounded here, before anything is multiplied, so that the sum printed in the report adds up.
    """
    if not (math.isfinite(hours_per_run) and hours_per_run >= 0 and math.isfinite(speedup) and speedup > 0):
        raise ValueError(
            f"cost: expected hours of 0 or more and a speed-up above 0, got {hours_per_run} and {speedup}. "
            "Hint: check --hours-per-run."
        )
    return round(hours_per_run * (1 - 1 / speedup), 2)
