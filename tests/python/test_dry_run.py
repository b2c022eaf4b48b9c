# SPDX-License-Identifier: Apache-2.0
"""Dry runs: the allocator's figures are those of the real run to the byte, nothing else in the process changes."""
import _thread
import json
import operator
import subprocess
import sys
import time

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn
from yuloh.advise import dry_run, facts
from yuloh.nn import functional as F


class Net(nn.Layer):
    def __init__(self, width=64, depth=3, classes=10):
        super().__init__()
        self.stem = nn.Conv2D(3, width, 3, padding=1)
        self.blocks = nn.LayerList([nn.Sequential(nn.Conv2D(width, width, 3, padding=1), nn.BatchNorm2D(width), nn.ReLU())
                                    for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(axis=[2, 3]))


REAL = """
import json, numpy as np, yuloh as paddle, sys
sys.path.insert(0, {folder!r})
from test_dry_run import Net, train
train({batch}, {half}, {again}, {accumulate})
print(json.dumps([paddle.device.max_memory_allocated(), paddle.device.max_memory_reserved()]))
"""


def train(batch, half, again, accumulate):
    from yuloh.distributed.fleet.utils import recompute
    net = Net()
    if again:
        for block in net.blocks:
            block.forward = (lambda f: lambda x: recompute(f, x))(block.forward)
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    data = [(paddle.to_tensor(np.ones([batch, 3, 16, 16], "float32")), paddle.to_tensor(np.zeros([batch], "int64")))
            for _ in range(accumulate)]
    for _ in range(3):
        for x, y in data:
            with paddle.amp.auto_cast(enable=half, dtype="bfloat16"):
                loss = F.cross_entropy(net(x), y)
            (loss / accumulate if accumulate > 1 else loss).backward()
        opt.step()
        opt.clear_grad()
        loss.numpy()


@pytest.mark.parametrize("batch, half, again, accumulate", [(4, False, False, 1), (16, True, False, 1), (8, False, True, 1),
                                                            (8, False, False, 3)])
def test_peak_is_that_of_a_fresh_process(batch, half, again, accumulate):
    code = REAL.format(folder=__file__.rsplit("/", 1)[0], batch=batch, half=half, again=again, accumulate=accumulate)
    real = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    got = facts(Net, [([None, 3, 16, 16], "float32")], batch=batch, precision="amp-bfloat16" if half else "float32",
                recompute=again, accumulate=accumulate)["memory"]
    assert got["peak"]["value"] == pytest.approx(real[0], rel=0.01)
    assert got["reserved"]["value"] == pytest.approx(real[1], rel=0.01)
    assert got["peak"]["low"] <= real[0] <= got["peak"]["high"]


def test_items_add_up():
    f = facts(Net, [([None, 3, 16, 16], "float32")], batch=8)
    m = f["memory"]
    items = ("weights", "buffers", "gradients", "optimizer", "activations", "temporaries", "workspace", "inputs", "slack")
    assert sum(m[k] for k in items) == pytest.approx(m["peak"]["value"])
    assert abs(m["slack"]) < 0.15 * m["peak"]["value"]
    assert m["weights"] == 4 * f["parameters"] and m["optimizer"] >= 2 * 4 * f["trainable"]


def test_layers_flops_and_kinds():
    f = facts(Net, [([None, 3, 16, 16], "float32")], batch=8)
    whole, names = f["layers"][0], [layer["name"] for layer in f["layers"]]
    assert names[:3] == ["", "stem", "blocks"] and "blocks.1.0" in names
    block = f["layers"][names.index("blocks.1.0")]
    product = 2 * 8 * 16 * 16 * 64 * 64 * 9
    inside = 14 * 14 + 4 * 14 * 2 / 3 + 4 * 4 / 9  # of 16 x 16 positions, those whose taps are not padding
    assert product * inside / 256 * 0.95 <= block["flops_forward"] <= product * 1.02
    assert block["flops_backward"] >= 1.9 * block["flops_forward"]
    assert block["output_bytes"] == block["input_bytes"] == 4 * 8 * 64 * 16 * 16
    assert whole["parameters"] == f["parameters"] and block["parameters"] == 64 * 64 * 9 + 64
    assert whole["activation_bytes"] >= sum(layer["activation_bytes"] for layer in f["layers"] if layer["parent"] == 0)
    kinds = {k["kind"] for k in f["kinds"]}
    assert {"conv", "optimizer", "reduction"} <= kinds
    assert sum(k["flops"] for k in f["kinds"]) == pytest.approx(f["flops"])
    assert sum(k["seconds"] for k in f["kinds"]) <= f["seconds"]["value"]


def test_a_layer_that_is_there_stays_what_it_is():
    paddle.seed(5)
    net = Net()
    before = [p.numpy() for p in net.parameters()]
    net.head.weight.grad = None
    state = paddle.get_rng_state()[0]
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    net.eval()
    f = facts(net, [([None, 3, 16, 16], "float32")], batch=4, optimizer=opt, recompute=True)
    assert f["training"] and f["optimizer"] == "Adam" and not net.training
    for old, p in zip(before, net.parameters()):
        np.testing.assert_array_equal(old, p.numpy())
        assert p.grad is None
    assert paddle.get_rng_state()[0] == state and not opt._states
    held = paddle.device.memory_allocated()
    facts(net, [([None, 3, 16, 16], "float32")], batch=4)
    assert paddle.device.memory_allocated() == held
    net(paddle.ones([1, 3, 16, 16])).numpy()


def test_a_model_far_larger_than_the_machine():
    def huge():
        return nn.Sequential(*[nn.Linear(65536, 65536) for _ in range(4)])
    f = facts(huge, [([None, 65536], "float32")], batch=2, pending_limit=0)
    assert f["memory"]["peak"]["value"] > 12 * f["parameters"] > 2e11
    assert f["memory"]["weights"] == 4 * f["parameters"]


def test_precision_recompute_and_inference_change_what_they_should():
    def ask(**settings):
        return facts(Net, [([None, 3, 16, 16], "float32")], batch=32, **settings)
    plain, again, half, infer = ask(), ask(recompute=True), ask(precision="bfloat16"), ask(training=False)
    assert again["memory"]["peak"]["value"] < plain["memory"]["peak"]["value"] and again["flops"] > 1.2 * plain["flops"]
    assert half["memory"]["weights"] == pytest.approx(plain["memory"]["weights"] / 2, rel=0.1)
    assert infer["memory"]["optimizer"] == 0 and infer["memory"]["peak"]["value"] < plain["memory"]["peak"]["value"] / 2
    assert infer["flops"] < 0.4 * plain["flops"] and infer["memory"]["gradients_all"] == 0


def test_reads_give_zeros_and_nothing_escapes():
    with dry_run():
        a = paddle.rand([4]) + 1
        assert a.numpy().tolist() == [0, 0, 0, 0]
        with pytest.raises(RuntimeError, match="one is running"):
            _ = paddle._core.dry_begin()
        before = paddle.device.memory_allocated()
        paddle.ones([1 << 20]).numpy()
        assert paddle.device.max_memory_allocated() >= before + (4 << 20)
    with pytest.raises(RuntimeError, match="dry run"):
        (a + 1).numpy()
    with pytest.raises(RuntimeError, match="dry run"):  # read inside as well: no zeros afterwards
        a.numpy()
    with pytest.raises(RuntimeError, match="dry run"):
        np.asarray(a)


def test_tensors_from_outside_have_their_values_and_gradients_back(tmp_path):
    net, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4)), paddle.to_tensor([1.0, 2.0, 3.0])
    other = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4))
    paddle.save(other.state_dict(), str(tmp_path / "w"))
    net(paddle.rand([8, 4])).mean().backward()
    before = [t.numpy() for t in [*net.parameters(), *net.buffers()]]
    gradient = net[0].weight.grad.numpy()
    opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    with dry_run():
        x.add_(paddle.ones([3]))
        x[0] = 7
        for _ in range(2):
            net(paddle.rand([8, 4])).mean().backward()
            opt.step()
            opt.clear_grad()
        net.set_state_dict(paddle.load(str(tmp_path / "w")))
        other(paddle.rand([8, 4])).mean().backward()
    assert x.numpy().tolist() == [1, 2, 3]
    for old, now in zip(before, [*net.parameters(), *net.buffers()]):
        np.testing.assert_array_equal(old, now.numpy())
    np.testing.assert_array_equal(gradient, net[0].weight.grad.numpy())
    assert other[0].weight.grad is None
    net(paddle.rand([8, 4])).mean().backward()
    opt.step()
    assert np.any(net[0].weight.numpy() != before[0])


