# SPDX-License-Identifier: Apache-2.0
"""ONNX models: read, list, run, write; add a mapping for an operator that is missing.

    model = yuloh.onnx.load("model.onnx")
    y, = model(x)                      # NumPy arrays or tensors, by position or by name
    print(model.unsupported())
    yuloh.onnx.export(net, "net", input_spec=[yuloh.static.InputSpec([None, 3, 224, 224])])   # writes net.onnx

    @yuloh.onnx.mapping("MyOp")        # or "my.domain.MyOp"
    def my_op(attrs, x, y=None):
        return x * attrs["scale"]
"""
from .export import export
from .model import OnnxModel, load
from .hook import mapping

__all__ = ["OnnxModel", "export", "load", "mapping"]
