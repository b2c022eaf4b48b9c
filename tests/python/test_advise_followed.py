# SPDX-License-Identifier: Apache-2.0
"""`yuloh advise FILE.py` answers about the training that the script does: its precision, passes and recompute, and says so."""

from __future__ import annotations

import json

import pytest
from test_advise import run

HEAD = """import sys
import paddle
from paddle.distributed.fleet.utils import recompute
class Block(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.down = paddle.nn.Linear(256, 1024), paddle.nn.Linear(1024, 256)
    def forward(self, x):
        return x + self.down(paddle.nn.functional.gelu(self.up(x)))
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.blocks = paddle.nn.LayerList([Block() for _ in range(6)])
    def forward(self, x):
        for block in self.blocks:
            x = recompute(block, x) if 'again' in sys.argv else block(x)
        return x
net = Net()
opt = paddle.optimizer.Adam(parameters=net.parameters())
"""
PLAIN = "loss = net(paddle.ones([64, 256])).mean(); loss.backward(); opt.step()\n"


def followed(tmp_path, text, *words, script=()):
    path = tmp_path / "train.py"
    path.write_text(HEAD + text)
    return json.loads(run(str(path), *words, "--device", "a100-80", "--json", "--", *script).stdout)


@pytest.mark.parametrize(
    "text,precision,planned",
    [
        (PLAIN, "fp32", "float32"),
        ("with paddle.amp.auto_cast(dtype='bfloat16'): loss = net(paddle.ones([64, 256])).mean()\nloss.backward(); opt.step()",
         "bf16", "amp-bfloat16"),
        ("with paddle.amp.auto_cast(): loss = net(paddle.ones([64, 256])).mean()\nloss.backward(); opt.step()", "fp16", "amp-float16"),
        ("with paddle.amp.auto_cast(enable=False): loss = net(paddle.ones([64, 256])).mean()\nloss.backward(); opt.step()",
         "fp32", "float32"),
        ("Net.forward = paddle.amp.auto_cast(dtype='bfloat16')(Net.forward)\n" + PLAIN, "bf16", "amp-bfloat16"),
        ("net, opt = paddle.amp.decorate(net, opt, level='O2', dtype='bfloat16')\n"
         "loss = net(paddle.ones([64, 256], 'bfloat16')).mean(); loss.backward(); opt.step()", "bf16", "bfloat16"),
    ],
)
def test_precision(tmp_path, text, precision, planned):
    found = followed(tmp_path, text)
    assert (found["job"]["precision"], found["plan"]["precision"]) == (precision, planned)
    assert f"precision {precision}: as the script trains; --precision asks about another" in found["remarks"]


def test_the_question_overrides_and_the_answer_says_so(tmp_path):
    found = followed(tmp_path, PLAIN, "--precision", "bf16")
    assert found["job"]["precision"] == "bf16"
    assert "precision bf16 was asked for; the script itself trains in fp32" in found["remarks"]


def test_no_optimizer_or_an_unknown_one_is_said(tmp_path):
    found = followed(tmp_path, "net(paddle.ones([64, 256]))")
    assert found["job"]["optimizer"] == "adamw" and any("takes no optimizer step: adamw is reckoned" in r for r in found["remarks"])
    found = followed(tmp_path, PLAIN.replace("loss =", "opt = paddle.optimizer.RMSProp(0.1, parameters=net.parameters())\nloss =", 1))
    assert any("the script's optimizer, RMSProp" in r for r in found["remarks"])


def test_passes_of_an_accumulating_script(tmp_path):
    text = "for _ in range(4):\n    loss = net(paddle.ones([16, 256])).mean() / 4\n    loss.backward()\nopt.step()"
    found = followed(tmp_path, text)
    assert (found["job"]["batch"], found["job"]["micro"], found["plan"]["batch"]) == (64, 16, 16)
    assert "the script accumulates: 4 passes of 16 for a step" in found["remarks"]
    once = followed(tmp_path, PLAIN)
    assert "micro" not in once["job"]
    kept = [dict((i[0], i[2]) for i in f["devices"][0]["memory"])["activations"] for f in (found, once)]
    assert kept[0] == pytest.approx(kept[1] / 4, rel=0.02)
    two = "loss = (net(paddle.ones([16, 256])) - net(paddle.zeros([16, 256]))).mean(); loss.backward(); opt.step()"  # no accumulation
    assert followed(tmp_path, two)["job"]["batch"] == 16


def test_recompute_of_a_script_takes_its_time_and_saves_its_memory(tmp_path):
    plain, again = (followed(tmp_path, PLAIN.replace("64", "65536"), "--recompute", "none", script=s) for s in ((), ("again",)))
    assert again["forward_flops"] == pytest.approx(plain["forward_flops"], rel=0.01)
    # What a block ends with is read by nobody, so its second product is not done again.
    assert again["model"]["again_flops"] == pytest.approx(again["forward_flops"] / 2, rel=0.02) and plain["model"]["again_flops"] == 0
    seconds = [dict(f["devices"][0]["time"]) for f in (plain, again)]
    assert seconds[1]["arithmetic"] == pytest.approx(3.5 / 3 * seconds[0]["arithmetic"], rel=0.06)
    assert seconds[1]["elementwise"] > seconds[0]["elementwise"]
    kept = [dict((i[0], i[2]) for i in f["devices"][0]["memory"])["activations"] for f in (plain, again)]
    assert kept[1] < 0.5 * kept[0]
    assert all(c["what"] != "recompute" for c in again["changes"])
    assert any("recomputes parts" in r for r in again["remarks"])


def test_the_breakdown_is_not_of_this_machines_memory(tmp_path, monkeypatch):
    """A plan that is cut where the machine at hand is full says nothing of another device."""
    import sys

    import yuloh
    from yuloh.advise.from_plan import network_of_model

    def network(limit):
        monkeypatch.setattr(sys.modules["yuloh.advise.facts"], "_machine", lambda: limit)
        make = lambda: yuloh.nn.Sequential(*[yuloh.nn.Linear(256, 256) for _ in range(8)])  # noqa: E731
        return network_of_model(make, [([64, 256], "float32")], {"precision": "fp32"}, "net")

    small, large = network(1 << 20), network(1 << 40)
    assert small[0] == large[0]
    assert small[4]["memory"] != large[4]["memory"]  # those of the machine are


def test_the_short_names_of_precisions_are_facts_own():
    import yuloh
    from yuloh.advise import facts

    def peak(precision):
        return facts(lambda: yuloh.nn.Linear(64, 64), [([8, 64], "float32")], precision=precision)["precision"]

    assert [peak(p) for p in ("fp32", "bf16", "fp16")] == ["float32", "bfloat16", "float16"]
    with pytest.raises(ValueError, match="unknown precision"):
        peak("bf32")


def test_float16_of_a_layer_is_planned_without_a_warning(tmp_path):
    (tmp_path / "net.py").write_text(HEAD)
    done = run(f"{tmp_path / 'net.py'}:Net", "--input", "8,256", "--device", "a100-80", "--precision", "fp16", "--json")
    assert json.loads(done.stdout)["plan"]["precision"] == "float16" and not done.stderr