@pytest.mark.parametrize("name", ["a.pdparams", "a.safetensors"])
def test_no_zeros_are_written_as_weights(tmp_path, name):
    with dry_run():
        net = nn.Linear(4, 4)
        with pytest.raises(RuntimeError, match="save: within a dry run"):
            paddle.save(net.state_dict(), str(tmp_path / name))
        with pytest.raises(RuntimeError, match="jit.save: within a dry run"):
            paddle.jit.save(net, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None, 4], "float32")])
        with pytest.raises(RuntimeError, match="onnx.export: within a dry run"):
            paddle.onnx.export(net, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None, 4], "float32")])
        paddle.save({"step": 3}, str(tmp_path / "numbers"))
    assert [p.name for p in tmp_path.iterdir()] == ["numbers"]


def test_what_was_pending_before_is_computed_before():
    x = paddle.ones([3]) * 2
    with dry_run():
        paddle.ones([3]).numpy()
    assert x.numpy().tolist() == [2, 2, 2]


@pytest.mark.parametrize("settings, match", [
    ({"precision": "int3"}, "precision"), ({"batch": 0}, "batch"), ({"batch": True}, "batch"), ({"accumulate": -1}, "accumulate"),
    ({"optimizer": "Adamm"}, "optimizer"), ({"recompute": ["nowhere"]}, "nowhere"), ({"device": "/nowhere.json"}, "device file")])
