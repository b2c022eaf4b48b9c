# SPDX-License-Identifier: Apache-2.0
"""Inference room: Paddle's enumerations."""
import enum

__all__ = ["DataType", "PlaceType", "PrecisionType", "data_type_of"]


class PrecisionType(enum.IntEnum):
    """What the engine computes in. Half is computed in bfloat16 on the CPU."""
    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


class PlaceType(enum.IntEnum):
    """Where a tensor lives."""
    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM = 4


class DataType(enum.IntEnum):
    """Element types of handles."""
    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7
    BFLOAT16 = 8


def data_type_of(dtype):
    """The DataType of a dtype; None where Paddle has no name for it."""
    return DataType.__members__.get(dtype.name.upper())
