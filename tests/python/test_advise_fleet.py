# SPDX-License-Identifier: Apache-2.0
"""`--fleet` scripts do what was advised, or are refused in one sentence; tests/oracle/check_fleet.py runs them in Paddle."""

from __future__ import annotations

import json
import math
import re

import pytest
from test_advise import floats, run

from yuloh import _core
from yuloh.advise import catalogue, fleet, question, reckon


def written(tmp_path, *words, script=()):
    path = tmp_path / "pre.py"
    done = run(*words, "--fleet", str(path), *(("--", *script) if script else ()))
    text = path.read_text()
    compile(text, str(path), "exec")
    return text, " ".join(done.stdout.split())


def test_states_on_the_host_are_in_a_stage_that_moves_them(tmp_path):
    for what, level in (("all", "p_g_os"), ("optimizer", "os_g")):
        text, said = written(tmp_path, "llama-7b", "--device", "a100-80", "--count", "4", "--offload", what)
        assert f'level="{level}", group=hcg.get_sharding_parallel_group(), offload=True' in text
        assert f"stage {3 if what == 'all' else 2} / 4" in said and f"offload {what}" in said


@pytest.mark.parametrize(
    "words,said",
    [
        (("--count", "2", "--offload", "all", "--stage", "1", "--sharding", "2"), "in sharding stages 2 and 3 only"),
        (("--count", "2", "--offload", "all", "--stage", "2", "--sharding", "2"), "weights to the host in sharding stage 3 only"),
        (("--count", "2", "--lora", "8", "--mp", "2"), "adapters beside tensor parallel matrices"),
    ],
)
def test_what_fleet_cannot_do_is_refused(tmp_path, words, said):
    done = run("llama-7b", "--device", "a100-80", *words, "--fleet", str(tmp_path / "no.py"), ok=2)
    assert said in done.stderr and "Hint: " in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "no.py").exists()


def test_adapters_are_where_they_were_asked_for_and_whole_matrices_are_said(tmp_path):
    def adapted(*words):
        text, said = written(tmp_path, "llama-7b", "--device", "rtx4090", "--lora", "16", *words)
        return {line.split("=")[0].strip() for line in text.splitlines() if "= adapted(" in line}, text, said

    names, text, _ = adapted()
    assert names == {"self.q", "self.k", "self.v", "self.out"} and "not the" not in text
    assert adapted("--lora-targets", "q,ffn")[0] == {"self.q", "self.up", "self.gate", "self.down"}
    _, text, said = adapted("--weight-bits", "4")
    top = next(line for line in text.splitlines() if "keeps the frozen matrices whole" in line)
    assert "of 24 GiB" in top and "GiB of 4 bits" in top and top.removeprefix("# ") in said


def test_a_gated_preset_has_its_shape_and_the_top_says_what_is_missing(tmp_path):
    text, _ = written(tmp_path, "llama3-8b", "--device", "h100", "--count", "8")
    assert "silu(self.gate(h))" in text and "RMSNorm()" in text and "LayerNorm" not in text
    top = text.split("import paddle")[0]
    assert "without its positions and with random weights" in top and "set_state_dict" in top and "8 heads in it" in top
    assert "launch --devices 0,1,2,3,4,5,6,7 pre.py" in top


def test_a_card_without_bf16_gets_fp16_with_loss_scaling(tmp_path):
    text, _ = written(tmp_path, "resnet50", "--device", "t4", "--count", "2")
    assert 'dtype="float16"' in text and "scaler.scale(loss).backward()" in text and "scaler.step(optimizer)" in text
    assert "paddle.randn([MICRO, 3, 224, 224])" in text  # runs as it stands
    assert "scaler" not in written(tmp_path, "resnet50", "--device", "a10", "--count", "2")[0]


def test_the_users_model_and_data_are_imported(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import paddle\nclass Mine(paddle.nn.Layer):\n    def __init__(self):\n        super().__init__()\n"
        "        self.l = paddle.nn.Linear(16, 4)\n    def forward(self, x):\n        return self.l(x)\n"
        "if __name__ == '__main__':\n    net = Mine()\n    opt = paddle.optimizer.Adam(parameters=net.parameters())\n"
        "    net(paddle.ones([8, 16])).mean().backward()\n    opt.step()\n")
    for word, extra in ((str(tmp_path / "mine.py"), ()), (f"{tmp_path / 'mine.py'}:Mine", ("--input", "8,16"))):
        text, _ = written(tmp_path, word, *extra, "--device", "a10", "--count", "2")
        assert "from mine import Mine" in text and "from mine import loader" in text and repr(str(tmp_path)) in text
    found = json.loads(run(str(tmp_path / "mine.py"), "--device", "a10", "--count", "2", "--json").stdout)
    assert found["layouts"]["written"] == 0 or found["layouts"]["found"][0]["job"]["pp"] > 1