def test_settings_that_make_no_sense(settings, match):
    with pytest.raises(ValueError, match=match):
        facts(Net, [([None, 3, 16, 16], "float32")], **settings)
    assert not paddle._core.in_dry_run()


@pytest.mark.parametrize("model, inputs, error", [
    (3, [([1], "float32")], TypeError), (lambda: 3, [([1], "float32")], TypeError), (Net, None, ValueError),
    (Net, [([None, 5, 16, 16], "float32")], ValueError), (Net, [([None, -1, 16, 16], "float32")], ValueError),
    (Net, ["x"], (TypeError, ValueError)), (Net, [([1 << 62, 3, 16, 16], "float32")], Exception)])
def test_models_and_inputs_that_make_no_sense(model, inputs, error):
    with pytest.raises(error):
        facts(model, inputs)
    assert not paddle._core.in_dry_run()
    paddle.ones([1]).numpy()


def device_file(**changes):
    host = {"step": 1e-3, "call": 1e-6, "call_cold": 1e-6, "kernel": 1e-6, "byte": 1e-10}
    record = {"version": 3, "name": "a machine", "peaks": {"fp32": 1e12, "bf16": 2e12, "copy": 1e11}, "cache": 3e7,
              "host_rates": {"training": host, "inference": host}, "per_kernel": 1e-9, "spread": 1.2,
              "process": {"interpreter": 5e7, "scratch": 1e6, "code_share": 1.0, "spread": 0.1, "step_bytes": 1e4},
              "efficiencies": [{"name": "conv/conv", "dtype": "float32", "log2_roof_ns": at, "log2_intensity": 4, "far": 0.0,
                                "efficiency": 0.5} for at in (5, 15)]}
    record.update(changes)
    return record


def test_seconds_follow_the_device_file(tmp_path):
    path = tmp_path / "device.json"

    def seconds(**changes):
        path.write_text(json.dumps(device_file(**changes)))
        f = facts(Net, [([None, 3, 16, 16], "float32")], batch=8, training=False, device=path)
        assert f["seconds"]["origin"] == "measured" and f["device"] == "a machine"
        return {k["kind"]: k["seconds"] for k in f["kinds"]}

    slow = [{"name": "conv/conv", "dtype": "float32", "log2_roof_ns": at, "log2_intensity": 4, "far": 0.5,
             "efficiency": 0.25} for at in (5, 15)]
    assert seconds(efficiencies=slow)["conv"] == pytest.approx(2 * seconds()["conv"])


