# SPDX-License-Identifier: Apache-2.0
"""Writing a Layer or function as an ONNX model."""
import os

from .. import _core
from ..framework.io import refuse_dry

__all__ = ["export"]
_CONFIGS = ("output_spec", "output_names", "enable_onnx_checker", "external_data", "verbose")


def export(layer, path, input_spec=None, opset_version=18, **configs):
    """Writes ``path.onnx``: the layer in evaluation mode, its parameters under the names of ``state_dict``.

    ``input_spec``: list of InputSpec (None is an open size, which stays open), Tensors or constants; without it the specs of
    ``to_static`` or the last call are used. ``opset_version``: 13 to 22. Options: ``output_spec`` (which results to keep: names
    ``output_0``... or numbers), ``output_names`` (what to call them), ``external_data`` (tensors of so many bytes go to
    ``path.onnx.data``; by default only where the file would pass 2 GB), ``enable_onnx_checker`` (True reads the file again
    before it takes its place), ``verbose``.

    NotImplementedError lists every op that ONNX has no counterpart for with count and line, and nothing is written.
    ValueError for an opset that cannot be written, a path without a file name, or code whose result depends on tensor values
    in Python.
    """
    from ..jit.save_load import function_of, program_of

    unknown = set(configs) - set(_CONFIGS)
    if unknown:
        raise ValueError(f"onnx.export: unknown option {sorted(unknown)[0]!r}; expected one of {list(_CONFIGS)}.")
    if not isinstance(opset_version, int):
        raise TypeError(f"onnx.export: opset_version is {opset_version!r}; expected an int from 13 to 22.")
    path = os.fspath(path)
    path = path[: -len(".onnx")] if path.endswith(".onnx") else path
    if not os.path.basename(path):
        raise ValueError(f"onnx.export: path must be a directory and a file name without a suffix, got {path!r}.")
    refuse_dry("onnx.export")
    program = program_of(function_of(layer, "onnx.export"), input_spec)
    options = {"opset": int(opset_version)}
    if configs.get("external_data") is not None:
        options["external_data"] = int(configs["external_data"])
    results = _chosen(program, configs.get("output_spec"))
    if results is not None:
        options["results"] = results
    if configs.get("output_names") is not None:
        options["output_names"] = list(configs["output_names"])
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        _core.write_model(program, path + ".onnx", **options)
    except (NotImplementedError, ValueError) as error:
        raise type(error)(str(error).replace("write_model:", "onnx.export:", 1)) from None
    if configs.get("enable_onnx_checker"):
        _core.FileModel(path + ".onnx")
    if configs.get("verbose"):
        print(f"{path}.onnx: opset {opset_version}, {len(program.inputs)} inputs, {os.path.getsize(path + '.onnx')} bytes")


def _chosen(program, output_spec):
    """Numbers of the results to keep, or None: all."""
    if output_spec is None:
        return None
    names = [name for name, *_ in program.outputs]
    numbers = []
    for item in output_spec:
        item = getattr(item, "name", item)
        if isinstance(item, int) and 0 <= item < len(names):
            numbers.append(item)
        elif item in names:
            numbers.append(names.index(item))
        else:
            raise ValueError(f"onnx.export: output_spec names {item!r}, which is no result; expected numbers or some of {names}.")
    return numbers
