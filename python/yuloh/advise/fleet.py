# SPDX-License-Identifier: Apache-2.0
"""A layout as what Paddle's fleet takes: the strategy in Python, a training script around it, and the launch command.

Names and rules are those of PaddlePaddle 3.3; tests/oracle/check_fleet.py holds them against it.
"""

from __future__ import annotations

import math
from typing import Dict, List, Sequence

from .terms import CLASSES, PLANNED, TARGETS

LEVEL = {2: "os_g", 3: "p_g_os"}
# From outside to inside, as the plan reckons: what talks most lies nearest. Paddle's default has dp outside pp.
ORDER = ("pp", "dp", "sharding", "sep", "mp")
EXPERT_ORDER = ("pp", "moe_sharding", "ep", "dp", "sharding", "sep", "cp", "mp")


def degrees(job: Dict[str, object]) -> Dict[str, object]:
    """hybrid_configs of a job. Expert parallel groups of fleet reach over tensor parallel devices and have no data axis:
    there dp is a part of sharding, and so is context parallel."""
    dp, mp, pp, sharding, cp, ep = (int(job[k]) for k in ("dp", "mp", "pp", "sharding", "cp", "ep"))
    if ep == 1:
        found = {"dp_degree": dp, "mp_degree": mp, "pp_degree": pp, "sharding_degree": sharding}
        return {**found, **({"sep_degree": cp} if cp > 1 else {}), "order": list(ORDER)}
    sharding = dp * sharding * cp
    found = {"dp_degree": 1, "mp_degree": mp, "pp_degree": pp, "sharding_degree": sharding}
    found.update(ep_degree=ep * mp, moe_sharding_degree=sharding // ep, order=list(EXPERT_ORDER))
    return {**found, "cp_degree": cp} if cp > 1 else found


def strategy_snippet(job: Dict[str, object], passes: float, micro: float) -> str:
    """Lines of Python that set the layout up; they run against paddle.distributed.fleet."""
    lines = [
        "import paddle",
        "from paddle.distributed import fleet",
        "",
        "strategy = fleet.DistributedStrategy()",
        "strategy.hybrid_configs = {",
        *(f'    "{k}": {v!r},' for k, v in degrees(job).items()),
        "}",
    ]
    if job["pp"] > 1:
        lines.append(
            f'strategy.pipeline_configs = {{"accumulate_steps": {int(passes)}, "micro_batch_size": {int(micro)}}}'
        )
    lines.append("fleet.init(is_collective=True, strategy=strategy)")
    return "\n".join(lines)


def refusal(network: Dict[str, object], job: Dict[str, object]) -> str:
    """Why no script does what the layout says; "" where one does."""
    if network["kind"] == "totals" and job["pp"] * job["mp"] > 1:
        return "a model of your own layers is neither cut into stages nor split by tensors here. Hint: --pp 1 --mp 1."
    if job["offload"] != "none" and job["stage"] < 2:
        return "fleet moves states to the host in sharding stages 2 and 3 only. Hint: --stage 3 and --count N, or no --offload."
    if job["offload"] == "all" and job["stage"] < 3:
        return "fleet moves weights to the host in sharding stage 3 only. Hint: --stage 3, or --offload optimizer."
    if job["offload"] != "none" and job["pp"] > 1:
        return "fleet moves nothing to the host beside a pipeline. Hint: --pp 1."
    if job.get("lora") and job["mp"] > 1:
        return "adapters beside tensor parallel matrices are not written. Hint: --mp 1."
    if job.get("lora") and network["experts"] > 0 and _targets(job) & {"ffn"}:
        return "adapters of experts are not written. Hint: --lora-targets attention."
    return ""


def _targets(job) -> set:
    """Which of q, k, v, o, ffn have adapters."""
    words = str(job.get("lora_targets") or "attention").split(",")
    return {one for one in ("q", "k", "v", "o", "ffn") if any(TARGETS[one] & TARGETS[word] for word in words)}


def skeleton(
    network: Dict[str, object], job: Dict[str, object], passes: float, micro: float, launch: str, model: Sequence[str] = (),
    data: Sequence[str] = (), said: Sequence[str] = (),
) -> str:
    """A training script of the layout on random data: the model of a transformer's numbers; for others the lines `model`,
    which make one, and `data`, which make `tokens` and `labels`. `said`: sentences for its top. Runs as it stands under
    `launch`, but for what `model` and `data` import."""
    pp, mp, stage, passes, micro = int(job["pp"]), int(job["mp"]), int(job["stage"]), int(passes), int(micro)
    transformer = network["kind"] != "totals"
    lines = [
        f"# {network['name'] or 'a model'}: " + ", ".join(f"{k[:-7]} {v}" for k, v in degrees(job).items() if k != "order"),
        f"# on every server: {launch}",
        *(f"# {line}" for line in said),
        *_remarks(job, network),
        *(["from paddle.incubate.distributed.models.moe import MoELayer"] if network["experts"] > 0 else []),
        *(["from paddle.distributed.fleet.utils import sequence_parallel_utils"] if _along(network, job) else []),
        strategy_snippet(job, passes, micro),
        *(["hcg = fleet.get_hybrid_communicate_group()"] if pp > 1 or stage >= 2 or job["ep"] > 1 else []),
        f"STEPS, PASSES, MICRO = 10, {passes}, {micro}  # a step of one replica: PASSES passes of MICRO samples",
        "",
    ]
    lines += _transformer(network, job) if transformer else list(model) or ["model = paddle.nn.Linear(16, 16)  # yours"]
    dtype = PLANNED[str(job["precision"])]
    dtype = "" if dtype == "float32" else dtype
    name = CLASSES[str(job["optimizer"])] or "AdamW"
    trained = "[p for p in model.parameters() if not p.stop_gradient]"
    lines.append(f"optimizer = paddle.optimizer.{name}(learning_rate=1e-4, parameters={trained})")
    if dtype:
        lines.append(f'model, optimizer = paddle.amp.decorate(model, optimizer, level="O2", dtype="{dtype}")')
    if _along(network, job):  # what is whole on every device has seen a part of the positions
        lines.append("sequence_parallel_utils.register_sequence_parallel_allreduce_hooks(model, PASSES, False)")
    scaler = ""
    if dtype == "float16":
        lines.append("scaler = paddle.amp.GradScaler(init_loss_scaling=2.0**15)")
        scaler = "scaler"
    if stage >= 2:
        offload = ", offload=True" if job["offload"] != "none" else ""
        lines.append(f"model, optimizer, {scaler or '_'} = paddle.distributed.sharding.group_sharded_parallel(")
        lines.append(f'    model, optimizer, level="{LEVEL[stage]}", group=hcg.get_sharding_parallel_group(){offload},')
        if scaler:
            lines.append("    scaler=scaler,")
        copies = "dp_sep" if job["cp"] > 1 else "data"
        if job["ep"] == 1 and job["dp"] * job["cp"] > 1:
            lines.append(f"    dp_group=hcg.get_{copies}_parallel_group(),")
        lines.append(")")
    elif math.prod(int(job[k]) for k in ("dp", "mp", "pp", "sharding", "cp")) > 1:
        lines.append("model = fleet.distributed_model(model)")
        lines.append("optimizer = fleet.distributed_optimizer(optimizer)")
        if scaler:
            lines.append("scaler = fleet.distributed_scaler(scaler)")
    cast = f'paddle.amp.auto_cast(level="O2", dtype="{dtype}")' if dtype else "paddle.amp.auto_cast(enable=False)"
    # DataParallel alone sends gradients as they come, once for every parameter and pass; recomputed blocks, and several
    # passes, are sent together at the end.
    alone = job["dp"] > 1 and all(job[k] == 1 for k in ("mp", "sharding", "pp", "cp", "ep"))
    late = alone and (passes > 1 or job["recompute"] == "full")
    rows = float(job["batch"]) / (job["dp"] * job["sharding"])  # of a step of one replica
    last = int(rows - (passes - 1) * micro) if pp == 1 else micro
    if last != micro:
        lines.append(f"LAST = {last}  # samples of the last pass")
    return "\n".join(lines + _loop(pp, cast, transformer, late, scaler, data, last != micro)) + "\n"


def _along(network, job) -> bool:
    """Whether the script splits norms and sums along the sequence: with tensor parallel, where it was asked for."""
    return bool(job.get("sequence_parallel")) and job["mp"] > 1 and network["experts"] == 0 and network["kind"] != "totals"


def _remarks(job, network) -> List[str]:
    said = []
    if network["kind"] != "totals":
        said.append(f"# Model has the shape of {network['name'] or 'what was asked'}, without its positions and with random weights, to try memory and speed;")
        said.append("# to train or fine-tune it, put your own model in its place and load weights: model.set_state_dict(paddle.load(FILE))")
        if network["kv_heads"] < network["heads"]:
            said.append(f"# keys and values have {int(network['kv_heads'])} heads in it; here as many as queries")
    if not CLASSES[str(job["optimizer"])]:
        said.append(f"# {job['optimizer']} is not in paddle.optimizer: AdamW, with more states, stands for it")
    if job.get("cp", 1) > 1:
        said.append("# the positions are split over this group; keys and values must go round in your attention")
    if network["experts"] > 0 and job["ep"] == 1 and job["mp"] > 1:
        said.append("# the plan splits experts by tensors as the rest; here every device holds them whole")
    if job.get("sequence_parallel") and job["mp"] > 1 and not _along(network, job):
        said.append("# the plan splits along the sequence too; here the devices of a tensor parallel group hold all positions")
    if job["recompute"] == "selective" and network["kind"] == "totals":
        said.append("# recompute the scores of your attention: fleet.utils.recompute(attention, q, k, v)")
    if not job["flash"] and network["kind"] != "totals":
        said.append("# the plan keeps attention's scores; where Paddle has a flash kernel for your device, here they are not kept")
    if job["ep"] > 1 and job["dp"] * job["cp"] > 1:
        said.append("# expert groups of fleet have no data axis: all states are shared, where the plan keeps more copies")
    if 0 < job["recompute_layers"] < network["layers"]:
        said.append(f"# recompute {int(job['recompute_layers'])} of {int(network['layers'])} layers; here all of them")
    return said


def _transformer(n, job) -> List[str]:
    """Classes of the model, and the model, from its numbers. Products are split where mp says so."""
    mp, pp, lora, ep = int(job["mp"]), int(job["pp"]), int(job.get("lora", 0)), int(job.get("ep", 1))
    along = _along(n, job)
    column, row = ("paddle.nn.Linear({0}, {1}, bias_attr=False)",) * 2
    if mp > 1:
        kind = "sequence_parallel_utils.%sSequenceParallelLinear" if along else "fleet.meta_parallel.%sParallelLinear"
        column = kind % "Column" + "({0}, {1}, has_bias=False, gather_output=False)"
        row = kind % "Row" + "({0}, {1}, has_bias=False, input_is_parallel=True)"
    targets = _targets(job) if lora else set()

    def made(matrix: str, target: str) -> str:
        return f"adapted({matrix})" if target in targets else matrix

    lines = [
        f"LAYERS, HIDDEN, HEADS, WIDTH = {int(n['layers'])}, {int(n['hidden'])}, {int(n['heads'])}, {int(n['ffn'])}",
        f"VOCAB, SEQ = {math.ceil((int(n['vocab']) or 1000) / mp) * mp}, {int(n['seq'])}",
        "",
        "",
    ]
    if lora:
        lines += [
            "class Adapted(paddle.nn.Layer):  # y = x W + x A B, W frozen",
            "    def __init__(self, base):",
            "        super().__init__()",
            "        self.base, (rows, columns) = base, base.weight.shape",
            f"        self.a = self.create_parameter([rows, {lora}])",
            f"        self.b = self.create_parameter([{lora}, columns], default_initializer=paddle.nn.initializer.Constant(0.0))",
            "",
            "    def forward(self, x):",
            "        return self.base(x) + paddle.matmul(paddle.matmul(x, self.a), self.b)",
            "",
            "",
            "def adapted(base):",
            "    return Adapted(base)",
            "",
            "",
        ]
    feed = [
        f"        self.up = {made(column.format('HIDDEN', 'WIDTH'), 'ffn')}",
        f"        self.down = {made(row.format('WIDTH', 'HIDDEN'), 'ffn')}",
    ]
    use = "self.down(paddle.nn.functional.gelu(self.up(h)))"
    if n["gated"]:
        feed.insert(1, feed[0].replace("self.up", "self.gate"))
        use = "self.down(paddle.nn.functional.silu(self.gate(h)) * self.up(h))"
    if n["experts"] > 0:
        here = int(n["experts"]) // (ep * mp if ep > 1 else 1) or 1
        group = "hcg.get_expert_parallel_group()" if ep > 1 else "None"
        lines += [
            "class Expert(paddle.nn.Layer):",
            "    def __init__(self):",
            "        super().__init__()",
            f"        self.up = paddle.nn.Linear(HIDDEN, {int(n['expert_ffn'])})",
            f"        self.down = paddle.nn.Linear({int(n['expert_ffn'])}, HIDDEN)",
            "",
            "    def forward(self, x):",
            "        return self.down(paddle.nn.functional.gelu(self.up(x)))",
            "",
            "",
        ]
        feed = [
            f"        experts = paddle.nn.LayerList([Expert() for _ in range({here})])  # of this device",
            "        self.experts = MoELayer(",
            f'            HIDDEN, experts, {{"type": "naive", "top_k": {int(n["active"])}}}, moe_group={group}',
            "        )",
        ]
        use = "self.experts(h)"
    loss = "fleet.meta_parallel.ParallelCrossEntropy()" if mp > 1 else "paddle.nn.functional.cross_entropy"
    marks = [
        "        for p in (*self.first.parameters(), *self.second.parameters()):",
        "            sequence_parallel_utils.mark_as_sequence_parallel_parameter(p)",
    ]
    attend = "fleet.utils.recompute(attention, q, k, v)" if job["recompute"] == "selective" else "attention(q, k, v)"
    inward = [f"        self.qkv = {column.format('HIDDEN', '3 * HIDDEN')}"]
    split = [f"        q, k, v = self.qkv(self.first(x)).reshape([b, s, 3, HEADS // {mp}, HIDDEN // HEADS]).unbind(2)"]
    if lora:  # a pair for each matrix that has one
        inward = [f"        self.{x} = {made(column.format('HIDDEN', 'HIDDEN'), x)}" for x in "qkv"]
        split = ["        h = self.first(x)",
                 "        q, k, v = (f(h).reshape([b, s, HEADS, HIDDEN // HEADS]) for f in (self.q, self.k, self.v))"]
    norm = "RMSNorm()" if n["gated"] else "paddle.nn.LayerNorm(HIDDEN)"
    if n["gated"]:
        lines += [
            "class RMSNorm(paddle.nn.Layer):",
            "    def __init__(self):",
            "        super().__init__()",
            "        self.weight = self.create_parameter([HIDDEN], default_initializer=paddle.nn.initializer.Constant(1.0))",
            "",
            "    def forward(self, x):",
            "        wide = x.astype('float32')",
            "        wide = wide * paddle.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)",
            "        return wide.astype(x.dtype) * self.weight",
            "",
            "",
        ]
    if along:  # positions lead, so that devices hold a part of them between the products
        forward = [
            f"        s, b, _ = x.shape[0] * {mp}, *x.shape[1:]",
            f"        q, k, v = self.qkv(self.first(x)).reshape([s, b, 3, HEADS // {mp}, HIDDEN // HEADS]).unbind(2)",
            "        q, k, v = (t.transpose([1, 0, 2, 3]) for t in (q, k, v))",
            f"        h = {attend}",
            f"        x = x + self.out(h.transpose([1, 0, 2, 3]).reshape([s, b, HIDDEN // {mp}]))",
        ]
    else:
        forward = [
            "        b, s, _ = x.shape",
            *split,
            f"        h = {attend}",
            f"        x = x + self.out(h.reshape([b, s, HIDDEN // {mp}]))",
        ]
    lines += [
        "def attention(q, k, v):",
        "    return paddle.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "",
        "",
        "class Block(paddle.nn.Layer):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.first, self.second = %s, %s" % (norm, norm),
        *(marks if along else []),
        *inward,
        f"        self.out = {made(row.format('HIDDEN', 'HIDDEN'), 'o')}",
        *feed,
        "",
        "    def forward(self, x):",
        *forward,
        "        h = self.second(x)",
        f"        return x + {use}",
        "",
        "",
        "def criterion(logits, labels):",
        f"    return {loss}(logits.astype('float32'), labels).mean()",
        "",
        "",
    ]
    table = f"{'fleet.meta_parallel.VocabParallelEmbedding' if mp > 1 else 'paddle.nn.Embedding'}(VOCAB, HIDDEN)"
    head = column.format("HIDDEN", "VOCAB")
    if along:
        lines += [
            "class Table(paddle.nn.Layer):",
            "    def __init__(self):",
            "        super().__init__()",
            f"        self.table = {table}",
            "",
            "    def forward(self, tokens):",
            "        return sequence_parallel_utils.ScatterOp.apply(self.table(tokens).transpose([1, 0, 2]))",
            "",
            "",
            "class Head(paddle.nn.Layer):",
            "    def __init__(self):",
            "        super().__init__()",
            f"        self.head = {head}",
            "",
            "    def forward(self, x):",
            "        return self.head(x).transpose([1, 0, 2])",
            "",
            "",
        ]
        table, head = "Table()", "Head()"
    again = job["recompute"] == "full"
    if pp > 1:
        stages = int(job.get("vpp", 1))
        desc = "fleet.meta_parallel.LayerDesc"
        ends = [f"{desc}({x.replace('(', ', ', 1)}".replace(", )", ")") for x in (table, head)]
        lines += [
            "model = fleet.meta_parallel.PipelineLayer(",
            f"    [{ends[0]}, *[{desc}(Block) for _ in range(LAYERS)],",
            f"     {ends[1]}],",
            "    topology=hcg.topology(),",
            "    loss_fn=criterion,",
            f'    seg_method="{"layer:Block" if n["layers"] % (pp * stages) == 0 else "uniform"}",',
            *([f"    num_virtual_pipeline_stages={stages},"] if stages > 1 else []),
            *(
                ["    recompute_interval=1,",
                 '    recompute_ctx={"mp_group": hcg.get_model_parallel_group(), "offload": False, "partition": False},']
                if again
                else []
            ),
            ")",
        ]
    else:
        call = "fleet.utils.recompute(block, x)" if again else "block(x)"
        lines += [
            "class Model(paddle.nn.Layer):",
            "    def __init__(self):",
            "        super().__init__()",
            f"        self.table, self.head = {table}, {head}",
            "        self.blocks = paddle.nn.LayerList([Block() for _ in range(LAYERS)])",
            "",
            "    def forward(self, tokens):",
            "        x = self.table(tokens)",
            "        for block in self.blocks:",
            f"            x = {call}",
            "        return self.head(x)",
            "",
            "",
            "model = Model()",
        ]
    if lora:
        lines += [
            "for name, p in model.named_parameters():",
            '    p.stop_gradient = not name.endswith((".a", ".b"))  # tables, norms and the head are frozen too',
        ]
    return lines


def _loop(pp: int, cast: str, transformer: bool, late: bool, scaler: str, given: Sequence[str], uneven: bool) -> List[str]:
    if pp > 1:
        batch = "MICRO * PASSES"
        step = [f"    with {cast}:", "        loss = model.train_batch([tokens, labels], optimizer" + (", scaler=scaler)" if scaler else ")")]
    else:
        batch = "MICRO"
        each = "rows in [MICRO] * (PASSES - 1) + [LAST]" if uneven else "_ in range(PASSES)"
        loss = "criterion(model(tokens[:rows]), labels[:rows]) * (rows / (MICRO * (PASSES - 1) + LAST))"
        step = [
            f"    for {each}:",
            f"        with {cast}:",
            f"            loss = {loss if uneven else 'criterion(model(tokens), labels) / PASSES'}",
            "        scaler.scale(loss).backward()" if scaler else "        loss.backward()",
        ]
        if late:
            step = ["    with model.no_sync():", *("    " + line for line in step)]
            step.append("    fused_allreduce_gradients(list(model.parameters()), None)")
        step += ["    scaler.step(optimizer)", "    scaler.update()"] if scaler else ["    optimizer.step()"]
        step.append("    optimizer.clear_grad()")
    if transformer:
        data = [
            "shape = [%s, SEQ]" % batch,
            "tokens = paddle.randint(0, VOCAB, shape)  # your data: what this data parallel rank reads",
            "labels = paddle.randint(0, VOCAB, shape)",
        ]
    else:
        data = [
            "criterion = paddle.nn.CrossEntropyLoss()",
            *(given or [f"tokens, labels = paddle.randn([{batch}, 16]), paddle.randint(0, 16, [{batch}])  # your data"]),
        ]
    return [
        *(["from paddle.distributed.fleet.utils.hybrid_parallel_util import fused_allreduce_gradients", ""] if late else []),
        *data,
        "for step in range(STEPS):",
        *step,
        "    print(step, float(loss))",
    ]


def launch_command(count: int, here: int, script: str = "train.py") -> str:
    """The command to start `count` processes, on every server: `here` of them, the last starts what is left (`last_server`)."""
    nodes = math.ceil(count / here)
    across = f"--master MASTER_IP:8090 --nnodes {nodes} " if nodes > 1 else ""
    return f"python -m paddle.distributed.launch {across}--devices {_devices(min(here, count))} {script}"


def last_server(count: int, here: int) -> List[str]:
    """What differs in the command of the last server, where the servers do not hold the same number."""
    nodes, left = math.ceil(count / here), count % here
    return [f"on the last of the {nodes} servers: --rank {nodes - 1} --devices {_devices(left)}; on those before it --rank 0 to "
            f"{nodes - 2}"] if left and nodes > 1 else []


def of_host(count: int, here: int, per_host: int) -> int:
    """Processes that one command starts: of devices that a fast link joins over hosts (`here` of them) those of a host."""
    if here <= per_host:
        return here
    even = count / math.ceil(count / per_host)
    return int(even) if even == int(even) else per_host


def _devices(count: int) -> str:
    return ",".join(str(i) for i in range(count))
