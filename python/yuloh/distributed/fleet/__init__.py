# SPDX-License-Identifier: Apache-2.0
"""Fleet room: what of ``paddle.distributed.fleet`` works in one process."""
from . import utils
from .utils import recompute

__all__ = ["recompute", "utils"]
