# SPDX-License-Identifier: Apache-2.0
"""Save and load tests: writes small files with the real Paddle into ``data/``.

Usage: ``<oracle python> tests/python/record_files.py``.
"""
import pathlib

import numpy as np
import paddle

DATA = pathlib.Path(__file__).parent / "data"
net = paddle.nn.Linear(2, 1)
optimizer = paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(0.1, 2), parameters=net.parameters())
net(paddle.ones([1, 2])).sum().backward()
optimizer.step()
DATA.mkdir(exist_ok=True)
paddle.save(net.state_dict(), str(DATA / "paddle.pdparams"))
paddle.save(net.state_dict(), str(DATA / "paddle_protocol2.pdparams"), protocol=2)
paddle.save(optimizer.state_dict(), str(DATA / "paddle.pdopt"))
paddle.save({"a": paddle.ones([2]), "l": [paddle.ones([1], "bfloat16"), 3, "x", (1.5, None)], "n": np.ones(2),
             "d": {"q": paddle.ones([2], "int64")}}, str(DATA / "paddle_nested.pd"))
