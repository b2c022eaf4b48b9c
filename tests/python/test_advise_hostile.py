# SPDX-License-Identifier: Apache-2.0
"""What cannot be answered gets one sentence and status 2; terminals, pipes and paths of every kind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from test_advise import run

from yuloh.advise import page
from yuloh.bench.results import write_atomically


@pytest.mark.parametrize(
    "words,said",
    [
        (("--params", "0"), "must be above 0"),
        (("--params", "abc"), "expected a number such as"),
        (("--layers", "1e300", "--hidden", "1"), "out of range"),
        (("--params", "7e9", "--seq", "0.5"), "out of range"),
        (("llama-7b", "--heads", "7"), "multiple of heads"),
        (("llama-7b", "--batch", "1.5"), "whole number"),
        (("llama-7b", "--micro-batch", "1e300"), "whole number"),
        (("llama-7b", "--count", "1e9"), "whole number"),
        (("llama-7b", "--most", "0"), "whole number"),
        (("llama-7b", "--mp", "3"), "multiple of mp"),
        (("llama-7b", "--dp", "-1"), "whole number"),
        (("llama-7b", "--samples", "1e300"), "at most 1e+18"),
        (("--params", "7e9", "--tokens", "nan"), "must be a number above 0"),
        (("resnet50", "--tokens", "5"), "model of sequences"),
        (("resnet50", "--inference", "--rate", "1e300"), "at most 1e+09"),
        (("resnet50", "--inference", "--rate", "1", "--p99", "-1"), "p99 must be"),
        (("resnet50", "--inference", "--rate", "1", "--max-batch", "0.5"), "--max-batch must be a whole number"),
        (("resnet50", "--inference", "--p99", "5"), "--p99 needs"),
        (("resnet50", "--new-tokens", "5"), "add --inference"),
        (("resnet50", "--runs-per-day", "1e300", "--samples", "1"), "at most 1e6"),
        (("llama-7b", "--inference", "--fleet", "x.py"), "--fleet is for training"),
        (("resnet50", "--inference", "--samples", "1e6"), "--samples is for training"),
        (("llama-7b", "--inference", "--tokens", "1e6"), "--tokens is for training"),
        (("resnet50", "--input", "8,3,224,224"), "--input is for a script"),
        (("resnet50", "--time-limit", "5"), "--time-limit is for a script"),
        (("resnet50", "--energy-price", "nan"), "--energy-price must be"),
        (("resnet50", "--precision", "fp12"), "expected fp32, tf32, fp16, bf16, fp8, int8. Near: fp"),
        (("resnet50", "--optimizer", "adamm"), "Near: adam"),
        (("resnet50", "--device", "h1000"), "Near: h100"),
        (("resnet50", "--device", ",,"), "names none"),
        (("--scenario", "nlpp"), "Near: nlp"),
        (("--show", "h1000"), "Near: h100"),
        (("--list", "foo"), "expected devices, presets"),
        (("resnet5",), "Near: resnet50"),
        (("",), "no such model"),
        (("resnet50", "--devices-file", "/no/such"), "No such file or directory: /no/such"),
        (("llama-7b", "--fleet", "/no/such/x.py"), "No such file or directory"),
    ],
)
def test_one_sentence(words, said):
    done = run(*words, ok=2)
    assert said in done.stderr and done.stderr.count("\n") == 1 and not done.stdout


def test_words_in_any_case():
    assert "adamw" in run("resnet50", "--optimizer", "AdamW", "--precision", "BF16", "--device", "t4").stdout


def test_a_million_layers():
    assert "None of the" in run("--layers", "1e6", "--hidden", "1024").stdout


def test_a_page_does_not_take_the_place_of_a_device_or_pipe(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(type(tmp_path)(pipe), "text")
    assert os.read(reader, 100) == b"text" and not os.path.isfile(pipe)
    os.close(reader)
    with pytest.raises(IsADirectoryError):
        page.write(None, {}, tmp_path)


def environment(**more):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}


def started(*words, **more):
    return subprocess.Popen([sys.executable, "-m", "yuloh.cli", "advise", *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(**more))


def test_terminals_without_the_signs():
    told, said = started("llama-7b", "--device", "a100-80", "--language", "zh", PYTHONIOENCODING="ascii").communicate(timeout=120)
    assert b"has no Chinese" in said and b"Take 2 x A100" in told and b"\\u" not in told
    told, said = started("resnet50", "--inference", "--device", "t4,xeon-8480", PYTHONIOENCODING="ascii").communicate(timeout=120)
    assert not said and b"\\u" not in told
    told, said = started("llama-7b", "--device", "a100-80", "--language", "zh", PYTHONIOENCODING="gbk").communicate(timeout=120)
    assert not said and "建议 2 x A100" in told.decode("gbk")
    assert b"\x1b" not in told


def test_a_reader_that_leaves():
    command = started("--list", "matrix")
    command.stdout.close()
    said = command.stderr.read()
    assert command.wait(120) == 141 and b"Traceback" not in said


def test_outputs_spare_inputs_and_the_files_of_others(tmp_path):
    """What is read, or was not written by advise, is never overwritten, also through a link; what advise wrote is."""
    script, prices, other = tmp_path / "train.py", tmp_path / "p.csv", tmp_path / "mine.py"
    script.write_text("import paddle\n")
    prices.write_text("device,price_hour,currency\nt4,1,CNY\n")
    other.write_text("print('mine')\n")
    (tmp_path / "link.py").symlink_to(other)
    (tmp_path / "again.csv").symlink_to(prices)
    base = ("resnet50", "--device", "t4", "--prices", str(prices))
    for words, said in (
        ((f"{script}", "--fleet", str(script)), "would overwrite the model"),
        ((f"{script}:net", "--html", str(script)), "would overwrite the model"),
        ((*base, "--html", str(tmp_path / "again.csv")), "would overwrite --prices"),
        ((*base, "--html", str(prices)), "would overwrite --prices"),
        ((*base, "--fleet", str(tmp_path / "link.py")), "not of yuloh advise"),
        ((*base, "--html", str(other)), "not of yuloh advise"),
        ((*base, "--html", str(tmp_path / "new"), "--fleet", str(tmp_path / "new")), "are one file"),
        ((*base, "--fleet", ""), "must name a file"),
        ((*base, "--fleet", str(tmp_path / "a\nb.py")), "must name a file"),
    ):
        done = run(*words, ok=2)
        assert said in done.stderr and done.stderr.count("\n") == 1
    assert script.read_text() == "import paddle\n" and prices.read_text().startswith("device,") and other.read_text() == "print('mine')\n"
    own, page_of = tmp_path / "own.py", tmp_path / "own.html"
    own.write_text("")
    for device in ("t4", "a10"):
        run("resnet50", "--device", device, "--fleet", str(own), "--html", str(page_of))
    before = own.read_bytes()
    full = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec "$@"', "-", sys.executable, "-m", "yuloh.cli", "advise", "resnet50", "--device", "t4", "--fleet", str(own)],
        capture_output=True, text=True,
    )
    assert full.returncode == 2 and full.stderr.count("\n") == 1 and str(own) in full.stderr
    assert own.read_bytes() == before and len(list(tmp_path.iterdir())) == 7
