# SPDX-License-Identifier: Apache-2.0
"""Training follows PaddlePaddle 3.3.1: five networks, two optimizers, fp32, twenty steps each.

Parity room. The references in ``data/`` are made by ``record.py``; how they are kept is told in ``replay.py``.

* Step by step: from the recorded state before it, loss within 1e-5 relative, every gradient within 1e-4 of its
  tensor's norm, every update within tolerance of Paddle's and elementwise equal to the optimizer's formula.
  Where one rounding of the weights moves Paddle's own gradient by more than a tenth of that (a sum that cancels),
  ten times that movement is the bound.
* Free run: after each step the loss is at most 10 times the drift that one rounding of the initial weights causes
  in Paddle itself, plus 1e-5, away from Paddle's.
  For the wide networks of the zoo it is the run's largest drift after the first step: one ReLU input within rounding
  of zero makes a small jump, and five drift runs do not meet each of them.
"""

import os

import numpy as np
import paddle
import pytest

import models
import replay
from trainee import Trainee

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
BY_STEP = [n for n, m in models.MODELS.items() if m[4]]
K_GRADIENT = 1e-4
K_LOSS = 1e-5
K_SHAKE = 10


def initial_state(name, trainee):
    """{name: float32 array} from Paddle's own file, or from the seed for the networks of the zoo."""
    if not models.MODELS[name][4]:
        return replay.seeded_weights({n: list(t.shape) for n, t in trainee.net.state_dict().items()})
    values = paddle.load(os.path.join(DATA, name + ".pdparams"))
    return {n: np.array(values[n].numpy()) for n in trainee.state()}


def norm(a):
    return float(np.linalg.norm(np.asarray(a, "float64").ravel()))


class Deviations:
    """Collects what is out of bounds; ``worst`` is the largest deviation by kind, as a part of its bound."""

    def __init__(self):
        self.worst, self.wrong = {}, []

    def check(self, kind, where, got, bound):
        part = got / bound if bound > 0 else (0.0 if got == 0 else np.inf)
        self.worst[kind] = max(self.worst.get(kind, 0.0), part)
        if not part <= 1:
            self.wrong.append(f"{kind} {where}: off by {got:.3e}, bound {bound:.3e}")

    def __str__(self):
        worst = ", ".join(f"{k} {v:.2g}" for k, v in self.worst.items())
        return f"worst, as parts of the bound: {worst}\n" + "\n".join(self.wrong[:40])


def check_gradients(ref, step, trained, grads, out):
    recorded = ref["grad"][step]
    noise = 1e-6 * recorded[:, 0].max()  # a gradient that is zero but for rounding
    for i, n in enumerate(trained):
        bound = max(K_GRADIENT * recorded[i, 0], K_SHAKE * ref["grad_shake"][step, i], noise)
        out.check(
            "gradient",
            f"step {step} {n}",
            replay.distance(replay.fingerprint(n, grads[n]), recorded[i]),
            bound,
        )


def check_updates(ref, step, reader, grads, after, out):
    for i, n in enumerate(reader.trained):
        before, moved = reader.state[n], after[n] - reader.state[n]
        if reader.moments:
            want, slack = replay.adam_update(before, grads[n], *reader.moments[n], step, reader.rate)
        else:
            want = -reader.rate * grads[n].astype("float64")
            slack = 1e-6 * np.abs(want) + 2e-7 * np.abs(before) + 1e-12
        over = np.abs(moved - want) / slack
        out.check("formula", f"step {step} {n}", float(over.max()), 1.0)
        recorded = ref["update"][step, i]
        bound = K_GRADIENT * recorded[0] + K_SHAKE * ref["update_shake"][step, i] + 1e-7 * norm(before)
        out.check(
            "update", f"step {step} {n}", replay.distance(replay.fingerprint(n, moved), recorded), bound
        )


