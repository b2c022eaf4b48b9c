# SPDX-License-Identifier: Apache-2.0
"""ONNX's own backend test cases (all 2,033 of onnx 1.23) through yuloh.onnx: pass rate by operator, reasons of the rest.

Runs in an environment with the onnx wheel and with yuloh on the path:
    python tests/oracle/onnx_backend.py [-k PART_OF_NAME] [--cache FOLDER] [--list] [--record FILE]
Element types that yuloh holds in a wider one are compared by value; everything else by ONNX's own rule (dtype, shape,
rtol and atol of the case). The cases run in a process of their own that is started again should one of them end it.
`--record` writes the reduced set that tests/python/test_onnx_cases.py replays without onnx.
"""
import argparse
import collections
import glob
import os
import pickle
import subprocess
import sys
import tempfile
import traceback

import numpy as np

HELD = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}


def prepare(folder):
    """One pickle per case: model bytes, inputs, expected outputs, tolerances."""
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.loader import load_model_tests
    from onnx.backend.test.runner import Runner

    def value(path, kind):
        data = open(path, "rb").read()
        which = kind.WhichOneof("value")
        if which == "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        if which == "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        return numpy_helper.to_array(onnx.TensorProto.FromString(data))

    def plain(x):
        return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x

    os.makedirs(folder, exist_ok=True)
    names = []
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator", "real"):
        for case in load_model_tests(kind=kind):
            names.append((kind, case.name))
            sets = []
            if case.model_dir:
                model = onnx.load(os.path.join(case.model_dir, "model.onnx"))
                for d in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set_*"))):
                    ins = [value(os.path.join(d, f"input_{i}.pb"), p.type) for i, p in enumerate(model.graph.input)
                           if os.path.exists(os.path.join(d, f"input_{i}.pb"))]
                    outs = [value(os.path.join(d, f"output_{i}.pb"), p.type) for i, p in enumerate(model.graph.output)]
                    sets.append((ins, outs))
            elif case.url:
                path = os.path.join(os.path.dirname(os.path.dirname(onnx.__file__)), case.url)
                model = onnx.load(path)
                weights = {w.name for w in model.graph.initializer}
                ins = [Runner.generate_dummy_data(p, seed=0, name=case.model_name, random=False)
                       for p in model.graph.input if p.name not in weights]
                sets.append((ins, [value(f"{path[:-5]}_output_{i}.pb", p.type) for i, p in enumerate(model.graph.output)]))
            else:
                model = case.model
                sets = case.data_sets
            sets = [([plain(x) for x in ins], [plain(x) for x in outs]) for ins, outs in sets]
            body = [n.op_type for n in model.graph.node]
            with open(os.path.join(folder, case.name + ".pkl"), "wb") as f:
                pickle.dump({"model": model.SerializeToString(), "sets": sets, "rtol": case.rtol, "atol": case.atol,
                             "ops": body, "kind": kind}, f)
    with open(os.path.join(folder, "names.pkl"), "wb") as f:
        pickle.dump(names, f)


def fed(x):
    import yuloh
    if isinstance(x, (list, tuple)):
        return [fed(v) for v in x]
    if x is None:
        return None
    x = np.asarray(x)
    if x.dtype == object or x.dtype.kind in "US":
        raise NotImplementedError("strings are not supported")
    name = x.dtype.name
    if name == "bfloat16":
        return yuloh.to_tensor(x.astype(np.float32)).astype("bfloat16")
    if name.startswith("float8") or name.startswith("float4"):
        return yuloh.to_tensor(x.astype(np.float32))
    if name in ("uint4", "int4", "uint2", "int2"):
        return yuloh.to_tensor(x.astype(np.uint8 if name[0] == "u" else np.int8))
    if name in HELD:
        return yuloh.to_tensor(x.astype(HELD[name]))
    return yuloh.to_tensor(x)


def compare(out, want, rtol, atol):
    if isinstance(want, (list, tuple)):
        assert isinstance(out, list) and len(out) == len(want), f"a list of {len(want)} was expected"
        for o, w in zip(out, want):
            compare(o, w, rtol, atol)
        return
    if want is None:
        assert out is None, "no value was expected"
        return
    if isinstance(out, list) and len(out) == 1:
        out = out[0]
    want = np.asarray(want)
    name = want.dtype.name
    if name == "bfloat16":
        assert out.dtype.name == "bfloat16", out.dtype
        out, want, rtol = out.astype("float32").numpy(), want.astype(np.float32), max(rtol, 2**-6)
    else:
        out = out.numpy()
        if name.startswith(("float8", "float4")):
            want = want.astype(np.float32)
        elif name in ("uint4", "int4", "uint2", "int2"):
            want = want.astype(np.uint8 if name[0] == "u" else np.int8)
        elif name in HELD:
            want = want.astype(HELD[name])
    np.testing.assert_array_equal(out.shape, want.shape, err_msg="shape")
    assert out.dtype == want.dtype, f"dtype {out.dtype}, expected {want.dtype}"
    np.testing.assert_allclose(out, want, rtol=rtol, atol=atol)


def run_case(case, path):
    import yuloh
    with open(path, "wb") as f:
        f.write(case["model"])
    model = yuloh.onnx.load(path)
    served = None
    if os.environ.get("YULOH_CASES") == "predictor":
        served = yuloh.inference.create_predictor(yuloh.inference.Config(path))
    for ins, outs in case["sets"]:
        feeds = [fed(x) for x in ins][:len(model.inputs)]
        got = served.run(feeds) if served else model(*feeds)
        assert len(got) == len(outs), f"{len(got)} outputs, expected {len(outs)}"
        for o, w in zip(got, outs):
            compare(o, w, case["rtol"], case["atol"])


