# SPDX-License-Identifier: Apache-2.0
"""The catalogue of devices, models and networks.

devices.json holds every figure with its source and date; the first entry of a figure is reckoned with, the others are
shown beside it. Nothing here knows a price: see prices.py.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import statistics
from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from .. import _core
from .terms import DEVICE_KINDS, PRECISIONS, USES

HERE = Path(__file__).parent
# What one unit of the catalogue is in the core's units (bytes, bytes/s, operations/s, watts).
SCALE = {
    "memory": 2.0**30,
    "bandwidth": 1e9,
    "link": 1e9,
    "pair_link": 1e9,
    "host_link": 1e9,
    "watts": 1.0,
    **{p: 1e12 for p in PRECISIONS},
}
# Kinds of sources; a derived figure follows from read ones by the rule in its note.
KINDS = ("vendor", "secondary", "derived", "article", "recalled")
SHARES = ("matrix_efficiency", "stream_efficiency", "slower", "spread")  # what was measured of it beside figures


@lru_cache(maxsize=None)
def _file(name: str) -> dict:
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def sources() -> Dict[str, dict]:
    return _file("devices.json")["sources"]


def devices() -> List[dict]:
    """All entries of the catalogue, as they stand there."""
    return _file("devices.json")["devices"]


def reckoned(training: bool = False) -> List[dict]:
    """Those that are complete enough to reckon with; for `training`, without what is made for inference alone."""
    return [d for d in devices() if not d.get("incomplete") and (d.get("training", True) or not training)]


def common() -> List[str]:
    """Ids of the cards that large models are usually trained on, the first first."""
    return [d["id"] for d in devices() if d.get("common")]


def makers() -> List[str]:
    """What names of devices begin with and tables leave away."""
    return _file("devices.json")["makers"]


def market(entry: dict) -> dict:
    """What is said of a device beside its figures (src/advise/ranking.h); of the user's own its kind says the use."""
    use = entry.get("bought_for") or (entry["kind"] if entry["kind"] in ("edge", "cpu") else "server")
    return {"use": use, "small": bool(entry.get("small")), "common": bool(entry.get("common")), "host": entry["kind"] == "cpu"}


def fabrics() -> Dict[str, dict]:
    return _file("devices.json")["fabrics"]


def units() -> Dict[str, str]:
    return _file("devices.json")["units"]


def presets() -> Dict[str, dict]:
    return _file("presets.json")["models"]


def scenarios() -> List[dict]:
    return _file("scenarios.json")["scenarios"]


def _find(kind: str, word: str, names: Dict[str, str], hint: str) -> str:
    """The id that `word` names, or a ValueError that suggests near ones."""
    def plain(text: str) -> str:
        return text.strip().lower().replace("_", "-").replace(" ", "-")

    known = {plain(name): ident for name, ident in names.items()}
    if plain(word) in known:
        return known[plain(word)]
    near = difflib.get_close_matches(plain(word), known, 3, 0.4)
    suggestion = f" Near: {', '.join(near)}." if near else ""
    raise ValueError(f"advise: unknown {kind}, got {word!r}.{suggestion} Hint: {hint}")


def find_device(word: str) -> dict:
    """Entry of the catalogue by id, alias or name; "this" is the machine at hand."""
    if word.strip().lower() in ("this", "here", "cpu"):
        return this_machine()
    names = {n: d["id"] for d in devices() for n in (d["id"], d["name"].lower(), *d["aliases"])}
    ident = _find("device", word, names, "yuloh advise --list devices.")
    return next(d for d in devices() if d["id"] == ident)


def find_preset(word: str) -> Tuple[str, dict]:
    known = presets()
    ident = _find(
        "model", word, {k: k for k in known}, "yuloh advise --list presets, or a model file, or --params."
    )
    return ident, known[ident]


def find_scenario(word: str) -> dict:
    known = {s["id"]: s for s in scenarios()}
    names = {n: i for i, s in known.items() for n in (i, *s["title"].values())}
    return known[_find("scenario", word, names, "yuloh advise --list scenarios.")]


