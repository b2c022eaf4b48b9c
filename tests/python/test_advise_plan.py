# SPDX-License-Identifier: Apache-2.0
"""Advice for real models: a Layer of a Python file is planned without being run; formulas and Plans agree."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from test_advise import run

import yuloh as paddle
from yuloh.advise import Question, answer, catalogue, tables, words
from yuloh.advise.from_plan import network_of_model

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
try:
    import estimates  # bench/estimates.py
finally:
    sys.path.pop(0)

SCRIPT = """
import paddle

class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = paddle.nn.LayerList([paddle.nn.Linear(256, 256) for _ in range(6)])
        self.head = paddle.nn.Linear(256, 10)

    def forward(self, x):
        for layer in self.body:
            x = paddle.nn.functional.relu(layer(x))
        return self.head(x)

def huge():
    return paddle.nn.Sequential(paddle.nn.Linear(60000, 60000), paddle.nn.Linear(60000, 10))

def wrong():
    return paddle.nn.Linear(3, 4)

model = Net()
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def test_layer_of_a_file(script):
    found = json.loads(
        run(script, "--input", "?,256", "--batch", "64", "--precision", "fp32", "--json").stdout
    )
    assert found["model"]["source"] == "plan"
    assert found["model"]["params"] == 6 * (256 * 256 + 256) + 256 * 10 + 10
    assert found["model"]["layers"] == 6
    # A multiply-add for every weight and sample, forward.
    assert found["forward_flops"] == pytest.approx(2 * (6 * 256 * 256 + 2560), rel=0.05)
    assert found["plan"]["memory"]["peak"]["value"] > 4 * found["model"]["params"]
    assert "Planned for this machine" in run(script, "--input", "?,256").stdout


def test_a_function_that_makes_what_would_not_fit(script):
    """3.6e9 parameters are planned dry: nothing of that size is allocated."""
    found = json.loads(run(script + ":huge", "--input", "1,60000", "--batch", "1", "--json").stdout)
    assert found["model"]["params"] > 3.6e9 and found["class"] == 2
    assert {r["id"]: r["verdict"] for r in found["devices"]}["a10"] == "no"


@pytest.mark.parametrize(
    "words,said",
    [
        (("{}:nix", "--input", "1,256"), "no Layer or function 'nix'"),
        (("{}",), "input"),
        (("{}", "--input", "1,x"), "bad --input"),
        (("{}:wrong", "--input", "8,256"), "cannot be traced"),
    ],
)
def test_what_cannot_be_traced_gets_one_sentence(script, words, said):
    done = run(*(x.format(script) for x in words), ok=2)
    assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("text", ["import sys; sys.exit(3)", "1/0", "x ="])
@pytest.mark.parametrize("name,said", [(":net", "before it was imported"), ("", "before its first optimizer step")])
def test_files_that_fail(tmp_path, text, name, said):
    path = tmp_path / "bad.py"
    path.write_text(text)
    done = run(str(path) + name, "--input", "1,2", ok=2)
    assert said in done.stderr and done.stderr.count("\n") == 1


TRAINING = """
import paddle
net = paddle.vision.models.LeNet()
opt = paddle.optimizer.Adam(parameters=net.parameters())
scaler = paddle.amp.GradScaler(init_loss_scaling=1024)
data = paddle.vision.datasets.MNIST(transform=paddle.vision.transforms.ToTensor())
for epoch in range(1000000):
    for images, labels in paddle.io.DataLoader(data, batch_size=48, shuffle=True):
        loss = paddle.nn.CrossEntropyLoss()(net(images), labels)
        STEP
        print("one step too many"); raise SystemExit(9)
"""


@pytest.mark.parametrize(
    "step", ["loss.backward(); opt.step()", "s = scaler.scale(loss); s.backward(); scaler.minimize(opt, s)"]
)
def test_a_training_script_is_followed_to_its_first_step(tmp_path, step):
    path = tmp_path / "train.py"
    path.write_text(TRAINING.replace("STEP", step))
    done = run(str(path), "--json")
    found = json.loads(done.stdout)
    assert "too many" not in done.stderr
    assert found["model"]["params"] == 61610 and found["job"]["batch"] == 48
    assert found["job"]["optimizer"] == "adam"
    assert found["plan"]["memory"]["peak"]["value"] > 61610 * 4


