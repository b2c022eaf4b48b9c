# SPDX-License-Identifier: Apache-2.0
"""The judge of `yuloh bench`, tried on noise recorded from real runs (bench/record_noise.py)."""

import json
import math
import pathlib

import numpy as np
import pytest

from yuloh.bench import statistics as st

NOISE = json.loads((pathlib.Path(__file__).parent / "bench_noise.json").read_text())


def pairs_from(seconds, rounds, slow_down, rng):
    """Log ratios of A against a slowed B when both run in the recorded slots, in the orders the bench would
    draw."""
    start = int(rng.integers(0, len(seconds) - 4 * rounds + 1))
    out = []
    for i, order in enumerate(st.orders(2, rounds, int(rng.integers(1 << 30)))):
        slot = seconds[start + 4 * i : start + 4 * i + 4]
        total = [0.0, 0.0]
        for arm, value in zip(order, slot):
            total[arm] += value * (1 + slow_down if arm else 1)
        out.append(math.log(total[1] / total[0]))
    return out


def run(seconds, slow_down, rng):
    """One whole sequential comparison; returns its verdict."""
    pairs = pairs_from(seconds, st.LOOKS[-1][0], slow_down, rng)
    for n in range(1, len(pairs) + 1):
        result = st.judge(pairs[:n])
        if result.decided:
            return result.verdict
    raise AssertionError("the last look must decide")


@pytest.mark.parametrize("series", sorted(NOISE))
def test_same_program_is_not_told_apart(series):
    rng = np.random.default_rng(1)
    verdicts = [run(NOISE[series]["seconds"], 0.0, rng) for _ in range(400)]
    assert verdicts.count(st.CANNOT_TELL) >= 0.95 * 400


def test_two_real_processes_of_the_same_program_are_not_told_apart():
    """Labels as recorded (two processes P Q Q P), so differences between process starts count too."""
    for name, series in NOISE.items():
        s = series["seconds"]
        pairs = [math.log((s[i + 1] + s[i + 2]) / (s[i] + s[i + 3])) for i in range(0, len(s) - 3, 4)]
        verdicts = [st.judge(pairs[i : i + 40], final=True).verdict for i in range(len(pairs) - 39)]
        assert verdicts.count(st.CANNOT_TELL) >= 0.95 * len(verdicts), name


@pytest.mark.parametrize("series", sorted(k for k in NOISE if k != "busy_machine"))
@pytest.mark.parametrize("slow_down,verdict", [(0.03, st.SLOWER), (-0.03, st.FASTER)])
def test_three_percent_is_found(series, slow_down, verdict):
    rng = np.random.default_rng(2)
    verdicts = [run(NOISE[series]["seconds"], slow_down, rng) for _ in range(400)]
    assert verdicts.count(verdict) >= 0.90 * 400
    assert verdicts.count(st.CANNOT_TELL) + verdicts.count(verdict) >= 0.999 * 400  # never the wrong sign


def test_three_percent_of_a_busy_machine_is_not_claimed_wrongly():
    rng = np.random.default_rng(3)
    verdicts = [run(NOISE["busy_machine"]["seconds"], 0.03, rng) for _ in range(200)]
    assert verdicts.count(st.FASTER) <= 0.03 * 200


def test_interval_covers_and_centre_resists_outliers():
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(500):
        d = 0.02 + 0.03 * rng.standard_normal(18)
        d[0] += 3.0  # one disturbed round
        centre, low, high = st.interval(d, 0.05)
        assert abs(centre - 0.02) < 0.05
        hits += low <= 0.02 <= high
    assert hits >= 0.93 * 500


def test_critical_rank_against_published_table():
    # two-sided 5 % and 1 % critical values of the signed-rank statistic
    assert [st.critical_rank(n, 0.05) for n in (6, 8, 10, 15, 20, 25)] == [0, 3, 8, 25, 52, 89]
    assert [st.critical_rank(n, 0.01) for n in (8, 10, 15, 20)] == [0, 3, 15, 37]
    assert st.critical_rank(5, 0.05) == -1


def test_few_rounds_give_no_interval_and_no_verdict():
    result = st.judge([0.9, 0.9, 0.9], final=True)
    assert result.verdict == st.CANNOT_TELL and math.isinf(result.high)
    assert not st.judge([0.9] * 7).decided


def test_large_difference_is_decided_at_the_first_look():
    result = st.judge([1.0, 1.1, 0.9, 1.0, 1.05, 0.97, 1.2, 0.99])
    assert result.decided and result.verdict == st.SLOWER and result.rounds == 8
    speedup, low, high = result.speedup()
    assert low < speedup < high < 1


def test_decision_stands_when_more_rounds_come():
    pairs = [0.1] * 8 + [-0.1] * 30
    assert st.judge(pairs).rounds == 8 and st.judge(pairs).verdict == st.SLOWER


def test_spent_error_stays_below_five_percent():
    assert sum(alpha for _, alpha in st.LOOKS) <= 0.03 + 1e-12


def test_equal_within_the_floor_stops_early():
    result = st.judge([0.001, -0.001] * 4)
    assert result.decided and result.verdict == st.CANNOT_TELL and result.rounds == 8


def test_bad_times_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        st.interval([0.1, float("nan")], 0.05)
    with pytest.raises(ValueError, match="no pairs"):
        st.interval([], 0.05)


def test_orders_are_mirrored_and_seeded():
    a, b = st.orders(3, 20, 7), st.orders(3, 20, 7)
    assert a == b and a != st.orders(3, 20, 8)
    for order in a:
        assert order[:3] == order[:2:-1] and sorted(order[:3]) == [0, 1, 2]


def test_summary_of_nothing():
    assert st.summary([]) == {"n": 0}
    assert st.summary([3.0, 1.0, 2.0])["median"] == 2.0
