# SPDX-License-Identifier: Apache-2.0
"""One contender of bench/startup.py and bench/infer.py, run by its own Python: loads a model, answers, says how long it took.

    PYTHON serving_worker.py FRAMEWORK MODEL PARAMS SHAPE DTYPE THREADS STARTED

Prints one line of JSON after the first answer; then every line "n" on standard input is answered with n run times, and
"values" with the sum of the answer (contenders must agree). STARTED: time.perf_counter() of whoever started this process.
"""

import json
import sys
import time

framework, model, params, shape, dtype, threads, started = sys.argv[1:8]
begin = time.perf_counter()
shape, threads = [int(n) for n in shape.split("x")], int(threads)


def yuloh_runner():
    import numpy as np

    import yuloh
    from yuloh import inference

    ready = time.perf_counter()
    config = inference.Config(model, params)
    if threads:
        config.set_cpu_math_library_num_threads(threads)
    name = yuloh.__name__
    config.set_trt_dynamic_shape_info({}, {}, {"image": shape})
    predictor = inference.create_predictor(config)
    return name, ready, lambda x: predictor.run([x])[0].numpy(), np


def paddle_runner():
    import numpy as np
    from paddle import inference

    ready = time.perf_counter()
    config = inference.Config(model, params)
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(threads or 1)
    predictor = inference.create_predictor(config)
    handle = predictor.get_input_handle(predictor.get_input_names()[0])
    out = predictor.get_output_handle(predictor.get_output_names()[0])

    def run(x):
        handle.copy_from_cpu(x)
        predictor.run()
        return out.copy_to_cpu()

    return "paddle", ready, run, np


def onnxruntime_runner():
    import numpy as np
    import onnxruntime as ort

    ready = time.perf_counter()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return "onnxruntime", ready, lambda x: session.run(None, {name: x})[0], np


def openvino_runner():
    import numpy as np
    import openvino as ov

    ready = time.perf_counter()
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    if threads:
        hints["INFERENCE_NUM_THREADS"] = threads
    core = ov.Core()
    net = core.read_model(model)
    net.reshape(shape)
    request = core.compile_model(net, "CPU", hints).create_infer_request()
    return "openvino", ready, lambda x: np.array(request.infer([x])[request.model_outputs[0]]), np


name, ready, run, np = globals()[framework + "_runner"]()
created = time.perf_counter()
rng = np.random.RandomState(0)
x = rng.rand(*shape).astype("float32") if dtype == "float32" else rng.randint(1, 1000, shape).astype(dtype)
first = time.perf_counter()
answer = run(x)
end = time.perf_counter()
with open("/proc/self/status", encoding="ascii") as f:
    peak = next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))
print(json.dumps({"import": ready - begin, "create": created - ready, "first": end - first, "after_import": end - ready,
                  "total": end - float(started), "peak_mb": peak}), flush=True)
for line in sys.stdin:
    if line.strip() == "values":
        print(json.dumps([float(np.float64(answer).sum()), *map(float, np.ravel(answer)[:4])]), flush=True)
        continue
    times = []
    for _ in range(int(line)):
        begin = time.perf_counter()
        run(x)
        times.append(time.perf_counter() - begin)
    print(json.dumps(times), flush=True)
