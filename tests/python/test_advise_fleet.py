# SPDX-License-Identifier: Apache-2.0
"""`--fleet` scripts do what was advised, or are refused in one sentence; tests/oracle/check_fleet.py runs them in Paddle."""

from __future__ import annotations

import json

import pytest
from test_advise import run


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