def core_device(entry: dict, price: Optional[float] = None) -> dict:
    """What the core reckons with: the first entry of every figure, in plain units."""
    core = {"name": entry["id"], "kind": entry["kind"], "per_node": float(entry["per_node"])}
    for figure, values in entry["figures"].items():
        core[figure] = float(values[0]["value"]) * SCALE[figure]
    for share in SHARES:
        if share in entry:
            core[share] = float(entry[share])
    if price is not None:
        core["price"] = float(price)
    return core


def differing(entry: dict) -> List[Tuple[str, List[dict]]]:
    """Figures for which sources differ: [(figure, entries)]."""
    return [(f, v) for f, v in entry["figures"].items() if len({x["value"] for x in v}) > 1]


def origin(entry: dict, figure: str) -> str:
    """ "measured", "catalogue", "article", "recalled" or "user": where the figure that is reckoned with comes from."""
    source = entry["figures"][figure][0]["source"]
    if source in ("measured", "user"):
        return source
    kind = sources()[source]["kind"]
    return kind if kind in ("article", "recalled") else "catalogue"


# -- networks ------------------------------------------------------------------------------------------
def fabric(word: str) -> Tuple[dict, str]:
    """(what the core takes, its name) of a network: a name of the catalogue or GB/s for each device. Where the figure is
    a server's, "rate_server" is shared by what each kind of server holds; "rate" is then the part of one of 8."""
    known = fabrics()
    try:
        rate = float(word)
    except ValueError:
        ident = _find(
            "network", word, {k: k for k in known}, "yuloh advise --list networks, or GB/s for each device."
        )
        found = known[ident]
        if ident == "none":
            return {"rate": 1e9, "latency": 50e-6, "alone": True}, found["name"]
        if "rate" in found:
            return {"rate": found["rate"] * 1e9, "latency": found["latency"]}, found["name"]
        whole = found["rate_server"] * 1e9
        return {"rate": whole / 8, "rate_server": whole, "latency": found["latency"]}, found["name"]
    if not (math.isfinite(rate) and 0.001 <= rate <= 10000):
        raise ValueError(
            f"advise: impossible network, got {word} GB/s; expected 0.001 to 10000. Hint: check --network."
        )
    return {"rate": rate * 1e9, "latency": 10e-6}, f"{word} GB/s (user)"


# -- the machine at hand -------------------------------------------------------------------------------
# A step by the medians of two kinds of kernels is too fast where many small ones run: ten models of bench/estimates.py at
# batch 16, training and inference, took 1.02 to 2.33 times as long by their Plans, the median 1.39. A Plan at hand replaces it.
TWO_SHARES = {"slower": 1.4, "spread": 1.7}


@lru_cache(maxsize=1)
def this_machine() -> dict:
    """The CPU at hand as an entry: what `yuloh calibrate` wrote where it did and that can be, else measured in a moment;
    `remark` says why what it wrote is not used."""
    from . import device_file

    written, unused = device_file.own()
    if written:
        return calibrated(json.loads(written))
    return {**_measured_now(), **({"remark": unused} if unused else {})}


def calibrated(record: dict, ident: str = "this") -> dict:
    """Entry of a device file of `yuloh calibrate`. Raises ValueError for what is none, or for another machine's that does
    not tell its memory."""
    try:
        here = ident == "this"
        memory = _core.machine_memory()[0] if here else record.get("memory_bytes")
        if not (isinstance(memory, (int, float)) and 0 < memory < 1e16):
            raise ValueError(f"advise: the device file of {ident} does not tell its memory. Hint: write it again there (yuloh calibrate).")
        rows = record["efficiencies"]
        shares = {
            "matrix_efficiency": _median_share(rows, ("gemm", "conv")),
            "stream_efficiency": _median_share(rows, ("elementwise", "reduction")),
            **TWO_SHARES,
        }
        shares = {k: v for k, v in shares.items() if v is not None}
        name = f"{record['name']}{' (this machine)' if here else ''}"
        return _cpu_entry(name, _figures(record["peaks"], memory), shares, str(record["date"]), ident)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"advise: no device file of yuloh calibrate ({error!r}). Hint: write it again."
        ) from None


def _median_share(rows: List[dict], names: Tuple[str, ...]) -> Optional[float]:
    """Median efficiency of the kernels whose name begins so and whose roofline is 0.1 ms or more; None without such."""
    found = [float(r["efficiency"]) for r in rows if r["name"].startswith(names) and r["log2_roof_ns"] >= 17]
    return min(1.0, statistics.median(found)) if found else None