def _processes(lay):
    """Processes of all servers, as the command says, and of one before the last."""
    nodes = int(re.search(r"--nnodes (\d+)", lay["launch"])[1]) if "--nnodes" in lay["launch"] else 1
    here = len(re.search(r"--devices (\S+)", lay["launch"])[1].split(","))
    if not lay["last_server"]:
        return nodes * here, here
    last = re.fullmatch(r"on the last of the (\d+) servers: --rank (\d+) --devices (\S+); on those before it --rank 0 to (\d+)", lay["last_server"][0])
    assert [int(last[k]) for k in (1, 2, 4)] == [nodes, nodes - 1, nodes - 2]
    return (nodes - 1) * here + len(last[3].split(",")), here


@pytest.mark.parametrize("device", ["a100-80", "gb200", "rtx4090", "jetson-agx-orin-64"])
def test_as_many_processes_as_the_degrees_multiply_to(device):
    """For every count, also what fills no servers: full ones and a rest, or the same in each."""
    entry = catalogue.find_device(device)
    for count in range(1, 65):
        q = question.Question(network=question.from_preset("gpt2")[0], job={"batch": float(8 * count)}, devices=[entry], focus=device, count=count)
        lay = reckon._layouts(q, {"id": device}, count)
        best, (processes, here) = lay["found"][lay["written"]], _processes(lay)
        job = best["job"]
        degrees = fleet.degrees(job)
        assert processes == count == best["devices"] == math.prod(v for k, v in degrees.items() if k.endswith("_degree"))
        assert here <= entry.get("per_host", entry["per_node"])
        for x in lay["found"]:  # tensors inside a server
            assert x["of_server"] == count or x["of_server"] % x["job"]["mp"] == 0


def test_servers_that_are_not_full_are_reckoned_as_they_are_launched():
    """12 of 8 a server are 6 and 6 where groups of 6 or 3 are to lie inside, 8 and 4 for groups of 4; a group over two is paid."""
    net = _core.advise_network(floats({**question.from_preset("llama-7b")[0], "heads": 24, "head_dim": 128, "ffn": 12288}))["network"]
    device = catalogue.core_device(catalogue.find_device("a100-80"))

    def made(rate=5e9, **job):
        return _core.advise_layout(net, floats({"micro": 1, **job}), device, {"rate": rate})

    for mp, here in ((1, 6), (2, 6), (3, 6), (4, 8), (6, 6)):
        x = made(batch=12 // mp, dp=12 // mp, mp=mp)
        assert x["of_server"] == here
        assert dict(x["time"]).get("tensor") == dict(made(batch=1, mp=mp)["time"]).get("tensor")  # as inside one server
    across = dict(made(batch=1, mp=12)["time"])["tensor"]
    assert across > 3 * dict(made(rate=25e9, batch=1, mp=12)["time"])["tensor"]
    crossing = made(batch=8, dp=8, mp=3)  # 24 over three full servers: the third group lies over two
    assert crossing["of_server"] == 8 and dict(crossing["time"])["tensor"] > 3 * dict(made(batch=1, mp=3)["time"])["tensor"]
    assert made(batch=20, dp=20)["of_server"] == 8 and made(batch=13, dp=13)["of_server"] == 8


def test_a_server_s_link_is_shared_by_the_devices_that_are_in_it():
    device = catalogue.core_device(catalogue.find_device("a100-80"))
    net = _core.advise_network(floats(question.from_preset("llama-7b")[0]))["network"]

    def data(fabric, count):
        return dict(_core.advise_layout(net, floats({"batch": count, "micro": 1, "dp": count}), device, fabric)["time"])["data"]

    assert data({"rate_server": 12e9}, 12) == pytest.approx(data({"rate": 2e9}, 12))  # 6 in each


def test_the_script_says_what_the_last_server_starts(tmp_path):
    text, said = written(tmp_path, "llama-7b", "--device", "a100-80", "--count", "20", "--batch", "80")
    rest = "on the last of the 3 servers: --rank 2 --devices 0,1,2,3; on those before it --rank 0 to 1"
    assert f"# {rest}" in text and said.count(rest) == 2 and "--nnodes 3 --devices 0,1,2,3,4,5,6,7 pre.py" in text
    text, said = written(tmp_path, "llama-7b", "--device", "a100-80", "--count", "12", "--batch", "48")
    assert "on the last" not in text + said and ("--nnodes 2 --devices 0,1,2,3,4,5 pre.py" in text) == ("mp 4" not in text)
