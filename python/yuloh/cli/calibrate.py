# SPDX-License-Identifier: Apache-2.0
"""`yuloh calibrate`: measures this machine, so that estimates rest on it instead of on a data sheet.

Peaks of arithmetic (fp32, bf16, int8) and memory (read, write, copy; one thread and all), then what share of
them kernels reach, by kind, dtype and size, in small networks that train here. The result is a JSON file per host that
`yuloh advise` and yuloh.advise.facts use when it is there. Two minutes on a quiet machine; on a busy one the file says that
its figures are disturbed.
"""

from __future__ import annotations

import argparse
import sys

from ..report import columns

EXAMPLES = """examples:
  yuloh calibrate                  measure, write the file, print a table
  yuloh calibrate --quick          fewer sizes, a third of the time
  yuloh calibrate --show           the table of the file that is there
  yuloh calibrate --out my.json    elsewhere; facts(device="my.json") reads it
"""


MOVES = ("read", "write", "copy")
SIZES = 5  # of a kernel, shown at most


def add(commands) -> None:
    p = commands.add_parser("calibrate", help="measure this machine for estimates of time and memory", description=__doc__,
                            epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", metavar="FILE", help="where to write (default: ~/.cache/yuloh/device-HOST.json)")
    p.add_argument("--quick", action="store_true", help="fewer sizes")
    p.add_argument("--show", action="store_true", help="print what is there, measure nothing")
    p.set_defaults(carry_out=carry_out)


def carry_out(args) -> int:
    from ..advise import device_file
    from ..advise.calibrate import calibrate

    if args.show:
        path = args.out or device_file.default_path()
        text = device_file.text(args.out)
        if not text.strip():
            raise ValueError(f"calibrate: no device file at {path}. Hint: run yuloh calibrate.")
        print(table(device_file.record(text, path)))
        return 0
    path, record = calibrate(args.out, args.quick, lambda line: print(f"  {line}", file=sys.stderr))
    print(table(record))
    print(f"\nWritten: {path}")
    return 0


def table(record: dict) -> str:
    """The device file as text."""
    try:
        lines = [f"{record['name']}, measured {record['date']}", ""]
        if record.get("disturbed"):
            lines[1:] = [f"  Careful: {record['disturbed']}.", "  These figures are disturbed: measure again when nothing else runs and no quota stops it.", ""]
        peaks = [(name, f"{rate / 1e9:,.1f}", "GB/s" if name in ("read", "copy") else "GOP/s" if name == "int8" else "GFLOP/s")
                 for name, rate in record["peaks"].items()]
        memory = [(f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}", *(f"{row[k] / 1e9:.1f}" for k in MOVES))
                  for row in record["memory"]]
        lines += [*columns.table((), peaks, left=(0, 2)), "", *columns.table(("memory, GB/s", *MOVES), memory)]
        groups: dict = {}
        for row in record["efficiencies"]:
            groups.setdefault((row["name"].split(":")[0], row["dtype"]), []).append(row)
        kernels = []
        for (name, dtype), rows in groups.items():
            rows.sort(key=lambda r: r["log2_roof_ns"])
            picked = rows if len(rows) <= SIZES else [rows[i * (len(rows) - 1) // (SIZES - 1)] for i in range(SIZES)]
            shares = [f"{r['efficiency']:.0%}" for r in picked]
            kernels.append((name, dtype, *shares, *[""] * (SIZES - len(shares)), f"{sum(r['samples'] for r in rows)}"))
        lines += ["", "  Share of what arithmetic and memory allow (the roofline) that kernels reach, by size of their work:",
                  *columns.table(("kernels", "dtype", "smallest", *[""] * (SIZES - 2), "largest", "samples"), kernels, left=(0, 1), limit=columns.UNBOUNDED)]
        host = record["host_rates"]
        lines += ["", f"  a process before its model: {record['process']['interpreter'] / 1e6:.0f} MB",
                  f"  an op that Python calls, training: {1e6 * host['training']['call']:.1f} us; with cold caches "
                  f"{1e6 * host['training']['call_cold']:.1f} us more",
                  f"  steps of its own networks, each predicted from the others: 95 % within a factor of {record['spread']:.2f}"]
        return "\n".join(lines)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"calibrate: not a device file ({error}). Hint: run yuloh calibrate.") from None