def check_statistics(ref, step, reader, after, out):
    rows = [n for n in ref["names"] if n not in reader.trained]
    for i, n in enumerate(rows):
        recorded = ref["stat"][step, i]
        got = replay.fingerprint(n, after[n] - reader.state[n])
        bound = K_GRADIENT * recorded[0] + 3e-7 * norm(reader.state[n])
        if n.endswith("_mean"):  # the mean of large values that cancel
            bound += 1e-6 * norm(np.sqrt(after[n.replace("_mean", "_variance")]))
        out.check("statistic", f"step {step} {n}", replay.distance(got, recorded), bound)


def follow_steps(name, kind, steps=None, spoil=None):
    """Takes the steps from the recorded states; ``spoil(name, gradient)`` lets a test put an error in."""
    trainee = Trainee(name, kind)
    ref = replay.Recorded(os.path.join(DATA, f"{name}_{kind}.npz"))
    start = initial_state(name, trainee)
    assert set(start) == set(ref["names"]) == set(trainee.state()), "names of parameters differ from Paddle's"
    assert set(trainee.trained) == set(ref["trained"])
    trained = [str(n) for n in ref["trained"]]
    reader = replay.Reader({str(n): start[n] for n in ref["names"]}, trained, kind, trainee.rate, ref)
    out = Deviations()
    for step in range(steps or len(ref["loss"])):
        trainee.load(reader.state, reader.moments, step)
        loss, grads = trainee.take_step(int(ref["seeds"][step]))
        if spoil:
            grads = {n: spoil(n, g) for n, g in grads.items()}
        after = trainee.state()
        out.check("loss", f"step {step}", abs(loss - ref["loss"][step]), K_LOSS * abs(ref["loss"][step]))
        check_gradients(ref, step, trained, grads, out)
        check_updates(ref, step, reader, grads, after, out)
        check_statistics(ref, step, reader, after, out)
        reader.advance()
    return out


def follow_freely(name, kind):
    trainee = Trainee(name, kind)
    ref = replay.Recorded(os.path.join(DATA, f"{name}_{kind}.npz"))
    trainee.load(initial_state(name, trainee))
    out = Deviations()
    for step, seed in enumerate(ref["seeds"]):
        loss, _ = trainee.take_step(int(seed), keep=False)
        drift = ref["drift_loss"][step] if models.MODELS[name][4] or step == 0 else ref["drift_loss"].max()
        bound = 10 * drift + 1e-5
        out.check("free loss", f"step {step}", abs(loss - ref["free_loss"][step]), bound)
    end = trainee.state()
    for i, n in enumerate(ref["names"]):
        recorded = ref["free_end"][i]
        out.check(
            "end of free run",
            n,
            replay.distance(replay.fingerprint(str(n), end[n]), recorded),
            20 * ref["drift_end"][i] + 1e-5 * recorded[0] + 1e-9,
        )
    return out


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("name", BY_STEP)
def test_each_step_from_paddles_state(name, kind):
    out = follow_steps(name, kind)
    print(out)
    assert not out.wrong, str(out)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("name", list(models.MODELS))
def test_free_run(name, kind):
    out = follow_freely(name, kind)
    print(out)
    assert not out.wrong, str(out)


def test_checker_notices_a_wrong_gradient():
    """One tensor off by 5e-4 of its norm is found, and nothing else is blamed."""
    draw = np.random.RandomState(1)

    def spoil(name, g):
        if name != "features.3.weight":
            return g
        e = draw.standard_normal(g.shape)
        return (g + 5e-4 * norm(g) / norm(e) * e).astype("float32")

    out = follow_steps("lenet", "sgd", steps=3, spoil=spoil)
    found = [w for w in out.wrong if w.startswith("gradient")]
    assert len(found) == 3 and all("features.3.weight" in w for w in found), str(out)


def test_checker_notices_a_wrong_rate():
    """An optimizer whose rate is off by one part in a thousand is found."""

    class Spoiled(Trainee):
        def take_step(self, seed, keep=True):
            self.optimizer.set_lr(self.rate * 1.001)
            return super().take_step(seed, keep)

    real, globals()["Trainee"] = Trainee, Spoiled
    try:
        out = follow_steps("lenet", "adam", steps=2)
    finally:
        globals()["Trainee"] = real
    assert any(w.startswith("formula") for w in out.wrong) and any(w.startswith("update") for w in out.wrong)
