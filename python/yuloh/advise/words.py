# SPDX-License-Identifier: Apache-2.0
"""Every sentence of the advice, in English and Chinese, and the formatting of figures."""

from __future__ import annotations

import math
from typing import Dict, Optional

from ..report.text import duration, money, percent, three
from . import catalogue
from .terms import TALK

WORDS = {
    "title": ("What it needs, on what, for how much", "需要什么、用什么、花多少"),
    "answer": ("In short", "结论"),
    "class": ("Class", "类别"),
    "class0": ("small (below 1e8 parameters): one cheap card", "小型（1 亿参数以下）：一张便宜的卡即可"),
    "class1": ("medium (1e8 to 1e9 parameters): one good card", "中型（1 亿至 10 亿参数）：一张较好的卡"),
    "class2": ("large (1e9 to 1e10 parameters): training does not fit one common card",
               "大型（10 亿至 100 亿参数）：训练一张普通卡放不下"),
    "class3": ("very large (1e10 parameters and more): hundreds of GB, a cluster", "超大型（100 亿参数以上）：数百 GB，需要集群"),
    "memory_of": ("Memory of {what} on {device}", "{device} 上{what}所需内存"),
    "class2_other": ("large (1e9 to 1e10 parameters)", "大型（10 亿至 100 亿参数）"),
    "class3_other": ("very large (1e10 parameters and more)", "超大型（100 亿参数以上）"),
    "tokens_each": ("{0} tokens", "{0} 词元"),
    "attention": ("attention", "注意力"),
    "all": ("all", "全部"),
    "inside_pcie": ("inside one server, PCIe, {0} GB/s each way", "单台服务器内，PCIe 单向 {0} GB/s"),
    "inside": ("inside one server, {0} GB/s each way between devices", "单台服务器内，设备间单向 {0} GB/s"),
    "assumed_batch": ("batch assumed: {0} (--batch)", "假设批大小 {0}（--batch）"),
    "preset_seq": ("{0} tokens a sequence assumed (--seq)", "假设每条序列 {0} 词元（--seq）"),
    "yearly_machines": (". A year has 8,760 hours: {n} of these machines ({name} each) at once", "。一年 8,760 小时：需同时使用 {n} 套（每套 {name}）"),
    "training": ("training", "训练"),
    "inference": ("inference", "推理"),
    "item": ("item", "项目"),
    "weights": ("weights", "权重"),
    "experts": ("experts", "专家权重"),
    "adapters": ("adapters (LoRA)", "适配器 (LoRA)"),
    "gradients": ("gradients", "梯度"),
    "optimizer": ("optimizer", "优化器"),
    "activations": ("activations", "激活"),
    "logits": ("logits and loss", "输出与损失"),
    "cache": ("key-value cache", "KV 缓存"),
    "workspace": ("workspace", "工作区"),
    "communication": ("communication", "通信缓冲"),
    "runtime": ("runtime", "运行时"),
    "fragmentation": ("fragmentation", "碎片"),
    "total": ("total", "合计"),
    "point": ("estimate", "估计"),
    "from_to": ("from - to", "区间"),
    "devices": ("Which devices hold it", "哪些设备放得下"),
    "device": ("device", "设备"),
    "has": ("has", "容量"),
    "needs": ("needs", "需要"),
    "fits": ("fits", "能否放下"),
    "yes": ("yes", "能"),
    "tight": ("tight", "勉强"),
    "unlikely": ("unlikely", "很难"),
    "no": ("no", "不能"),
    "largest": ("largest batch", "最大批"),
    "step": ("step", "单步"),
    "batch_time": ("a batch", "每批"),
    "share": ("of peak", "峰值占比"),
    "recommended": ("Recommended: the least of each kind that does it", "推荐：每种设备中够用的最小配置"),
    "why": ("why", "理由"),
    "layout": ("layout", "切分"),
    "changes": ("What to change on {device}", "{device} 上可以改什么"),
    "change": ("change", "改动"),
    "option": ("to type", "选项"),
    "saves": ("saves", "节省"),
    "time": ("time", "时间"),
    "together": ("Together these make it fit {device}", "合用以下改动即可放进 {device}"),
    "together_none": ("No change on one {device} makes it fit; more devices do.", "单个 {device} 上没有改动能放下；需要更多设备。"),
    "layouts": ("Layouts over {count} x {device}", "{count} × {device} 的切分方案"),
    "layouts_none": ("No layout over {count} x {device} fits.", "{count} × {device} 没有放得下的切分。"),
    "bubble": ("bubble", "气泡"),
    "talk": ("communication", "通信"),
    "strategy": ("Strategy for fleet", "fleet 配置"),
    "launch": ("Launch (on every server)", "启动命令（每台服务器）"),
    "train_choice": ("Cheapest that trains {samples} in time", "按时训练 {samples}的最省方案"),
    "train_cheapest": ("Cheapest that trains {samples}", "训练 {samples}的最省方案"),
    "serve_choice": ("Cheapest that serves {rate} requests/s, 99 of 100 within {limit}", "每秒 {rate} 个请求、P99 不超过 {limit} 的最省方案"),
    "hours": ("takes", "用时"),
    "energy": ("energy", "能耗"),
    "cost": ("cost", "费用"),
    "none_in_time": ("None of them is in time; the fastest:", "没有方案能按时完成；最快的是："),
    "none_fits": ("None of these devices can do it.", "这些设备都无法完成。"),
    "load": ("load", "负载"),
    "p99": ("99 of 100", "P99"),
    "most_rate": ("at most/s", "上限/秒"),
    "cost_hour": ("cost an hour", "每小时费用"),
    "cost_year": ("cost a year", "每年费用"),
    "unknown_times": ("an unknown multiple of", "未知"),
    "many_times": ("many times", "许多倍"),
    "unlimited": ("unlimited", "不限"),
    "per_money": ("requests per {currency}", "每 {currency} 请求数"),
    "matrix": ("Decision matrix", "决策矩阵"),
    "memory": ("memory", "显存"),
    "bandwidth": ("bandwidth", "带宽"),
    "link": ("link", "互联"),
    "watts": ("watts", "功耗"),
    "watts_w": ("watts", "功耗 W"),
    "h": ("h", "小时"),
    "min": ("min", "分钟"),
    "per_second": ("/s", "/秒"),
    "to": (" to ", " 至 "),
    "the model in numbers": ("The model in numbers", "按参数描述的模型"),
    "use": ("use", "用途"),
    "cost_index": ("cost index", "成本指数"),
    "scenarios": ("Recommendations by scenario", "按场景推荐"),
    "scenario": ("scenario", "场景"),
    "work": ("work", "任务"),
    "best": ("recommended", "推荐"),
    "article_holds": ("usual advice (holds it)", "通行建议（能否放下）"),
    "assumed": ("Shares of peak are assumed (catalogue peak x assumed efficiency); yuloh calibrate measures them for this machine.",
                "效率为假设值（目录峰值 × 假设效率）；yuloh calibrate 可在本机实测。"),
    "origins": ("Origins: memory is computed; time is computed {time}; device figures are the catalogue's (c), recalled and unchecked (r), measured (m) or yours (u){prices}.",
                "来源：内存为计算值；时间{time}计算；设备数据来自目录 (c)、未核实 (r)、实测 (m) 或用户 (u){prices}。"),
    "origin_time_assumed": ("with assumed shares of the peaks", "按峰值的假设效率"),
    "origin_time_measured": ("with rates measured on {0}", "按 {0} 的实测速率"),
    "origin_time_both": ("with rates measured on {0}, else with assumed shares of the peaks", "按 {0} 的实测速率，其余按峰值的假设效率"),
    "origin_prices": ("; costs follow from your prices", "；费用按您的价格"),
    "remarks": ("Remarks", "说明"),
    "rates": ("Requests a second by precision, at the best batch", "各精度每秒请求数（最佳批大小）"),
    "decoding": ("Generating on {count} x {device}, {new} tokens a request", "{count} × {device} 上生成，每个请求 {new} 个词元"),
    "together_n": ("requests together", "同时请求数"),
    "a_token": ("a token", "每词元"),
    "tokens_s": ("tokens/s", "词元/秒"),
    "requests_s": ("requests/s", "请求/秒"),
    "most_requests": ("At most {n} requests of {context} tokens at once ({low} - {high}).", "最多同时 {n} 个 {context} 词元的请求（{low} - {high}）。"),
    "first_token": ("First token of a request that comes alone: {first}.", "单独到来的请求首词元：{first}。"),
    "concurrent": ("Requests of {context} tokens at once, in {share} of the memory", "同时容纳的 {context} 词元请求数（使用 {share} 显存）"),
    "concurrent_note": ("weights in so many bits; / n: over n devices; in brackets tokens a second of all of them", "权重比特数；/ n：n 卡；括号内为总词元/秒"),
    "bits": ("{0} bits", "{0} 比特"),
    "per_watt_hour": ("per watt hour", "每瓦时请求数"),
    "price": ("price/h", "每小时价格"),
    "recalled_mark": ("?: recalled, unchecked", "?：凭记忆，未核实"),
    "plan": ("Planned for this machine, without running it (batch {batch}, {precision})", "本机的执行计划（未运行；批 {batch}，{precision}）"),
    "plan_peak": ("allocator, tensors in use", "分配器峰值（使用中）"),
    "plan_reserved": ("allocator, with idle blocks", "分配器保留"),
    "plan_process": ("the whole process", "整个进程"),
    "plan_measured": (", by this machine's measured rates", "，按本机实测速率"),
    "plan_assumed": (", assumed: yuloh calibrate measures this machine", "，假设值：yuloh calibrate 可实测本机"),
    "recompute_layer": ("what to recompute", "重算"),
    "recompute_code_each": ("instead of layer(x), for each of {0}", "代替 layer(x)，对 {0} 各层"),
    "recompute_code_block": ("instead of block(x), for each block of {0}", "代替 block(x)，对 {0} 的每个块"),
    "recompute_code_one": ("instead of self.{0}(x)", "代替 self.{0}(x)"),
    "impossible": ("cannot be", "不可行"),
    "assumed_shape": ("shape assumed from the parameters: {0} layers of width {1}", "由参数量推定的形状：{0} 层，宽 {1}"),
    "shared_settings": ("the same in all settings, as in the answer, where it can be: {0}", "各设置中与答案相同（可行时）：{0}"),
    "assumed_tokens": ("{0} tokens an answer assumed (--new-tokens; 0: prompts alone)", "假设每个回答 {0} 个词元（--new-tokens；0 表示只处理提示）"),
    "assumed_p99": ("{0} s for 99 of 100 answers assumed: one second and {1} ms a token (--p99)", "假设 P99 为 {0} 秒：1 秒加每词元 {1} 毫秒（--p99）"),
    "assumed_seq": ("sequence length assumed: {0}", "假设序列长度 {0}"),
    "assumed_heads": ("heads assumed: {0}", "假设注意力头数 {0}"),
    "assumed_vocab": ("vocabulary assumed: {0}", "假设词表 {0}"),
    "shape_differs": (
        "the shape has {0}e9 parameters; yours ({1}e9) are counted, spread over the layers",
        "该形状有 {0}e9 参数；按您给出的 {1}e9 计算，平摊到各层",
    ),
    "assumed_sizes": ("sizes assumed where the file leaves them open: {0} (--input says others)", "文件未定的尺寸按假设值：{0}（可用 --input 指定）"),
    "split_none": ("tensor parallel: no pairs of products are known to split (it has {0}), so layouts use data, sharding and pipeline",
                   "张量并行：没有已知可切分的乘积对（含 {0}），切分方案只用数据、分片与流水线并行"),
    "split_found": ("tensor parallel: {0} {1} split in pairs over devices that divide {2}", "张量并行：{0} 个 {1} 可成对切分，卡数须整除 {2}"),
    "split_whole": ("tensor parallel: {0} {1} split in pairs over devices that divide {2}; whole on every device: {3}",
                    "张量并行：{0} 个 {1} 可成对切分，卡数须整除 {2}；每卡完整保留：{3}"),
    "script_precision": ("precision {0}: as the script trains; --precision asks about another", "精度 {0}：与脚本一致；可用 --precision 改问其他精度"),
    "script_precision_other": ("precision {0} was asked for; the script itself trains in {1}", "按所问精度 {0} 计算；脚本本身以 {1} 训练"),
    "script_no_optimizer": ("the script takes no optimizer step: {0} is reckoned with (--optimizer, or --inference)",
                            "脚本没有优化器步骤：按 {0} 计算（可用 --optimizer 或 --inference）"),
    "script_optimizer_unknown": ("the script's optimizer, {0}, is not among those reckoned with: {1} stands for it (--optimizer)",
                                 "脚本的优化器 {0} 不在可计算之列：以 {1} 代替（--optimizer）"),
    "script_passes": ("the script accumulates: {0} passes of {1} for a step", "脚本使用梯度累积：每步 {0} 次，每次 {1}"),
    "script_recomputes": ("the script recomputes parts of its model: they are counted twice in the time and not kept in memory",
                          "脚本自身使用重算：时间中计两次，内存中不保留"),
    "course work": ("course work", "课程作业"),
    "edge": ("edge", "边缘"),
    "workstation": ("workstation", "工作站"),
    "large models": ("large models", "大模型"),
    "very large models": ("very large models", "超大模型"),
    "large models (China)": ("large models (China)", "大模型（中国）"),
    "inference and small training": ("inference and small training", "推理与小规模训练"),
    "inference, small training": ("inference, small training", "推理、小规模训练"),
    "inference, fine-tuning": ("inference, fine-tuning", "推理、微调"),
    "course work, fine-tuning": ("course work, fine-tuning", "课程作业、微调"),
    "vision products, inference": ("vision products, inference", "视觉产品、推理"),
    "inference and training (China)": ("inference and training (China)", "推理与训练（中国）"),
    "inference of large models (China)": ("inference of large models (China)", "大模型推理（中国）"),
    "training up to 1e9 parameters": ("training up to 1e9 parameters", "10 亿参数以内的训练"),
    "show_all": ("show all {0}", "显示全部 {0} 项"),
    "whatif": ("What if", "假如"),
    "pareto": ("Cost against time", "费用与时间"),
    "pareto_means": (
        "A dot is a device in one number: further left is faster, further down cheaper. The line joins those that none beats in both; "
        "the ring is the recommendation, hollow dots are later than --hours allows.",
        "每个点是一种设备与数量：越靠左越快，越靠下越省。折线连接无法同时被超过的方案；圆环为推荐，空心点超过 --hours 限时。",
    ),
    "bars_means": (
        "The mark is what the device has. What reaches beyond it does not fit.", "竖线为设备容量；超出则放不下。"),
    "bars": ("Memory by device", "各设备内存"),
    "yearly": ("Yearly cost", "年度费用"),
    "accumulate": ("accumulate gradients over {0} smaller batches", "梯度累积，分 {0} 小批"),
    "batch": ("batch {0}", "批大小 {0}"),
    "precision": ("compute in {0}", "改用 {0}"),
    "flash": ("attention that keeps no scores", "使用不保存分数的注意力"),
    "recompute_selective": ("recompute attention scores", "重算注意力分数"),
    "recompute_full": ("recompute every layer", "重算全部层"),
    "recompute_some": ("recompute {0} of {1} layers", "重算 {1} 层中的 {0} 层"),
    "offload_optimizer": ("optimizer states on the host", "优化器状态放到主机"),
    "offload_weights": ("weights on the host", "权重放到主机"),
    "offload_all": ("weights, gradients and states on the host", "权重、梯度与状态放到主机"),
    "optimizer_to": ("optimizer {0} (another training)", "改用优化器 {0}（训练会不同）"),
    "lora": ("LoRA rank {0} (another training)", "LoRA 秩 {0}（训练会不同）"),
    "qlora": ("LoRA rank {0}, base in {1} bits (another training)", "LoRA 秩 {0}，基座 {1} 比特（训练会不同）"),
    "weight_bits": ("weights in {0} bits (other results)", "权重 {0} 比特（结果会不同）"),
    "cache_bits": ("cache in {0} bits (other results)", "缓存 {0} 比特（结果会不同）"),
    "experts_over": ("experts over {0} devices", "专家并行 {0} 卡"),
    "context": ("context over {0} devices", "上下文并行 {0} 卡"),
    "sharding": ("shard stage {0} over {1} devices", "{1} 卡分片，第 {0} 阶段"),
    "grown": (", batch {0} (another training)", "，批大小 {0}（训练会不同）"),
    "tensor": ("split tensors over {0} devices", "张量并行 {0} 卡"),
    "pipeline": ("pipeline over {0} devices", "流水线并行 {0} 卡"),
    "why_one": ("one holds it with {0} to spare", "单卡即可，余 {0}"),
    "why_one_tight": ("one just holds it", "单卡勉强放下"),
    "why_many": ("{0} are the fewest that hold it; {1} of the time goes to communication", "至少 {0} 卡才放得下；{1} 的时间用于通信"),
    "stage_words": ("stage", "阶段"),
    "micro": ("micro-batch", "微批"),
    "along": ("sequence parallel", "序列并行"),
    "not_along": ("without sequence parallel", "无序列并行"),
    "recompute": ("recompute", "重算"),
    "day": ("days", "天"),
    "of_a_pair": ("{0} in pairs", "{0}（成对）"),
    # the answer in a handful of sentences
    "ans_need": ("{model} ({params} parameters), {what} ({job}): {need} on one device ({span}).",
                 "{model}（{params}参数），{what}（{job}）：单设备需要 {need}（{span}）。"),
    "ans_need_whole": ("{model} ({params} parameters), {what} ({job}): {need} on one device in one pass ({span}).",
                       "{model}（{params}参数），{what}（{job}）：单设备一次算完整批需要 {need}（{span}）。"),
    "ans_how": (" That counts on {passes}{split}: {need} on each device ({span}).", "算法：{passes}{split}；每设备 {need}（{span}）。"),
    "ans_host": (" Host memory: {0} for each device{server}.", "主机内存：每设备 {0}{server}。"),
    "ans_host_server": (", {0} in a server of {1}", "，每台 {1} 卡服务器 {0}"),
    "how_passes": ("{0} passes of {1} a step, gradients accumulated", "每步 {0} 次、每次 {1}（梯度累积）"),
    "how_pass": ("one pass of {1} a step", "每步一次、每次 {1}"),
    "ans_take": ("Take {name}: {why}, {time} {unit}{cost}.", "建议 {name}：{why}，{unit} {time}{cost}。"),
    "ans_take_hours": ("Take {name}: done in {hours} ({span}){limit}, {energy}{cost}.",
                       "建议 {name}：{hours}完成（{span}）{limit}，{energy}{cost}。"),
    "ans_limit": (" of the {0} allowed", "，限时 {0}"),
    "in_groups": ("copies: {0}, each on {1}", "副本 {0} 个，每个占 {1} 张卡"),
    "ans_take_rate": ("Take {name}: 99 of 100 requests answered within {p99}, up to {most}/s within {limit}{cost}.",
                      "建议 {name}：P99 为 {p99}；{limit} 内每秒最多 {most} 个请求{cost}。"),
    "a_step": ("a step", "单步"),
    "a_batch": ("a batch", "每批"),
    "an_hour": (" an hour", "/小时"),
    "why_least": ("Why: of {m} devices {n} have a price and do it, and this costs least.", "理由：{m} 种设备中 {n} 种有价格且可行，此方案费用最低。"),
    "why_least_watts": ("Why: of {m} devices {n} do it, and among what is bought for such work this draws least ({watts} W).",
                        "理由：{m} 种设备中 {n} 种可行，同类用途中此方案功耗最低（{watts} W）。"),
    "why_though": ("Why: of {m} devices {n} have a price and do it; {name} {less} ({price}) but takes {times} as long ({time}).",
                   "理由：{m} 种设备中 {n} 种有价格且可行；{name} {less}（{price}），但用时为 {times}（{time}）。"),
    "why_though_watts": ("Why: of {m} devices {n} do it; of what is bought for such work {name} {less} ({price}) but takes {times} as long ({time}).",
                         "理由：{m} 种设备中 {n} 种可行；同类用途中 {name} {less}（{price}），但用时为 {times}（{time}）。"),
    "why_given_though": ("Why: the number is yours; {name} {less} ({price}) and takes {times} as long ({time}).", "理由：数量按您所给；{name} {less}（{price}），用时为 {times}（{time}）。"),
    "why_given": ("Why: the number is yours; no less of it costs or draws less.", "理由：数量按您所给；没有更省的数量。"),
    "why_number_though": ("Why {count}: {name} {less} ({price}) but takes {times} as long ({time}).", "为何用 {count} 个：{name} {less}（{price}），但用时为 {times}（{time}）。"),
    "why_number_cheapest": ("Why {count}: no other number of it that is in time costs less.", "为何用 {count} 个：能按时完成的数量中费用最低。"),
    "why_number_in_time": ("Why {count}: no smaller number of it is in time.", "为何用 {count} 个：更少则不能按时完成。"),
    "why_number_holds": ("Why {count}: fewer of it do not hold the job.", "为何用 {count} 个：更少则放不下。"),
    "power_stands": (" Power stands in for cost: --prices FILE ranks by yours.", "功耗代替费用排序：用 --prices 文件给出您的价格。"),
    "costs_less": ("costs less", "更便宜"),
    "draws_less": ("draws less", "功耗更低"),
    "why_asked": ("as asked, {0} to spare on each; {1} of the time goes to communication", "按所给数量，每个余 {0}；{1} 的时间用于通信"),
    "why_asked_tight": ("as asked, they just hold it", "按所给数量，勉强放下"),
    "ans_given_late": ("{name} are done in {hours}, later than the {limit} allowed.", "{name} 需 {hours}，超过限时 {limit}。"),
    "ans_given_slow": ("{name} do not answer 99 of 100 of {rate} requests/s within {limit}.", "{name} 无法使每秒 {rate} 个请求的 P99 不超过 {limit}。"),
    "ans_instead": (" {0} would do it.", "{0} 可行。"),
    "instead": ("The job was laid out as asked; on these devices it would fit with {0} (time of a step).", "以上按所问方式切分；这些设备加上 {0} 即可放下（括号内为单步时间）。"),
    "instead_none": ("The job was laid out as asked; neither offload nor LoRA makes it fit these devices.", "以上按所问方式切分；卸载或 LoRA 也无法使其放下。"),
    "ans_sure": ("How sure: of the memory, {memory}; of the time, {time}{recalled}.", "把握：内存：{memory}；时间：{time}{recalled}。"),
    "sure_yes": ("even the high end of the estimate fits", "估计区间的上端也放得下"),
    "sure_tight": ("the estimate fits, its high end ({high}) does not: try before buying", "估计值放得下，区间上端（{high}）放不下：购买前请先试"),
    "sure_measured": ("by this machine's measured rates, {low} to {high} times the figure", "按本机实测速率，实际为该值的 {low} 至 {high} 倍"),
    "sure_planned": ("this model's own kernels at assumed shares of a CPU's peak, {low} to {high} times the figure (yuloh calibrate measures)",
                     "本模型的各个算子 × 假设效率，实际为该值的 {low} 至 {high} 倍（yuloh calibrate 可实测）"),
    "sure_assumed": ("catalogue peak x an assumed share, 0.7 to 1.6 times the figure (40 of 46 published times lie within)", "目录峰值 × 假设效率，实际为该值的 0.7 至 1.6 倍（46 个公开数据中 40 个在此区间内）"),
    "sure_assumed_experts": ("catalogue peak x an assumed share, with experts 0.7 to 2.6 times the figure (a width that four published runs set)", "目录峰值 × 假设效率，含专家时实际为该值的 0.7 至 2.6 倍（此宽度取自四次公开运行）"),
    "sure_in_time": (", and even the slow end is in time", "，即使取区间慢端也能按时"),
    "sure_late": (", and its slow end ({0}) is late", "，而区间慢端（{0}）会超时"),
    "sure_enough": (": {0} would be in time even then", "：{0} 即使那样也能按时"),
    "sure_never": (": no number of {0} that was tried would be in time then", "：所试数量的 {0} 那时都不能按时"),
    "sure_behind": (", and at its slow end they do not keep up", "，而在区间慢端处理不过来"),
    "sure_recalled": ("; some figures of this device are unchecked (yuloh advise --show)", "；该设备部分数据未核实（yuloh advise --show）"),
    "ans_no_bf16": ("No bf16 on {0}: use fp16 with loss scaling there (paddle.amp.GradScaler), as reckoned.",
                    "{0} 没有 bf16：请用 fp16 并缩放损失（paddle.amp.GradScaler），已按此计算。"),
    "ans_no_precision": ("No {1} on {0}: reckoned in {2} there.", "{0} 没有 {1}：按 {2} 计算。"),
    "ans_rate_assumed": ("No {1} rate of {0} is known: a sixteenth of the rate in half precision is assumed.",
                         "{0} 的 {1} 算力未知：按半精度的十六分之一假设。"),
    "ans_not_for_training": ("Made for inference, not recommended for training: {0}.", "为推理设计，不推荐用于训练：{0}。"),
    "ans_next": ("Next larger: {name}: {time}, {faster} as fast for {more} the {by}.", "更大一档：{name}：{time}，速度 {faster}，{by}为 {more}。"),
    "ans_no_next": ("Next larger: none of those asked about is 1.5 times as fast.", "更大一档：所询设备中没有快 1.5 倍以上的。"),
    "by_power": ("power", "功耗"),
    "by_cost": ("cost", "费用"),
    "ans_none": ("None of the {m} devices asked about holds it; nearest is {name}: {has}, where {needs} are needed.",
                 "所询 {m} 种设备均放不下；最接近的是 {name}：{has}，需要 {needs}。"),
    "ans_none_one": ("{name} does not hold it: {has}, where {needs} are needed.", "{name} 放不下：{has}，需要 {needs}。"),
    "ans_none_in_time": ("Nothing is done within {limit}: with up to {most} devices {name} is fastest, in {hours}. Hint: --most N, --hours H.",
                         "{limit} 内无法完成：最多 {most} 个设备时最快的是 {name}，需 {hours}。可改 --most N 或 --hours H。"),
    "ans_none_so_few": ("No device does {rate} requests a second within {limit} in a number that --most allows. The fewest that do are {name}. Hint: --most {n}.",
                        "在 --most 允许的数量内，没有设备能在 {limit} 内每秒应答 {rate} 个请求。最少需 {name}。提示：--most {n}。"),
    "ans_none_serves": ("Nothing answers within {limit}: {name} is quickest and needs {alone} for a request alone. Hint: --p99 MS, --precision int8.",
                        "没有设备能在 {limit} 内应答：最快的 {name} 单个请求需 {alone}。可改 --p99 MS 或 --precision int8。"),
    "by_use": ("Recommended, by what it is bought for", "按用途推荐"),
    "for": ("for", "用途"),
    "use_course": ("consumer card", "消费级显卡"),
    "use_workstation": ("workstation", "工作站"),
    "use_server": ("server", "服务器"),
    "use_china": ("made for China", "国产或中国特供"),
    "use_edge": ("edge", "边缘"),
    "use_cpu": ("CPU server", "CPU 服务器"),
    "use_more": (" {0} more kinds do it: --all.", "另有 {0} 种可行：--all。"),
    "load_of": ("load {0}", "负载 {0}"),
    # what a section means
    "memory_means": ("Most of it is {item} ({share}): {shrink}.", "占比最大的是{item}（{share}）：{shrink}。"),
    "shrink_states": ("sharding over devices or offload makes it smaller, a smaller batch does not", "分片或卸载可以减小，减小批大小无效"),
    "shrink_weights": ("a lower precision or more devices make it smaller", "降低精度或多卡切分可以减小"),
    "shrink_batch": ("it grows with the micro-batch; accumulation or recompute make it smaller", "随微批增大；梯度累积或重算可以减小"),
    "shrink_serving": ("it grows with the batch", "随批大小增大"),
    "shrink_runtime": ("the model itself is small beside what any process holds there", "模型本身比运行时占用还小"),
    "plan_means": ("Recomputing {name} saves most: {saved} at the peak.", "重算 {name} 节省最多：峰值减少 {saved}。"),
    "plan_means_many": ("Recomputing all {n} of {name} saves most: {saved} at the peak, where one is whole again at a time. Each row was planned so.",
                        "重算 {name} 的全部 {n} 块节省最多：峰值减少 {saved}（每次只恢复一块）。每行均为按该项重新规划的结果。"),
    "devices_means": ("{n} of {m} hold it as asked; the largest batch is of one pass on one device, in brackets where only the estimate fits and not its high end.",
                      "{m} 种中 {n} 种按所问方式放得下；最大批指单设备单次，括号内为仅估计值放得下、上端放不下的批大小。"),
    "largest_means": ("Largest batch of one pass on one {device}: {sure}, even by the high end; by the estimate {tight} (tight).",
                      "{device} 单设备单次最大批：{sure}（区间上端也放得下）；按估计值为 {tight}（勉强）。"),
    "largest_same": ("Largest batch of one pass on one {device}: {sure}, even by the high end.", "{device} 单设备单次最大批：{sure}（区间上端也放得下）。"),
    "largest_none": ("One {device} does not hold even a batch of one as asked.", "按所问方式，单个 {device} 连批大小 1 也放不下。"),
    "recommended_means": ("Of each the least power of two that holds it, or the number you gave. ", "每种设备为放得下的最小 2 的幂，或您所给的数量。"),
    "changes_means": ("The cheapest that fits: {0} ({1} time).", "放得下的改动中最省的：{0}（时间 {1}）。"),
    "changes_same": ("The cheapest that fits and leaves the training and its results as they are: {0} ({1} time).", "放得下且不改变训练与结果的改动中最省的：{0}（时间 {1}）。"),
    "changes_tight": ("As it is the estimate fits and its high end does not: those marked yes make it sure.", "按所问方式估计值放得下、上端放不下：标“能”的改动可确保放下。"),
    "changes_idle": ("It fits as it is: these make room for a larger batch or model.", "已经放得下：以上改动可为更大的批或模型腾出空间。"),
    "layouts_means": ("The first is the fastest that fits: {layout}; most is lost to {most} ({share}).", "第一行最快且放得下：{layout}；损失最大的是{most}（{share}）。"),
    "layouts_whole": ("The first is the fastest that fits: {layout}; hardly anything is lost to communication.", "第一行最快且放得下：{layout}；通信损失可忽略。"),
    "room": ("room, layout", "余量与切分"),
    "fits_spare": ("{0} to spare", "余 {0}"),
    "fits_tight": ("just fits", "勉强放下"),
    "order_watts": ("Least power first, for want of prices: --prices FILE ranks by cost.", "没有价格，按功耗排序：--prices 文件可按费用排序。"),
    "order_cost": ("Cheapest first, by your prices.", "按您的价格由低到高排序。"),
    "order_speed": (" Twice as fast makes up for a quarter more.", "速度翻倍可抵消多出的四分之一。"),
    "serve_means": ("Load is the share of what full batches keep up with; 90 % is the most that is planned with.", "负载为满批处理能力的占比；规划上限为 90 %。"),
    "rates_means": ("{0} does most for it; rates are at the best batch, without waiting.", "{0} 效率最高；速率为最佳批大小下，不含排队。"),
    "matrix_means": ("The first figure is reckoned with; those in brackets are what other kinds of sources say (docs/advise.md): yuloh advise --show NAME.", "第一个数值用于计算；括号内为其他类别来源的数值（docs/advise.md）：yuloh advise --show 名称。"),
    "scenarios_means": ("yuloh advise --scenario NAME shows every candidate and why.", "yuloh advise --scenario 名称 列出全部候选与理由。"),
    "article_mark": ("*: the usual advice for such a task, from the article on choosing hardware that docs/advise.md describes", "*：此类任务的通行建议，出自 docs/advise.md 所述的硬件选型文章"),
    "scenario_best": ("Ours: {name}, {took}: best by {by} of the {n} of {m} candidates that do it.", "我们推荐：{name}，{took}：{m} 个候选中 {n} 个可行，按{by}此方案最优。"),
    "scenario_layout": (" Layout {layout}; {talk} of the time is communication.", "切分 {layout}；通信占 {talk}。"),
    "scenario_article": ("Usually advised: {name}: {took}, {more} the {by}.", "通行建议 {name} 也可行：{took}，{by}为 {more}。"),
    "scenario_article_same": ("Usually advised: {0}: the same.", "通行建议 {0} 与此相同。"),
    "scenario_article_no": ("Usually advised: {0}: does not do it by our reckoning.", "通行建议 {0}：按我们的计算不可行。"),
    "name": ("name", "名称"),
    "model": ("model", "模型"),
    "parameters": ("parameters", "参数"),
    "source": ("source", "来源"),
    "presets": ("Models known by name", "已知模型"),
    "networks": ("Networks between servers", "服务器间网络"),
    "network": ("network", "网络"),
    "rate_gbs": ("GB/s", "GB/s"),
    "of_what": ("of each", "按"),
    "per_server": ("server", "服务器"),
    "per_device": ("device", "设备"),
    "latency": ("latency", "时延"),
    "known_devices": ("Devices by name", "设备名称"),
    "known_means": ("yuloh advise --show NAME gives every figure with its source.", "yuloh advise --show 名称 列出每个数值及来源。"),
    "aliases": ("also", "别名"),
    "figure": ("figure", "指标"),
    "value": ("value", "数值"),
    "unit": ("unit", "单位"),
    "kind": ("kind", "类别"),
    "date": ("date", "日期"),
    "device_means": ("The first of a figure is reckoned with.", "每项第一个数值用于计算。"),
    "mean_batch": ("mean batch", "平均批"),
    "image": ("images", "张图"),
    "sequence": ("sequences", "条序列"),
    "sample": ("samples", "个样本"),
}


