# SPDX-License-Identifier: Apache-2.0
"""Mixed-precision room: looking for NaN and infinity."""
from .. import _core
from ..tensor import to_tensor

__all__ = ["check_layer_numerics", "check_numerics"]


def check_numerics(tensor, op_type="", var_name="", debug_mode=None):
    """(numbers of NaN, infinite and zero elements, (max, min, mean)); reads the tensor.

    Raises ValueError when there are NaN or infinite elements and ``debug_mode`` is None.
    """
    import yuloh
    flat = tensor.detach().astype("float32").reshape([-1])
    nan, inf = yuloh.isnan(flat), yuloh.isinf(flat)
    counts = [int(yuloh.sum(part.astype("int64"))) for part in (nan, inf, flat == 0)]
    if debug_mode is None and (counts[0] or counts[1]):
        raise ValueError(f"check_numerics: {op_type} {var_name or tensor.name}: {counts[0]} NaN and "
                         f"{counts[1]} " f"infinite of {flat.shape[0]} elements.")
    values = yuloh.stack([yuloh.max(flat), yuloh.min(flat), yuloh.mean(flat)])
    return to_tensor(counts), values


def check_layer_numerics(func):
    """Decorator of a layer's ``forward``: its first input and its outputs are checked (and read)."""
    import functools

    @functools.wraps(func)
    def run(self, *args, **kwargs):
        for value in args:
            if isinstance(value, _core.Tensor):
                check_numerics(value, f"input of {self.full_name()}")
        outputs = func(self, *args, **kwargs)
        for value in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
            if isinstance(value, _core.Tensor):
                check_numerics(value, f"output of {self.full_name()}")
        return outputs
    return run
