# SPDX-License-Identifier: Apache-2.0
"""What `paddle.jit.save` of Yuloh writes, loaded by PaddlePaddle 3.3.1: the largest difference of every model.

    python tests/oracle/check_saved.py save DIR     with Yuloh
    python tests/oracle/check_saved.py load DIR     with a Python that has paddlepaddle 3.3.1
"""
import pathlib
import sys

import numpy as np

DIR = pathlib.Path(sys.argv[2])
ZOO = {
    "resnet18": 64, "mobilenet_v1": 96, "mobilenet_v2": 96, "mobilenet_v3_small": 96, "vgg11": 96, "squeezenet1_1": 96,
    "shufflenet_v2_x0_25": 96, "densenet121": 96, "googlenet": 224, "inception_v3": 299, "alexnet": 224,
}  # fmt: skip


def models():
    """{name: (make, input_spec, function of a RandomState that gives the inputs)}"""
    import yuloh as paddle

    spec = paddle.static.InputSpec
    source = (pathlib.Path(__file__).parent / "record_paddle_models.py").read_text()
    for old, new in (("import paddle  #", "import yuloh as paddle  #"), ("import paddle.nn", "import yuloh.nn"),
                     ("from paddle import nn", "from yuloh import nn"), ("OUT = pathlib.Path(sys.argv[2])", ""), ('OLD = sys.argv[1] == "program"', "OLD = False")):
        source = source.replace(old, new)
    names = {"__name__": "models", "__file__": __file__}
    exec(compile(source, "record_paddle_models.py", "exec"), names)
    found = {k: v for k, v in names["MODELS"].items() if k in ("lenet", "encoder", "mixed")}
    for name, n in ZOO.items():
        found[name] = (getattr(paddle.vision.models, name), [spec([None, 3, n, n], "float32")], names["images"](2, 3, n, n))
    return found


def save():
    import yuloh as paddle

    for name, (make, spec, data) in models().items():
        paddle.seed(1)
        net = make()
        net.eval()
        xs = data(np.random.RandomState(0))
        ys = net(*[paddle.to_tensor(x) for x in xs])
        ys = ys if isinstance(ys, (list, tuple)) else [ys]
        paddle.jit.save(net, str(DIR / name), input_spec=spec)
        np.savez(DIR / f"{name}.npz", **{f"x{i}": x for i, x in enumerate(xs)}, **{f"y{i}": y.numpy() for i, y in enumerate(ys)})


def load():
    import paddle

    worst = 0.0
    for file in sorted(DIR.glob("*.npz")):
        io = np.load(file)
        net = paddle.jit.load(str(file.with_suffix("")))
        net.eval()
        ys = net(*[paddle.to_tensor(io[k]) for k in sorted(io.files) if k[0] == "x"])
        ys = ys if isinstance(ys, (list, tuple)) else [ys]
        want = [io[f"y{i}"].astype("float64") for i in range(len(ys))]
        assert [list(y.shape) for y in ys] == [list(w.shape) for w in want], file.stem
        off = max(float(np.abs(y.numpy() - w).max() / max(1.0, np.abs(w).max())) for y, w in zip(ys, want))
        worst = max(worst, off)
        print(f"{file.stem:24} {off:.2e}")
    print(f"{'worst':24} {worst:.2e}")
    sys.exit(worst > 1e-5)


if __name__ == "__main__":
    DIR.mkdir(parents=True, exist_ok=True)
    {"save": save, "load": load}[sys.argv[1]]()
