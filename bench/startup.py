# SPDX-License-Identifier: Apache-2.0
"""From process start to the first answer, and the peak resident size by then; page cache warm.

    python bench/startup.py                                                     Yuloh in Python, ResNet-50, batch 1
    python bench/startup.py --library build/dev                                 and examples/c on that folder's libyuloh
    python bench/startup.py --with onnxruntime=PYTHON --with openvino=PYTHON --write docs/performance.md

Fresh processes take turns, `--rounds` each after one that warms the page cache; medians and, in brackets, the best.
"first / median" is the first request over the median of 20 more: what creation left undone.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from serving import FORMAT, Contender, contenders_of, write_models
from tables import markdown, write_section

# As installed packages have it: modules are compiled once, by the round that does not count.
BYTECODE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": tempfile.mkdtemp()}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def c_example(library, folder):
    """Builds examples/c/predict.c with the C compiler; returns the program."""
    program = str(pathlib.Path(folder) / "predict")
    library = os.path.abspath(library)
    subprocess.run(["cc", "-O2", f"-I{ROOT}/include", f"{ROOT}/examples/c/predict.c", "-o", program, f"-L{library}", "-lyuloh",
                    f"-Wl,-rpath,{library}"], check=True)
    return program


def run_c(program, model):
    """Seconds from before the start to the line with the answer, and the peak: of the process as the system counts it."""
    begin = time.perf_counter()
    process = subprocess.Popen([program, model], stdout=subprocess.PIPE)
    line = process.stdout.readline()
    end = time.perf_counter()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status or not line:
        raise RuntimeError(f"{program} ended with {status}.")
    return {"total": end - begin, "peak_mb": usage.ru_maxrss / 1024}


def run_python(framework, python, files, shape, dtype, threads):
    c = Contender(framework, python, files, shape, dtype, threads, BYTECODE)
    row = dict(c.opened)
    row["ratio"] = row["first"] / statistics.median(c.ask(20))
    c.close()
    return row


def cell(rows, key, unit):
    values = [r[key] * unit for r in rows if key in r]
    return f"{statistics.median(values):,.0f} ({min(values):,.0f})" if values else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50", help="resnet50, mobilenet_v2, bert ...")
    parser.add_argument("--library", metavar="FOLDER", help="of libyuloh.so: measures the C example, too")
    parser.add_argument("--with", dest="more", action="append", default=[], metavar="FRAMEWORK=PYTHON")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", metavar="FOLDER", help="keeps the model files here")
    parser.add_argument("--write", metavar="FILE", help="puts the table into this document")
    args = parser.parse_args()
    found = contenders_of(args.more)
    with tempfile.TemporaryDirectory() as folder:
        files, dtype, shape = write_models(args.model, 1, args.models or folder, {FORMAT[f] for f in found} | {".yuloh"})
        arms = {f"{name}, Python": lambda n=name, p=python: run_python(n, p, files, shape, dtype, args.threads)
                for name, python in found.items()}
        if args.library:
            program = c_example(args.library, folder)
            arms = {"yuloh, C example": lambda: run_c(program, files[".yuloh"][0]), **arms}
        rows = {name: [] for name in arms}
        for k in range(args.rounds + 1):
            for name, measure in arms.items():
                row = measure()
                if k:
                    rows[name].append(row)
    head = ["contender", "import, ms", "model ready, ms", "first request, ms", "answer after import, ms", "answer after process start, ms",
            "peak, MB", "first / median"]
    table = markdown(head, [[name, cell(r, "import", 1e3), cell(r, "create", 1e3), cell(r, "first", 1e3),
                             cell(r, "after_import", 1e3), cell(r, "total", 1e3), cell(r, "peak_mb", 1),
                             f"{statistics.median(x['ratio'] for x in r):.2f}" if "ratio" in r[0] else ""] for name, r in rows.items()])
    text = (f"{args.model}, batch 1, fp32, {args.threads} threads; medians of {args.rounds} fresh processes in turn, in brackets the best.\n\n"
            + table)
    print(text)
    shutil.rmtree(BYTECODE["PYTHONPYCACHEPREFIX"])
    if args.write:
        write_section(args.write, "startup", text)


if __name__ == "__main__":
    main()
