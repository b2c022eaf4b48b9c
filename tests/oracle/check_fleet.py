# SPDX-License-Identifier: Apache-2.0
"""Training scripts that yuloh advise writes for Paddle's fleet, held against PaddlePaddle 3.3.1.

    python tests/oracle/check_fleet.py write DIR     with Yuloh: a script for each of the layouts below
    python tests/oracle/check_fleet.py check DIR     with a Python that has paddlepaddle 3.3.1: every strategy is taken by
                                                     DistributedStrategy, its groups divide the devices as fleet divides them,
                                                     and the launch command is one of paddle.distributed.launch
    python tests/oracle/check_fleet.py run DIR       the same: those that a CPU can run are launched over processes (gloo)
    python tests/oracle/check_fleet.py sequence DIR  the same: tensor parallel with and without sequence parallel lose the same,
                                                     messages that gloo lacks composed of those it has

On CPUs, data parallel, sharding stage 1 and LoRA run to the end. Tensor parallel stops where the batch is broadcast, a
pipeline at its first send, stages 2 and 3 at their check of the device, experts where tokens are counted: Paddle has those
for accelerators only.
"""
import os
import pathlib
import re
import subprocess
import sys

TINY = dict(name="tiny", layers=8.0, hidden=64.0, heads=8.0, seq=16.0, vocab=128.0)
GATED = dict(TINY, gated=True, rotary=True, tied=False)
EXPERTS = dict(TINY, experts=8.0, active=2.0, expert_ffn=32.0)
FP32 = dict(precision="fp32")
LAYOUTS = {
    "single": dict(batch=4, micro=4, **FP32),
    "dp2": dict(batch=4, micro=1, dp=2, **FP32),
    "dp2-lora": dict(batch=4, micro=1, dp=2, lora=4, **FP32),
    "gated-lora-all": dict(batch=4, micro=1, dp=2, lora=4, lora_targets="q,v,ffn", **FP32),
    "gated-fp16": dict(batch=4, micro=1, dp=2, precision="fp16"),
    "stage2-offload": dict(batch=4, micro=1, sharding=4, stage=2, offload="optimizer", precision="fp16"),
    "dp2-recompute": dict(batch=4, micro=1, dp=2, recompute="full", **FP32),
    "dp4": dict(batch=4, micro=1, dp=4, **FP32),
    "stage1": dict(batch=4, micro=1, sharding=2, stage=1, **FP32),
    "dp2-stage1": dict(batch=4, micro=1, dp=2, sharding=2, stage=1, **FP32),
    "sgd": dict(batch=4, micro=1, dp=2, optimizer="sgd", **FP32),
    "lamb": dict(batch=4, micro=1, dp=2, optimizer="lamb", **FP32),
    "dp2-selective": dict(batch=4, micro=1, dp=2, recompute="selective", flash=False, **FP32),
    "dp2-stage2": dict(batch=4, micro=1, sharding=2, stage=2, dp=2),
    "dp2-stage3": dict(batch=4, micro=1, sharding=2, stage=3, dp=2),
    "stage2": dict(batch=4, micro=1, sharding=4, stage=2),
    "stage3-offload": dict(batch=4, micro=1, sharding=4, stage=3, offload="all"),
    "mp4": dict(batch=2, micro=1, mp=4),
    "mp2-dp2": dict(batch=4, micro=1, mp=2, dp=2, precision="fp16"),
    "mp2-stage2": dict(batch=4, micro=1, mp=2, sharding=4, stage=2),
    "mp2": dict(batch=2, micro=1, mp=2, **FP32),
    "mp2-sequence": dict(batch=2, micro=1, mp=2, sequence_parallel=True, **FP32),
    "mp2-pp2-sequence": dict(batch=4, micro=1, mp=2, pp=2, sequence_parallel=True, recompute="full"),
    "pp4": dict(batch=8, micro=1, pp=4),
    "pp4-vpp2": dict(batch=16, micro=1, pp=4, vpp=2, recompute="full"),
    "pp3-uneven": dict(batch=6, micro=1, pp=3),
    "dp2-mp2-pp2": dict(batch=16, micro=2, dp=2, mp=2, pp=2),
    "stage1-mp2-pp2": dict(batch=16, micro=2, sharding=2, stage=1, mp=2, pp=2),
    "cp2": dict(batch=2, micro=1, cp=2),
    "cp2-mp2-dp2": dict(batch=2, micro=1, cp=2, mp=2, dp=2),
    "ep4": dict(batch=4, micro=1, dp=4, ep=4),
    "ep2-mp2-pp2-stage1": dict(batch=8, micro=1, sharding=4, stage=1, ep=2, mp=2, pp=2),
    "ep4-cp2": dict(batch=4, micro=1, sharding=4, stage=1, ep=4, cp=2),
    "dp2-experts": dict(batch=4, micro=1, dp=2, **FP32),
    "servers": dict(batch=64, micro=1, dp=4, mp=8, pp=2),
}
ON_CPU = ("single", "dp2", "dp2-lora", "gated-lora-all", "dp2-recompute", "dp2-selective", "dp4", "stage1", "sgd", "lamb")


