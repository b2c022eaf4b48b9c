# SPDX-License-Identifier: Apache-2.0
"""Models that PaddlePaddle 3.3.1 saved (`.json`, `.pdmodel` with `.pdiparams`): the same answers, and damage is refused."""
import pathlib
import shutil

import numpy as np
import pytest

import yuloh as paddle
from yuloh import _core

DATA = pathlib.Path(__file__).parent.parent / "data" / "paddle_models"
FILES = sorted(p.name for p in DATA.iterdir() if p.suffix in (".json", ".pdmodel"))


def run(model, arrays):
    return [y.numpy() for y in model.record([paddle.to_tensor(x) for x in arrays], None)]


@pytest.mark.parametrize("file", FILES)
def test_same_answers(file):
    io = np.load(DATA / f"{file.split('.')[0]}.npz")
    model = _core.FileModel(str(DATA / file))
    assert model.unsupported() == []
    inputs = [io[k] for k in sorted(io.files) if k[0] == "x"]
    got = run(model, inputs)
    want = [io[f"y{i}"] for i in range(len(got))]
    assert len(got) == sum(k[0] == "y" for k in io.files)
    for g, w in zip(got, want):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("file", ["unet.json", "unet.pdmodel"])
def test_other_sizes_of_dynamic_dims(file):
    model = _core.FileModel(str(DATA / file))
    (name, dtype, dims), = model.inputs
    assert dtype == "float32" and dims == [None, 3, None, None]
    x = np.random.RandomState(1).randn(2, 3, 8, 20).astype("float32")
    (both,), (one,) = run(model, [x]), run(model, [x[:1]])
    assert both.shape == (2, 2, 8, 20)
    np.testing.assert_allclose(both[:1], one, atol=1e-5)


def test_the_two_formats_agree():
    x = np.random.RandomState(2).randn(1, 3, 16, 16).astype("float32")
    (a,), (b,) = (run(_core.FileModel(str(DATA / f"unet.{e}")), [x]) for e in ("json", "pdmodel"))
    np.testing.assert_array_equal(a, b)


def copy_of(tmp_path, file):
    stem = file.split(".")[0]
    for p in (DATA / file, DATA / f"{stem}.pdiparams"):
        if p.exists():
            shutil.copy(p, tmp_path)
    return tmp_path / file, tmp_path / f"{stem}.pdiparams"


def test_weights_of_another_model_are_refused(tmp_path):
    model, params = copy_of(tmp_path, "unet.json")
    shutil.copy(DATA / "lenet.pdiparams", params)
    with pytest.raises(ValueError, match="does not fit the model|ends before"):
        _core.FileModel(str(model))
    params.unlink()
    with pytest.raises(OSError, match="unet.pdiparams"):
        _core.FileModel(str(model))


@pytest.mark.parametrize("file", FILES)
def test_cut_off_and_altered_files_are_refused_or_still_run(file, tmp_path):
    model, params = copy_of(tmp_path, file)
    whole = model.read_bytes()
    draw = np.random.RandomState(3)
    refused = 0
    for k in range(60):
        data = bytearray(whole)
        if k % 3 == 0:
            data = data[: int(len(data) * draw.rand())]
        else:
            for _ in range(1 + k % 4):
                data[draw.randint(len(data))] = draw.randint(256)
        model.write_bytes(bytes(data))
        try:
            _core.FileModel(str(model)).unsupported()
        except (ValueError, OSError, TypeError, NotImplementedError, OverflowError):
            refused += 1
    assert refused >= 20  # every file that was cut off
    model.write_bytes(whole)
    if params.exists():
        weights = params.read_bytes()
        for n in (0, 3, 30, len(weights) - 1):
            params.write_bytes(weights[:n])
            with pytest.raises(ValueError, match="pdiparams"):
                _core.FileModel(str(model))
        params.write_bytes(weights + b"x")
        with pytest.raises(ValueError, match="holds more"):
            _core.FileModel(str(model))


def test_a_list_nested_without_end_is_refused(tmp_path):
    (tmp_path / "m.json").write_text('{"base_code":' + "[" * 200_000)
    with pytest.raises(ValueError, match="not valid JSON"):
        _core.FileModel(str(tmp_path / "m.json"))
    (tmp_path / "m.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(ValueError, match="base_code"):
        _core.FileModel(str(tmp_path / "m.json"))


def test_every_name_shared_with_the_op_table_is_a_row():
    rows = {r["name"] if isinstance(r, dict) else str(r).split("(")[0] for r in _core.op_rows()}
    source = (pathlib.Path(__file__).parents[2] / "src/formats/paddle_ops.cpp").read_text()
    import re

    shared = set(re.findall(r'SAME\("(\w+)"\)', source))
    assert len(shared) > 100 and shared <= rows, sorted(shared - rows)
