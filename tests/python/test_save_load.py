# SPDX-License-Identifier: Apache-2.0
"""Save and load tests: Paddle's formats, damaged and hostile files, kills and full disks during a save (trap
B42).
"""
import collections
import io
import fcntl
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn

DATA = pathlib.Path(__file__).parent / "data"
PACKAGE = str(pathlib.Path(paddle.__file__).parents[1])


def child(code, *arguments, **settings):
    """A process that runs ``code`` with this package on its path."""
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
                            env={**os.environ, "PYTHONPATH": PACKAGE}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **settings)


def test_state_dict_round_trip(tmp_path):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1D(3))
    path = tmp_path / "deep" / "net.pdparams"
    paddle.save(net.state_dict(), path)
    read = paddle.load(path)
    assert list(read) == list(net.state_dict())
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(read[name].numpy(), value.numpy())
        assert read[name].name == value.name and isinstance(read[name], paddle.Tensor)
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1D(3))
    assert other.set_state_dict(read) == ([], [])
    arrays = paddle.load(path, return_numpy=True, keep_name_table=True)
    assert isinstance(arrays["0.weight"], np.ndarray)
    assert arrays["StructuredToParameterName@@"]["0.weight"] == net[0].weight.name


def test_the_file_is_what_paddle_writes(tmp_path):
    net = nn.Linear(2, 1)
    path = tmp_path / "net.pdparams"
    paddle.save(net.state_dict(), path)
    with open(path, "rb") as file:
        plain = pickle.load(file)  # any reader, Paddle's too, stops at the end of the pickle
    assert list(plain) == ["weight", "bias", "StructuredToParameterName@@"]
    np.testing.assert_array_equal(plain["weight"], net.weight.numpy())
    nested = {"a": paddle.ones([2]), "l": [paddle.ones([1], "int64"), 3, (1.5, None)], "n": np.ones(2)}
    paddle.save(nested, path)
    with open(path, "rb") as file:
        plain = pickle.load(file)
    assert isinstance(plain["a"], tuple) and isinstance(plain["a"][0], str)
    read = paddle.load(path)
    assert isinstance(read["a"], paddle.Tensor)
    assert read["l"][0].dtype == paddle.int64 and read["l"][1:] == [3, (1.5, None)]
    assert isinstance(read["n"], np.ndarray)


@pytest.mark.parametrize("name", ["paddle.pdparams", "paddle.pdopt", "paddle_nested.pd",
                                  "paddle_protocol2.pdparams"])
def test_files_of_paddle_are_read(name):
    read = paddle.load(DATA / name)
    if name.endswith("opt"):
        assert read["LR_Scheduler"] == {"last_epoch": 0, "last_lr": 0.1}
        assert read["linear_0.w_0_moment1_0"].shape == [2, 1]
    elif name == "paddle_nested.pd":
        assert read["l"][0].dtype == paddle.bfloat16 and read["l"][0].item() == 1.0
        assert read["d"]["q"].shape == [2]
    else:
        assert read["weight"].shape == [2, 1] and read["weight"].name == "linear_0.w_0"
        assert nn.Linear(2, 1).set_state_dict(read) == ([], [])


def test_dtypes_and_shapes(tmp_path):
    values = {str(d): paddle.ones([2, 0] if d == "int8" else [2], "float32").astype(d)
              for d in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8",
                        "bool")}
    paddle.save(values, tmp_path / "all")
    for name, value in paddle.load(tmp_path / "all").items():
        assert value.dtype == values[name].dtype and value.shape == values[name].shape, name
    paddle.save(paddle.to_tensor(3.5), tmp_path / "scalar")
    assert paddle.load(tmp_path / "scalar").shape == []


def test_optimizer_state_and_scheduler(tmp_path):
    net = nn.Linear(2, 1)
    optimizer = paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(0.1, 2), parameters=net.parameters())
    net(paddle.ones([1, 2])).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
    paddle.save(optimizer.state_dict(), tmp_path / "o.pdopt")
    again = paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(0.1, 2), parameters=net.parameters())
    again.set_state_dict(paddle.load(tmp_path / "o.pdopt"))
    for (a, x), (b, y) in zip(optimizer.state_dict().items(), again.state_dict().items()):
        if hasattr(x, "numpy"):
            np.testing.assert_array_equal(x.numpy(), y.numpy(), err_msg=a)
        else:
            assert x == y


def test_file_objects():
    buffer = io.BytesIO()
    paddle.save({"w": paddle.ones([2])}, buffer)
    buffer.seek(0)
    np.testing.assert_array_equal(paddle.load(buffer)["w"].numpy(), [1, 1])


def test_wrong_arguments(tmp_path):
    with pytest.raises(NotImplementedError, match="state_dict"):
        paddle.save(nn.Linear(1, 1), tmp_path / "x")
    with pytest.raises(ValueError, match="protocol"):
        paddle.save({}, tmp_path / "x", protocol=9)
    with pytest.raises(ValueError, match="directory"):
        paddle.save({}, tmp_path)
    with pytest.raises(ValueError, match="no file"):
        paddle.load(tmp_path / "missing")


