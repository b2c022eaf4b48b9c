# SPDX-License-Identifier: Apache-2.0
"""Another name of ``paddle.inference``."""
from .inference import *  # noqa: F401,F403
from .inference import __all__  # noqa: F401
