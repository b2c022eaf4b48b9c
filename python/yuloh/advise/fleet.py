# SPDX-License-Identifier: Apache-2.0
"""A layout as what Paddle's fleet takes: the strategy in Python and the launch command."""

from __future__ import annotations

import math
from typing import Dict

LEVEL = {2: "os_g", 3: "p_g_os"}


def strategy_snippet(job: Dict[str, object], passes: float, micro: float) -> str:
    """Lines of Python that set the layout up; they run against paddle.distributed.fleet."""
    dp, mp, pp, sharding, stage = (int(job[k]) for k in ("dp", "mp", "pp", "sharding", "stage"))
    lines = [
        "import paddle",
        "from paddle.distributed import fleet",
        "",
        "strategy = fleet.DistributedStrategy()",
    ]
    # Stages 2 and 3 wrap the model and group the ranks of the data axis themselves.
    data, shard = (dp * sharding, 1) if stage >= 2 else (dp, sharding)
    lines += [
        "strategy.hybrid_configs = {",
        f'    "dp_degree": {data},',
        f'    "mp_degree": {mp},',
        f'    "pp_degree": {pp},',
        f'    "sharding_degree": {shard},',
        "}",
    ]
    if pp > 1:
        lines.append(
            f'strategy.pipeline_configs = {{"accumulate_steps": {int(passes)}, "micro_batch_size": {int(micro)}}}'
        )
    lines.append("fleet.init(is_collective=True, strategy=strategy)")
    if job["precision"] in ("bf16", "fp16"):
        dtype = "bfloat16" if job["precision"] == "bf16" else "float16"
        lines.append(f'model, optimizer = paddle.amp.decorate(model, optimizer, level="O2", dtype="{dtype}")')
    if stage >= 2:
        offload = ", offload=True" if job["offload"] != "none" else ""
        lines.append(
            "model, optimizer, scaler = paddle.distributed.sharding.group_sharded_parallel("
            f'model, optimizer, level="{LEVEL[stage]}"{offload})'
        )
    else:
        lines += [
            "model = fleet.distributed_model(model)",
            "optimizer = fleet.distributed_optimizer(optimizer)",
        ]
    if job["recompute"] == "full":
        lines.append("# in every block's forward: x = fleet.utils.recompute(self.block, x)")
    if pp == 1 and passes > 1:
        lines.append(
            f"# optimizer.step() and clear_grad() after every {int(passes)} backward passes of {int(micro)} samples"
        )
    return "\n".join(lines)


def launch_command(count: int, per_node: int, script: str = "train.py") -> str:
    """The command to start it, on every server."""
    here = int(min(count, per_node))
    devices = ",".join(str(i) for i in range(here))
    nodes = math.ceil(count / per_node)
    across = f"--master MASTER_IP:8090 --nnodes {nodes} " if nodes > 1 else ""
    return f"python -m paddle.distributed.launch {across}--devices {devices} {script}"
