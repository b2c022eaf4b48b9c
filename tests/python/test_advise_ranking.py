# SPDX-License-Identifier: Apache-2.0
"""The one rule of what to take (src/advise/ranking.h): what must hold for every list of ways, and that the answer, its tables,
the scenarios and the page follow it."""

from __future__ import annotations

import random

import pytest
from test_advise import ask, run

from yuloh import _core
from yuloh.advise import catalogue, tables, words
from yuloh.advise.terms import USES, WHYS

PRICES = {"t4": 3.0, "a10": 5.0, "l4": 4.5, "a100-80": 20.0, "h100": 40.0, "rtx4090": 2.6}


def some(r):
    """(ways, markets, asked) as an answer could have them; ties of cost, power and time among them."""
    devices = r.randint(1, 8)
    markets = [{"use": r.choice(USES), "small": r.random() < 0.2, "common": r.random() < 0.2} for _ in range(devices)]
    priced = r.random() < 0.6
    prices = [r.choice([-1, 0, 1, 2, r.uniform(0.1, 50)]) if priced else -1 for _ in range(devices)]
    watts = [r.choice([0, 70, 150, 400, r.uniform(10, 1000)]) for _ in range(devices)]
    ways = []
    for d in range(devices):
        for count in (1, 2, 4, 8)[: r.randint(1, 4)]:
            time = r.choice([1, 2, r.uniform(0.01, 100)])
            ways.append({"device": d, "count": float(count), "cost": float(prices[d] * count) if prices[d] >= 0 else -1.0,
                         "watts": watts[d] * count + 0.0, "time": float(time), "able": r.random() < 0.8, "tight": r.random() < 0.2})
    asked = {"named": r.random() < 0.3, "limited": r.random() < 0.4, "training": r.random() < 0.6, "size": r.randrange(4)}
    return ways, markets, asked


@pytest.fixture(params=range(20))
def lists(request):
    r = random.Random(request.param)
    return r, [some(r) for _ in range(150)]


def ranked(ways, markets, asked):
    return _core.advise_rank(ways, markets, asked)


def same_answer(a, b):
    return all(a[k] == b[k] for k in ("first", "order", "each", "picks", "next", "cheaper", "why"))


def amount(way, by):
    return way["cost"] if by == "cost" else way["watts"] or float("inf")


def test_what_is_taken_is_not_dominated(lists):
    """Of what is meant for the work as much as it is, nothing costs no more and is no slower, and better in one of both."""
    for ways, markets, asked in lists[1]:
        made = ranked(ways, markets, asked)
        if made["first"] is None:
            assert not any(w["able"] and (made["by"] == "watts" or w["cost"] >= 0) for w in ways)
            continue
        first = ways[made["first"]]
        mine = (amount(first, made["by"]), first["time"])

        def behind(w):
            m = markets[w["device"]]
            elsewhere = m["use"] in ("edge", "cpu") and not asked["named"] and made["by"] == "watts"
            return 2 if elsewhere else 1 if m["small"] and asked["training"] and asked["size"] >= 2 else 0

        for w in (ways[i] for i in made["order"]):
            other = (amount(w, made["by"]), w["time"])
            beats = all(x <= y for x, y in zip(other, mine)) and other != mine and w["tight"] <= first["tight"]
            assert not beats or behind(w) > behind(first) or mine[0] == float("inf") or (other[0] == mine[0] == 0), (w, first, asked)


def test_the_order_of_the_list_is_nothing(lists):
    """Turned round, what is taken costs, draws and lasts the same; only devices that are alike in all may change places."""
    for ways, markets, asked in lists[1]:
        made, turned = ranked(ways, markets, asked), ranked(ways[::-1], markets, asked)
        assert (turned["first"] is None) == (made["first"] is None)
        if made["first"] is not None:
            a, b = ways[made["first"]], ways[::-1][turned["first"]]
            assert (amount(a, made["by"]), a["time"], a["tight"]) == (amount(b, made["by"]), b["time"], b["tight"])


def test_the_unit_of_money_is_nothing(lists):
    for ways, markets, asked in lists[1]:
        scaled = [{**w, "cost": w["cost"] * 8 if w["cost"] > 0 else w["cost"]} for w in ways]
        assert same_answer(ranked(ways, markets, asked), ranked(scaled, markets, asked))