class _Block(paddle.nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.norm, self.attend = paddle.nn.LayerNorm(d), paddle.nn.MultiHeadAttention(d, 4)
        self.mlp = paddle.nn.Sequential(paddle.nn.LayerNorm(d), paddle.nn.Linear(d, 4 * d), paddle.nn.GELU(), paddle.nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attend(self.norm(x))
        return x + self.mlp(x)


class _Decoder(paddle.nn.Layer):
    def __init__(self, d=128, blocks=6, vocabulary=300):
        super().__init__()
        self.trunk = paddle.nn.Layer()
        self.trunk.embed, self.trunk.blocks = paddle.nn.Embedding(vocabulary, d), paddle.nn.LayerList([_Block(d) for _ in range(blocks)])
        self.norm, self.head = paddle.nn.LayerNorm(d), paddle.nn.Linear(d, vocabulary)

    def forward(self, x):
        x = self.trunk.embed(x)
        for block in self.trunk.blocks:
            x = block(x)
        return self.head(self.norm(x))


@pytest.mark.parametrize("make,inputs,first", [
    (_Decoder, [([16, 64], "int64")], [("trunk.blocks", 6), ("trunk.blocks.1", 1)]),
    (lambda: paddle.vision.models.resnet50(), [([8, 3, 96, 96], "float32")], [("layer1, layer2, layer3, layer4", 4), ("layer1", 1)]),
    (lambda: paddle.vision.models.mobilenet_v2(), [([8, 3, 96, 96], "float32")], [("features", 17), ("features.2", 1)]),
])
def test_what_recompute_saves_is_foretold(make, inputs, first):
    """Blocks first, and each row saves what planning the same step with it recomputed says."""
    *_, plain = network_of_model(make, inputs, {"training": True, "precision": "fp32"}, "")
    rows = plain["recompute_layers"]
    assert [(r["name"], r["count"]) for r in rows[:2]] == first
    assert all(0 < b["saved"] <= a["saved"] and 0 < b["time_added"] < 0.4 for a, b in zip(rows, rows[1:]))
    words = {"optimizer": "AdamW", "precision": "fp32", "pending_limit": 0}
    peak = paddle.advise.facts(make, inputs, **words)["memory"]["peak"]["value"]
    for row in rows[:2]:
        names = row["name"].split(", ") if row["count"] != 17 and row["count"] != 6 else [
            one["name"] for one in plain["layers"] if one["type"] == row["type"] and one["name"].rpartition(".")[0] == row["name"]]
        assert len(names) == row["count"]
        again = paddle.advise.facts(make, inputs, recompute=names, **words)
        assert row["saved"] == peak - again["memory"]["peak"]["value"]


@pytest.mark.parametrize("training", [True, False])
def test_this_machine_has_one_time(training):
    """What the Plans of a model say of this machine is what every table says of it, whatever peaks were measured."""
    job = {"training": training, "precision": "fp32", "optimizer": "adamw", "batch": 8}
    network, _, _, _, facts = network_of_model(_Decoder, [([8, 64], "int64")], job)
    here = catalogue.this_machine()
    found = answer(Question(network, "decoder", job=dict(job), devices=[here, catalogue.find_device("t4")], focus="this", facts=facts))
    own, other = found["devices"]
    seconds = [facts["seconds"][k] for k in ("low", "value", "high")]
    assert own["seconds"] == pytest.approx(seconds, rel=1e-6) and found["verdict"]["picks"]
    alone = answer(Question(network, "decoder", job=dict(job), devices=[here, catalogue.find_device("t4")], focus="this"))
    assert alone["devices"][1]["seconds"] == other["seconds"]
    shown = tables.sections(found, "en")
    assert any(words.duration(seconds[1]) in note for s in shown if s.name == "plan" for note in s.notes)
    twice = Question(network, "decoder", job={**job, "batch": 16, "micro": 8}, devices=[here], focus="this", facts=facts)
    if training:  # two passes, one update
        assert 1.5 < answer(twice)["devices"][0]["seconds"][1] / seconds[1] <= 2.001


def test_preset_and_plan_agree():
    """ResNet-50: published totals against the Plan of the zoo's model: arithmetic within 3 %, kept activations within 10 %."""
    network, _, _, _, facts = network_of_model(
        lambda: paddle.vision.models.resnet50(),
        [([8, 3, 224, 224], "float32")],
        {"training": True, "precision": "fp32", "batch": 8},
        "resnet50",
    )
    preset = catalogue.presets()["resnet50"]
    assert network["forward_flops"] == pytest.approx(preset["forward_flops"], rel=0.03)
    assert network["kept_elements"] == pytest.approx(preset["kept_elements"], rel=0.10)
    assert network["params"] == pytest.approx(preset["params"], rel=0.01)
    found = answer(Question(network, "resnet50", job={"batch": 32, "precision": "fp32"}, facts=facts))
    published = answer(
        Question(
            {k: v for k, v in preset.items() if k not in ("title", "unit", "source")},
            "resnet50",
            job={"batch": 32, "precision": "fp32"},
        )
    )
    ours = {r["id"]: r["total"][1] for r in found["devices"]}
    theirs = {r["id"]: r["total"][1] for r in published["devices"]}
    assert ours["t4"] == pytest.approx(theirs["t4"], rel=0.10)


H, HEADS, LAYERS, SEQ, VOCAB = 256, 4, 4, 128, 1000


def GPT(**settings):
    """The GPT whose step bench/estimates.py measures, in this shape (no dropout and no bias of the head, as the formulas have it)."""
    return estimates.GPT(LAYERS, H, HEADS, VOCAB, SEQ, **{"dropout": 0.0, "bias_attr": False, **settings})


GPT_JOB = {"training": True, "precision": "fp32", "batch": 4}
GPT_SHAPE = {"layers": LAYERS, "hidden": H, "heads": HEADS, "seq": SEQ, "vocab": VOCAB, "tied": False}


@pytest.mark.parametrize("training", [True, False])
def test_this_machine_takes_what_the_plan_says(training):
    """One answer has one figure for the machine at hand: the row of the device is the Plan's step and process."""
    job = {"training": training, "precision": "fp32", "batch": 4}
    network, *_, facts = network_of_model(GPT, [([4, SEQ], "int64")], job, "gpt")
    found = answer(Question(network, "gpt", job=job, facts=facts, devices=[catalogue.find_device("this")]))
    row, memory = found["devices"][0], facts["memory"]["process"]
    assert row["seconds"][1] == pytest.approx(facts["seconds"]["value"])
    assert row["seconds"][2] == pytest.approx(facts["seconds"]["high"])
    assert row["total"][1] == pytest.approx(memory["value"], rel=0.01)
    assert row["total"][2] == pytest.approx(memory["high"], rel=0.05)
    twice = answer(Question(network, "gpt", job={**job, "batch": 8}, facts=facts, devices=[catalogue.find_device("this")]))
    assert 1.3 < twice["devices"][0]["seconds"][1] / row["seconds"][1] < 2.3


def completed(network):
    from yuloh import _core

    return _core.advise_network({k: float(x) if type(x) is int else x for k, x in network.items()})


def test_formula_and_plan_of_a_transformer_agree():
    """A GPT built from layers: parameters, arithmetic and activations of the shape's formulas against its Plan."""
    network = network_of_model(GPT, [([4, SEQ], "int64")], dict(GPT_JOB), "gpt")[0]
    made = completed(GPT_SHAPE)
    assert network["layers"] == LAYERS
    assert network["params"] == pytest.approx(made["network"]["params"], rel=0.01)
    assert network["forward_flops"] == pytest.approx(made["forward_flops"], rel=0.10)


@pytest.mark.parametrize("mp", [2, 4])
def test_a_planned_transformer_splits_as_the_formulas_say(mp):
    """The same GPT over mp devices: what each holds and computes, of the whole, against the formulas of tensor parallel."""
    from yuloh import _core

    network, *_, facts = network_of_model(GPT, [([4, SEQ], "int64")], dict(GPT_JOB), "gpt")
    assert network["split_by"] == HEADS and network["split_sent"] == 2 * LAYERS * SEQ * H
    said = words.remark(facts["notes"][-1])
    assert "16 Linears split in pairs" in said and "2 x Embedding" in said
    device = catalogue.core_device(catalogue.find_device("a100-80"))

    def share(shape, item):
        held = []
        for k in (1, mp):
            job = {"precision": "fp32", "batch": 4.0, "mp": float(k)}
            made = _core.advise_layout(completed(shape)["network"], job, device, {})
            held.append({**{i[0]: i[2] for i in made["memory"]}, **dict(made["time"])}[item])
        return held[1] / held[0]

    assert share(network, "activations") == pytest.approx(share(GPT_SHAPE, "activations"), rel=0.10)
    # The formulas split the tables and the head too, which are plain Layers here: 15 % of the parameters.
    whole = 1 - network["split_params"]
    assert whole == pytest.approx((2 * VOCAB + SEQ) * H / network["params"], rel=0.05)
    assert share(network, "weights") == pytest.approx(whole + (1 - whole) / mp)
    assert share(network, "arithmetic") == pytest.approx(share(GPT_SHAPE, "arithmetic"), rel=0.25)


def test_what_does_not_split_is_said():
    def note(model, shape, dtype="float32"):
        network, *_, facts = network_of_model(model, [(shape, dtype)], dict(GPT_JOB), "x")
        return network.get("split_by", 0), words.remark(facts["notes"][-1])

    by, said = note(paddle.vision.models.resnet18, [4, 3, 64, 64])
    assert by == 0 and "no pairs of products" in said and "20 x Conv2D" in said
    by, said = note(GPT, [4, SEQ], "int64")
    assert by == HEADS  # read off the recorded attention, whatever the Layer names
    layer = paddle.nn.TransformerEncoder(paddle.nn.TransformerEncoderLayer(64, 4, 256), 2)
    by, said = note(layer, [4, 16, 64])
    assert by == 4 and "12 Linears" in said and "whole" not in said
    chain = paddle.nn.Sequential(paddle.nn.Linear(64, 96), paddle.nn.ReLU(), paddle.nn.Linear(96, 64), paddle.nn.Linear(64, 10))
    by, said = note(chain, [4, 64])
    assert by == 96 and "whole on every device: 1 x Linear" in said


Linear = paddle.nn.Linear


class OfTwo(paddle.nn.Layer):
    def __init__(self, forward):
        super().__init__()
        self.a, self.b, self.formula = Linear(64, 64), Linear(64, 64), forward

    def forward(self, x):
        return self.formula(self, paddle.nn.functional.layer_norm(x, [64]))


def relu(x):
    return paddle.nn.functional.relu(x)


def chain(*between):
    made = [Linear(64, 256)]
    for one in between:
        made += [one, Linear(made[-1].weight.shape[1], 64)]
    return paddle.nn.Sequential(*made)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "model,products",
    [
        (lambda: chain(paddle.nn.GELU()), 2),
        (lambda: chain(paddle.nn.Sequential(paddle.nn.ReLU(), paddle.nn.Dropout(0.1))), 2),
        (lambda: chain(paddle.nn.LayerNorm(256)), 0),  # mixes the columns
        (lambda: chain(paddle.nn.Softmax()), 0),
        (lambda: OfTwo(lambda s, x: s.b(relu(s.a(x)))), 2),
        (lambda: OfTwo(lambda s, x: s.b(relu(s.a(x))) * 2), 2),
        (lambda: OfTwo(lambda s, x: s.b(x) + s.a(x)), 0),  # side by side
        (lambda: OfTwo(lambda s, x: (lambda h: s.b(relu(h)) + h)(s.a(x))), 0),  # the first one's result is needed whole
        (lambda: OfTwo(lambda s, x: s.b(paddle.cumsum(s.a(x), axis=-1))), 0),
        (lambda: OfTwo(lambda s, x: s.b(paddle.cumsum(s.a(x), axis=0))), 2),
        (lambda: OfTwo(lambda s, x: s.b(s.a(x).reshape([-1, 8, 8]).transpose([0, 2, 1]).reshape([-1, 64]))), 2),
        (lambda: OfTwo(lambda s, x: s.b(s.a(x).reshape([-1, 8, 8]).mean(2).tile([1, 8]))), 2),  # one of every head
        (lambda: OfTwo(lambda s, x: (lambda h: s.b(h * h.mean(1, keepdim=True)))(s.a(x))), 0),
    ],
)
def test_pairs_are_read_off_the_recorded_graph(model, products, training):
    found = paddle.advise.facts(model, [([4, 64], "float32")], batch=4, training=training)["split"]
    assert found["products"] == products, found
    if training and products:
        assert 0 <= found["kept_share"] <= 1


def test_what_is_handed_out_is_whole():
    net = OfTwo(lambda s, x: (lambda h: (s.b(relu(h)), h))(s.a(x)))
    assert paddle.advise.facts(net, [([4, 64], "float32")], batch=4, training=False)["split"]["products"] == 0


def test_chains_of_equal_products_are_pairs_not_attention():
    def split(*sizes):
        layers = [Linear(a, b) for a, b in zip(sizes, sizes[1:])]
        net = paddle.nn.Sequential(*[x for layer in layers for x in (layer, paddle.nn.ReLU())])
        return paddle.advise.facts(net, [([4, sizes[0]], "float32")], batch=4)["split"]

    four = split(256, 256, 256, 256, 256)
    # Two sums over the devices, each of a whole result; the biases of the second ones stay whole.
    assert (four["products"], four["by"], four["sent"]) == (4, 256, 2 * 4 * 256)
    assert four["parameters"] == 4 * 256 * 256 + 2 * 256 and four["flops"] == 2 * 4 * 4 * 256 * 256
    narrow = split(64, 256, 64, 256, 64)
    assert (narrow["products"], narrow["by"], narrow["sent"]) == (4, 256, 2 * 4 * 64)
    assert split(256, 256, 256, 256)["layers"] == [1, 3]  # the third has no partner


class Decoder(paddle.nn.Layer):
    """Grouped queries with rotary places and a gate, from plain products."""

    def __init__(self, heads, keys, normed=False):
        super().__init__()
        self.heads, self.groups, self.width = heads, keys, 64 // heads
        self.q, self.k, self.v, self.o = Linear(64, 64), *(Linear(64, keys * self.width) for _ in "kv"), Linear(64, 64)
        self.gate, self.up, self.down = Linear(64, 176), Linear(64, 176), Linear(176, 64)
        self.before, self.after = paddle.nn.LayerNorm(64), paddle.nn.LayerNorm(64)
        self.norm = paddle.nn.LayerNorm(self.width) if normed else paddle.nn.Identity()

    def turned(self, x):
        place = paddle.arange(x.shape[1]).astype("float32").reshape([1, -1, 1, 1])
        a, b = paddle.chunk(self.norm(x), 2, axis=-1)
        return x * paddle.cos(place) + paddle.concat([-b, a], axis=-1) * paddle.sin(place)

    def forward(self, x):
        batch, seq, _ = x.shape
        y = self.before(x)
        q, k, v = (f(y).reshape([batch, seq, -1, self.width]) for f in (self.q, self.k, self.v))
        q, k = self.turned(q), self.turned(k)

        def repeated(z):
            wide = z.unsqueeze(3).expand([batch, seq, self.groups, self.heads // self.groups, self.width])
            return wide.reshape([batch, seq, self.heads, self.width])

        q, k, v = (z.transpose([0, 2, 1, 3]) for z in (q, repeated(k), repeated(v)))
        weights = paddle.nn.functional.softmax(paddle.matmul(q, k, transpose_y=True), axis=-1)
        x = x + self.o(paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([batch, seq, 64]))
        y = self.after(x)
        return x + self.down(paddle.nn.functional.silu(self.gate(y)) * self.up(y))


@pytest.mark.parametrize("words", [{}, {"training": False}, {"precision": "amp-bfloat16"}])
@pytest.mark.parametrize("heads,keys,normed", [(8, 8, False), (8, 2, False), (8, 4, True)])
def test_attention_from_plain_products(heads, keys, normed, words):
    found = paddle.advise.facts(lambda: Decoder(heads, keys, normed), [([2, 16, 64], "float32")], batch=2, **words)["split"]
    assert found["products"] == 7 and found["by"] == keys  # 176 and 8 heads divide by them too
    assert found["sent"] == 2 * 2 * 16 * 64


def test_a_split_does_not_depend_on_where_plans_are_cut():
    given = (GPT, [([4, SEQ], "int64")])
    whole, cut = (paddle.advise.facts(*given, batch=4, pending_limit=limit)["split"] for limit in (0, 4 << 20))
    assert whole.pop("kept_share") > 0 and cut.pop("kept_share") > 0
    assert whole == cut and whole["products"] == 16


def test_planned_layers_get_tensor_parallel_layouts():
    from yuloh import _core
    from yuloh.advise import catalogue

    network = network_of_model(GPT, [([4, SEQ], "int64")], dict(GPT_JOB), "gpt")[0]
    device = {**catalogue.core_device(catalogue.find_device("a100-80")), "memory": 4e9}
    changes = _core.advise_changes(completed(network)["network"], {"precision": "fp32", "batch": 512.0}, device, {}, False)
    assert "tensor" in {c["what"] for c in changes}
    found = _core.advise_search(completed(network)["network"], {"precision": "fp32", "batch": 512.0}, device, {}, 4.0, {}, 30)
    assert any(x["job"]["mp"] > 1 for x in found)
    with pytest.raises(ValueError, match="divide by 4, got mp 3"):
        _core.advise_layout(completed(network)["network"], {"batch": 1.0, "mp": 3.0}, device, {})


@pytest.mark.parametrize("batch", [None, 4])
def test_model_file(tmp_path, batch):
    """A saved ResNet-18: parameters and arithmetic of the preset; an open batch or a fixed one."""
    net = paddle.vision.models.resnet18()
    net.eval()
    spec = [paddle.static.InputSpec([batch, 3, 224, 224], "float32", "x")]
    paddle.jit.save(net, str(tmp_path / "r18"), input_spec=spec)
    words = (
        str(tmp_path / "r18.json"),
        "--inference",
        "--precision",
        "fp32",
        "--rate",
        "100",
        "--p99",
        "50",
        "--json",
    )
    found = json.loads(run(*words).stdout)
    preset = catalogue.presets()["resnet18"]
    assert found["model"]["params"] == pytest.approx(preset["params"], rel=0.01)
    assert found["forward_flops"] == pytest.approx(preset["forward_flops"], rel=0.05)
    assert found["serving"]["best"]
    assert json.loads(run(str(tmp_path / "r18.json"), "--json").stdout)["job"]["training"] is False
    done = run(str(tmp_path / "r18.json"), "--samples", "1e6", ok=2)
    assert "is for inference" in done.stderr
    (tmp_path / "junk.onnx").write_bytes(b"junk" * 100)
    assert run(str(tmp_path / "junk.onnx"), "--inference", ok=2).stderr.count("\n") == 1


def test_open_sizes_of_a_model_file(tmp_path):
    """A convolution over open pixels: what --input says, or what is assumed and said, decides the arithmetic."""
    from yuloh.static import InputSpec

    net = paddle.nn.Conv2D(3, 8, 3, padding=1)
    net.eval()
    paddle.jit.save(net, str(tmp_path / "conv"), input_spec=[InputSpec([None, 3, None, None], "float32", "x")])
    path = str(tmp_path / "conv.json")

    def flops(*words):
        found = json.loads(run(path, "--json", *words).stdout)
        return found["forward_flops"], found["job"]["batch"], [r for r in found["remarks"] if "assumed where" in r]

    of_pixel = 2 * 27 * 8
    value, batch, said = flops()
    assert value == pytest.approx(of_pixel * 224 * 224, rel=0.1) and batch == 1
    assert len(said) == 1 and "?,3,224,224" in said[0]
    value, batch, said = flops("--input", "4,3,64,128")
    assert value == pytest.approx(of_pixel * 64 * 128, rel=0.1) and batch == 4 and not said
    value, batch, said = flops("--input", "4,3,64,128", "--batch", "2")
    assert value == pytest.approx(of_pixel * 64 * 128, rel=0.1) and batch == 2
    assert "x [?, 3, ?, ?]" in run(path, "--input", "8,3,64", ok=2).stderr
    assert "has 3 fixed in axis 1 of x, got 4" in run(path, "--input", "8,4,64,64", ok=2).stderr
    assert "--input is for a script or a model file" in run("resnet50", "--input", "8,3,64,64", ok=2).stderr


@pytest.mark.parametrize("text,number", [("7B", 7e9), ("7b", 7e9), ("1.5T", 1.5e12), ("350M", 350e6), ("7e9", 7e9)])
def test_parameters_as_they_are_written(text, number):
    from yuloh.cli.advise import _size

    assert _size(text) == number


@pytest.mark.parametrize("text", ["B", "7BB", "7G", "", "b7", "1,5B"])
def test_parameters_that_are_none(text):
    assert "expected a number such as 32 or 7e9" in run("--params", text, ok=2).stderr
