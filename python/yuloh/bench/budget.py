# SPDX-License-Identifier: Apache-2.0
"""Time and money limits of a run: parsing, and the clock that says what still fits.

`--max-time 10m` counts measuring only; `--budget "5 CNY @ 1 CNY/h"` counts from the start of the command,
making of environments included, since the machine costs money all the while.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Optional

_UNIT = {
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
_SYMBOL = {"¥": "CNY", "￥": "CNY", "元": "CNY", "$": "USD", "€": "EUR", "£": "GBP"}


def parse_duration(text: str) -> float:
    """Seconds of "90", "90s", "10m", "1h30m", "2 hours"."""
    plain = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        seconds = float(plain)
    else:
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", plain)
        if (
            not parts
            or re.sub(r"[\d.\sa-z]", "", plain)
            or not all(u in _UNIT or u.rstrip("s") in _UNIT for _, u in parts)
        ):
            raise ValueError(
                f"bench: cannot read the duration, got {text!r}; expected seconds or a number with s, m, "
                "h or d. Hint: --max-time 10m"
            )
        seconds = sum(float(n) * _UNIT[u if u in _UNIT else u.rstrip("s")] for n, u in parts)
    if not seconds > 0:
        raise ValueError(
            f"bench: a limit must be positive, got {text!r}; expected more than 0 seconds. "
            "Hint: leave it out for no limit."
        )
    return seconds


def _amount(text: str):
    text = text.strip()
    match = re.fullmatch(r"([¥￥$€£]?)\s*(\d+(?:\.\d+)?)\s*([A-Za-z]{0,3}|元)", text)
    if not match or (match[1] and match[3]):
        raise ValueError(
            f"bench: cannot read the amount of money, got {text!r}; expected a number and a currency. "
            'Hint: --budget "5 CNY @ 1 CNY/h"'
        )
    unit = match[1] or match[3]
    return float(match[2]), _SYMBOL.get(unit, unit.upper())


@dataclass(frozen=True)
class Money:
    """amount: what may be spent; per_hour: price of the machine; currency: three letters or empty."""

    amount: float
    per_hour: float
    currency: str

    @property
    def seconds(self) -> float:
        return self.amount / self.per_hour * 3600

    def spent(self, seconds: float) -> float:
        return seconds / 3600 * self.per_hour


def parse_money(text: str) -> Money:
    """Money of "5 CNY @ 1 CNY/h", "¥5 @ ¥1/h", "$2 @ 0.5/h" or "5 @ 24/day"."""
    amount_text, at, rate_text = text.partition("@")
    rate, slash, unit = rate_text.rpartition("/")
    unit = unit.strip().lower()
    if not at or not slash or (unit not in _UNIT and unit.rstrip("s") not in _UNIT):
        raise ValueError(
            f"bench: cannot read the budget, got {text!r}; expected AMOUNT @ PRICE/h. "
            'Hint: --budget "5 CNY @ 1 CNY/h"'
        )
    amount, currency = _amount(amount_text)
    price, price_currency = _amount(rate)
    if currency and price_currency and currency != price_currency:
        raise ValueError(
            f"bench: budget and price differ in currency, got {currency} and {price_currency}; expected "
            "one currency. Hint: convert one of them."
        )
    if amount <= 0 or price <= 0:
        raise ValueError(
            f"bench: budget and price must be positive, got {amount:g} and {price:g}. "
            "Hint: leave --budget out for no limit."
        )
    return Money(
        amount, price * 3600 / _UNIT[unit if unit in _UNIT else unit.rstrip("s")], currency or price_currency
    )


class Budget:
    """The clock. start_measuring() starts max_time; money runs from construction."""

    def __init__(self, max_time: Optional[float] = None, money: Optional[Money] = None, clock=time.monotonic):
        self.max_time, self.money, self._clock = max_time, money, clock
        self._begin = clock()
        self._measuring: Optional[float] = None

    def start_measuring(self) -> None:
        self._measuring = self._clock()

    def elapsed(self) -> float:
        return self._clock() - self._begin

    def left(self) -> float:
        """Seconds that may still be used; infinite without a limit."""
        now, left = self._clock(), float("inf")
        if self.money:
            left = self.money.seconds - (now - self._begin)
        if self.max_time and self._measuring is not None:
            left = min(left, self.max_time - (now - self._measuring))
        elif self.max_time:
            left = min(left, self.max_time)
        return left

    def allows(self, seconds: float) -> bool:
        return self.left() >= seconds

    def describe(self) -> dict:
        out = {"max_time_s": self.max_time, "elapsed_s": round(self.elapsed(), 1)}
        if self.money:
            out.update(
                amount=self.money.amount,
                per_hour=self.money.per_hour,
                currency=self.money.currency,
                spent=round(self.money.spent(self.elapsed()), 4),
            )
        return out
