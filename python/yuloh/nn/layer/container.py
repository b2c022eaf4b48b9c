# SPDX-License-Identifier: Apache-2.0
"""Layer room: layers that hold other layers or parameters: lists, dicts and chains."""
from ...framework.parameter import Parameter
from .layers import Layer

__all__ = ["LayerDict", "LayerList", "ParameterDict", "ParameterList", "Sequential"]


def _position(index, size, what):
    """``index`` counted from the start; IndexError when it is outside."""
    if not -size <= index < size:
        raise IndexError(f"{what}: index {index} is out of range; expected {-size}..{size - 1}.")
    return index + size if index < 0 else index


class _Ordered(Layer):
    """Sublayers under consecutive numbers."""

    def _renumber(self, layers):
        self._sub_layers.clear()
        for number, layer in enumerate(layers):
            self._sub_layers[str(number)] = layer

    def _layers(self):
        return list(self._sub_layers.values())

    def __len__(self):
        return len(self._sub_layers)

    def __iter__(self):
        return iter(self._layers())

    def append(self, sublayer):
        """Adds a layer at the end; returns this container."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def extend(self, sublayers):
        """Adds several layers at the end; returns this container."""
        for layer in list(sublayers):
            self.append(layer)
        return self

    def insert(self, index, sublayer):
        """Puts a layer before position ``index`` (the length is allowed)."""
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"{type(self).__name__}: index {index} is out of range; expected "
                             f"{-size}..{size}.")
        layers = self._layers()
        layers.insert(index + size if index < 0 else index, sublayer)
        self._renumber(layers)


class LayerList(_Ordered):
    """List of layers, registered under their positions; it has no ``forward``."""

    def __init__(self, sublayers=None):
        super().__init__()
        for number, layer in enumerate(sublayers or ()):
            self.add_sublayer(str(number), layer)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(self._layers()[index])
        return self._sub_layers[str(_position(index, len(self), "LayerList"))]

    def __setitem__(self, index, sublayer):
        self._sub_layers[str(_position(index, len(self), "LayerList"))] = sublayer

    def __delitem__(self, index):
        layers = self._layers()
        del layers[index]
        self._renumber(layers)

    def pop(self, index=-1):
        """Takes out and returns the layer at ``index``."""
        layer = self[index]
        del self[index]
        return layer

    def __dir__(self):
        return [key for key in super().__dir__() if not key.isdigit()]


class Sequential(_Ordered):
    """Calls its layers one after the other.

    Takes layers, (name, layer) pairs, or one dict of name to layer.
    """

    def __init__(self, *layers):
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], dict):
            layers = tuple(layers[0].items())
        if layers and all(isinstance(item, (tuple, list)) for item in layers):
            for name, layer in layers:
                self.add_sublayer(name, layer)
        else:
            for number, layer in enumerate(layers):
                self.add_sublayer(str(number), layer)

    def _key(self, index):
        if isinstance(index, str):
            if index not in self._sub_layers:
                raise KeyError(f"Sequential: there is no layer {index!r}; the names are "
                               f"{list(self._sub_layers)}.")
            return index
        return list(self._sub_layers)[_position(index, len(self), "Sequential")]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(*self._layers()[index])
        return self._sub_layers[self._key(index)]

    def __setitem__(self, index, layer):
        if isinstance(index, str) and index not in self._sub_layers:
            self.add_sublayer(index, layer)
        else:
            self._sub_layers[self._key(index)] = layer

    def __delitem__(self, index):
        del self._sub_layers[self._key(index)]

    def forward(self, input):
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerDict(Layer):
    """Dict of layers by name, in order of insertion; it has no ``forward``."""

    def __init__(self, sublayers=None):
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def __getitem__(self, key):
        return self._sub_layers[key]

    def __setitem__(self, key, sublayer):
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key):
        del self._sub_layers[key]

    def __len__(self):
        return len(self._sub_layers)

    def __iter__(self):
        return iter(self._sub_layers)

    def __contains__(self, key):
        return key in self._sub_layers

    def clear(self):
        """Removes every layer."""
        self._sub_layers.clear()

    def pop(self, key):
        """Takes out and returns the layer named ``key``."""
        return self._sub_layers.pop(key)

    def keys(self):
        """The names."""
        return self._sub_layers.keys()

    def items(self):
        """(name, layer) pairs."""
        return self._sub_layers.items()

    def values(self):
        """The layers."""
        return self._sub_layers.values()

    def update(self, sublayers):
        """Adds or replaces layers from a dict or from (name, layer) pairs."""
        for name, layer in (sublayers.items() if hasattr(sublayers, "items") else sublayers):
            self.add_sublayer(name, layer)


class ParameterList(Layer):
    """List of parameters, registered under their positions."""

    def __init__(self, parameters=None):
        super().__init__()
        for number, parameter in enumerate(parameters or ()):
            self.add_parameter(str(number), parameter)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return list(self._parameters.values())[index]
        return self._parameters[str(_position(index, len(self), "ParameterList"))]

    def __setitem__(self, index, parameter):
        self._parameters[str(_position(index, len(self), "ParameterList"))] = parameter

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(list(self._parameters.values()))

    def append(self, parameter):
        """Adds a parameter at the end; returns this list."""
        self.add_parameter(str(len(self)), parameter)
        return self

    def extend(self, parameters):
        """Adds several parameters at the end; returns this list."""
        for parameter in parameters:
            self.append(parameter)
        return self


class ParameterDict(Layer):
    """Dict of parameters by name, in order of insertion."""

    def __init__(self, parameters=None):
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        return self._parameters[key]

    def __setitem__(self, key, parameter):
        if not isinstance(parameter, Parameter):
            raise TypeError(f"ParameterDict: expected a Parameter, got {type(parameter).__name__}.")
        self._parameters[key] = parameter

    def __delitem__(self, key):
        del self._parameters[key]

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters)

    def __contains__(self, key):
        return key in self._parameters

    def keys(self):
        """The names."""
        return self._parameters.keys()

    def items(self):
        """(name, parameter) pairs."""
        return self._parameters.items()

    def values(self):
        """The parameters."""
        return self._parameters.values()

    def update(self, parameters):
        """Adds or replaces parameters from a dict or from (name, parameter) pairs."""
        for name, parameter in (parameters.items() if hasattr(parameters, "items") else parameters):
            self[name] = parameter