def test_what_is_not_taken_does_not_matter(lists):
    """Dearer, slower or gone, it leaves the answer as it was; what is taken stays so when it becomes cheaper or faster."""
    r, asked_of = lists
    for ways, markets, asked in asked_of:
        made = ranked(ways, markets, asked)
        if made["first"] is None or made["by"] != "cost":
            continue
        other = r.randrange(len(ways))
        worse = r.choice([{"cost": ways[other]["cost"] * 3 + 1}, {"time": ways[other]["time"] * 2}, {"able": False}, {"tight": True}])
        if ways[other]["device"] != ways[made["first"]]["device"] and ways[other]["cost"] >= 0:
            assert ranked([*ways[:other], {**ways[other], **worse}, *ways[other + 1:]], markets, asked)["first"] == made["first"]
        mine = ways[made["first"]]
        better = r.choice([{"cost": mine["cost"] / 2}, {"time": mine["time"] / 2}, {"tight": False}])
        assert ranked([{**w, **better} if w is mine else w for w in ways], markets, asked)["first"] == made["first"]


def test_lists_agree(lists):
    for ways, markets, asked in lists[1]:
        made = ranked(ways, markets, asked)
        assert made["each"] == [i for n, i in enumerate(made["order"]) if ways[i]["device"] not in {ways[k]["device"] for k in made["order"][:n]}]
        assert made["picks"] == [i for i in made["each"] if i in made["picks"]][:5] and bool(made["picks"]) == bool(made["each"])
        assert made["first"] == next(iter(made["order"]), None) == next(iter(made["picks"]), None)
        if made["next"] is not None:
            assert 1.5 * ways[made["next"]]["time"] <= ways[made["first"]]["time"]
        if made["cheaper"] is not None:
            assert amount(ways[made["cheaper"]], made["by"]) < amount(ways[made["first"]], made["by"])
        if asked["limited"] and made["order"] and made["by"] == "cost":  # within the time being faster is worth nothing
            taken = ways[made["first"]]
            alike = [ways[i]["cost"] for i in made["order"] if markets[ways[i]["device"]]["small"] <= markets[taken["device"]]["small"]
                     and not ways[i]["tight"]]
            assert taken["cost"] <= min(alike, default=float("inf"))


def test_a_given_number_is_first_or_nothing_is(lists):
    r, asked_of = lists
    for ways, markets, asked in asked_of:
        given = r.randrange(len(ways))
        made = ranked(ways, markets, {**asked, "number": True, "given": given})
        assert made["first"] == made["order"][0] == made["picks"][0] == given and made["given"] is True
        assert made["why"] == ("given_though" if made["cheaper"] is not None else "given")
        refused = ranked(ways, markets, {**asked, "number": True})
        assert refused["first"] is None and refused["given"] is False and refused["why"] == ""
        assert refused["each"] == ranked(ways, markets, asked)["each"]


@pytest.mark.parametrize("way", [{"device": 3}, {"time": 0.0}, {"time": float("nan")}, {"cost": float("nan")}])
def test_senseless_ways_are_refused(way):
    with pytest.raises(ValueError, match="a way names device"):
        ranked([{"device": 0, "time": 1.0, **way}], [{}], {})


def test_every_reason_has_words():
    assert all(f"why_{why}" in words.WORDS for why in WHYS if why) and all(f"use_{use}" in words.WORDS for use in USES)


# -- whole answers -------------------------------------------------------------------------------------
GOALS = [
    ("resnet50", {"goals": {"samples": 1e8}}),
    ("resnet50", {"goals": {"samples": 1e8, "hours": 30}}),
    ("llama-7b", {}),
    ("llama-7b", {"count": 4}),
    ("resnet50", {"job": {"training": False}, "goals": {"rate": 2400, "p99": 0.018}}),
]


def taken(found):
    first = found["verdict"]["first"]
    return first and (first["id"], first["count"])


