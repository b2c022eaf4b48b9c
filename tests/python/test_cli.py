# SPDX-License-Identifier: Apache-2.0
"""The `yuloh` command: `run` with its import hook, and how every command treats bad input."""

import errno
import io
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from yuloh import cli


def yuloh(*args, cwd=None, **env):
    return subprocess.run(
        [sys.executable, "-m", "yuloh.cli", *map(str, args)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        env={**os.environ, **env},
    )


@pytest.fixture
def script(tmp_path):
    def write(code, name="train.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(code))
        return path

    return write


def test_paddle_is_yuloh_and_so_are_its_parts(script):
    done = yuloh(
        "run",
        script("""
        import sys
        import paddle
        import yuloh
        import paddle.nn as nn
        import paddle.nn.functional as F
        from paddle.vision.models import resnet50
        from paddle.optimizer import lr
        import paddle.io
        assert paddle is yuloh and paddle.nn is yuloh.nn is nn and F is yuloh.nn.functional
        assert sys.modules["paddle.nn.functional"] is sys.modules["yuloh.nn.functional"]
        assert resnet50 is yuloh.vision.models.resnet50 and lr is yuloh.optimizer.lr
        assert paddle.nn.__spec__.name == "yuloh.nn" and paddle.__name__ == "yuloh"
        assert __name__ == "__main__" and sys.modules["__main__"].paddle is paddle
        print("same", sys.argv[1:], __file__)
    """),
        "--epochs",
        "3",
        "--data",
        "mine",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("same ['--epochs', '3', '--data', 'mine'] ") and "train.py" in done.stdout


def test_a_script_finds_its_neighbours_and_its_exit_status(script):
    script("VALUE = 5\n", "helper.py")
    done = yuloh("run", script("import helper, sys\nimport paddle\nsys.exit(helper.VALUE)\n"))
    assert done.returncode == 5, done.stderr


def test_traceback_shows_the_script_only(script):
    done = yuloh(
        "run",
        script("""
        import paddle
        def train():
            raise KeyError("lost")
        train()
    """),
    )
    assert done.returncode == 1
    assert 'train.py", line 5, in <module>' in done.stderr and "line 4, in train" in done.stderr
    assert "KeyError: 'lost'" in done.stderr and "cli/run.py" not in done.stderr


def test_syntax_error_points_at_the_line(script):
    done = yuloh("run", script("import paddle\nx = = 1\n"))
    assert done.returncode == 1 and "SyntaxError" in done.stderr and "x = = 1" in done.stderr
    assert "cli/run.py" not in done.stderr


def test_missing_module_is_named_as_the_script_wrote_it(script):
    done = yuloh("run", script("import paddle.no_such_room\n"))
    assert done.returncode == 1 and "No module named 'paddle.no_such_room' in Yuloh" in done.stderr


def test_try_import_of_a_missing_part_can_be_caught(script):
    done = yuloh(
        "run", script("try:\n    import paddle.no_such_room\nexcept ImportError:\n    print('without')\n")
    )
    assert done.stdout == "without\n", done.stderr


def test_run_module(tmp_path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "__init__.py").write_text("")
    (tmp_path / "job" / "main.py").write_text("import sys, paddle\nprint(paddle.__name__, sys.argv[1:])\n")
    done = yuloh("run", "-m", "job.main", "7", cwd=tmp_path)
    assert done.stdout == "yuloh ['7']\n", done.stderr


def test_data_and_fusion_options_reach_the_script(script):
    job = script("import os, paddle\nprint(os.environ['YULOH_DATA'], paddle.get_flags('FLAGS_fusion'))\n")
    out = yuloh("run", "--data", "synthetic", "--fusion", "off", job).stdout
    assert out in ("synthetic {'FLAGS_fusion': False}\n", "synthetic {'FLAGS_fusion': 0}\n")


def test_pickle_and_workers_see_main(script):
    done = yuloh(
        "run",
        script("""
        import pickle, multiprocessing, paddle
        class Thing:
            pass
        def double(x):
            return 2 * x
        if __name__ == "__main__":
            assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
            with multiprocessing.get_context("fork").Pool(1) as pool:
                print(pool.map(double, [21]))
    """),
    )
    assert done.stdout == "[42]\n", done.stderr


def test_interrupt_ends_a_script_with_130(script):
    job = script("import paddle, time, sys\nprint('on', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "yuloh.cli", "run", str(job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "on\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors


@pytest.mark.parametrize(
    "args,words",
    [
        (("run", "none.py"), "no such script, got 'none.py'"),
        (("run", "--data", "/none.tar.gz", "x.py"), "no such data file, got '/none.tar.gz'"),
        (("report", "/no/such/folder"), "no such file"),
        (("bench", "resnet51"), "unknown workload, got 'resnet51'"),
        (("bench", "--budget", "five"), "cannot read the budget, got 'five'"),
        (("bench", "--max-time", "soon"), "cannot read the duration, got 'soon'"),
        (("bench", "--contenders", "a b c="), "cannot read the contender, got 'c='"),
        (("bench", "--batch", "0"), "batch must be positive, got 0"),
        (("bench", "--precision", "fp8"), "expected some of fp32,bf16"),
        (("bench", "--sweep", "big"), "expected knee, fit, or batch sizes"),
    ],
)
def test_bad_input_is_one_clear_line_and_status_2(args, words, tmp_path):
    done = yuloh(*args, cwd=tmp_path)
    assert done.returncode in (1, 2) and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and list(tmp_path.iterdir()) == []


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(cli.MissingExtra, match=r"needs the library 'jinja2'.*pip install 'yuloh\[report\]'"):
        cli.need("jinja2", "report")


def test_help_and_version():
    assert yuloh("--help").returncode == 0
    assert yuloh().returncode == 2
    done = yuloh("--version")
    assert done.returncode == 0 and done.stdout.startswith("yuloh ")
    for command in cli.COMMANDS:
        assert command in yuloh("--help").stdout and yuloh(command, "--help").returncode == 0


def test_every_command_is_a_module_with_add():
    import importlib

    for name in cli.COMMANDS:
        assert callable(importlib.import_module(f"yuloh.cli.{name}").add)


def _field(number, value):
    """A field of protobuf with a length: bytes or text shorter than 128."""
    value = value if isinstance(value, bytes) else value.encode()
    return bytes([number << 3 | 2, len(value)]) + value


@pytest.mark.parametrize("command", [["diff", "big.onnx", "@reference"], ["pack", "big.onnx", "-o", "x.yuloh"],
                                     ["convert", "--no-others", "big.onnx", "x.json"],
                                     ["convert", "--no-others", "mute.onnx", "x.json"],
                                     ["advise", "resnet50", "--devices-file", "deep.json"],
                                     ["inspect", "deep.pdparams"], ["inspect", "folder.onnx"], ["inspect", "folder.json"]],
                         ids=" ".join)  # yapf: disable
def test_what_no_machine_holds_or_nothing_follows_from_is_one_sentence(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    node = _field(1, _field(1, "x") + _field(2, "y") + _field(4, "Relu"))
    size = _field(1, b"\x08\x80\x80\x80\x08")  # 2^24
    value = lambda name: _field(1, name) + _field(2, _field(1, b"\x08\x01" + _field(2, size + size)))
    head, tail = b"\x08\x08", _field(8, b"\x10\x11")
    (tmp_path / "big.onnx").write_bytes(head + _field(7, node + _field(11, value("x")) + _field(12, value("y"))) + tail)
    short = _field(1, "x") + _field(2, _field(1, b"\x08\x01" + _field(2, _field(1, b"\x08\x02"))))
    (tmp_path / "mute.onnx").write_bytes(head + _field(7, node + _field(11, short)) + tail)
    (tmp_path / "deep.json").write_text("[" * 100000)
    (tmp_path / "deep.pdparams").write_bytes(b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".")
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "folder.json").mkdir()
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"yuloh {command[0]}: ") and said.count("\n") <= 2 and ": ." not in said
    assert not command[1].startswith("deep") or "deep" in said


def test_names_beyond_the_terminal_are_escaped():
    done = yuloh("advise", "模型.onnx", "--inference", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 2 and "\\u6a21" in done.stderr


def test_output_that_cannot_be_written_is_not_status_0(monkeypatch, capsys):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys, "stdout", Full())
    assert cli.main(["advise", "--list", "devices"]) == 2
    assert capsys.readouterr().err.startswith("yuloh advise: No space left on device. Hint: ")


def test_an_interrupt_while_an_error_is_told_is_no_traceback(monkeypatch, capsys):
    def late(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_carry_out", late)
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err == "yuloh doctor: interrupted\n"
