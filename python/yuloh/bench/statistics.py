# SPDX-License-Identifier: Apache-2.0
"""The judge of the performance test: from paired times to "faster", "slower" or "cannot tell".

One *round* runs every arm once forwards and once backwards (A B C C B A), so that slow drift cancels, and the
order is drawn anew for each round. Under "A and B are the same program" the sign of log(time B / time A) is
then a fair coin in every round, whatever the machine's noise looks like, and Wilcoxon's signed-rank test is
exact: no normal distribution, no independence in time is assumed. The interval is the matching one (Walsh
averages), its centre the Hodges-Lehmann estimate, which a few disturbed rounds cannot move far.

The test is sequential: it looks at fixed numbers of rounds (LOOKS) and spends a small part of the error at
each; the parts add up to 3 %, so two equal programs are called different in fewer than 3 of 100 whole runs.
Differences below FLOOR are never called: two starts of the very same program differ by about that much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Sequence, Tuple

import numpy as np

#: (number of rounds, two-sided error spent at that look). Sum of the errors: 0.03.
LOOKS: Tuple[Tuple[int, float], ...] = ((8, 0.008), (12, 0.0055), (18, 0.0055), (27, 0.0055), (40, 0.0055))
#: Smallest difference (natural logarithm of a time ratio) that is ever called: 1 %.
FLOOR = math.log(1.01)

FASTER, SLOWER, CANNOT_TELL = "faster", "slower", "cannot tell"


@dataclass(frozen=True)
class Judgement:
    """Outcome of one comparison. log_ratio, low, high: ln(time of arm / time of base); negative = arm
    faster."""

    verdict: str
    decided: bool  # True: further rounds would not change the verdict
    rounds: int  # rounds that the verdict rests on
    log_ratio: float
    low: float
    high: float
    level: float  # confidence level of [low, high]

    def speedup(self) -> Tuple[float, float, float]:
        """Time of base / time of arm: estimate and interval; above 1 means that the arm is faster."""
        return math.exp(-self.log_ratio), math.exp(-self.high), math.exp(-self.low)


@lru_cache(maxsize=None)
def critical_rank(n: int, alpha: float) -> int:
    """Largest c with P(W <= c) <= alpha / 2 for the signed-rank sum W of n pairs under the null; -1 if
    none."""
    ways = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    below, limit = 0, alpha / 2 * 2**n
    for total, count in enumerate(ways):
        below += count
        if below > limit:
            return total - 1
    return len(ways) - 1


def interval(log_ratios: Sequence[float], alpha: float) -> Tuple[float, float, float]:
    """Hodges-Lehmann centre and the exact signed-rank interval at level 1 - alpha: (centre, low, high).

    With too few pairs for that level the interval is infinite, never invented.
    """
    d = np.asarray(log_ratios, dtype=np.float64)
    if d.ndim != 1 or d.size == 0:
        raise ValueError(
            f"interval: no pairs, got shape {d.shape}; expected at least one log ratio. "
            "Hint: run at least one full round."
        )
    if not np.isfinite(d).all():
        raise ValueError(
            "interval: a log ratio is not finite; expected positive, finite times. "
            "Hint: a block with time 0 means a broken clock."
        )
    row, column = np.triu_indices(d.size)
    walsh = np.sort((d[row] + d[column]) / 2)
    centre = float(np.median(walsh))
    cut = critical_rank(int(d.size), alpha)
    if cut < 0:
        return centre, -math.inf, math.inf
    return centre, float(walsh[cut]), float(walsh[walsh.size - 1 - cut])


def _look(log_ratios: Sequence[float], n: int, alpha: float, floor: float) -> Judgement:
    centre, low, high = interval(log_ratios[:n], alpha)
    if low > 0 and centre >= floor:
        verdict, decided = SLOWER, True
    elif high < 0 and centre <= -floor:
        verdict, decided = FASTER, True
    else:  # an interval that lies within the floor will not become a difference: stop early
        verdict, decided = CANNOT_TELL, -floor < low and high < floor
    return Judgement(verdict, decided, n, centre, low, high, 1 - alpha)


def judge(log_ratios: Sequence[float], final: bool = False, looks=LOOKS, floor: float = FLOOR) -> Judgement:
    """Replays the planned looks over the rounds so far; the first look that decides stands for good.

    final: no further round will come (budget spent, interrupted): the rounds after the last look get one more
    look with the next look's share of the error. Depends on the raw samples only, so anyone can repeat it.
    """
    done = len(log_ratios)
    result = None
    for n, alpha in looks:
        if n <= done:
            result = _look(log_ratios, n, alpha, floor)
            if result.decided:
                return result
        else:
            if final or result is None:
                result = _look(log_ratios, done, alpha, floor)
                if not final:
                    result = Judgement(
                        CANNOT_TELL, False, done, result.log_ratio, result.low, result.high, result.level
                    )
            return result
    return Judgement(
        result.verdict, True, result.rounds, result.log_ratio, result.low, result.high, result.level
    )


def orders(arms: int, rounds: int, seed: int) -> list:
    """The run order of each round: a random permutation followed by its mirror image. Same seed, same
    orders."""
    rng = np.random.default_rng([seed, 0x0A12])
    out = []
    for _ in range(rounds):
        forward = [int(i) for i in rng.permutation(arms)]
        out.append(forward + forward[::-1])
    return out


def summary(values: Sequence[float]) -> dict:
    """Median, quartiles, extremes and count of a sample; plain floats for JSON."""
    v = np.asarray(values, dtype=np.float64)
    if v.size == 0:
        return {"n": 0}
    low, median, high = (float(x) for x in np.percentile(v, [25, 50, 75]))
    return {
        "n": int(v.size),
        "median": median,
        "q1": low,
        "q3": high,
        "min": float(v.min()),
        "max": float(v.max()),
    }
