# SPDX-License-Identifier: Apache-2.0
"""ONNX backend cases, recorded by tests/oracle/onnx_backend.py: every operator that is mapped, without the onnx wheel."""
import io
import json
import pathlib
import zipfile

import numpy as np
import pytest

import yuloh

ARCHIVE = pathlib.Path(__file__).parents[1] / "data" / "onnx_cases.zip"
HELD = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}


@pytest.fixture(scope="module")
def archive():
    with zipfile.ZipFile(ARCHIVE) as z:
        yield z


def names():
    with zipfile.ZipFile(ARCHIVE) as z:
        return sorted(json.loads(z.read("cases.json")))


def test_many_operators_are_covered(archive):
    cases = json.loads(archive.read("cases.json"))
    assert len({op for c in cases.values() for op in c["ops"]}) >= 150
    assert len(cases) >= 300


@pytest.mark.parametrize("name", names())
def test_case(archive, tmp_path, name):
    case = json.loads(archive.read("cases.json"))[name]
    arrays = np.load(io.BytesIO(archive.read(name + ".npz")))
    path = tmp_path / "model.onnx"
    path.write_bytes(archive.read(name + ".onnx"))
    model = yuloh.onnx.load(path)
    feeds = []
    for k in range(case["inputs"]):
        x, kind = arrays[f"i{k}"], case["types"][f"i{k}"]
        x = yuloh.to_tensor(x.astype(HELD.get(kind, x.dtype)))
        feeds.append(x.astype("bfloat16") if kind == "bfloat16" else x)
    got = model(*feeds[:len(model.inputs)])
    assert len(got) == case["outputs"]
    for k, out in enumerate(got):
        want, kind = arrays[f"o{k}"], case["types"][f"o{k}"]
        rtol = case["rtol"]
        if kind == "bfloat16":
            assert out.dtype == yuloh.bfloat16
            out, rtol = out.astype("float32"), max(rtol, 2**-6)
        out, want = out.numpy(), want.astype(HELD.get(kind, want.dtype))
        assert out.shape == want.shape and out.dtype == want.dtype
        np.testing.assert_allclose(out, want, rtol=rtol, atol=case["atol"])