# ---- damage ------------------------------------------------------------------------------------------------
def test_damaged_files_say_so(tmp_path):
    path = tmp_path / "net"
    paddle.save({"w": paddle.ones([1000])}, path)
    good = path.read_bytes()
    damaged = {"one byte short": good[:-1], "40 bytes short": good[:-40], "half": good[:len(good) // 2],
               "empty": b"",
               "no pickle": b"hello", "one bit": good[:900] + bytes([good[900] ^ 4]) + good[901:],
               "zeros": bytes(len(good))}
    for name, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(ValueError, match="damaged|empty|refused"):
            paddle.load(path)
            pytest.fail(name)


def test_hostile_files_are_refused(tmp_path):
    marker = tmp_path / "ran"

    class Hostile:
        def __init__(self, call, *arguments):
            self.call, self.arguments = call, arguments

        def __reduce__(self):
            return self.call, self.arguments

    for call, *arguments in ((os.system, f"touch {marker}"), (eval, f"open({str(marker)!r}, 'w')"),
                             (exec, "1"), (getattr, (1, "real")), (np.ndarray, (2,)),
                             (collections.deque, [1])):
        (tmp_path / "bad").write_bytes(pickle.dumps({"x": Hostile(call, *arguments)}))
        with pytest.raises(ValueError, match="refused|damaged"):
            paddle.load(tmp_path / "bad")
    assert not marker.exists()


def test_a_kill_leaves_the_old_or_the_new_file(tmp_path):
    path = tmp_path / "net"
    code = """
        import sys
        import numpy as np
        import yuloh as paddle
        number = 0
        while True:
            number += 1
            paddle.save({"w": paddle.to_tensor(np.full(2_000_000, number, "float32"))}, sys.argv[1])
            print(number, flush=True)
        """
    last = 0
    for attempt in range(6):
        process = child(code, path)
        process.stdout.readline()
        time.sleep(0.013 * (attempt + 1))
        process.send_signal(signal.SIGKILL)
        done = [int(line) for line in process.communicate()[0].split()]
        value = paddle.load(path)["w"].numpy()
        assert value.min() == value.max() and value[0] >= max(done, default=1)
        last = value[0]
    assert last > 0
    left = [f for f in os.listdir(tmp_path) if f != "net"]
    assert all(f.endswith(".part") for f in left)
    paddle.save({}, path)
    assert os.listdir(tmp_path) == ["net"]  # the next save sweeps what the killed ones left


@pytest.mark.parametrize("name", ["net", "net.safetensors"])
def test_parts_of_killed_writers_are_swept_those_of_living_ones_are_not(tmp_path, name):
    path, dead = tmp_path / name, [f"{name}.123.0.part", f".{name}.abcd_123.part"]
    kept = [f"{name}.part", f"{name}.x.0.part", f"other.{name}.1.0.part", f"{name}.b.1.0.part", "net2.1.0.part"]
    living = f"{name}.99.1.part"
    for n in [*dead, *kept, living]:
        (tmp_path / n).write_bytes(b"half")
    with open(tmp_path / living, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        paddle.save({"w": paddle.ones([2])}, path)
        assert sorted(os.listdir(tmp_path)) == sorted([name, living, *kept])
    paddle.save({"w": paddle.ones([2])}, path)
    assert sorted(os.listdir(tmp_path)) == sorted([name, *kept])


@pytest.mark.parametrize("name", ["net", "net.safetensors"])
def test_two_that_write_one_path_do_not_sweep_each_other(tmp_path, name):
    code = """
        import sys
        import numpy as np
        import yuloh as paddle
        for i in range(60):
            paddle.save({"w": np.full(1000 + i, i, "float32")}, sys.argv[1])
        print("done", flush=True)
        """
    processes = [child(code, tmp_path / name) for _ in range(3)]
    assert [p.communicate()[0].strip() for p in processes] == ["done"] * 3
    assert os.listdir(tmp_path) == [name] and paddle.load(tmp_path / name)["w"].shape[0] == 1059


def test_a_full_disk_keeps_the_old_file(tmp_path):
    path = tmp_path / "net"
    paddle.save({"w": paddle.ones([4])}, path)
    before = path.read_bytes()
    code = """
        import resource, signal, sys
        import numpy as np
        import yuloh as paddle
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            paddle.save({"w": paddle.to_tensor(np.ones(1_000_000, "float32"))}, sys.argv[1])
        except OSError as error:
            print(error)
        """
    out, err = child(code, path).communicate()
    assert "could not be written" in out and "unchanged" in out, err
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["net"]


@pytest.mark.parametrize("name", ["pipe", "pipe.safetensors"])
def test_a_pipe_stays_a_pipe(tmp_path, name):
    """A file is put in the place of a file only; a device or pipe is written to, or refused."""
    path = tmp_path / name
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    state = {"w": paddle.ones([4])}
    try:
        if name == "pipe":
            paddle.save(state, str(path))
            assert paddle.load(io.BytesIO(os.read(reader, 65536)))["w"].tolist() == [1.0] * 4
        else:
            with pytest.raises(OSError, match="pipe.safetensors"):
                paddle.save(state, str(path))
    finally:
        os.close(reader)
    assert path.is_fifo() and os.listdir(tmp_path) == [name]
