# SPDX-License-Identifier: Apache-2.0
"""How the parity references are packed: states, fingerprints and the arithmetic shared by recorder and checker.

Parity room; NumPy only. Twenty full states of a network are megabytes, so a state is kept as a coarse difference
from the state before it, *closed loop*: the recorder always codes (Paddle's free-running value - what the reader
has so far), so errors do not add up, and then lets Paddle take the step from exactly the state that the reader will
have. Loss, gradients and updates in the file are thus Paddle's own from a state equal to the reader's to the last
bit, at most a fraction of one update away from Paddle's free run. Adam's moments are made by both sides from
coarsely coded gradients with the float32 recurrence below. A gradient or update is kept as its norm and a few
products with fixed Gaussian vectors; their root mean square measures the norm of a difference.
"""

import zlib

import numpy as np

K_PRODUCTS = 4  # Gaussian products kept for each tensor
BETA1, BETA2 = np.float32(0.9), np.float32(0.999)
# How finely each kind of value is coded: levels below a tensor's largest element, as parts of it; smaller is 0.
LEVELS = {
    "moved": np.array([0.0] + [k * 2.0**-o for o in range(6) for k in (1.0, 0.75)], "float32"),
    "gradient": np.array([0.0] + [2.0**-o for o in range(6)], "float32"),
    "correction": np.array([0.0, 1.0, 0.5, 0.25], "float32"),
}


def encode(x, kind):
    """Coarse code of a float32 array: (int8 codes of x's shape, float32 scale)."""
    scale = np.float32(np.max(np.abs(x))) if x.size else np.float32(0)
    if not scale > 0:
        return np.zeros(x.shape, "int8"), np.float32(0)
    levels = LEVELS[kind].astype("float64")
    ratio = np.abs(x, dtype="float64") / np.float64(scale)
    code = 1 + np.searchsorted(-(levels[2:] + levels[1:-1]) / 2, -ratio)
    code = np.where(ratio < levels[-1] / 2, 0, code)
    return (code * np.sign(x)).astype("int8"), scale


def decode(codes, scale, kind):
    """float32 array that ``encode`` stands for; exact, the same on every machine."""
    return (np.sign(codes).astype("float32") * LEVELS[kind][np.abs(codes)]) * np.float32(scale)


def next_moments(m, v, grad):
    """Adam's moments after ``grad``, in float32 with this fixed order of operations."""
    one = np.float32(1)
    return BETA1 * m + (one - BETA1) * grad, BETA2 * v + (one - BETA2) * (grad * grad)


def beta_powers(step):
    """Paddle's two accumulators before step ``step`` (0-based): beta^(step + 1), multiplied up in float32."""
    p1, p2 = BETA1, BETA2
    for _ in range(step):
        p1, p2 = p1 * BETA1, p2 * BETA2
    return p1, p2


_directions = {}


def _direction(name, size):
    key = (name, size)
    if key not in _directions:
        draw = np.random.RandomState(zlib.crc32(name.encode()))
        _directions[key] = draw.standard_normal((K_PRODUCTS, size)).astype("float32")
    return _directions[key]


def fingerprint(name, x):
    """float32 [1 + K_PRODUCTS]: Euclidean norm of ``x`` and its products with fixed directions for ``name``."""
    flat = np.asarray(x, "float64").ravel()
    products = [float(np.dot(d, flat)) for d in _direction(name, flat.size)]
    return np.array([np.sqrt(np.dot(flat, flat))] + products, "float32")


def distance(a, b):
    """Estimated Euclidean norm of the difference of two tensors, from their fingerprints."""
    d = a[1:].astype("float64") - b[1:]
    return float(np.sqrt(np.mean(d * d)))


def one_rounding(x, seed, times=1):
    """Every element but 0 moved ``times`` neighbouring float32 numbers, up or down by a seeded coin."""
    zero, up = x == 0, np.random.RandomState(seed).randint(0, 2, x.shape).astype(bool)
    for _ in range(times):
        x = np.where(up, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf)))
    return np.where(zero, np.float32(0), x).astype("float32")


def seeded_weights(shapes):
    """Initial values for {name: shape} where no file keeps them: scaled Gaussian weights, 1 for scales, 0 for shifts."""
    out = {}
    for name, shape in shapes.items():
        draw = np.random.RandomState(zlib.crc32(name.encode()))
        if name.endswith("_variance"):
            out[name] = np.ones(shape, "float32")
        elif len(shape) == 1:
            fill = 1.0 if name.endswith("weight") else 0.0
            out[name] = np.full(shape, fill, "float32")
        else:
            fan_in = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
            out[name] = (draw.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype("float32")
    return out


def adam_update(w, grad, m, v, step, rate, epsilon=1e-8):
    """What Adam adds to ``w`` at ``step`` from moments ``m``, ``v`` before it, and how far float32 may be from it.

    Returns two float64 arrays of w's shape, made with exactly rounded operations only (the same on every machine).
    The slack holds the float32 rounding of 1 - beta2^t (1e-4 relative is generous), of the sum in the first moment
    (which may cancel), and of the addition to w.
    """
    b1, b2, p1, p2 = 0.9, 0.999, 1.0, 1.0
    for _ in range(step + 1):
        p1, p2 = p1 * b1, p2 * b2
    old, new = b1 * m.astype("float64"), (1 - b1) * grad.astype("float64")
    v = b2 * v.astype("float64") + (1 - b2) * np.square(grad.astype("float64"))
    gain = rate / (1 - p1) / (np.sqrt(v) / np.sqrt(1 - p2) + epsilon)
    update = -gain * (old + new)
    slack = 1e-4 * np.abs(update) + 1e-6 * gain * (np.abs(old) + np.abs(new)) + 2e-7 * np.abs(w) + 1e-12
    return update, slack


class Reader:
    """Replays the states before each step from the initial state; ``coded`` is None for the recorder.

    ``state`` {name: float32 array}; ``moments`` {name: (m, v)} or None for SGD.
    """

    def __init__(self, start, trained, kind, rate, coded):
        self.state, self.trained, self.rate, self.coded = dict(start), trained, rate, coded
        self.step = 0
        self.moments = {n: (np.zeros_like(start[n]),) * 2 for n in trained} if kind == "adam" else None

    def piece(self, key, kind, fresh):
        """The next coded array of ``key``: from the file, or coded now from ``fresh()`` where we are recording."""
        if isinstance(self.coded, Recorded):
            codes, scale = self.coded.get(key, self.step)
        else:
            codes, scale = encode(fresh(), kind)
            self.coded.setdefault(key, []).append(codes)
            self.coded.setdefault(key + "|scale", []).append(scale)
        return decode(codes, scale, kind)

    def advance(self, grads=None, target=None):
        """Goes to the state before the next step. The recorder gives this step's gradients and where to go."""
        for n, w in self.state.items():
            kind = "moved"
            if self.moments and n in self.trained:
                g = self.piece("g|" + n, "gradient", lambda n=n: grads[n])
                w = w + adam_update(w, g, *self.moments[n], self.step, self.rate)[0].astype("float32")
                self.moments[n] = next_moments(*self.moments[n], g)
                kind = "correction"
            self.state[n] = w + self.piece("w|" + n, kind, lambda n=n, w=w: target[n] - w)
        self.step += 1


class Recorded:
    """Arrays of one reference file (an opened npz), each read once."""

    def __init__(self, path):
        with np.load(path) as f:
            self.arrays = {k: f[k] for k in f.files}

    def __getitem__(self, key):
        return self.arrays[key]

    def get(self, key, step):
        return self.arrays[key][step], self.arrays[key + "|scale"][step]
