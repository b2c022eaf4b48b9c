# SPDX-License-Identifier: Apache-2.0
"""Inference room: versions and sizes."""
from .kinds import DataType

__all__ = ["convert_to_mixed_precision", "get_num_bytes_of_data_type", "get_trt_compile_version",
           "get_trt_runtime_version", "get_version"]

_BYTES = {DataType.FLOAT32: 4, DataType.INT64: 8, DataType.INT32: 4, DataType.UINT8: 1, DataType.INT8: 1,
          DataType.FLOAT16: 2, DataType.BOOL: 1, DataType.FLOAT64: 8, DataType.BFLOAT16: 2}


def get_version():
    """Lines ``version: ...``, as Paddle prints them."""
    import yuloh
    from .. import version
    return f"version: {yuloh.__version__}\nengine: yuloh {version.full_version}\n"


def get_num_bytes_of_data_type(dtype):
    """Bytes of one element of a DataType."""
    return _BYTES[DataType(dtype)]


def get_trt_compile_version():
    """(0, 0, 0): TensorRT is not part of this system; ``enable_tensorrt_engine`` selects its own engine."""
    return 0, 0, 0


get_trt_runtime_version = get_trt_compile_version


def convert_to_mixed_precision(*args, **kwargs):
    """Not needed: precision is chosen when a predictor is created, from the float32 file."""
    raise NotImplementedError("convert_to_mixed_precision: models are stored in float32 and converted when a predictor is "
                              "created. Hint: config.enable_tensorrt_engine(precision_mode=PrecisionType.Half).")
