# SPDX-License-Identifier: Apache-2.0
"""What `paddle.onnx.export` of Yuloh writes, checked by onnx and run by ONNX Runtime: the largest difference of every model.

    python tests/oracle/check_onnx_export.py save DIR [OPSET] [NAME...]    with Yuloh
    python tests/oracle/check_onnx_export.py load DIR                      with a Python that has onnx and onnxruntime
"""
import pathlib
import sys

import numpy as np

DIR = pathlib.Path(sys.argv[2])


def save():
    import export_models
    import yuloh as paddle

    opset = int(sys.argv[3]) if len(sys.argv) > 3 else None
    for name, (make, spec, inputs) in export_models.models().items():
        if sys.argv[4:] and name not in sys.argv[4:]:
            continue
        paddle.seed(1)
        net = make()
        if isinstance(net, paddle.nn.Layer):
            net.eval()
        try:
            paddle.onnx.export(net, str(DIR / name), input_spec=spec, **({"opset_version": opset} if opset else {}))
        except Exception as error:
            print(f"{name:24} not written: {type(error).__name__} {error}")
            continue
        for k, xs in enumerate(inputs):
            ys = net(*[paddle.to_tensor(x) for x in xs])
            ys = ys if isinstance(ys, (list, tuple)) else [ys]
            np.savez(DIR / f"{name}.{k}.npz", **{f"x{i:02}": x for i, x in enumerate(xs)}, **{f"y{i:02}": y.numpy() for i, y in enumerate(ys)})


def load():
    import onnx
    import onnxruntime

    worst, failed = 0.0, []
    for file in sorted(DIR.glob("*.onnx")):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            if file.stat().st_size < 1 << 28:
                onnx.checker.check_model(str(file), full_check=True)
            session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            off = 0.0
            for data in sorted(DIR.glob(f"{file.stem}.*.npz")):
                io = np.load(data)
                names = [i.name for i in session.get_inputs()]
                ys = session.run(None, dict(zip(names, [io[k] for k in sorted(io.files) if k[0] == "x"])))
                want = [io[k] for k in sorted(io.files) if k[0] == "y"]
                assert [y.shape for y in ys] == [w.shape for w in want], f"{file.stem}: shapes {[y.shape for y in ys]} {[w.shape for w in want]}"
                assert [y.dtype for y in ys] == [w.dtype for w in want], file.stem
                for y, w in zip(ys, want):
                    assert (np.isnan(y.astype("float64")) == np.isnan(w.astype("float64"))).all(), f"{file.stem}: NaN"
                    y, w = (np.nan_to_num(v.astype("float64"), posinf=1e30, neginf=-1e30) for v in (y, w))
                    off = max(off, float(np.abs(y - w).max() / max(1e-12, np.abs(w).max())) if w.size else 0.0)
        except Exception as error:
            failed.append(file.stem)
            print(f"{file.stem:24} {type(error).__name__}: {str(error)[:300]}")
            continue
        worst = max(worst, off)
        print(f"{file.stem:24} {off:.2e}{'' if off <= 1e-5 else '   <-- above 1e-5'}")
    print(f"{'worst':24} {worst:.2e}, {len(failed)} failed {failed}")
    sys.exit(worst > 1e-5 or bool(failed))


if __name__ == "__main__":
    DIR.mkdir(parents=True, exist_ok=True)
    {"save": save, "load": load}[sys.argv[1]]()
