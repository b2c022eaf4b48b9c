# SPDX-License-Identifier: Apache-2.0
"""Every sentence of the report, in English and Chinese, and the formatting of figures."""

from __future__ import annotations

import math
from typing import Optional

WORDS = {
    "title": ("Training performance report", "训练性能测试报告"),
    "subtitle": (
        "Same model, same weights, same batches, same machine, measured in turn",
        "同一模型、同一初始权重、同一批数据、同一台机器，交替测量",
    ),
    "summary": ("Summary", "结论"),
    "speed": ("Speed", "速度"),
    "resources": ("Memory and processors", "内存与处理器"),
    "advice": ("Recommendation", "建议"),
    "comparison": ("Comparison", "对比"),
    "contender": ("Contender", "参测对象"),
    "step": ("Step", "单步耗时"),
    "throughput": ("Throughput", "吞吐量"),
    "memory": ("Peak memory", "内存峰值"),
    "cpu": ("CPUs used", "占用 CPU 数"),
    "gpu": ("GPU use", "GPU 利用率"),
    "speedup": ("Speed vs. base", "相对基准速度"),
    "verdict": ("Verdict", "判定"),
    "first": ("Cold start", "冷启动"),
    "settings": ("Best settings", "最佳设置"),
    "base": ("base", "基准"),
    "faster": ("faster", "更快"),
    "slower": ("slower", "更慢"),
    "cannot tell": ("cannot tell", "无法区分"),
    "failed": ("failed", "失败"),
    "unmeasured": ("not measured", "未测量"),
    "curves": ("Pictures", "图表"),
    "sweep": ("Batch size", "批大小"),
    "loader": ("Feeding the training", "数据供给"),
    "batch": ("Batch", "批大小"),
    "fits": ("Fits", "能否放下"),
    "knee": ("knee", "拐点"),
    "yes": ("yes", "能"),
    "no": ("no", "不能"),
    "estimated": ("estimated", "估算"),
    "workers": ("Workers", "加载进程"),
    "images_s": ("Images/s", "图像/秒"),
    "waiting": ("Waiting for data", "等待数据"),
    "cost": ("Cost and benefit", "成本收益"),
    "cold": ("Start and first step", "启动与首步"),
    "import": ("import", "导入"),
    "build": ("build", "建模"),
    "first_step": ("first step", "首步"),
    "total": ("total", "合计"),
    "method": ("How it was measured", "测量方法"),
    "machine": ("Machine", "测试环境"),
    "repeat": ("To repeat it", "复现命令"),
    "packages": ("Contenders in full", "参测对象明细"),
    "errors": ("What failed", "失败项"),
    "raw": ("All raw samples are in results.json.", "全部原始数据见 results.json。"),
    "images": ("images/s", "图像/秒"),
    "tokens": ("tokens/s", "词元/秒"),
    "sequences": ("sequences/s", "序列/秒"),
    "samples": ("samples/s", "样本/秒"),
    "runs": ("runs/s", "次/秒"),
    "threads": ("threads", "线程"),
    "thread": ("thread", "线程"),
    "pic_comparison": (
        "Step time; shorter is better. Lines: middle half of the blocks.",
        "单步耗时，越短越好；细线为中间一半样本的范围。",
    ),
    "pic_loss": (
        "Training loss from the same weights on the same batches.",
        "相同权重、相同批次下的训练损失。",
    ),
    "pic_sweep": ("Throughput and memory against batch size.", "吞吐量与内存随批大小的变化。"),
    "pic_memory": ("Peak resident memory of the training process.", "训练进程的常驻内存峰值。"),
    "runs_per_day": ("Runs a day", "每天训练次数"),
    "hours_saved": ("Hours saved a run", "每次节省小时数"),
    "servers": ("Servers", "服务器数"),
    "price": ("Price of a server hour", "每服务器小时单价"),
    "hours_year": ("Hours saved a year", "每年节省小时数"),
    "money_year": ("Saved a year", "每年节省金额"),
    "cost_lost": ("Extra cost a year", "每年增加成本"),
    "os": ("System", "操作系统"),
    "processor": ("Processor", "处理器"),
    "cpus": ("CPUs", "CPU 数"),
    "ram": ("Memory", "内存"),
    "peaks": ("Measured peaks", "实测峰值"),
    "data": ("Data", "数据"),
    "took": ("Took", "用时"),
}


def word(key: str, language: str) -> str:
    """The word in "en" or "zh"; a key without translation stands for itself."""
    pair = WORDS.get(key)
    return pair[1 if language == "zh" else 0] if pair else key


def duration(seconds: Optional[float]) -> str:
    """Step times and longer: "2.18 ms", "146 ms", "2.24 s", "4 min 10 s"."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 1e-3:
        return f"{three(seconds * 1e6)} µs"
    if seconds < 1:
        return f"{three(seconds * 1e3)} ms"
    if seconds < 90:
        return f"{three(seconds)} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def three(value: float) -> str:
    """Three significant digits, without exponent, thousands parted."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


def times(value: float) -> str:
    return f"{three(value)}×"


def percent(value: float, sign: bool = False) -> str:
    return f"{value * 100:{'+' if sign else ''}.1f} %"


def megabytes(value: Optional[float]) -> str:
    return "–" if value is None else f"{value:,.0f} MB"


def money(value: float, currency: str) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".") + (f" {currency}" if currency else "")