@pytest.mark.parametrize("preset,options", GOALS, ids=str)
def test_prices_change_the_answer_as_they_should(preset, options):
    def asked(prices):
        made = {k: dict(v) if isinstance(v, dict) else v for k, v in options.items()}
        return ask(preset, prices=prices, currency="X", **made)

    found = asked(PRICES)
    assert found["verdict"]["by"] == "cost" and taken(found)
    assert taken(asked(dict(reversed(PRICES.items())))) == taken(found)
    assert taken(asked({k: 1000 * v for k, v in PRICES.items()})) == taken(found)
    for other in PRICES:
        if other != taken(found)[0]:
            assert taken(asked({**PRICES, other: 7 * PRICES[other]})) == taken(found), other


@pytest.mark.parametrize("preset,options", GOALS, ids=str)
def test_prices_of_some_devices_rank_by_them(preset, options):
    """What has no price is left out, with a goal and without; the price of one alone is enough."""
    for prices in ({"a100-80": 20.0, "h100": 40.0}, {"h100": 40.0}):
        found = ask(preset, prices=dict(prices), currency="X", **{k: dict(v) if isinstance(v, dict) else v for k, v in options.items()})
        assert found["verdict"]["by"] == "cost" and taken(found)[0] in prices
        assert {o["id"] for o in (*found["recommended"], *found["verdict"]["picks"])} <= set(prices)


@pytest.mark.parametrize("preset,options", [*GOALS, ("llama2-70b", {"job": {"training": False}}), ("bert-base", {})], ids=str)
@pytest.mark.parametrize("prices", [{}, PRICES], ids=["power", "prices"])
def test_headline_tables_and_page_say_the_same(preset, options, prices):
    from yuloh.advise import page

    found = ask(preset, prices=dict(prices), **{k: dict(v) if isinstance(v, dict) else v for k, v in options.items()})
    first = taken(found)
    assert first and taken({"verdict": {"first": found["verdict"]["picks"][0]}}) == first
    assert (found["recommended"][0]["id"], found["recommended"][0]["count"]) == first
    shown = f"{first[1]} x "
    for section in tables.sections(found, "en", True):
        if section.name in ("by_use", "recommended", "training", "serving"):
            cells = section.rows[0]
            assert any(c.startswith(shown) and c.removeprefix(shown) in found["verdict"]["first"]["name"] for c in cells[:2]), section.name
    goal = found.get("training") or found.get("serving")
    assert not goal or (goal["best"][0]["id"], goal["best"][0]["count"]) == first
    if "training" in found:
        (ring,) = [p["label"] for p in page.pareto(found)["points"] if p["chosen"]]
        assert ring == f"{first[1]} x {first[0]}"
    assert page.view(found, "en")["cards"][-1]["value"].startswith(shown)


def test_scenarios_follow_the_rule():
    """A scenario's best is what the answer to its question takes."""
    from yuloh.advise.scenarios import scenario_rows

    for s, (row,) in ((s, scenario_rows(only=s["id"])) for s in catalogue.scenarios()):
        able = [r for r in row["rows"] if r["fits"]]
        best = next(r for r in able if (r["id"], r["count"]) == (row["best"], row["best_count"]))
        assert row["able"] == len({(r["id"], r["count"]) for r in able})
        if not s["training"]:
            found = ask(s["model"], job={"training": False, "precision": s["precision"]}, devices=[catalogue.find_device(c) for c, _ in s["candidates"]],
                        focus=s["candidates"][0][0], goals={"rate": s["rate"], "p99": s["p99_ms"] / 1e3})
            assert taken(found) == (row["best"], row["best_count"])
        for r in able:
            assert not (r["rank"] <= best["rank"] and r["time"] < best["time"] and not r["tight"]), s["id"]


def test_a_number_for_a_rate():
    """--count with --rate: so many serve it, or it is said that they do not."""
    question = ("llama-7b", "--inference", "--rate", "5", "--p99", "9000", "--new-tokens", "0", "--device", "l4")
    assert "Take 4 x L4" in run(*question, "--count", "4").stdout
    few = run(*question, "--count", "1").stdout
    few = " ".join(few.split())
    assert "Take" not in few and "1 x L4 do not answer 99 of 100 of 5.00 requests/s within 9.00 s. 3 x L4 would do it." in few
    assert "6 devices are not 3 copies of the model on 1 each" in run(*question, "--count", "6", "--dp", "3", "--batch", "3", ok=2).stderr