def word(key: str, language: str = "en", *args, **named) -> str:
    """The sentence `key`; a key without translation stands for itself."""
    pair = WORDS.get(key)
    text = key if pair is None else pair[1 if language == "zh" else 0]
    return text.format(*args, **named) if args or named else text


def remark(said, language: str = "en") -> str:
    """The sentence of ("assumed_seq", 2048.0); a sentence stands for itself."""
    if isinstance(said, str):
        return said
    key, *args = said
    return word(key, language, *(f"{a:g}" if isinstance(a, float) else a for a in args))


NAMES = ((" (this machine)", "（本机）"), (", one die of two", "，双芯之一"), (", two sockets of 64 cores", "，双路 64 核"), (", two sockets", "，双路"),
         (", one GPU of 72", "，72 卡之一"), (" threads", " 线程"))
LINKS = ((", ", "，"), (" for each device", "/设备"), (" for each server", "/服务器"), (" a server", "/服务器"))


def short(name: str, language: str = "en") -> str:
    """A device's name without its maker, for tables."""
    for maker in catalogue.makers():
        name = name.removeprefix(maker + " ")
    return _local(name, NAMES, language)


def local_name(name: str, language: str) -> str:
    """A device's whole name."""
    return _local(name, NAMES, language)


def _local(name: str, pairs, language: str) -> str:
    if language == "zh":
        for english, chinese in pairs:
            name = name.replace(english, chinese)
    return name


