# SPDX-License-Identifier: Apache-2.0
"""What bench/startup.py and bench/infer.py share: models in every contender's format, and contenders as processes."""

import json
import os
import pathlib
import subprocess
import sys
import time

WORKER = pathlib.Path(__file__).with_name("serving_worker.py")
FORMAT = {"yuloh": ".yuloh", "paddle": ".json", "onnxruntime": ".onnx", "openvino": ".onnx"}
BERT = {"layers": 6, "width": 768, "heads": 12, "words": 8000, "length": 128}


def build(name):
    """(net, dtype, shape without the batch)"""
    import yuloh as paddle
    from yuloh import nn

    paddle.seed(1)
    if name != "bert":
        return getattr(paddle.vision.models, name)(), "float32", [3, 224, 224]

    class Bert(nn.Layer):
        def __init__(self):
            super().__init__()
            b = BERT
            self.words, self.places = nn.Embedding(b["words"], b["width"]), nn.Embedding(b["length"], b["width"])
            self.norm = nn.LayerNorm(b["width"])
            layer = nn.TransformerEncoderLayer(b["width"], b["heads"], 4 * b["width"], 0.1, activation="gelu")
            self.encoder, self.head = nn.TransformerEncoder(layer, b["layers"]), nn.Linear(b["width"], 2)

        def forward(self, ids):
            places = paddle.arange(ids.shape[1]).unsqueeze(0)
            return self.head(self.encoder(self.norm(self.words(ids) + self.places(places)))[:, 0])

    return Bert(), "int64", [BERT["length"]]


def write_models(name, batch, folder, formats):
    """Saves the model in these suffixes, once; {suffix: (file, params)}, dtype, shape."""
    import yuloh as paddle

    net, dtype, rest = build(name)
    net.eval()
    spec = [paddle.static.InputSpec([batch, *rest], dtype, name="image")]
    path = pathlib.Path(folder) / f"{name}_{batch}"
    files = {".yuloh": (f"{path}.yuloh", ""), ".json": (f"{path}.json", f"{path}.pdiparams"), ".onnx": (f"{path}.onnx", "")}
    if ".yuloh" in formats and not os.path.exists(files[".yuloh"][0]):
        paddle.jit.save(net, str(path) if ".json" in formats else f"{path}.yuloh", input_spec=spec)
    if ".onnx" in formats and not os.path.exists(files[".onnx"][0]):
        paddle.onnx.export(net, str(path), input_spec=spec)
    return files, dtype, [batch, *rest]


def contenders_of(arguments):
    """{framework: python} of ["onnxruntime=PYTHON", ...], Yuloh first."""
    found = {"yuloh": sys.executable}
    for text in arguments:
        name, _, python = text.partition("=")
        if name not in FORMAT or not python:
            raise SystemExit(f"--with {text}: expected one of {', '.join(n for n in FORMAT if n != 'yuloh')}, '=' and its Python.")
        found[name] = python
    return found


class Contender:
    """A running serving_worker.py; `opened` is what it said after its first answer."""

    def __init__(self, framework, python, files, shape, dtype, threads, variables=None):
        model, params = files[FORMAT[framework]]
        env = {**os.environ, **(variables or {}), "OMP_NUM_THREADS": str(threads)}
        command = [python, str(WORKER), framework, model, params, "x".join(map(str, shape)), dtype, str(threads)]
        self._process = subprocess.Popen([*command, str(time.perf_counter())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True, env=env)
        self.framework, self.opened = framework, self._read()

    def _read(self):
        for line in self._process.stdout:
            if line[0] in "[{":
                return json.loads(line)
        raise RuntimeError(f"{self.framework} ended with {self._process.wait()}.")

    def ask(self, what):
        """Times of `what` runs, or "values"."""
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._read()

    def close(self):
        self._process.stdin.close()
        self._process.wait()
