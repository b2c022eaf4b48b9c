# SPDX-License-Identifier: Apache-2.0
"""Every call of tests/vectors/ as a file of its own: do written files say the same?

    python tests/oracle/vector_files.py DIR onnx [SECTION...]      for check_onnx_export.py load DIR
    python tests/oracle/vector_files.py DIR paddle [SECTION...]    for check_saved.py load DIR and old DIR

Prints what could not be written and why.
"""
import collections
import pathlib
import sys
import warnings
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
warnings.simplefilter("ignore")
import test_vectors as vectors  # noqa: E402

import yuloh as paddle  # noqa: E402
from yuloh import _core  # noqa: E402
from yuloh.jit.save_load import function_of, program_of  # noqa: E402
from yuloh.static import InputSpec  # noqa: E402

DIR = pathlib.Path(sys.argv[1])
FILES = {"onnx": ["{}.onnx"], "paddle": ["{}.json", "old/{}.pdmodel"]}[sys.argv[2]]
(DIR / "old").mkdir(parents=True, exist_ok=True)
reasons, written = collections.Counter(), 0
for path in sorted(vectors.FOLDER.glob("*.txt")):
    for section in vectors.parse(path):
        if sys.argv[3:] and section.name not in sys.argv[3:]:
            continue
        for group in section.groups:
            for dtype in [t for t in ("float32", "int64", "bool") if t in group["dtypes"]]:
                for number, text in enumerate(group["in"]):
                    rng = np.random.default_rng(zlib.crc32(f"{section.name} {group['call']} {text} {dtype}".encode()))
                    names, tensors = [], []
                    for name, shape, kind in vectors.parse_inputs(text):
                        fixed = kind == "bool" or kind.startswith("int(")
                        names.append(name)
                        tensors.append(vectors.tensor(vectors.draw(shape, kind, dtype, rng), None if fixed else dtype))
                    if not tensors or any(t.size == 0 for t in tensors):
                        continue

                    def call(*values, code=group["call"], names=names):
                        return eval(code, vectors.scope(**dict(zip(names, values))))

                    stem = f"{section.name}_{path.stem}{group['line']}_{number}_{dtype}"
                    spec = [InputSpec(list(t.shape), t.dtype, n) for n, t in zip(names, tensors)]
                    try:
                        want = call(*tensors)
                        want = [w for w in (want if isinstance(want, (list, tuple)) else [want])]
                        if not all(isinstance(w, paddle.Tensor) for w in want):
                            continue
                        want = [w.numpy() for w in want]
                        program = program_of(function_of(call, "vectors"), spec)
                        for file in FILES:
                            _core.write_model(program, str(DIR / file.format(stem)))
                    except Exception as error:
                        lines = str(error).splitlines()
                        for line in lines[1:-1] if isinstance(error, NotImplementedError) and len(lines) > 2 else lines[:1]:
                            reasons[f"{type(error).__name__} {line.strip().split(' x')[0][:60] if isinstance(error, NotImplementedError) else line[:110]}"] += 1
                        continue
                    written += 1
                    np.savez(DIR / f"{stem}.0.npz", **{f"x{i:02}": t.numpy() for i, t in enumerate(tensors)}, **{f"y{i:02}": w for i, w in enumerate(want)})
print(written, "written")
for reason, count in reasons.most_common():
    print(f"{count:5} {reason}")