def test_what_the_host_takes_is_counted(tmp_path):
    path = tmp_path / "device.json"

    def seconds(training, **rates):
        host = {**dict.fromkeys(("step", "call", "call_cold", "kernel", "byte"), 0.0), **rates}
        other = dict.fromkeys(host, 0.0)
        name = "training" if training else "inference"
        path.write_text(json.dumps(device_file(host_rates={"training": other, "inference": other, name: host})))
        return facts(Net, [([None, 3, 16, 16], "float32")], batch=8, training=training, device=path)

    def value(*a, **k):
        return seconds(*a, **k)["seconds"]["value"]

    for training in (True, False):
        bare = seconds(training)
        assert value(training, kernel=1.0) - bare["seconds"]["value"] == pytest.approx(bare["kernels"])
        calls = value(training, call=1.0) - bare["seconds"]["value"]
        assert calls == round(calls) and 3 <= calls <= 60
        cold = value(training, step=1.0) - bare["seconds"]["value"]  # of the steps whose data leaves some of the caches
        assert 0 < cold < 1 and value(training, call_cold=1.0) - bare["seconds"]["value"] == pytest.approx(calls * cold)
    out = facts(Net, [([None, 3, 16, 16], "float32")], batch=8, training=False)["layers"][0]["output_bytes"]
    assert value(False, byte=1.0) - value(False) == pytest.approx(out) and value(True, byte=1.0) == value(True)


def test_what_comes_from_beyond_the_caches(tmp_path):
    """A kernel whose data was touched just before is near, one whose data the step has pushed out is far."""
    def shares(cache):
        text = json.dumps(device_file(cache=cache))
        with paddle.advise.dry_run():
            a, b = paddle._core.dry_tensor([64, 1024], "float32"), paddle._core.dry_tensor([1024, 512], "float32")
            steady = paddle._core.dry_flushes()
            y = paddle.matmul(a, b)
            z = paddle.matmul(y, b.T)
            z.numpy()
            return [k[6] for k in paddle._core.dry_kernels(steady, text)]

    assert shares(1e9) == [0.0, 0.0]
    assert all(0.05 < share < 0.15 for share in shares(2e6))  # only the 0.26 MB of a and of z are a step away, of 2.5 MB each
    assert shares(1)[0] > shares(2e6)[0] - 1e-9


@pytest.mark.parametrize("text", ["", " \n", "{", "[]", '{"version": 1}', '{"version": 2}',
                                  json.dumps(device_file(peaks={"fp32": -1, "copy": 1}))])
def test_device_files_that_are_none(tmp_path, text):
    path = tmp_path / "device.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="device file.*yuloh calibrate" if '"version": 1' in text or not text.strip() else "device file|facts"):
        facts(Net, [([None, 3, 16, 16], "float32")], device=path)


def test_ctrl_c_while_a_dry_run_ends():
    core = paddle._core
    core.dry_begin(0)
    x = paddle.ones([64, 64])
    for _ in range(8):
        x = paddle.matmul(x, x)
    time.sleep(0.1)  # signals are looked at 20 times a second
    end = map(operator.methodcaller("__call__"), [_thread.interrupt_main, core.dry_end])  # nothing in between looks at them
    with pytest.raises(KeyboardInterrupt):
        list(end)
    assert not core.in_dry_run()
    before = core.stats()["kernels"]
    core.run_pending()
    assert core.stats()["kernels"] == before  # nothing of it is left
    assert paddle.ones([2]).numpy().tolist() == [1, 1]


@pytest.mark.parametrize("kind", ["SGD", "Momentum", "Adam", "RMSProp", "Lamb"])
def test_updates_are_of_one_kind(kind):
    options = {"learning_rate": 0.1} if kind != "Lamb" else {"learning_rate": 0.1, "lamb_weight_decay": 0.01}
    net = nn.Linear(32, 32)
    opt = getattr(paddle.optimizer, kind)(parameters=net.parameters(), **options)
    core = paddle._core
    core.start_profile()
    net(paddle.ones([4, 32])).mean().backward()
    opt.step()
    core.run_pending()
    names = {r[0] for r in core.profile_costs(1e9)}
    core.stop_profile()
    assert "optimizer" in names


