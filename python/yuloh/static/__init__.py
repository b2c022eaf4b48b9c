# SPDX-License-Identifier: Apache-2.0
"""Static room: ``InputSpec``, the description of a value that is not there yet. Graph export is built on it
elsewhere.
"""
from .input_spec import InputSpec

__all__ = ["InputSpec"]