def scripts():
    """{name: (devices, script)} of the layouts, by the planner."""
    from yuloh import _core
    from yuloh.advise import catalogue, fleet

    device, found = catalogue.core_device(catalogue.find_device("a100-80")), {}
    for name, layout in LAYOUTS.items():
        job = {k: float(v) if type(v) is int else v for k, v in layout.items()}
        network = _core.advise_network(EXPERTS if "ep" in layout or "experts" in name else GATED if "gated" in name else TINY)["network"]
        made = _core.advise_layout(network, job, device, {"rate": 25e9})
        launch = fleet.launch_command(int(made["devices"]), int(made["of_server"]))
        text = fleet.skeleton(network, made["job"], made["passes"], made["micro_batch"], launch)
        found[name] = (int(made["devices"]), text)
    return found


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (devices, text) in scripts().items():
        (folder / f"{name}.{devices}.py").write_text(text, encoding="utf-8")


def check_strategy(text, devices):
    """Assigns everything to Paddle's strategy; the groups must divide the devices by its own rules."""
    head = text[: text.index("fleet.init(")]
    names = {}
    exec(compile(head, "strategy", "exec"), names)
    h = names["strategy"].hybrid_configs
    d = {k: max(1, h[f"{k}_degree"]) for k in ("dp", "mp", "pp", "sharding", "sep", "cp", "ep", "moe_sharding")}
    if d["ep"] == 1:  # HybridCommunicateGroup._check_valid_topo
        assert d["dp"] * d["mp"] * d["pp"] * d["sharding"] * d["sep"] == devices, d
    else:  # EPHybridCommunicateGroup
        order = names["strategy"].hybrid_parallel_order
        assert set(order) == {*d} and order.index("pp") < order.index("moe_sharding") < order.index("sharding")
        assert d["dp"] == d["sep"] == 1 and d["sharding"] % d["moe_sharding"] == 0 and d["sharding"] % d["cp"] == 0
        assert d["pp"] * d["moe_sharding"] * d["ep"] == d["pp"] * d["sharding"] * d["mp"] == devices, d
    p = names["strategy"].pipeline_configs
    if d["pp"] > 1:
        said = re.search(r"STEPS, PASSES, MICRO = 10, (\d+), (\d+)", text)
        assert (p["accumulate_steps"], p["micro_batch_size"]) == tuple(map(int, said.groups())), p
        stages = re.search(r"num_virtual_pipeline_stages=(\d+)", text)
        if stages:  # PipelineParallelWithInterleave._check_sanity
            assert d["pp"] > 2 and p["accumulate_steps"] >= 2 * d["pp"], p
    return d


def check_launch(text, devices):
    from paddle.distributed.launch.context import args_envs

    words = re.search(r"on every server: python -m paddle.distributed.launch (.*)", text).group(1).split()
    sys.argv = ["launch", *words]
    args, _ = args_envs.parse_args()
    assert args.training_script == "train.py" and len(args.devices.split(",")) * int(str(args.nnodes)) == devices
    assert (int(str(args.nnodes)) > 1) == bool(args.master), args


