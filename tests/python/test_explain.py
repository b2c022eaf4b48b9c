# SPDX-License-Identifier: Apache-2.0
"""YULOH_EXPLAIN says what is so: its lines agree with the plan that runs."""

import collections
import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import yuloh as paddle
paddle.seed(0)
net = paddle.nn.Sequential(paddle.nn.Conv2D(1, 4, 3), paddle.nn.BatchNorm2D(4), paddle.nn.ReLU(), paddle.nn.Flatten(),
                           paddle.nn.Linear(4 * 36, 10))
opt = paddle.optimizer.Adam(parameters=net.parameters())
x, y = paddle.ones([4, 1, 8, 8]), paddle.zeros([4], "int64")
x.numpy(), [p.numpy() for p in net.parameters()]
paddle.set_flags({"FLAGS_fusion": FUSION})
for _ in range(2):
    loss = paddle.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    loss.item()
"""


def explained(what, fusion=1, **env):
    done = subprocess.run([sys.executable, "-c", PROGRAM.replace("FUSION", str(fusion))], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "YULOH_EXPLAIN": what, **env})
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def times(line):
    found = re.search(r" \((\d+) times\)$", line)
    return int(found[1]) if found else 1


def plans(lines):
    """[(names of the fused steps, lines of the explanation)] plan by plan."""
    out = []
    for line in lines:
        if line.startswith("plan: "):
            out.append((collections.Counter(), []))
        elif re.match(r"\d+: ", line):
            what, how = re.match(r"\d+: (\S+) \[([^\]]*)", line).groups()
            if how.startswith("tile:") and what != "copy":
                out[-1][0][what] += 1
        elif out:
            out[-1][1].append(line)
    return out


@pytest.fixture(scope="module")
def lines():
    return explained("plan,fusion,kernels")


def test_fused_lines_are_the_fused_steps(lines):
    found = plans(lines)
    assert len(found) >= 3
    for steps, said in found:
        groups = collections.Counter()
        for line in said:
            if line.startswith("fused "):
                count, names = re.match(r"fused (\d+) into one loop: (.*?)(?: \(\d+ times\))?$", line).groups()
                assert len(names.split(" + ")) == int(count)
                groups[names.replace(" + ", "+")] += times(line)
        assert groups == collections.Counter({k: n for k, n in steps.items() if "+" in k})
        total = [line for line in said if line.startswith("fusion: ")]
        if total:
            nodes, kernels = map(int, re.match(r"fusion: (\d+) .* became (\d+) kernels", total[0]).groups())
            assert kernels == sum(steps.values()) and nodes == sum(n * len(k.split("+")) for k, n in steps.items())


def test_every_value_between_kernels_has_its_reason(lines):
    steps, said = plans(lines)[-1]  # a steady step
    apart = [line for line in said if line.startswith("apart: ")]
    assert len(apart) == len({re.sub(r" \(\d+ times\)$", "", line) for line in apart})
    assert all(re.match(r"apart: \S+ \| \S+: \S", line) for line in apart)
    assert any(re.match(r"apart: conv \| \S+: conv has a kernel of its own", line) for line in apart)
    assert any(re.search(r"\| matmul: matmul has a kernel of its own", line) for line in apart)


def test_refusals_are_told_with_their_reasons(lines):
    refused = [line for line in lines if " refused: " in line]
    assert refused and all(re.match(r"\w+: \w+ refused: \S", line) for line in refused)


def test_each_kind_can_be_asked_for_alone():
    assert not [line for line in explained("kernels") if " refused: " not in line]
    only = explained("fusion")
    assert only and all(line.startswith(("fusion: ", "fused ", "apart: ")) for line in only)


def test_without_fusion_nothing_is_fused():
    found = plans(explained("plan,fusion", fusion=0))
    assert not [line for line in found[-1][1] if line.startswith("fused ")]
    assert any(line.endswith(": fusion is off") or ": fusion is off (" in line for line in found[-1][1])