def _figures(peaks: dict, memory: float) -> Dict[str, float]:
    """Of a CPU: its bandwidth is that of copies."""
    figures = {"memory": memory / SCALE["memory"], "bandwidth": peaks["copy"] / 1e9, "host_link": peaks["copy"] / 1e9}
    return {**figures, **{p: peaks[p] / 1e12 for p in ("fp32", "bf16", "int8") if peaks.get(p)}}


def _measured_now() -> dict:
    """Peaks alone: what kernels reach of them is assumed, and the time says so."""
    from ..bench import machine, peaks

    found = peaks.measure(0.03)
    name = f"{machine.cpu_facts().get('model') or 'CPU'}, {found['threads']:.0f} threads (this machine)"
    return _cpu_entry(name, _figures(found, _core.machine_memory()[0]), {}, _today())


def _cpu_entry(name: str, figures: dict, shares: dict, date: str, ident: str = "this") -> dict:
    return {
        "id": ident,
        "name": name,
        "vendor": "",
        "kind": "cpu",
        "aliases": [],
        "per_node": 1,
        "use": "",
        **shares,
        "figures": {
            k: [{"value": round(v, 4), "source": "measured", "date": date}] for k, v in figures.items()
        },
    }


def _today() -> str:
    import datetime

    return datetime.date.today().isoformat()


def user_devices(path: str) -> List[dict]:
    """Entries of a device file of the user: {"id", "memory", "bandwidth", "fp32", ...} (OWN says what may stand there)
    or a list of such. Raises ValueError for anything else."""
    try:
        read = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"advise: {path} is no JSON ({error}). Hint: see docs/advise.md for the form."
        ) from None
    if isinstance(read, dict) and "peaks" in read:
        from . import device_file

        return [calibrated(device_file.record(json.dumps(read), path), str(read.get("host") or "calibrated"))]
    own = read if isinstance(read, list) else [read]
    if not own:
        raise ValueError(f"advise: {path} holds no device. Hint: see docs/advise.md for the form.")
    taken = {n for d in devices() for n in (d["id"], *d["aliases"])}
    return [_own_device(path, one, taken) for one in own]


# What a device of the user may say: (what is expected, whether it is so). Figures are in the units of the catalogue.
_TEXT = ("a text", lambda v: isinstance(v, str) and 0 < len(v) <= 200)
_SHARE = ("a number above 0 and at most 1", lambda v: _number(v) and 0 < v <= 1)
OWN = {
    "id": _TEXT,
    "name": _TEXT,
    "note": _TEXT,
    "kind": (f"one of {', '.join(DEVICE_KINDS)}", lambda v: v in DEVICE_KINDS),
    "per_node": ("a whole number from 1 to 65536", lambda v: _number(v) and 1 <= v <= 65536 and v == int(v)),
    "matrix_efficiency": _SHARE,
    "stream_efficiency": _SHARE,
    "spread": ("a number from 1 to 100", lambda v: _number(v) and 1 <= v <= 100),
    **{figure: ("a number above 0 and at most 1e9", lambda v: _number(v) and 0 < v <= 1e9) for figure in SCALE},
}


def _number(v) -> bool:
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def _own_device(path: str, one, taken: set) -> dict:
    """One entry of a user's file; its id is added to `taken`. Raises ValueError."""
    if not isinstance(one, dict) or not {"id", "memory", "bandwidth"} <= set(one):
        raise ValueError(f"advise: {path}: a device needs id, memory (GiB), bandwidth (GB/s) and a rate (TFLOPS).")
    for key, value in one.items():
        if key not in OWN:
            near = difflib.get_close_matches(key, OWN, 1, 0.5)
            raise ValueError(f"advise: {path}: unknown key {key[:50]!r}; expected {', '.join(OWN)}.{f' Near: {near[0]}.' if near else ''}")
        expected, holds = OWN[key]
        if not holds(value):
            raise ValueError(f"advise: {path}: {key} must be {expected}, got {repr(value)[:50]}.")
    if one["id"] in taken:
        raise ValueError(f"advise: {path}: the name {one['id']!r} is taken. Hint: another id, such as my-{one['id']}.")
    taken.add(one["id"])
    figures = {key: [{"value": one[key], "source": "user", "date": _today()}] for key in SCALE if key in one}
    if not any(p in figures for p in PRECISIONS):
        raise ValueError(f"advise: {path}: {one['id']} has no rate; expected one of {', '.join(PRECISIONS)} in TFLOPS.")
    return {
        "id": one["id"],
        "name": one.get("name", one["id"]),
        "vendor": "",
        "kind": one.get("kind", "gpu"),
        "aliases": [],
        "per_node": one.get("per_node", 8),
        "use": "",
        "figures": figures,
        **{k: one[k] for k in SHARES if k in one},
    }