def test_a_dry_tensor_is_refused_where_it_is_used():
    """And what it was to be used with is as before."""
    with dry_run():
        d = paddle.ones([3]) * 2
    good, q = paddle.ones([4]) * 3, paddle.ones([3])
    for use in (lambda: d + q, lambda: q.add_(d), lambda: paddle.concat([q, d])):
        with pytest.raises(RuntimeError, match="used outside of it"):
            use()
    assert good.numpy().tolist() == [3] * 4 and q.numpy().tolist() == [1] * 3


LEFT = """import threading, yuloh as paddle
from yuloh.advise import dry_run
c = dry_run()
c.__enter__()
said = []
def leave():
    try: c.__exit__(None, None, None)
    except RuntimeError as error: said.append(str(error))
t = threading.Thread(target=leave)
t.start(); t.join()
assert "ends in another thread" in said[0], said
x = paddle.ones([3]).sum()
try: float(x); print("read")
except RuntimeError as error: assert "left in another thread" in str(error)
"""


@pytest.mark.parametrize("end", ["c.__exit__(None, None, None); print(float(paddle.ones([3]).sum()))", "print(3.0)",
                                 "del c; print(float(paddle.ones([3]).sum()))"])
def test_a_dry_run_ends_in_its_own_thread(end):
    """Elsewhere that is an error, no zeros are read meanwhile, and neither an open one nor a thread with one ends the process."""
    thread = "threading.Thread(target=lambda: paddle._core.dry_begin(0)).start()\n"
    done = subprocess.run([sys.executable, "-c", LEFT + thread + end], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3.0\n", "")


def test_decorated_functions_are_dry_each_time():
    @dry_run()
    def value():
        return float(paddle.ones([3]).sum())

    assert (value(), value(), float(paddle.ones([3]).sum())) == (0, 0, 3)


class Changing(nn.Layer):
    """Assigns a buffer, keeps results, makes a part at its first call."""

    def __init__(self):
        super().__init__()
        self.first, self.calls, self.kept = nn.Linear(8, 8), 0, []
        self.register_buffer("ema", paddle.zeros([8]))

    def forward(self, x):
        if not hasattr(self, "last"):
            self.last = nn.Linear(8, 8)
        y = self.first(x)
        self.ema = 0.9 * self.ema + 0.1 * y.mean(0).detach()
        self.calls, self.cache = self.calls + 1, y
        self.kept.append(y)
        return self.last(y - self.ema)


@pytest.mark.parametrize("called", [False, True])
def test_facts_leave_a_layer_as_it_was(called):
    net, x = Changing(), paddle.ones([2, 8])
    if called:
        net(x)
    net.first.eval()
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    names, calls = sorted(vars(net)), net.calls
    facts(net, [([4, 8], "float32")])
    after = net.state_dict()
    assert sorted(vars(net)) == names and (net.calls, len(net.kept)) == (calls, calls) and hasattr(net, "last") == called
    assert list(after) == list(before) and all(np.array_equal(before[k], after[k].numpy()) for k in before)
    assert net.training and not net.first.training and [n for n, _ in net.named_sublayers()] == ["first"] + ["last"] * called
    assert net(x).numpy().shape == (2, 8) and net.ema.numpy().any() and not any(s._forward_pre_hooks for s in net.sublayers())


def losses(dry, kind, stepped):
    """Of steps with an optimizer and a loss scaler from outside, of which a dry run may use both."""
    paddle.seed(3)
    net, x = nn.Linear(8, 8), paddle.ones([2, 8])
    opt = getattr(paddle.optimizer, kind)(parameters=net.parameters(), learning_rate=0.1)
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0, incr_every_n_steps=2)

    def step():
        loss = (net(x) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.clear_grad()
        return float(loss)

    found = [step() for _ in range(stepped)]
    if dry:
        with dry_run():
            for _ in range(3):
                step()
    found += [step() for _ in range(3)]
    return found, [float(v) for v in np.ravel(scaler.state_dict()["scale"])], {k: np.asarray(v) for k, v in opt.state_dict().items() if k != "LR_Scheduler"}


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("stepped", [0, 2])
def test_optimizers_and_scalers_go_on_after_a_dry_run(kind, stepped):
    real, dry = losses(False, kind, stepped), losses(True, kind, stepped)
    assert real[:2] == dry[:2] and len(real[2]) == len(dry[2])
    assert all(np.array_equal(a, b) for a, b in zip(real[2].values(), dry[2].values()))
