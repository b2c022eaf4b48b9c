# SPDX-License-Identifier: Apache-2.0
"""Makes the parity references in ``tests/parity/data`` with the real PaddlePaddle 3.3.1.

Parity room; run by an interpreter that has PaddlePaddle and NumPy, never by the product or its tests::

    <oracle python> tests/parity/record.py [MODEL ...]

For each model and optimizer: ``MODEL.pdparams`` (initial weights, saved by paddle.save) and ``MODEL_OPT.npz`` with

* ``free_loss`` float64 [20], ``free_end`` fingerprints of the last state, of an undisturbed run;
* ``drift_loss`` float64 [20], ``drift_end``: largest deviation of five runs that start from weights moved by one
  rounding (see ``replay.one_rounding``);
* ``seeds`` int64 [20] of the batches, ``names`` of all state values, ``trained`` of those with a gradient;
* per step (see ``replay``): ``loss``, ``grad``, ``update`` fingerprints [20, tensors, 5], ``grad_shake`` and
  ``update_shake`` (norm by which one rounding of the state moves Paddle's own answer), and the coded states.
"""

import os
import sys

import numpy as np
import paddle

import models
import replay
from trainee import Trainee

K_STEPS = 20
K_SHAKES = 5
K_FAR, K_SMOOTH = 8, 6e-5  # a batch is smooth if 8 roundings move no large gradient by more than 8 x 6e-5 of it
K_SMOOTH_FREE_RUN = ("lenet", "resnet18")
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def norm(a):
    return float(np.linalg.norm(a.astype("float64").ravel()))


def shaken(state, trained, seed, times=1):
    return {n: replay.one_rounding(a, seed, times) if n in trained else a for n, a in state.items()}


def free_run(name, kind, start, seeds):
    """Undisturbed steps from ``start`` on the batches of ``seeds``: (losses, last state)."""
    t = Trainee(name, kind)
    t.load(start)
    losses = [t.take_step(seed, keep=False)[0] for seed in seeds]
    return np.array(losses), t.state()


def record_free(name, kind, start, seeds):
    """The free run and how far one rounding of the initial weights drives it."""
    losses, end = free_run(name, kind, start, seeds)
    again, _ = free_run(name, kind, start, seeds)
    if not np.array_equal(losses, again):
        print("  note: Paddle itself is not repeatable here", np.abs(losses - again).max())
    drift_loss, drift_end = np.zeros(len(seeds)), np.zeros(len(start))
    trained = Trainee(name, kind).trained
    for shake in range(K_SHAKES):
        other, other_end = free_run(name, kind, shaken(start, trained, shake), seeds)
        drift_loss = np.maximum(drift_loss, np.abs(other - losses))
        drift_end = np.maximum(drift_end, [norm(other_end[n] - a) for n, a in end.items()])
    print(f"  loss {losses[0]:.4f} -> {losses[-1]:.4f}; drift of the loss {drift_loss.max():.1e}")
    return dict(
        seeds=np.array(seeds),
        names=np.array(list(end)),
        trained=np.array(trained),
        free_loss=losses,
        drift_loss=np.maximum.accumulate(drift_loss),
        drift_end=drift_end,
        free_end=np.stack([replay.fingerprint(n, a) for n, a in end.items()]),
    )