def check(folder):
    count = 0
    for path in sorted(folder.glob("*.py")):
        text, devices = path.read_text(encoding="utf-8"), int(path.stem.rpartition(".")[2])
        degrees = check_strategy(text, devices)
        check_launch(text, devices)
        count += 1
        print(f"{path.stem:28}", {k: v for k, v in degrees.items() if v > 1})
    print(count, "strategies are taken")


def run(folder):
    for name in ON_CPU:
        (path,) = folder.glob(f"{name}.*.py")
        devices = path.stem.rpartition(".")[2]
        words = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", devices, "--log_dir", str(folder / f"log-{name}"), str(path)]
        for _ in range(3):  # on a busy machine gloo's processes sometimes miss one another
            done = subprocess.run(words, capture_output=True, timeout=300, env={**os.environ, "PADDLE_DISTRI_BACKEND": "gloo"})
            last = (folder / f"log-{name}" / "workerlog.0").read_text().strip().splitlines()[-1]
            if "Connection refused" not in last:
                break
        print(f"{name:16} {devices} processes, status {done.returncode}: last step and loss {last}")
        assert done.returncode == 0 and last.startswith("9 "), last


# What gloo lacks of tensor parallel's messages, composed of what it has; parameters and data are the same for both scripts.
SHIMS = """
import numpy, paddle
from paddle import _C_ops
from paddle.base import core
from paddle.distributed import fleet
from paddle.distributed.fleet.utils import sequence_parallel_utils as along

for group in (core.ProcessGroup, core.ProcessGroupGloo):
    group.all_reduce_on_calc_stream = lambda self, t, op: self.allreduce(t).wait()
_C_ops.c_identity = lambda t, *rest: t.clone()

def reduce_scatter(x):
    whole = x.clone()
    fleet.get_hybrid_communicate_group().get_model_parallel_group().process_group.allreduce(whole).wait()
    return along.scatter(whole)

along.reduce_scatter = reduce_scatter

def same_start(model):
    draw = numpy.random.RandomState(5 + paddle.distributed.get_rank())
    for p in model.parameters():
        if p.ndim == 2:
            p.set_value(draw.standard_normal(p.shape).astype("float32") * 0.05)
    paddle.seed(3)
"""


def sequence(folder):
    """Tensor parallel with and without sequence parallel: the same losses over 10 steps of 2 passes, on 2 processes."""
    losses = {}
    for name in ("mp2", "mp2-sequence"):
        (path,) = folder.glob(f"{name}.2.py")
        text = path.read_text()
        text = re.sub(r"^(model|optimizer) = fleet.distributed_.*$", "", text, flags=re.M)  # broadcasts are for accelerators
        text = text.replace("optimizer = paddle", "same_start(model)\noptimizer = paddle").replace("learning_rate=1e-4", "learning_rate=1e-2")
        # No CPU has the loss over split logits: each device's half has one of its own.
        text = text.replace("fleet.meta_parallel.ParallelCrossEntropy()(logits.astype('float32'), labels)",
                            "paddle.nn.functional.cross_entropy(logits.astype('float32'), labels % (VOCAB // 2))")
        script = folder / "shimmed" / f"{name}.py"
        script.parent.mkdir(exist_ok=True)
        script.write_text(SHIMS + text)
        words = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--log_dir", str(folder / f"log-{name}"), str(script)]
        subprocess.run(words, capture_output=True, timeout=300, env={**os.environ, "PADDLE_DISTRI_BACKEND": "gloo"})
        lines = (folder / f"log-{name}" / "workerlog.0").read_text().strip().splitlines()[-10:]
        losses[name] = [float(line.split()[1]) for line in lines]
        print(f"{name:16}", *losses[name])
    assert all(abs(a - b) < 1e-4 for a, b in zip(*losses.values())) and losses["mp2"][0] != losses["mp2"][9]


if __name__ == "__main__":
    {"write": write, "check": check, "run": run, "sequence": sequence}[sys.argv[1]](pathlib.Path(sys.argv[2]))
