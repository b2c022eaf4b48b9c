# SPDX-License-Identifier: Apache-2.0
"""Layer check: an include may only point downwards in the data order of the rooms (docs/design.md).

Prints every arrow that points up and exits 1; run by tests/python/test_tree.py.
"""
import pathlib
import re
import sys

ORDER = ["base", "ir", "ops", "grad", "passes", "tile", "plan", "cpu", "cuda", "opencl", "data", "run", "formats", "diff", "advise", "dist", "serve", "capi", "py"]
ROOT = pathlib.Path(__file__).resolve().parent.parent / "src"


def violations():
    """[(file, included header)] of includes that point up."""
    found = []
    for path in sorted([*ROOT.rglob("*.h"), *ROOT.rglob("*.cpp"), *ROOT.rglob("*.inl")]):
        room = path.relative_to(ROOT).parts[0]
        for target in re.findall(r'#include "([a-z_0-9]+)/', path.read_text()):
            if target in ORDER and ORDER.index(target) > ORDER.index(room):
                found.append((str(path.relative_to(ROOT.parent)), target))
    return found


if __name__ == "__main__":
    bad = violations()
    for path, target in bad:
        print(f"{path} includes from {target}/, which lies above it")
    sys.exit(bool(bad))