class StepRecorder:
    """Lets Paddle take each step from the state that the reader will have, and keeps what it did."""

    def __init__(self, name, kind, start):
        self.kind, self.name, self.coded, self.seeds = kind, name, {}, []
        self.free, self.t, self.probe = Trainee(name, kind), Trainee(name, kind), Trainee(name, kind)
        self.free.load(start)
        self.reader = replay.Reader(start, self.t.trained, kind, self.t.rate, self.coded)
        self.out = {k: [] for k in ("loss", "grad", "update", "stat", "grad_shake", "update_shake")}

    def step_from(self, trainee, state, step, seed):
        trainee.load(state, self.reader.moments, step)
        loss, grads = trainee.take_step(seed)
        after = trainee.state()
        return loss, grads, {n: after[n] - state[n] for n in state}

    def is_smooth(self, state, grads, step, seed):
        """False where a kink (a ReLU at zero, a tie in a pool) lies within a few roundings of this batch."""
        sizes = {n: norm(g) for n, g in grads.items()}
        floor = 1e-3 * max(sizes.values())
        for shake in (97, 98):
            nudged = shaken(state, self.t.trained, shake, times=K_FAR)
            _, other, _ = self.step_from(self.probe, nudged, step, seed)
            far = K_FAR * K_SMOOTH
            if any(norm(other[n] - g) > far * sizes[n] for n, g in grads.items() if sizes[n] > floor):
                return False
        return True

    def is_smooth_on_free_run(self, step, seed):
        """The same at the state of the free run, whose kinks are others; not asked of networks that have too many."""
        if self.name not in K_SMOOTH_FREE_RUN:
            return True
        state = self.free.state()
        _, grads, _ = self.step_from(self.probe, state, step, seed)
        return self.is_smooth(state, grads, step, seed)

    def find_batch(self, step):
        """First smooth batch: its seed with Paddle's (loss, gradients, moves) on it."""
        for seed in range(1000 * (step + 7), 1000 * (step + 7) + 400):
            loss, grads, moved = self.step_from(self.t, self.reader.state, step, seed)
            if self.is_smooth(self.reader.state, grads, step, seed) and self.is_smooth_on_free_run(step, seed):
                return seed, loss, grads, moved
        raise RuntimeError(f"{self.name}: no smooth batch for step {step}")

    def take(self, step):
        names = self.t.trained
        stats = [n for n in self.reader.state if n not in names]
        seed, loss, grads, moved = self.find_batch(step)
        self.seeds.append(seed)
        _, grads2, moved2 = self.step_from(self.probe, shaken(self.reader.state, names, 99), step, seed)
        self.out["loss"].append(loss)
        self.out["grad"].append([replay.fingerprint(n, grads[n]) for n in names])
        self.out["update"].append([replay.fingerprint(n, moved[n]) for n in names])
        self.out["stat"].append([replay.fingerprint(n, moved[n]) for n in stats])
        self.out["grad_shake"].append([norm(grads2[n] - grads[n]) for n in names])
        self.out["update_shake"].append([norm(moved2[n] - moved[n]) for n in names])
        if self.kind == "adam":
            self.check_formula(grads, moved, step)
        self.free.take_step(seed, keep=False)
        self.reader.advance(grads, self.free.state())

    def check_formula(self, grads, moved, step):
        """The optimizer formula that the checker applies elementwise must be Paddle's."""
        for n in self.t.trained:
            w, m, v = self.reader.state[n], *self.reader.moments[n]
            want, slack = replay.adam_update(w, grads[n], m, v, step, self.t.rate)
            i = np.argmax((np.abs(moved[n] - want) / slack).ravel())
            assert (np.abs(moved[n] - want) <= slack).all(), (
                n,
                step,
                [a.ravel()[i] for a in (moved[n], want, w, grads[n], m, v)],
            )

    def report(self):
        out = {k: np.array(v, "float64" if k == "loss" else "float32") for k, v in self.out.items()}
        out.update({k: np.stack(v) for k, v in self.coded.items()})
        sizes = out["grad"][:, :, 0]
        ruled = out["grad_shake"] > 1e-5 * sizes
        large = sizes > 1e-3 * sizes.max(axis=1, keepdims=True)
        far = max(norm(self.reader.state[n] - a) / max(norm(a), 1e-9) for n, a in self.free.state().items())
        print(
            f"  {sum(s % 1000 for s in self.seeds)} batches refused; {ruled.sum()} of {ruled.size} gradients shaken by "
            f"more than 1e-5 of their norm, {(ruled & large).sum()} of them large; reader ends {far:.1e} from the "
            f"free run"
        )
        return out


def record(name):
    paddle.seed(11)
    net, by_step = models.MODELS[name][0](), models.MODELS[name][4]
    if by_step:
        paddle.save(net.state_dict(), os.path.join(DATA, name + ".pdparams"))
        values = net.state_dict()
        start = {n: np.array(values[n].numpy()) for n in Trainee(name, "sgd").state()}
    else:
        start = replay.seeded_weights({n: list(t.shape) for n, t in net.state_dict().items()})
    for kind in ("sgd", "adam"):
        print(name, kind, sum(a.size for a in start.values()), "values", flush=True)
        out, seeds = {}, [1000 * (step + 7) for step in range(K_STEPS)]
        if by_step:
            recorder = StepRecorder(name, kind, start)
            for step in range(K_STEPS):
                recorder.take(step)
            out, seeds = recorder.report(), recorder.seeds
        out.update(record_free(name, kind, start, seeds))
        path = os.path.join(DATA, f"{name}_{kind}.npz")
        np.savez_compressed(path, **out)
        print("  ", os.path.getsize(path) // 1024, "KiB", flush=True)


def main():
    os.makedirs(DATA, exist_ok=True)
    for name in sys.argv[1:] or models.MODELS:
        record(name)


if __name__ == "__main__":
    main()