def held(x):
    """(array in a dtype of NumPy's own, element type) as the replaying test feeds and compares it."""
    x = np.asarray(x)
    name = x.dtype.name
    if name == "bfloat16" or name.startswith(("float8", "float4")):
        return x.astype(np.float32), name
    if name in ("uint4", "int4", "uint2", "int2"):
        return x.astype(np.uint8 if name[0] == "u" else np.int8), name
    return x, name


def record(folder, passed, path):
    """At most three small cases of every set of operators, as a zip of NAME.onnx, NAME.npz and cases.json."""
    import io
    import json
    import zipfile
    taken, index = collections.Counter(), {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name in sorted(passed, key=lambda n: (os.path.getsize(os.path.join(folder, n + ".pkl")), n)):
            case = pickle.load(open(os.path.join(folder, name + ".pkl"), "rb"))
            key = tuple(sorted(set(case["ops"])))
            flat = [v for ins, outs in case["sets"] for v in ins + outs]
            size = len(case["model"]) + sum(np.asarray(v).nbytes if isinstance(v, np.ndarray) else 1 << 30 for v in flat)
            if taken[key] >= 3 or size > 12_000 or len(key) > 8:
                continue
            ins, outs = case["sets"][0]
            arrays, types = {}, {}
            for tag, values in (("i", ins), ("o", outs)):
                for k, v in enumerate(values):
                    arrays[f"{tag}{k}"], types[f"{tag}{k}"] = held(v)
            data = io.BytesIO()
            np.savez(data, **arrays)
            for suffix, content in ((".onnx", case["model"]), (".npz", data.getvalue())):
                z.writestr(zipfile.ZipInfo(name + suffix), content, zipfile.ZIP_DEFLATED)
            index[name] = {"types": types, "inputs": len(ins), "outputs": len(outs), "rtol": case["rtol"], "atol": case["atol"], "ops": key}
            taken[key] += 1
        z.writestr(zipfile.ZipInfo("cases.json"), json.dumps(index), zipfile.ZIP_DEFLATED)
    print(f"recorded {len(index)} cases of {len(taken)} sets of operators, {os.path.getsize(path)} bytes")


def worker(folder):
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "model.onnx")
        for line in sys.stdin:
            name = line.strip()
            case = pickle.load(open(os.path.join(folder, name + ".pkl"), "rb"))
            try:
                run_case(case, path)
                print("ok", flush=True)
            except NotImplementedError as e:
                print("no\t" + str(e).splitlines()[0][:200], flush=True)
            except BaseException as e:
                if os.environ.get("TRACE"):
                    traceback.print_exc()
                text = " ".join(str(e).split())
                print(f"bad\t{type(e).__name__}: {text[:260]}", flush=True)


def results(folder, names):
    """Yields (name, status, reason)."""
    proc = None
    for name in names:
        if proc is None or proc.poll() is not None:
            proc = subprocess.Popen([sys.executable, __file__, "--worker", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        proc.stdin.write(name + "\n")
        proc.stdin.flush()
        line = proc.stdout.readline().rstrip("\n")
        if not line:
            proc.wait()
            yield name, "crash", f"the process ended with {proc.returncode}"
            proc = None
            continue
        status, _, reason = line.partition("\t")
        yield name, status, reason
    if proc:
        proc.stdin.close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-k", default="")
    p.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "onnx_backend_cases"))
    p.add_argument("--worker")
    p.add_argument("--predictor", action="store_true", help="compiled ahead on placeholders (yuloh.inference) instead of called")
    p.add_argument("--list", action="store_true", help="every failing case with its reason")
    p.add_argument("--by-op", action="store_true")
    p.add_argument("--record")
    a = p.parse_args()
    if a.worker:
        return worker(a.worker)
    if a.predictor:
        os.environ["YULOH_CASES"] = "predictor"
    if not os.path.exists(os.path.join(a.cache, "names.pkl")):
        prepare(a.cache)
    names = pickle.load(open(os.path.join(a.cache, "names.pkl"), "rb"))
    chosen = [n for _, n in names if a.k in n]
    kind = {n: k for k, n in names}
    by_op, totals, reasons, passed = collections.defaultdict(collections.Counter), collections.Counter(), collections.Counter(), []
    for name, status, reason in results(a.cache, chosen):
        case = pickle.load(open(os.path.join(a.cache, name + ".pkl"), "rb")) if a.by_op or a.record else None
        if case:
            for op in set(case["ops"]):
                by_op[op][status] += 1
        totals[status] += 1
        totals[kind[name], status] += 1
        if status == "ok":
            passed.append(name)
        else:
            reasons[reason[:110]] += 1
            if a.list or a.k:
                print(f"{name}: {status} {reason}")
    if a.by_op:
        for op, c in sorted(by_op.items()):
            print(f"{op:28} {c['ok']:4} of {sum(c.values()):4}")
    if a.list:
        for reason, n in reasons.most_common():
            print(f"{n:4}  {reason}")
    for k in ("node", "simple", "pytorch-converted", "pytorch-operator", "real"):
        n = sum(v for key, v in totals.items() if isinstance(key, tuple) and key[0] == k)
        if n:
            print(f"{k:20} {totals[k, 'ok']:5} of {n:5}")
    n = sum(v for key, v in totals.items() if isinstance(key, str))
    print(f"passed {totals['ok']} of {n} = {100 * totals['ok'] / max(n, 1):.1f} %; unsupported {totals['no']}, wrong {totals['bad']}, crashed {totals['crash']}")
    if a.record:
        record(a.cache, passed, a.record)


if __name__ == "__main__":
    main()
