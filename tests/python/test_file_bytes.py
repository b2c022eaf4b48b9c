# SPDX-License-Identifier: Apache-2.0
"""Test room: what all readers check alike, what all writers of several files do alike."""
import contextlib
import resource

import numpy as np
import pytest
from onnx_writer import graph, model, node, port, tensor
from package_edit import edit

import yuloh as paddle
from yuloh import _core
from yuloh.jit.save_load import function_of, program_of
from yuloh.static import InputSpec


def masked(folder, suffix):
    """A model with a constant of three booleans, one of whose bytes is 2."""
    path = folder / ("m" + suffix)
    if suffix == ".onnx":
        path.write_bytes(model(graph([node("And", ["x", "mask"], ["y"])], [port("x", (3,), 9)], [port("y", (3,), 9)],
                                     [tensor("mask", dims=[3], kind=9, raw=b"\1\2\0")])))
        return path
    mask = paddle.to_tensor([True, True, False])
    program = program_of(function_of(lambda x: paddle.logical_and(x, mask), "masked"), [InputSpec([3], "bool")])
    _core.write_model(program, str(path))
    if suffix == ".yuloh":
        edit(path, "data", lambda data: data.replace(b"\1\1\0", b"\1\2\0"))
    else:
        weights = path.with_suffix(".pdiparams")
        assert weights.read_bytes().endswith(b"\1\1\0")
        weights.write_bytes(weights.read_bytes()[:-3] + b"\1\2\0")
    return path


@pytest.mark.parametrize("suffix", [".onnx", ".json", ".pdmodel", ".yuloh"])
def test_bytes_that_are_neither_true_nor_false_are_refused(suffix, tmp_path):
    path = masked(tmp_path, suffix)
    with pytest.raises(ValueError, match="neither true nor false"):
        _core.load_program(str(path))


@contextlib.contextmanager
def files_of_at_most(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("suffix, beside", [(".json", "m.pdiparams"), (".pdmodel", "m.pdiparams"), (".onnx", "m.onnx.data")])
def test_weights_are_not_replaced_where_the_model_cannot_be_written(suffix, beside, tmp_path):
    """A disk that is full once the weights are written, a folder in the model's place: all is as it was."""
    path, options = tmp_path / ("m" + suffix), {"external_data": 0} if suffix == ".onnx" else {}

    def write(value):
        weight = paddle.to_tensor(np.full([2], value, "float32"))
        program = program_of(function_of(lambda x: x * weight, "scaled"), [InputSpec([None, 2], "float32")])
        _core.write_model(program, str(path), **options)

    write(1)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert set(before) == {path.name, beside} and len(before[beside]) < 100 < len(before[path.name])
    with files_of_at_most(100), pytest.raises(OSError, match="cannot write"):
        write(2)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="cannot write"):
        write(3)
    assert (tmp_path / beside).read_bytes() == before[beside] and len(list(tmp_path.iterdir())) == 2
