# SPDX-License-Identifier: Apache-2.0
"""Network room: all parameters as one vector and back."""
import math

from ..layer.state import no_record

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters, name=None):
    """One vector of all elements, in the order given."""
    import yuloh
    return yuloh.concat([p.reshape([-1]) for p in parameters], axis=0)


def vector_to_parameters(vec, parameters, name=None):
    """Gives each parameter its stretch of ``vec``; the length must be that of all parameters together."""
    parameters = list(parameters)
    sizes = [math.prod(p.shape) for p in parameters]
    if list(vec.shape) != [sum(sizes)]:
        raise ValueError(f"vector_to_parameters: vec has shape {list(vec.shape)}; expected [{sum(sizes)}].")
    start = 0
    with no_record():
        for p, size in zip(parameters, sizes):
            p.set_value(vec[start:start + size].reshape(list(p.shape)).clone())
            start += size