def unit(name: str, language: str = "en") -> str:
    """ "image" -> "images" """
    return word(name, language) if name in WORDS else f"{name}s"


def times(value: float, language: str = "en") -> str:
    return f"{three(value)}{' 倍' if language == 'zh' else 'x'}"


def ratio(value: float, least: float, language: str) -> str:
    """How many times the least; of nothing no number of times makes something."""
    if math.inf in (value, least):
        return word("unknown_times", language)
    return times(value / least if least else 1.0, language) if least or not value else word("many_times", language)


def gib(value: float) -> str:
    if value < 2**20 / 100:
        return f"{three(value / 2**10)} KiB" if value >= 1 else "0"
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30)):
        if value >= scale or unit == "GiB" and value >= 2**20 * 100:
            return f"{three(value / scale)} {unit}"
    return f"{three(value / 2**20)} MiB"


def span(interval) -> str:
    low, _, high = interval
    return gib(low) if high - low < 1 else f"{gib(low)[:-4]} - {gib(high)}" if gib(low)[-4:] == gib(high)[-4:] else f"{gib(low)} - {gib(high)}"


def hours(value: float, language: str = "en") -> str:
    """ "45.0 s", "12.3 min", "4.87 h", "3.39 days" """
    if value * 3600 < 90:
        return duration(value * 3600)
    scale, unit = _unit_of(value)
    return f"{three(value * scale)} {word(unit, language)}"


