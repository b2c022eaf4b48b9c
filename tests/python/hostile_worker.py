# SPDX-License-Identifier: Apache-2.0
"""Test room: the process that test_hostile.py watches. Calls public functions with odd arguments, one line a call.

``python hostile_worker.py SHARD SHARDS FIRST`` prints ``{"call": number, "what": text}`` before each call and
``{"done": outcome}`` after it, so that a crash or hang is attributed to one call. Calls are deterministic.
"""

import inspect
import json
import random
import re
import resource
import sys
import zlib

import numpy as np

import yuloh as paddle

SHAPES = [(), (0,), (3,), (2, 3), (3, 3), (0, 3), (3, 0), (2, 3, 4), (2, 0, 4), (1,) * 9, (2, 3, 4, 5), (1, 3, 8, 8)]
SHAPES += [(0, 3, 8, 8), (2, 0, 8, 8), (2, 3, 0, 8), (1, 2, 1, 2, 1, 2, 1), (4, 3, 3, 3), (300,), (2, 3, 4, 4, 4)]
INTS = [0, 0, 1, 1, 2, 3, -1, -2, 4, 7, -7, 100, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1, 10**6]
FLOATS = [0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e308, 1e-320, 3]
TEXTS = ["mean", "sum", "none", "constant", "reflect", "NCHW", "NHWC", "valid", "bogus", "", "ij,jk->ik", "linear"]
DTYPES = ["float32"] * 5 + ["float64", "int64", "int32", "bool", "float16", "bfloat16", "uint8"]
WRONG = [None, "hello", [1, 2, 3], {"a": 1}, object, np.ones((2, 3), "float32")[::-1, ::-2], np.ones(2, ">f4"), b"abc"]
WRONG += [1 + 2j, 10**400, {1}, [[1, 2], [3]], np.int64(3), lambda x: x]
TENSOR_NAMES = set("x y input label weight index logits other a b mask values indices target self key query".split())
LIST_NAMES = set("shape axis perm axes kernel_size stride padding repeats size shifts pad starts ends strides".split())
SKIP = set("save load seed set_device set_flags set_default_dtype set_grad_enabled summary flops Tensor grad".split())
SKIP |= set("enable_grad no_grad set_rng_state set_cuda_rng_state set_printoptions enable_static run_check".split())


def targets():
    """[(name, function)] of paddle.*, F.* and Tensor methods."""
    found = []
    for scope, module in (("paddle", paddle), ("F", paddle.nn.functional), ("Tensor", paddle.Tensor)):
        for name in sorted(dir(module)):
            f = getattr(module, name)
            if name[0] != "_" and name not in SKIP and callable(f) and not inspect.isclass(f):
                found.append((f"{scope}.{name}", f))
    return found


def parameters(f):
    """[(name, kind, optional)] from the schema of a row or the signature of a Python function."""
    schema = getattr(f, "schema", None)
    if isinstance(schema, str):
        words = re.findall(r"(?:value )?([\w\[\]?!]+) (\w+)(=)?", schema[schema.index("(") + 1 : schema.rindex(") ->")])
        return [(name, kind, bool(optional)) for kind, name, optional in words]
    try:
        signature = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return [("x", "Tensor", False)]
    result = []
    for p in signature:
        kind = "Tensor" if p.name in TENSOR_NAMES else "int[]" if p.name in LIST_NAMES else type(p.default).__name__
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "name":
            result.append((p.name, kind, p.default is not p.empty))
    return result


def make_tensor(r, shape, text):
    shape, dtype = shape if r.random() < 0.6 else r.choice(SHAPES), r.choice(DTYPES)
    fill = r.choice(["ones", "nan", "index", "normal"])
    values = np.random.RandomState(7).randn(*shape) if fill == "normal" else np.ones(shape)
    if fill == "nan":
        values = np.resize([np.nan, np.inf, -np.inf, 1e30, 0.0], shape)
    elif fill == "index":
        values = np.resize([0.0, 1, 2, -1, 1000, 2**40], shape)
    text.append(f"{dtype}{list(shape)}:{fill}")
    x = paddle.to_tensor(np.nan_to_num(values, posinf=5, neginf=-5) if "int" in dtype else values).astype(dtype)
    if "float" in dtype:
        x.stop_gradient = r.random() < 0.3
    return x


def make(r, kind, shape, text):
    if r.random() < 0.08:
        value = r.choice(WRONG)
    elif kind.startswith("Tensor["):
        return [make_tensor(r, shape, text) for _ in range(r.choice([0, 1, 2, 3]))]
    elif kind.startswith("Tensor"):
        return make_tensor(r, shape, text)
    elif kind.startswith("int["):
        value = [r.choice(INTS) for _ in range(r.choice([0, 1, 2, 2, 3, 4]))]
    elif kind.startswith("int"):
        value = r.choice(INTS)
    elif kind.startswith(("float", "number")):
        value = r.choice(FLOATS)
    elif kind.startswith("bool"):
        value = r.choice([True, False])
    elif kind.startswith("str"):
        value = r.choice(TEXTS)
    elif kind.startswith("dtype"):
        value = r.choice(DTYPES)
    else:
        value = r.choice([None, 1, 0.5, [1, 2]])
    text.append(repr(value)[:40])
    return value


def tensors(value):
    if isinstance(value, paddle.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value[:20]:
            yield from tensors(v)


def attempt(f, args, kwargs):
    """Calls, reads, differentiates; gradients must look like what they belong to."""
    results = [t for t in tensors(f(*args, **kwargs)) if "complex" not in str(t.dtype) and t.size < 10**7]
    total = None
    for t in results:
        t.numpy()
        if not t.stop_gradient:
            part = t.astype("float32").sum()
            total = part if total is None else total + part
    if total is not None:
        total.backward()
        for x in tensors(args + list(kwargs.values())):
            if x.grad is not None and (x.grad.shape != x.shape or x.grad.dtype != x.dtype):
                return f"the gradient is {x.grad.dtype}{x.grad.shape} of {x.dtype}{x.shape}"
            if x.grad is not None:
                x.grad.numpy()
    return "ok"


def main(shard, shards, first, rounds=20):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # a mistake here must not end other processes
    paddle._core.set_memory_limit(1 << 30)
    number = -1
    for name, f in targets()[shard::shards]:
        for k in range(rounds):
            number += 1
            if number < first:
                continue
            r, text, args, kwargs = random.Random(zlib.crc32(f"{name}/{k}".encode())), [], [], {}
            shape, keyword = r.choice(SHAPES), False
            for arg, kind, optional in parameters(f):
                if optional and r.random() < 0.5:
                    keyword = True
                    continue
                value = make(r, kind, shape, text)
                if keyword:
                    kwargs[arg] = value
                else:
                    args.append(value)
            print(json.dumps({"call": number, "what": f"{name}({', '.join(text)})"}), flush=True)
            try:
                outcome = attempt(f, args, kwargs)
            except Exception as error:  # any exception is an answer; its text is judged by the test
                outcome = f"{type(error).__name__}: {str(error)[:300]}"
            print(json.dumps({"done": outcome}), flush=True)
    print(json.dumps({"end": True}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
