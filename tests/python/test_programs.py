# SPDX-License-Identifier: Apache-2.0
"""Test room: random programs of views, broadcasts, reductions, in-place writes and gradients. Each runs lazily as one graph,
op by op, without fusion, without rewrite rules and without donation; results and gradients agree: to the bit without
contractions and rewrites, within a small tolerance otherwise. ``python tests/python/test_programs.py FROM TO`` searches.
"""
import random
import sys

import numpy as np
import pytest

import yuloh as paddle
from yuloh import _core

F = paddle.nn.functional
UNARY = ["exp", "tanh", "sin", "abs", "square", "neg", "sigmoid", "relu", "erf", "log1p", "sqrt"]
MODES = {"eager": ("eager", True), "unfused": ("fusion", False), "no rules": ("rules", False), "no donation": ("donate", False),
         "no library": ("library", False)}


class Program:
    """A list of statements over tensors t0, t1...; generated from a seed, so that it can be printed and run again."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.shapes, self.lines, self.exact = {}, [], True
        for k in range(self.r.randint(1, 3)):
            self.shapes[f"t{k}"] = [self.r.choice([1, 2, 3, 5, 8, 17]) for _ in range(self.r.randint(1, 4))]
        self.inputs = dict(self.shapes)
        for _ in range(self.r.randint(4, 14)):
            self.step()

    def pick(self):
        return self.r.choice(list(self.shapes)[-6:])

    def add(self, shape, text):
        name = f"t{len(self.shapes)}"
        self.shapes[name] = list(shape)
        self.lines.append(f"{name} = {text}")

    def step(self):
        x = self.pick()
        s = self.shapes[x]
        n = len(s)
        kind = self.r.choice(["unary", "unary", "binary", "binary", "number", "reduce", "reduce", "transpose", "reshape", "slice", "concat",
                              "softmax", "matmul", "inplace", "set", "where", "cast", "expand", "gather", "mean", "cumsum", "flip", "read", "detach"])
        axis = self.r.randrange(n) if n else None
        if kind == "unary":
            f = self.r.choice(UNARY)
            body = f"paddle.{f}({x})" if f not in ("sigmoid", "relu") else f"F.{f}({x})"
            if f in ("log1p", "sqrt"):
                body = f"paddle.{f}(paddle.abs({x}))"
            if f == "exp":
                body = f"paddle.exp(paddle.clip({x}, -8.0, 4.0))"
            self.add(s, body)
        elif kind == "binary":
            y = self.pick()
            try:
                out = list(np.broadcast_shapes(tuple(s), tuple(self.shapes[y])))
            except ValueError:
                return self.add(s, f"{x} * 0.5 + {x}")
            if np.prod(out) < 20000:
                self.add(out, f"{x} {self.r.choice(['+', '-', '*'])} {y}" if self.r.random() < 0.7 else f"paddle.maximum({x}, {y})")
        elif kind == "number":
            self.add(s, f"{x} {self.r.choice(['+', '*', '-', '/'])} {self.r.choice([1.0, 2.0, 0.5, -1.0, 1.7, 3])}")
        elif kind in ("reduce", "mean") and n:
            keep = self.r.random() < 0.5
            f = "mean" if kind == "mean" else self.r.choice(["sum", "max", "min", "sum"])
            self.add([1 if k == axis else v for k, v in enumerate(s)] if keep else s[:axis] + s[axis + 1:],
                     f"paddle.{f}({x}, axis={axis}, keepdim={keep})")
        elif kind == "transpose" and n > 1:
            p = self.r.sample(range(n), n)
            self.add([s[k] for k in p], f"{x}.transpose({p})")
        elif kind == "reshape" and n:
            self.add([int(np.prod(s))] if self.r.random() < 0.5 else [s[0], int(np.prod(s[1:]))],
                     f"{x}.reshape([-1])" if self.r.random() < 0 else f"{x}.reshape({[int(np.prod(s))]})")
            if self.shapes[list(self.shapes)[-1]] != [int(np.prod(s))]:
                self.shapes[list(self.shapes)[-1]] = [int(np.prod(s))]
        elif kind == "slice" and n and s[axis] > 1:
            a = self.r.randrange(s[axis] - 1)
            step = self.r.choice([1, 1, 2])
            text = ", ".join([":"] * axis + [f"{a}::{step}"])
            self.add([len(range(a, v, step)) if k == axis else v for k, v in enumerate(s)], f"{x}[{text}]")
        elif kind == "concat" and n and np.prod(s) < 5000:
            self.add([2 * v if k == axis else v for k, v in enumerate(s)], f"paddle.concat([{x}, {x} * 2.0], axis={axis})")
        elif kind == "softmax" and n:
            self.add(s, f"F.softmax({x}, axis={axis})")
        elif kind == "matmul" and n > 1:
            self.exact = False
            self.add(s[:-1] + [s[-2]], f"paddle.matmul({x}, {x}, transpose_y=True) * 0.1")
        elif kind == "inplace" and x not in self.inputs:
            self.lines.append(f"{x}.add_({x} * 0.25)" if self.r.random() < 0.5 else f"{x}.scale_(0.5)")
        elif kind == "set" and n and x not in self.inputs:
            self.lines.append(f"{x}[{self.r.randrange(s[0])}] = {self.r.choice(['0.5', f'{x}[0] * 2.0'])}")
        elif kind == "read":
            self.lines.append(self.r.choice([f"{x}.numpy()", f"{x}.sum().item()", "paddle._core.run_pending()"]))
        elif kind == "detach":
            self.add(s, self.r.choice([f"{x}.detach() * 0.5 + {x}", f"{x}.detach()"]))
        elif kind == "where":
            self.add(s, f"paddle.where({x} > 0.1, {x}, {x} * -0.5)")
        elif kind == "cast":
            self.add(s, f"{x}.astype('{self.r.choice(['bfloat16', 'float64'])}').astype('float32')")
        elif kind == "expand" and n < 4:
            k = self.r.choice([1, 2, 3])
            self.add([k] + s, f"{x}.expand({[k] + s})")
        elif kind == "gather" and n:
            index = [self.r.randrange(s[axis]) for _ in range(self.r.randint(1, 4))]
            self.add([len(index) if k == axis else v for k, v in enumerate(s)],
                     f"paddle.index_select({x}, paddle.to_tensor({index}), axis={axis})")
        elif kind == "cumsum" and n:
            self.add(s, f"paddle.cumsum({x}, axis={axis})")
        elif kind == "flip" and n:
            self.add(s, f"paddle.flip({x}, [{axis}])")

    def text(self):
        head = [f"{k} = input({v})" for k, v in self.inputs.items()]
        return "\n".join(head + self.lines)

    def run(self, seed):
        """Live tensors at the end and gradients of the inputs, as arrays."""
        rng = np.random.default_rng(seed)
        scope = {"paddle": paddle, "F": F}
        for k, v in self.inputs.items():
            scope[k] = paddle.to_tensor(rng.standard_normal(v).astype("float32"), stop_gradient=False)
        keep = list(self.shapes)[::3] + list(self.shapes)[-1:]
        for line in self.lines:
            exec(line, scope)
        loss = sum((scope[k].astype("float32") * 0.37).sum() for k in keep)
        loss.backward()
        grads = [scope[k].grad for k in self.inputs]
        for k in list(scope):
            if k.startswith("t") and k not in keep and k not in self.inputs:
                del scope[k]  # dead values are not outputs
        return ([scope[k].numpy() for k in keep] + [g.numpy() for g in grads if g is not None] + [loss.numpy()])


def failures(seed):
    """Modes in which program ``seed`` differs from its lazy run."""
    program = Program(seed)
    base = program.run(seed)
    bad = []
    for name, (flag, value) in MODES.items():
        old = _core.get_flag(flag)
        _core.set_flag(flag, value)
        try:
            other = program.run(seed)
        except Exception as e:  # noqa: BLE001
            bad.append(f"{name}: {type(e).__name__}: {e}")
            continue
        finally:
            _core.set_flag(flag, old)
        for k, (a, b) in enumerate(zip(base, other)):
            if a.shape != b.shape or not np.allclose(a, b, rtol=2e-4, atol=2e-4 * max(1.0, float(np.abs(b).max(initial=0))), equal_nan=True):
                worst = float(np.abs(a.astype(float) - b).max()) if a.shape == b.shape else (a.shape, b.shape)
                bad.append(f"{name}: result {k} differs by {worst}")
                break
    return bad


@pytest.mark.parametrize("block", range(8))
def test_random_programs(block):
    for seed in range(block * 40, block * 40 + 40):
        bad = failures(seed)
        assert not bad, f"seed {seed}: {bad}\n{Program(seed).text()}"


if __name__ == "__main__":
    first, last = (int(a) for a in sys.argv[1:3])
    for s in range(first, last):
        try:
            found = failures(s)
        except Exception as e:  # noqa: BLE001
            found = [f"lazy: {type(e).__name__}: {e}"]
        if found:
            print(s, found)
