# SPDX-License-Identifier: Apache-2.0
"""Inference room: ``paddle.inference``. A Config says which model and how, ``create_predictor`` compiles it, a Predictor
runs requests from any number of threads on shared weights.
"""
from .config import Config
from .divergence import Report, diff, run_values
from .kinds import DataType, PlaceType, PrecisionType
from .model_summary import Summary, summary
from .package import pack, package_info, verify_package
from .predictor import Predictor, PredictorPool, Tensor, create_predictor
from .versions import (convert_to_mixed_precision, get_num_bytes_of_data_type, get_trt_compile_version,
                       get_trt_runtime_version, get_version)

__all__ = ["Config", "DataType", "PlaceType", "PrecisionType", "Predictor", "PredictorPool", "Tensor",
           "Report", "Summary", "convert_to_mixed_precision", "create_predictor", "diff", "get_num_bytes_of_data_type",
           "get_trt_compile_version", "get_trt_runtime_version", "get_version", "pack", "package_info", "run_values",
           "summary", "verify_package"]
