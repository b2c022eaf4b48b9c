# SPDX-License-Identifier: Apache-2.0
"""Damaged models must raise, never end the process: ONNX's recorded cases with random attributes, shapes, dtypes and inputs.

    python tests/oracle/onnx_mutate.py [N=2000] [SEED=0]     (needs onnx and yuloh; prints what ended a worker or hung)
"""
import io
import json
import os
import pathlib
import random
import resource
import select
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

ARCHIVE = pathlib.Path(__file__).parents[1] / "data" / "onnx_cases.zip"
INTS = [0, -1, 1, 2, 3, -5, 7, 64, 1 << 31, 1 << 40, -(1 << 62), (1 << 63) - 1]
HELD = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}


def mutate(m, feeds, rng):
    import onnx
    for _ in range(rng.choice([1, 1, 2])):
        node = rng.choice(m.graph.node)
        kind = rng.random()
        ints = [a for a in node.attribute if a.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS, onnx.AttributeProto.FLOAT)]
        if kind < .4 and ints:
            a = rng.choice(ints)
            if a.type == onnx.AttributeProto.INT:
                a.i = rng.choice(INTS)
            elif a.type == onnx.AttributeProto.FLOAT:
                a.f = rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e30])
            elif rng.random() < .5 and a.ints:
                a.ints[rng.randrange(len(a.ints))] = rng.choice(INTS)
            else:
                new = [rng.choice(INTS[:6]) for _ in range(rng.randrange(5))]
                del a.ints[:]
                a.ints.extend(new)
        elif kind < .5 and node.attribute:
            del node.attribute[rng.randrange(len(node.attribute))]
        elif kind < .6 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(["", *[p.name for p in m.graph.input]])
        elif kind < .7:
            node.op_type = rng.choice(["Conv", "Reshape", "Gather", "Attention", "LSTM", "Resize", "TopK", "DepthToSpace", "MaxPool", "GRU", "Pad"])
        elif feeds:
            k = rng.randrange(len(feeds))
            x = feeds[k]
            what = rng.random()
            if what < .35:
                shape = [rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randrange(6))]
                x = np.resize(x, shape).astype(x.dtype) if x.size else np.zeros(shape, x.dtype)
            elif what < .7 and x.dtype.kind == "i" and x.size:
                x = np.array(x)
                x.flat[rng.randrange(x.size)] = rng.choice([v for v in INTS if abs(v) < 100] if x.dtype.itemsize < 8 else INTS)
            else:
                x = x.astype(rng.choice([np.float32, np.int64, np.bool_, np.uint8, np.float64]))
            feeds[k] = x
            if k < len(m.graph.input):
                m.graph.input[k].CopyFrom(onnx.helper.make_tensor_value_info(m.graph.input[k].name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), None))
    return m, feeds


def make(n, seed):
    import onnx
    rng = random.Random(seed)
    with zipfile.ZipFile(ARCHIVE) as z:
        index = json.loads(z.read("cases.json"))
        names = sorted(k for k, c in index.items() if all(t in ("float32", "int64", "int32", "bool", "uint8", "int8", "float64", "float16") for t in c["types"].values()))
        for k in range(n):
            name = names[k % len(names)]
            arrays = np.load(io.BytesIO(z.read(name + ".npz")))
            yield name, *mutate(onnx.load_from_string(z.read(name + ".onnx")), [arrays[f"i{j}"] for j in range(index[name]["inputs"])], rng)


def worker(folder):
    import yuloh
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    for line in sys.stdin:
        data = np.load(line.strip() + ".npz")
        try:
            m = yuloh.onnx.load(line.strip() + ".onnx")
            for o in m(*[data[k] for k in sorted(data.files)][:len(m.inputs)]):
                if hasattr(o, "numpy"):
                    o.numpy()
            print("ran", flush=True)
        except Exception as e:
            print(type(e).__name__, str(e).splitlines()[0][:150] if str(e) else "", flush=True)


def main(n, seed):
    counts, bad = {}, []
    with tempfile.TemporaryDirectory() as tmp:
        proc = None
        for k, (name, m, feeds) in enumerate(make(n, seed)):
            if proc is None or proc.poll() is not None:
                proc = subprocess.Popen([sys.executable, __file__, "--worker", tmp], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            path = os.path.join(tmp, f"m{k}")
            with open(path + ".onnx", "wb") as f:
                f.write(m.SerializeToString())
            np.savez(path + ".npz", **{f"i{j:02}": x for j, x in enumerate(feeds)})
            proc.stdin.write(path + "\n")
            proc.stdin.flush()
            ready = select.select([proc.stdout], [], [], 60)[0]
            line = proc.stdout.readline().strip() if ready else ""
            if not line:
                if not ready:
                    proc.kill()
                proc.wait()
                bad.append((name, proc.returncode if ready else "hung", [x.shape for x in feeds], str(m.graph.node)[:600].replace("\n", " ")))
                print(*bad[-1], sep=" | ", flush=True)
                keep = os.environ.get("KEEP")
                if keep:
                    for end in (".onnx", ".npz"):
                        os.replace(path + end, os.path.join(keep, f"bad{k}{end}"))
                proc = None
            else:
                counts[line.split()[0]] = counts.get(line.split()[0], 0) + 1
    print(counts)
    print(f"{n} damaged models, {len(bad)} ended or hung the process")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2])
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
