# SPDX-License-Identifier: Apache-2.0
"""Names of Paddle's old ``paddle.fluid`` that scripts of today still ask."""
from . import core

__all__ = ["core"]