def _unit_of(value: float):
    return (60, "min") if value < 1 else (1, "h") if value < 72 else (1 / 24, "day")


def hours_span(interval, language: str = "en", between: str = " - ") -> str:
    """Low and high of hours, both in the unit of the figure between them: "3.41 - 7.79 h"."""
    low, point, high = interval
    scale, unit = (3600, "s") if point * 3600 < 90 else _unit_of(point)
    return f"{three(low * scale)}{between}{three(high * scale)} {word(unit, language)}"


def brackets(said: str, language: str) -> str:
    return f"（{said}）" if language == "zh" else f" ({said})"


def colon(language: str) -> str:
    return "：" if language == "zh" else ": "


def stop(language: str) -> str:
    return "。" if language == "zh" else "."


def class_words(a: Dict[str, object], language: str = "en") -> str:
    """The class of a model; that its training fits no common card is said of such a training alone."""
    plain = a["job"]["training"] and not a["job"].get("lora")
    key = f"class{a['class']}"
    return word(key if plain or f"{key}_other" not in WORDS else f"{key}_other", language)


def network(name: str, language: str = "en") -> str:
    return _local(name, LINKS, language)


def number(value: float, language: str = "en") -> str:
    """7e9 -> "7.00e9", 25557032 -> "25.6e6", in Chinese 70.0 亿, 2,560 万, 12 个; small whole numbers as they are."""
    if language == "zh" and value >= 1e5:
        return f"{three(value / 1e8)} 亿" if value >= 1e8 else f"{three(value / 1e4)} 万"
    if language == "zh":
        return f"{value:,.0f} 个"
    for scale, end in ((1e12, "e12"), (1e9, "e9"), (1e6, "e6")):
        if value >= scale:
            return f"{three(value / scale)}{end}"
    return f"{value:,.0f}"


