# SPDX-License-Identifier: Apache-2.0
"""Jit room: ``TranslatedLayer``, a saved program as a Layer again."""
from .. import _core
from ..framework.parameter import Parameter
from ..nn import Layer
from ..tensor import to_tensor

__all__ = ["TranslatedLayer"]


class TranslatedLayer(Layer):
    """What ``paddle.jit.load`` gives: callable, with the saved parameters, which can be trained further.

    Calls record the program into the graph of this thread, so gradients flow to ``parameters()``. The program is the one
    of ``eval()``, and the layer is in that mode: as in Paddle 3.3.1 ``train()`` sets ``training`` and nothing else, so dropout
    does nothing and batch norm uses its saved statistics in either mode.
    """

    def __init__(self, programs):
        super().__init__()
        self.training = False
        object.__setattr__(self, "_programs", _Programs(programs))
        object.__setattr__(self, "_values", {})
        shared = {}
        for method, program in programs.items():
            values = []
            fixed = set(program.statistics)  # whatever the file calls them
            for i, (name, parameter, trainable, is_parameter, tensor) in enumerate(program.weights()):
                trainable = trainable and i not in fixed
                key = name or f"constant.{method}.{len(values)}"
                if key not in shared:
                    shared[key] = self._own(name, parameter, trainable, is_parameter, tensor)
                values.append(shared[key])
            self._values[method] = values
            if method != "forward":
                object.__setattr__(self, method, _Method(self, method))

    def _own(self, name, parameter, trainable, is_parameter, tensor):
        if not name:
            return tensor
        layer = self
        *path, leaf = name.split(".")
        for part in path:
            if part not in layer._sub_layers:
                layer.add_sublayer(part, Layer())
            layer = layer._sub_layers[part]
        if is_parameter:
            result = Parameter(tensor, requires_grad=trainable, name=parameter)
            layer.add_parameter(leaf, result)
        else:
            result = tensor
            result.name = parameter or name
            layer.register_buffer(leaf, result)
        return result

    def _run(self, method, args):
        program = self._programs[method]
        ports = program.inputs
        if len(args) != len(ports):
            raise ValueError(f"{method}: the program takes {len(ports)} inputs ({', '.join(p[0] for p in ports)}), got "
                             f"{len(args)}.")
        inputs = []
        for value, (name, dtype, dims, _) in zip(args, ports):
            value = value if isinstance(value, _core.Tensor) else to_tensor(value)
            if value.dtype != dtype:
                raise TypeError(f"{method}: input `{name}` has the wrong dtype, got {value.dtype}; expected {dtype}.")
            if value.ndim != len(dims) or any(n not in (-1, m) for n, m in zip(dims, value.shape)):
                raise ValueError(f"{method}: input `{name}` has the wrong shape, got {list(value.shape)}; expected "
                                 f"{list(dims)} (-1: any).")
            inputs.append(value)
        out = program.replay(inputs, self._values[method])
        return out[0] if len(out) == 1 else out

    def forward(self, *args):
        """Runs the saved forward; one tensor, or a list where the function returned several."""
        return self._run("forward", args)

    def program(self, method_name="forward"):
        """The program of a saved method."""
        return self._programs[method_name]

    def _input_spec(self, method_name="forward"):
        from ..static import InputSpec
        return [InputSpec(list(dims), dtype, name) for name, dtype, dims, _ in self._programs[method_name].inputs]

    def _output_spec(self, method_name="forward"):
        from ..static import InputSpec
        return [InputSpec(list(dims), dtype, name) for name, dtype, dims, _ in self._programs[method_name].outputs]


class _Programs(dict):
    """Programs never change, so copies of a layer share them."""

    def __deepcopy__(self, memo):
        return self


class _Method:
    def __init__(self, layer, name):
        self._layer, self.__name__ = layer, name

    def __call__(self, *args):
        return self._layer._run(self.__name__, args)
