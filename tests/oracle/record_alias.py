# SPDX-License-Identifier: Apache-2.0
"""Records what Paddle's views and in-place writes do, for tests/python/test_aliasing.py.

Usage: <oracle python> tests/oracle/record_alias.py   (writes tests/python/data/alias.json)
"""
import json
import sys
from pathlib import Path

import paddle

root = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "python"))
from alias_cases import run_all  # noqa: E402

cases = run_all(paddle)
text = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in cases.items())
(root / "python" / "data" / "alias.json").write_text("{\n" + text + "\n}\n")
print(len(cases), "cases")
