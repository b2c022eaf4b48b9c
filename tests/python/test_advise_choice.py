# SPDX-License-Identifier: Apache-2.0
"""The choice of devices: what is given is kept, a price of 0 is a price."""

from __future__ import annotations

from test_advise import ask

from yuloh.advise import catalogue


def entries(*names):
    return [catalogue.find_device(n) for n in names]


def test_no_recompute_is_kept_where_it_was_given():
    job = {"batch": 64, "micro": 8}
    free = ask("gpt3-1.3b", job=dict(job), devices=entries("a10"), count=8)["layouts"]["found"]
    kept = ask("gpt3-1.3b", job={**job, "recompute": "none"}, devices=entries("a10"), count=8)["layouts"]["found"]
    assert free[0]["job"]["recompute"] == "full"
    assert {x["job"]["recompute"] for x in kept} == {"none"}
