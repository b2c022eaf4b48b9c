# SPDX-License-Identifier: Apache-2.0
"""What Yuloh writes in Paddle's formats, loaded by PaddlePaddle 3.3.1: the largest difference of every model.

    python tests/oracle/check_saved.py save DIR [NAME...]     with Yuloh: NAME.json and old/NAME.pdmodel with .pdiparams
    python tests/oracle/check_saved.py load DIR               with a Python that has paddlepaddle 3.3.1
    python tests/oracle/check_saved.py old DIR                the same for the files of the older format: predictor as it comes
    python tests/oracle/check_saved.py plain DIR              and with its passes and oneDNN off
    python tests/oracle/check_saved.py oldjit DIR             and by jit.load
"""
import os
import pathlib
import sys

import numpy as np

DIR = pathlib.Path(sys.argv[2])


def save():
    import export_models
    import yuloh as paddle
    from yuloh import _core
    from yuloh.jit.save_load import function_of, program_of

    (DIR / "old").mkdir(parents=True, exist_ok=True)
    for name, (make, spec, inputs) in export_models.models().items():
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        paddle.seed(1)
        net = make()
        if isinstance(net, paddle.nn.Layer):
            net.eval()
        try:
            program = program_of(function_of(net, "check"), spec)
            for path in (DIR / f"{name}.json", DIR / "old" / f"{name}.pdmodel"):
                _core.write_model(program, str(path))
        except Exception as error:
            print(f"{name:24} not written: {type(error).__name__} {error}")
            continue
        for k, xs in enumerate(inputs):
            ys = net(*[paddle.to_tensor(x) for x in xs])
            ys = ys if isinstance(ys, (list, tuple)) else [ys]
            np.savez(DIR / f"{name}.{k}.npz", **{f"x{i:02}": x for i, x in enumerate(xs)}, **{f"y{i:02}": y.numpy() for i, y in enumerate(ys)})


def runner(file):
    if sys.argv[1] in ("load", "oldjit"):
        import paddle

        net = paddle.jit.load(str(file.with_suffix("")))
        net.eval()

        def run(xs):
            ys = net(*[paddle.to_tensor(x) for x in xs])
            return [y.numpy() for y in (ys if isinstance(ys, (list, tuple)) else [ys])]

        return run
    from paddle import inference

    params = file.with_suffix(".pdiparams")
    config = inference.Config(str(file), str(params) if params.exists() else "")
    config.disable_glog_info()
    if sys.argv[1] == "plain":
        config.disable_mkldnn()
        config.switch_ir_optim(False)
    predictor = inference.create_predictor(config)

    def run(xs):
        for name, x in zip(predictor.get_input_names(), xs):
            predictor.get_input_handle(name).copy_from_cpu(x)
        predictor.run()
        return [predictor.get_output_handle(n).copy_to_cpu() for n in predictor.get_output_names()]

    return run


def load():
    worst, failed = 0.0, []
    for file in sorted(DIR.glob("*.json") if sys.argv[1] == "load" else (DIR / "old").glob("*.pdmodel")):
        try:
            run, off = runner(file), 0.0
            for data in sorted(DIR.glob(f"{file.stem}.*.npz")):
                io = np.load(data)
                ys = run([io[k] for k in sorted(io.files) if k[0] == "x"])
                want = [io[k] for k in sorted(io.files) if k[0] == "y"]
                assert [y.shape for y in ys] == [w.shape for w in want], f"shapes {[y.shape for y in ys]}; expected {[w.shape for w in want]}"
                for k, (y, w) in enumerate(zip(ys, want)):
                    assert (np.isnan(y.astype("float64")) == np.isnan(w.astype("float64"))).all(), f"NaN in {k}"
                    y, w = (np.nan_to_num(v.astype("float64"), posinf=1e30, neginf=-1e30) for v in (y, w))
                    off = max(off, float(np.abs(y - w).max() / max(1e-12, np.abs(w).max())) if w.size else 0.0)
        except Exception as error:
            failed.append(file.stem)
            text = [line for line in str(error).splitlines() if "Error" in line or "error" in line]
            print(f"{file.stem:24} {type(error).__name__}: {(text or [str(error)])[-1][:300]}")
            continue
        worst = max(worst, off)
        print(f"{file.stem:24} {off:.2e}{'' if off <= 1e-5 else '   <-- above 1e-5'}", flush=True)
    print(f"{'worst':24} {worst:.2e}, {len(failed)} failed {failed}")
    sys.exit(worst > 1e-5 or bool(failed))


if __name__ == "__main__":
    if sys.argv[1] in ("old", "plain", "oldjit"):
        os.environ["FLAGS_enable_pir_api"] = "0"
    {"save": save}.get(sys.argv[1], load)()
