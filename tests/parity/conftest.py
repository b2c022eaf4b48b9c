# SPDX-License-Identifier: Apache-2.0
"""Chooses who answers to ``import paddle`` in the parity room: Yuloh, or the real Paddle to test the tests.

``YULOH_PARITY_MODULE=paddle`` makes every test here run against the real PaddlePaddle of the running interpreter;
what compares with references must then pass with (almost) no deviation.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
if os.environ.get("YULOH_PARITY_MODULE", "yuloh") == "yuloh":
    from yuloh import paddle_alias

    paddle_alias.install()