# -- validation ----------------------------------------------------------------------------------------
def faults(catalogue: Optional[dict] = None) -> List[str]:
    """What is wrong with the catalogue; empty when nothing is."""
    c = catalogue or _file("devices.json")
    found, seen = [], {}
    kinds = {name: s.get("kind") for name, s in c["sources"].items()}
    for d in c["devices"]:
        where = d.get("id", "?")
        for name in (d.get("id"), *d.get("aliases", ())):
            if name in seen:
                found.append(f"{where}: the name {name} is also {seen[name]}'s")
            seen[name] = where
        if d.get("kind") not in DEVICE_KINDS:
            found.append(f"{where}: kind {d.get('kind')!r}")
        if not str(d.get("name")).startswith(tuple(f"{m} " for m in c["makers"])):
            found.append(f"{where}: the name {d.get('name')!r} begins with no maker")
        if not isinstance(d.get("training", True), bool):
            found.append(f"{where}: training {d['training']!r}")
        if d.get("bought_for") not in USES:
            found.append(f"{where}: bought for {d.get('bought_for')!r}")
        for figure, values in d.get("figures", {}).items():
            if figure not in c["units"]:
                found.append(f"{where}: {figure} has no unit")
            pairs = [(v.get("value"), v.get("source"), v.get("note")) for v in values]
            if len(set(pairs)) != len(pairs):
                found.append(f"{where}: {figure} holds a figure twice")
            for v in values:
                if not (
                    isinstance(v.get("value"), (int, float)) and math.isfinite(v["value"]) and v["value"] > 0
                ):
                    found.append(f"{where}: {figure} is {v.get('value')!r}")
                if v.get("source") not in c["sources"]:
                    found.append(f"{where}: {figure} has no source")
                if not _is_date(v.get("date")):
                    found.append(f"{where}: {figure} has no date")
                if kinds.get(v.get("source")) == "derived" and not v.get("note"):
                    found.append(f"{where}: {figure} is derived by no rule")
            first, *others = [kinds.get(v.get("source")) for v in values]
            if not d.get("incomplete") and first == "recalled" and {"vendor", "secondary", "derived"} & set(others):
                found.append(f"{where}: {figure} is reckoned with as recalled though it was read")
        have = set(d.get("figures", {}))
        if not d.get("incomplete") and not (
            {"memory", "bandwidth", "watts", "host_link"} <= have and have & set(PRECISIONS)
        ):
            found.append(f"{where}: lacks figures, has {sorted(have)}")
    for name, s in c["sources"].items():
        if s.get("kind") not in KINDS or not _is_date(s.get("read")):
            found.append(f"source {name}: kind {s.get('kind')!r}, read {s.get('read')!r}")
        if s.get("kind") in ("vendor", "secondary") and not str(s.get("address", "")).startswith("https://"):
            found.append(f"source {name}: no address")
    for name, f in c["fabrics"].items():
        if f.get("source") not in c["sources"] or not _is_date(f.get("date")) or not f.get("note"):
            found.append(f"network {name}: source {f.get('source')!r}, date {f.get('date')!r}")
    return found


def _is_date(text) -> bool:
    import datetime

    try:
        return bool(datetime.date.fromisoformat(text))
    except (TypeError, ValueError):
        return False


def is_model_file(word: str) -> bool:
    return (
        os.path.sep in word
        or Path(word).suffix in (".py", ".json", ".pdmodel", ".onnx", ".yuloh")
        or ".py:" in word
    )
