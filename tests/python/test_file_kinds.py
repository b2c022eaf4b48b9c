# SPDX-License-Identifier: Apache-2.0
"""Test room: a file that is no model is named as what it is, by its bytes and whatever its name; never a damaged ONNX file."""

import gzip
import io
import pickle
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import yuloh as paddle


def _zip(name):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(name, "x")
    return out.getvalue()


KINDS = {
    b"": "is empty",
    b"\n<!DOCTYPE html><html><body>404</body></html>": "a web page (HTML)",
    b"\xef\xbb\xbf <HTML><body>login</body></HTML>": "a web page (HTML)",
    b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12345\n": "a Git LFS pointer",
    gzip.compress(b"x" * 100): "gzip",
    _zip("archive/data.pkl"): "a file of PyTorch",
    _zip("arr_0.npy"): "a NumPy archive",
    _zip("folder/net.onnx"): "a zip archive",
    pickle.dumps({"w": np.zeros(3)}, 2): "a pickle",
    b"\x89HDF\r\n\x1a\n" + bytes(100): "HDF5",
    b"GGUF" + bytes(40): "GGUF",
    b"\x1c\0\0\0TFL3" + bytes(100): "TensorFlow Lite",
    b"\x08\x01\x12\x20\x0a\x05serve" + bytes(30): "SavedModel",
    b"\x0a\x20\x0a\x05input\x12\x0bPlaceholder" + bytes(30): "a TensorFlow graph",
    b'<?xml version="1.0"?>\n<net name="x" version="11">': "OpenVINO",
    b"ir_version: 8\ngraph {\n}": "ONNX in text form",
    b'{"error": "not found"}': "JSON, but no program of PaddlePaddle's",
    b"Entry not found": 'text, "Entry not found"',
    struct.pack("<Q", 16) + b'{"__metadata__":{': "safetensors",
    bytes(16) + b"\x02\0\0\0\x08\x05" + bytes(40): "weights of PaddlePaddle",
    bytes(5000): "nothing but zeros",
    b"\xf7\x03\x81\xfe" * 100: 'no kind known here (first bytes f7 03 81 fe f7 03 81 fe "........")',
    b"\x89PNG\r\n\x1a\n" + bytes(30): "a PNG image",
}
WEIGHTS = ("a file of PyTorch", "a pickle", "safetensors", "weights of PaddlePaddle", "SavedModel")


@pytest.mark.parametrize("data, said", KINDS.items(), ids=[w[:20] for w in KINDS.values()])
def test_what_is_no_model_is_named(tmp_path, data, said):
    for name in ("m.onnx", "m.json", "m.pdmodel"):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ValueError) as caught:
            paddle.inference.create_predictor(paddle.inference.Config(str(path)))
        text = str(caught.value)
        assert said in text and "Hint: " in text and "damaged at byte" not in text and str(path) in text


def test_the_command_line_says_it_in_one_line(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12345\n")
    for command in (["inspect", path], ["convert", path, tmp_path / "m.json"], ["diff", path, path], ["pack", path, "-o", tmp_path / "p.yuloh"]):
        done = subprocess.run([sys.executable, "-m", "yuloh.cli", *map(str, command)], capture_output=True, text=True)
        assert done.returncode == 2 and "git lfs pull" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_damaged_file_of_a_known_kind_is_still_called_damaged(tmp_path):
    path = tmp_path / "cut.onnx"
    path.write_bytes(b"\x08\x07\x12\x04ab")
    with pytest.raises(ValueError, match="is damaged at byte 4"):
        paddle.onnx.load(str(path))


def test_a_directory_is_called_one(tmp_path):
    with pytest.raises(OSError, match="is a directory; expected a file"):
        paddle.onnx.load(str(tmp_path))


@pytest.mark.parametrize("data, said", KINDS.items(), ids=[w[:20] for w in KINDS.values()])
def test_weights_that_are_none_are_named(tmp_path, data, said):
    net = paddle.nn.Linear(2, 2)
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([1, 2])])
    if not said.startswith(WEIGHTS) and data and data[:4] != bytes(4):
        (tmp_path / "net.pdiparams").write_bytes(data)
        with pytest.raises(ValueError, match="holds no weights|damaged") as caught:
            paddle.inference.create_predictor(
                paddle.inference.Config(str(tmp_path / "net.json"), str(tmp_path / "net.pdiparams")))
        assert said.split(" (first")[0] in str(caught.value) or "no kind" in said
    path = tmp_path / "net.pdparams"
    path.write_bytes(data)
    if not said.startswith(WEIGHTS) and b"PK" not in data[:2] and data and "no kind" not in said:
        with pytest.raises(ValueError) as caught:
            paddle.load(str(path))
        assert said in str(caught.value) and "Hint: " in str(caught.value)