def layout(job: Dict[str, object], language: str = "en") -> str:
    """"dp 8, mp 4, pp 2, stage 1 over 8, micro-batch 2, recompute full" of a layout's job."""
    parts = [f"{k} {job[k]:.0f}" for k in ("dp", "mp", "pp", "vpp", "cp", "ep") if job[k] > 1]
    if job["sharding"] > 1:
        parts.append(f"{word('stage_words', language)} {job['stage']:.0f} / {job['sharding']:.0f}")
    if job["micro"]:
        parts.append(f"{word('micro', language)} {job['micro']:.0f}")
    if job["mp"] > 1 and job["training"]:
        parts.append(word("along" if job["sequence_parallel"] else "not_along", language))
    if job["recompute"] != "none":
        parts.append(_kind("recompute", job["recompute"], language))
    if job["offload"] != "none":
        parts.append(_kind("offload", job["offload"], language))
    return comma(language).join(parts) or "–"


def _kind(option: str, value: str, language: str) -> str:
    """"recompute full" as it is typed; in Chinese what that does."""
    return word(f"{option}_{value}", language) if language == "zh" else f"{option} {value}"


def comma(language: str) -> str:
    return "、" if language == "zh" else ", "


def change(c: Dict[str, object], language: str = "en") -> str:
    what, detail = str(c["what"]), str(c["detail"])
    if what == "recompute":
        if "/" in detail:
            return word("recompute_some", language, *detail.split("/"))
        return word(f"recompute_{detail}", language)
    if what == "offload":
        where = "weights" if not c["after"]["job"]["training"] else detail
        return word(f"offload_{where}", language) + brackets(gib(c["after"]["host"]), language)
    if what == "optimizer":
        return word("optimizer_to", language, detail)
    made = word(what, language, *detail.split("/"))
    grown = what in ("sharding", "experts_over") and not c["same"]  # what so many devices cannot share
    return made + (word("grown", language, f"{c['after']['job']['batch']:.0f}") if grown else "")


