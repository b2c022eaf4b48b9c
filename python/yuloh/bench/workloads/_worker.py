# SPDX-License-Identifier: Apache-2.0
"""The process that trains: started by bench.runner with the contender's Python, spoken to in lines of JSON.

Requests on standard input, one answer line each on a private copy of standard output (the scripts' own prints
go to the log). open -> import, build, first step; steps -> a timed block; loader -> the whole loop with a
DataLoader. This file runs where no Yuloh is installed: standard library only.
"""

import importlib.util
import json
import os
import sys
import time
import traceback


def memory(field):
    """MB of a field of /proc/self/status ("VmHWM" peak, "VmRSS" now); ru_maxrss elsewhere."""
    try:
        with open("/proc/self/status") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu_seconds():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def reset_peak():
    """Sets VmHWM back to the present size; False where the kernel does not allow it."""
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        return True
    except OSError:
        return False


class Session:
    """State between requests."""

    training = None

    def open(self, q):
        begin = time.perf_counter()
        framework = q["framework"]
        if framework == "yuloh":
            import yuloh
            from yuloh.cli.run import install

            install()
            module = yuloh
            if q.get("threads") and hasattr(yuloh, "_core"):
                yuloh._core.set_num_threads(q["threads"])
        elif framework == "paddle":
            import paddle as module
        else:
            import torch as module

            module.set_num_threads(q["threads"])
        imported = time.perf_counter()
        after_import = memory("VmRSS")
        spec = importlib.util.spec_from_file_location("yuloh_bench_workload", q["script"])
        workload = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(workload)
        self.training = workload.build(q["options"])
        built = time.perf_counter()
        loss = self.training.read(self.training.step())
        first = time.perf_counter()
        return {
            "version": str(getattr(module, "__version__", "?")),
            "import_s": imported - begin,
            "build_s": built - imported,
            "first_step_s": first - built,
            "loss": loss,
            "parameters": int(getattr(self.training, "parameter_count", 0)),
            "rss_after_import_mb": after_import,
            "rss_mb": memory("VmRSS"),
            "peak_mb": memory("VmHWM"),
        }

    def steps(self, q):
        """q["n"] plain steps; the clock stops after the loss and one updated parameter were read."""
        step, n = self.training.step, q["n"]
        if q.get("reset_peak"):
            reset_peak()
        cpu, begin = cpu_seconds(), time.perf_counter()
        losses = [step() for _ in range(n)]
        self.training.read(losses[-1])
        seconds, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
        values = [float(x.astype("float32").numpy()) if hasattr(x, "astype") else float(x) for x in losses]
        return {
            "seconds": seconds,
            "cpu_s": cpu,
            "losses": values,
            "rss_mb": memory("VmRSS"),
            "peak_mb": memory("VmHWM"),
        }

    def loader(self, q):
        """Whole training loop fed by a DataLoader for about q["seconds"]: batches, seconds, waiting for
        data."""
        training = self.training
        begin, waited, count, cpu = None, 0.0, 0, 0.0
        iterator = iter(training.loader(q["archive"], q["workers"]))
        try:
            for _ in range(2):  # workers start, first batches
                training.read(training.step(training.from_loader(next(iterator))))
            begin, cpu = time.perf_counter(), cpu_seconds()
            while time.perf_counter() - begin < q["seconds"] or count < 3:
                asked = time.perf_counter()
                item = next(iterator)
                waited += time.perf_counter() - asked
                loss = training.step(training.from_loader(item))
                count += 1
            training.read(loss)
        except StopIteration:
            training.read(loss)
        seconds = time.perf_counter() - begin
        return {"batches": count, "seconds": seconds, "waiting_s": waited, "cpu_s": cpu_seconds() - cpu}


def where(error):
    """file:line of the innermost frame of the user's script, else of the last frame."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.endswith("_worker.py") and "site-packages" not in f.filename]
    frame = (own or frames or [None])[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno}" if frame else "?"


def main():
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(session, request["do"])(request)
        except (
            BaseException
        ) as error:  # SystemExit of a script included: the line below is all the runner sees
            traceback.print_exc()
            first = (str(error).strip() or "no message").splitlines()[0]
            answer = {"error": f"{type(error).__name__}: {first}"[:300], "where": where(error)}
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
