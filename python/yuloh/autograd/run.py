# SPDX-License-Identifier: Apache-2.0
"""Autograd room: asking for gradients."""
from .. import _core

__all__ = ["backward", "grad"]


def _tensors(value, what):
    """List of tensors from one tensor or a list of them."""
    values = [value] if isinstance(value, _core.Tensor) else value
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, _core.Tensor) for v in values):
        raise TypeError(f"{what}: expected a Tensor or a list of Tensors, got {type(value).__name__}.")
    return list(values)


def _seeds(value, targets, what):
    """One seed (Tensor or None) for each target, of its shape."""
    if value is None:
        return [None] * len(targets)
    values = [value] if isinstance(value, _core.Tensor) else list(value)
    if len(values) != len(targets):
        raise ValueError(f"{what}: got {len(values)} gradients for {len(targets)} tensors.")
    for number, (seed, target) in enumerate(zip(values, targets)):
        if seed is not None and list(seed.shape) != list(target.shape):
            raise ValueError(f"{what}: gradient {number} has shape {list(seed.shape)}; "
                             f"expected {list(target.shape)}.")
    return values


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=False, no_grad_vars=None, *, dump_backward_graph_path=None):
    """Gradients of the sum of ``outputs`` (weighted by ``grad_outputs``) with respect to ``inputs``, as a
    list.

    ``create_graph`` lets the gradients be differentiated again. An input that no output depends on gives None
    with ``allow_unused``, else ValueError.
    """
    outputs, inputs = _tensors(outputs, "grad: outputs"), _tensors(inputs, "grad: inputs")
    if not only_inputs:
        raise ValueError("grad: only_inputs must be True.")
    blocked = [] if no_grad_vars is None else (
        list(no_grad_vars) if isinstance(no_grad_vars, set) else _tensors(no_grad_vars, "grad: no_grad_vars"))
    retain = create_graph if retain_graph is None else bool(retain_graph)
    return list(_core.grad(outputs, inputs, _seeds(grad_outputs, outputs, "grad: grad_outputs"), retain,
                           bool(create_graph), bool(allow_unused), blocked))


def backward(tensors, grad_tensors=None, retain_graph=False, *, dump_backward_graph_path=None):
    """Adds the gradients of all ``tensors`` into ``.grad`` of the leaves."""
    tensors = _tensors(tensors, "backward: tensors")
    _core.backward(tensors, _seeds(grad_tensors, tensors, "backward: grad_tensors"), bool(retain_graph))