OPTIONS = (("precision", "precision"), ("optimizer", "optimizer"), ("recompute", "recompute"), ("offload", "offload"), ("batch", "batch"),
           ("micro", "micro-batch"), ("lora", "lora"), ("weight_bits", "weight-bits"), ("cache_bits", "cache-bits"), ("dp", "dp"),
           ("mp", "mp"), ("pp", "pp"), ("sharding", "sharding"), ("stage", "stage"), ("cp", "cp"), ("ep", "ep"))


def options(before: Dict[str, object], after: Dict[str, object]) -> str:
    """What to type to get from one job to another; a part of the layers has no option."""
    if after.get("recompute_layers"):
        return "–"
    made = [
        f"--{option} {after[k] if isinstance(after[k], str) else format(after[k], '.0f')}"
        for k, option in OPTIONS
        if after[k] != before[k] and not (k == "micro" and not after[k])
    ]
    return " ".join(made) or "–"


def talk_share(layout_: Dict[str, object]) -> float:
    """Share of the step that goes to communication."""
    talk = sum(s for what, s in layout_["time"] if what in TALK)
    return talk / layout_["seconds"][1]


def share(value: float) -> str:
    """Of a peak; a peak that is exceeded was measured too low."""
    return percent(value) if value <= 1 else "–"


def factor(value: float) -> str:
    more = round((value - 1) * 100)
    return f"{more:+d} %" if more else "0 %"


def cost(value: Optional[float], currency: str) -> str:
    return "–" if value is None else money(float(three(value).replace(",", "")) if value >= 100 else value, currency)
