# SPDX-License-Identifier: Apache-2.0
"""One network in training, seen through NumPy: what recorder and checker do with it, the same code for both.

Parity room; written for ``import paddle``, whoever answers to that name.
"""

import warnings

import models
import numpy as np
import paddle
import replay


class Trainee:
    """A network of ``models.MODELS`` with its optimizer; all values in and out are NumPy float32 arrays."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind
        self.rate = models.MODELS[name][3][kind]
        self.net = models.MODELS[name][0]()
        self.net.train()
        self.optimizer = models.make_optimizer(name, kind, self.net)
        self.trained = [n for n, p in self.net.named_parameters() if not p.stop_gradient]

    def state(self):
        """{structural name: array} of all parameters and running statistics, each once (LSTM's have two names)."""
        seen, out = set(), {}
        for n, t in self.net.state_dict().items():
            if t.name not in seen:
                seen.add(t.name)
                out[n] = np.array(t.numpy())
        return out

    def load(self, state, moments=None, step=0):
        """Sets the state (arrays) and, for Adam, its moments {name: (m, v)} before ``step``."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the second names of LSTM's weights are not in the state
            self.net.set_state_dict({n: paddle.to_tensor(a) for n, a in state.items()})
        if moments is None:
            return
        p1, p2 = replay.beta_powers(step)
        tensors, values = dict(self.net.named_parameters()), {}
        for n, (m, v) in moments.items():
            key = tensors[n].name
            values[key + "_moment1_0"] = paddle.to_tensor(m)
            values[key + "_moment2_0"] = paddle.to_tensor(v)
            values[key + "_beta1_pow_acc_0"] = paddle.to_tensor(np.array([p1], "float32"))
            values[key + "_beta2_pow_acc_0"] = paddle.to_tensor(np.array([p2], "float32"))
        self.optimizer.set_state_dict(values)

    def gradients(self):
        """{name: array} after a backward; zeros where there is no gradient."""
        params = dict(self.net.named_parameters())
        return {
            n: np.array(params[n].grad.numpy())
            if params[n].grad is not None
            else np.zeros(params[n].shape, "float32")
            for n in self.trained
        }

    def take_step(self, seed, keep=True):
        """One training step on the batch of ``seed``: (loss, gradients or None)."""
        loss = models.loss_of(self.net, models.make_batch(self.name, seed))
        loss.backward()
        grads = self.gradients() if keep else None
        self.optimizer.step()
        self.optimizer.clear_grad()
        return float(loss), grads
