# SPDX-License-Identifier: Apache-2.0
"""What every contender gets alike: the same batches and the same initial weights, in NumPy only.

This file and its neighbours run inside the contender's own Python, which has no Yuloh: import nothing of ours
here.
"""

import zlib

import numpy as np

POOL = 16  # batches kept ready; the training loop goes round them


def batches(kind, batch, seed=0, images=None, pool=POOL):
    """List of (input, label) arrays of one kind: "cifar100", "digits", "tokens" or "sequences".

    cifar100: float32 [batch, 3, 32, 32] normalised to about [-1, 1], int64 [batch]; needs `images`, an .npz
    file with images uint8 [n, 3, 32, 32] and labels int64 [n]. The other kinds are drawn from the seed and
    can be learnt.
    """
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    if kind == "cifar100":
        with np.load(images) as f:
            pixels, labels = f["images"], f["labels"].astype(np.int64)
        pool = max(1, min(pool, len(labels) // batch))
        take = np.resize(rng.permutation(len(labels)), pool * batch)
        x = (pixels[take].astype(np.float32) - 127.5) / 127.5
        y = labels[take]
    elif kind == "digits":
        y = rng.integers(0, 10, pool * batch)
        shapes = np.random.default_rng(7).standard_normal((10, 1, 28, 28))
        x = (shapes[y] + 2.5 * rng.standard_normal((len(y), 1, 28, 28))).astype(np.float32)
    elif kind == "tokens":  # [batch, 128] tokens of a vocabulary of 8192; the label is the next token
        start = rng.integers(0, 8192, (pool * batch, 1))
        walk = (start + 17 * np.arange(129)[None, :]) % 8192
        x, y = walk[:, :-1], walk[:, 1:]
    elif kind == "sequences":  # [batch, 64] tokens of 1000; ten classes, told by which tokens are frequent
        y = rng.integers(0, 10, pool * batch)
        x = np.where(
            rng.random((len(y), 64)) < 0.3,
            y[:, None] * 100 + rng.integers(0, 20, (len(y), 64)),
            rng.integers(0, 1000, (len(y), 64)),
        )
    else:
        raise ValueError(
            f"batches: unknown kind, got {kind!r}; expected cifar100, digits, tokens or sequences."
        )
    dtype = np.int64 if x.dtype.kind == "i" else np.float32
    return [
        (np.ascontiguousarray(x[i : i + batch], dtype), np.ascontiguousarray(y[i : i + batch], np.int64))
        for i in range(0, pool * batch, batch)
    ]


def initial_weight(name, shape, seed=0):
    """float32 start value of a parameter from its (Paddle) name, shape and the seed: the same in every
    framework."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if "weight_ih" in name or "weight_hh" in name:
        bound = (4.0 / shape[0]) ** 0.5
        return rng.uniform(-bound, bound, shape).astype(np.float32)
    if len(shape) < 2:
        return (np.ones if name.endswith("weight") else np.zeros)(shape, np.float32)
    if "embed" in name:
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)
    fan_in = np.prod(shape[1:]) if len(shape) > 2 else 3 * shape[0]  # conv [out, in, h, w], linear [in, out]
    return rng.standard_normal(shape, dtype=np.float32) * np.float32((1.0 / fan_in) ** 0.5)


def exchange_weights(path, shapes, seed=0):
    """Weights {name: float32 array} of a model with these {name: shape}, by way of the .npz file at path.

    The first contender writes the file from the seed, later ones must ask for exactly the same names and
    shapes. Without a path the weights are made from the seed alone.
    """
    import os

    shapes = {name: tuple(int(n) for n in shape) for name, shape in shapes.items()}
    if path and os.path.exists(path):
        with np.load(path) as f:
            held = {name: f[name] for name in f.files}
        got = {name: a.shape for name, a in held.items()}
        if got != shapes:
            odd = sorted(n for n in set(got) | set(shapes) if got.get(n) != shapes.get(n))
            raise ValueError(
                f"exchange_weights: the models differ in {len(odd)} parameters, first {odd[0]!r}: "
                f"got shape {shapes.get(odd[0])}; expected {got.get(odd[0])}."
            )
        return held
    made = {name: initial_weight(name, shape, seed) for name, shape in shapes.items()}
    if path:
        scratch = f"{path}.{os.getpid()}.npz"
        np.savez(scratch, **made)
        os.replace(scratch, path)
    return made
