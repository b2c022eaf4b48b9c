# SPDX-License-Identifier: Apache-2.0
"""Initializer room: how a new parameter gets its first value.

An initializer records one random op (or a constant) of the right shape; the numbers are made by the core's
counter-based generator when somebody needs them.
"""
from .base import Initializer, _global, calculate_gain, set_global_initializer
from .constant import Assign, Bilinear, Constant, Dirac
from .random import (KaimingNormal, KaimingUniform, MSRA, Normal, NormalInitializer, Orthogonal,
                     TruncatedNormal, Uniform, UniformInitializer, Xavier, XavierNormal, XavierUniform)

__all__ = ["Assign", "Bilinear", "Constant", "Dirac", "Initializer", "KaimingNormal", "KaimingUniform",
           "Normal", "Orthogonal", "TruncatedNormal", "Uniform", "XavierNormal", "XavierUniform",
           "calculate_gain", "set_global_initializer"]
