# SPDX-License-Identifier: Apache-2.0
"""ONNX models: read, list, run; add a mapping for an operator that is missing.

    model = yuloh.onnx.load("model.onnx")
    y, = model(x)                      # NumPy arrays or tensors, by position or by name
    print(model.unsupported())

    @yuloh.onnx.mapping("MyOp")        # or "my.domain.MyOp"
    def my_op(attrs, x, y=None):
        return x * attrs["scale"]
"""
from .model import OnnxModel, load
from .hook import mapping

__all__ = ["OnnxModel", "load", "mapping"]
