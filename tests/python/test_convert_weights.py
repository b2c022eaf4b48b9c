# SPDX-License-Identifier: Apache-2.0
"""PyTorch's weights in Yuloh's layers: recorded modules give PyTorch's outputs, torchvision's names find their places."""
import json
import lzma
import pathlib

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn
from yuloh.convert import convert_state, pick_state, weights

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "weights"


class All(nn.Layer):
    """The recorded module (tests/oracle/record_weights.py)."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.attend = nn.MultiHeadAttention(8, 2)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 2)
        self.lstm = nn.LSTM(8, 5, 2, direction="bidirect")
        self.gru = nn.GRU(10, 6)
        self.conv = nn.Conv1D(6, 6, 3, padding=1)
        self.norm = nn.InstanceNorm1D(6)
        self.act = nn.PReLU(6, data_format="NCL")
        self.up = nn.Conv1DTranspose(6, 4, 3)
        self.bn = nn.BatchNorm1D(4)
        self.out = nn.Linear(4, 4)

    def forward(self, ids):
        x = self.embed(ids)
        x = x + self.attend(x, x, x)
        x = self.gru(self.lstm(self.encoder(x))[0])[0]
        x = self.act(self.norm(self.conv(x.transpose([0, 2, 1]))))
        return self.out(self.bn(self.up(x)).transpose([0, 2, 1]))


def test_modules_give_pytorchs_outputs():
    net = All()
    net.eval()
    found = weights(str(DATA / "modules.pt"), net)
    assert found.complete and found.origin == "pytorch", found.table()
    assert net.set_state_dict(found.state) == ([], [])
    want = np.load(DATA / "modules.npz")
    out = net(paddle.to_tensor(want["ids"])).numpy()
    assert np.abs(want["out"]).max() > 0.5 and np.abs(out - want["out"]).max() < 1e-5
    notes = {row.target: row.note for row in found.rows}
    assert notes["attend.k_proj.weight"] == "rows 8:16, transposed" and notes["conv.weight"] == "weight norm folded"
    assert found.dropped == ["module.bn.num_batches_tracked"] and "dropped" in found.table()


def test_torchvision_names_find_their_places():
    with lzma.open(DATA / "torchvision_names.json.xz", "rt") as file:
        zoo = json.load(file)
    for kind, names in zoo.items():
        net = getattr(paddle.vision.models, kind)()
        state = {name: paddle.zeros(shape) for name, shape in names}
        ignore = ["^AuxLogits"] if kind == "inception_v3" else []
        found = convert_state(state, net, ignore=ignore)
        assert found.complete, f"{kind}: {found.table(False)}"
        assert [list(v.shape) for v in found.state.values()] == [list(v.shape) for v in net.state_dict().values()]
        pairs = {row.target: row.source for row in found.rows}
        if kind == "resnet18":
            assert all(row.how == "by name" for row in found.rows)
            assert pairs["layer2.0.downsample.1._variance"] == "layer2.0.downsample.1.running_var"
        if kind == "shufflenet_v2_x1_0":
            assert pairs["2_1._conv_linear_1.0.weight"] == "stage2.0.branch1.2.weight"
        if kind == "squeezenet1_1":
            assert pairs["_conv3._conv_path2._conv.weight"] == "features.6.expand3x3.weight"
            assert "downscale_in_infer" in found.table()
    without = convert_state({n: paddle.zeros(s) for n, s in zoo["inception_v3"]}, paddle.vision.models.inception_v3())
    assert not without.complete and "--ignore '^AuxLogits\\.'" in without.table(False)


def tensors(**shapes):
    return {name.replace("__", "."): paddle.rand(shape) for name, shape in shapes.items()}


class Block(nn.Layer):

    def __init__(self, *names, size=4):
        super().__init__()
        for name in names:
            setattr(self, name, nn.Linear(size, size))


def test_order_never_exchanges_query_and_key():
    names = ["q_proj", "k_proj", "v_proj"]
    right = tensors(a__query__weight=[4, 4],
                    a__query__bias=[4],
                    a__key__weight=[4, 4],
                    a__key__bias=[4],
                    a__value__weight=[4, 4],
                    a__value__bias=[4])
    found = convert_state(right, Block(*names), "pytorch")
    assert found.complete and (found.state["k_proj.weight"].numpy() == right["a.key.weight"].numpy().T).all()
    wrong = {k: right[k] for k in sorted(right)}  # key, query, value
    refused = convert_state(wrong, Block(*names), "pytorch")
    assert not refused.complete and "do not agree" in refused.table()
    crossed = tensors(x__fc2__weight=[4, 4], x__fc2__bias=[4], x__fc1__weight=[4, 4], x__fc1__bias=[4])
    net = nn.Sequential(Block("fc1", "fc2"))
    assert not convert_state(crossed, net, "pytorch").complete
    renamed = convert_state(crossed, net, "pytorch", rename=lambda name, shape: name.replace("x.", "0."))
    assert renamed.complete and (renamed.state["0.fc1.bias"].numpy() == crossed["x.fc1.bias"].numpy()).all()


def test_square_weights_do_not_tell_who_wrote_them():
    state = tensors(a__weight=[4, 4], a__bias=[4])
    with pytest.raises(ValueError, match="square.*--from"):
        convert_state(state, Block("a"))
    assert (convert_state(state, Block("a"), "paddle").state["a.weight"].numpy() == state["a.weight"].numpy()).all()
    assert (convert_state(state, Block("a"),
                          "pytorch").state["a.weight"].numpy() == state["a.weight"].numpy().T).all()
    wide = nn.Sequential(nn.Linear(3, 5))
    assert convert_state(tensors(**{"0__weight": [5, 3], "0__bias": [5]}), wide).origin == "pytorch"
    assert convert_state(tensors(**{"0__weight": [3, 5], "0__bias": [5]}), wide).origin == "paddle"


def test_weights_that_are_stored_in_out_stay_as_they_are():
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(4, 4))
    net.add_sublayer("x", Block("c_proj"))
    net.x.add_sublayer("y", nn.Sequential())
    state = tensors(
        **{
            "0__weight": [4, 8], "0__bias": [8], "1__weight": [4, 4], "1__bias": [4], "x__c_proj__weight": [4, 4],
            "x__c_proj__bias": [4]
        })
    found = convert_state(state, net, "pytorch")  # all that tells says [in, out]
    assert (found.state["1.weight"].numpy() == state["1.weight"].numpy()).all()
    mixed = nn.Sequential(nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(4, 4))
    state = tensors(**{
        "0__weight": [4, 8], "0__bias": [8], "1__weight": [8, 4], "1__bias": [8], "2__weight": [4, 4], "2__bias": [4]
    })
    with pytest.raises(ValueError, match="square"):
        convert_state(state, mixed, "pytorch")


def test_what_does_not_fit_is_listed():
    net = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    found = convert_state(tensors(**{"0__weight": [5, 3], "0__bias": [5], "1__weight": [9, 5], "1__bias": [9]}), net)
    assert found.missing == ["1.weight", "1.bias"] and found.unused == ["1.weight", "1.bias"
                                                                        ] and "[9, 5]" in found.table()
    half = {
        k: v.astype("float16")
        for k, v in tensors(**{"0__weight": [5, 3], "0__bias": [5], "1__weight": [2, 5], "1__bias": [2]}).items()
    }
    found = convert_state(half, net)
    assert found.complete and found.state["0.weight"].dtype == paddle.float32 and "float16 to float32" in found.rows[
        0].note


def test_a_bert_of_hugging_face_in_a_transformer_encoder():
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    state = {}
    for i in range(2):
        at = f"bert.encoder.layer.{i}."
        for part, out, to in (("attention.self.query", 8, 8), ("attention.self.key", 8, 8),
                              ("attention.self.value", 8, 8), ("attention.output.dense", 8,
                                                               8), ("attention.output.LayerNorm", 0, 8),
                              ("intermediate.dense", 16, 8), ("output.dense", 8, 16), ("output.LayerNorm", 0, 8)):
            state[at + part + (".weight" if out else ".gamma")] = paddle.rand([out, to] if out else [to])
            state[at + part + (".bias" if out else ".beta")] = paddle.rand([out or to])
    strict = convert_state(state, net, "pytorch")
    assert not strict.complete and "--loose" in strict.table()
    found = convert_state(state, net, "pytorch", loose=True)
    pairs = {row.target: row.source for row in found.rows}
    assert found.complete and pairs[
        "layers.1.self_attn.k_proj.weight"] == "bert.encoder.layer.1.attention.self.key.weight"
    assert pairs["layers.1.norm1.weight"] == "bert.encoder.layer.1.attention.output.LayerNorm.gamma"
    assert pairs["layers.0.linear2.bias"] == "bert.encoder.layer.0.output.dense.bias"


def test_tied_weights_and_nests():
    net = nn.Sequential(nn.Embedding(7, 3))
    table = paddle.rand([7, 3])
    found = convert_state({"0.weight": table, "head.weight": table}, net, "pytorch")
    assert found.complete and "same tensor" in found.table()
    flat = {"a": table}
    assert pick_state({"epoch": 1, "state_dict": flat, "ema": flat}) is not None
    with pytest.raises(ValueError, match="--key"):
        pick_state({"x": flat, "y": flat})
    assert list(pick_state({"x": flat, "y": flat}, "y")) == ["a"]
    for bad in ([1], {"a": 1}):
        with pytest.raises(ValueError):
            pick_state(bad)


def test_a_zoo_model_takes_pytorchs_file(tmp_path):
    with lzma.open(DATA / "torchvision_names.json.xz", "rt") as file:
        names = json.load(file)["resnet18"]
    path = str(tmp_path / "r.safetensors")
    paddle.save({name: paddle.full(shape, 0.5) for name, shape in names}, path)
    net = paddle.vision.models.resnet18(pretrained=path)
    assert float(net.layer4[1].bn2._variance.max()) == 0.5 and float(net.fc.weight.min()) == 0.5
    with pytest.raises(ValueError, match="does not fit"):
        paddle.vision.models.resnet50(pretrained=path)
