# SPDX-License-Identifier: Apache-2.0
"""Autograd room: ``PyLayer``, a function with a gradient of the user's.

``forward`` runs when ``apply`` is called, ``backward`` when gradients are built: both only record. The core
keeps one node that stands for the pair.
"""
from .. import _core
from ..nn.layer.state import no_record

__all__ = ["Function", "PyLayer", "PyLayerContext"]


class PyLayerContext:
    """Carries tensors and attributes from ``forward`` to ``backward``."""

    def __init__(self):
        self.container = None
        self.non_differentiable = ()
        self.not_inplace_tensors = ()
        self.materialize_grads = True
        self.grad_in_dtype_consistent = True
        self._unpack = None

    def save_for_backward(self, *tensors):
        """Keeps tensors for ``saved_tensor``; a second call replaces them."""
        from .saved import current
        hooks = current()
        if hooks is not None:
            self._unpack = hooks[1]
            tensors = tuple(hooks[0](t) if isinstance(t, _core.Tensor) else t for t in tensors)
        self.container = tensors

    def saved_tensor(self):
        """The tuple given to ``save_for_backward``."""
        if self._unpack is not None:
            return tuple(self._unpack(t) for t in self.container)
        return self.container

    @property
    def saved_tensors(self):
        """torch's spelling of ``saved_tensor()``."""
        return self.saved_tensor()

    def mark_non_differentiable(self, *args):
        """These outputs get no gradient."""
        self.non_differentiable = args

    def mark_not_inplace(self, *args):
        """These inputs are returned unchanged, not updated in place."""
        self.not_inplace_tensors = args

    def set_materialize_grads(self, value):
        """True (as at start): ``backward`` gets zeros for outputs without gradient, else None."""
        self.materialize_grads = bool(value)

    def set_grad_in_dtype_consistent(self, flag):
        """Whether gradients must have the dtype of the inputs."""
        self.grad_in_dtype_consistent = bool(flag)


def _walk(value, found):
    """Collects the tensors in nested tuples and lists."""
    if isinstance(value, _core.Tensor):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _walk(item, found)
    return found


class PyLayer:
    """Base: static ``forward(ctx, *args)`` and ``backward(ctx, *grads)``; called as ``Cls.apply(*args)``.

    ``backward`` returns one gradient (or None) for each tensor among the arguments.
    """

    @staticmethod
    def forward(ctx, *args, **kwargs):
        """Computes the outputs."""
        raise NotImplementedError("PyLayer: forward is not defined.")

    @staticmethod
    def backward(ctx, *args):
        """Gradients of the inputs from gradients of the outputs."""
        raise NotImplementedError("PyLayer: backward is not defined.")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Calls ``forward``; its outputs carry ``backward`` as their gradient."""
        context = PyLayerContext()
        inputs = _walk(list(args) + list(kwargs.values()), [])
        with no_record():
            outputs = cls.forward(context, *args, **kwargs)
        if not _core.grad_enabled() or all(t.stop_gradient for t in inputs):
            return outputs
        several = isinstance(outputs, (list, tuple))
        items = list(outputs) if several else [outputs]
        fixed = {id(t) for t in context.non_differentiable}
        places = [n for n, t in enumerate(items) if isinstance(t, _core.Tensor) and id(t) not in fixed]
        marked = [items[n] for n in places]
        shapes = [(list(t.shape), t.dtype) for t in marked]
        gradient = cls._gradient(context, inputs, shapes)
        for place, tensor in zip(places, _core.custom_grad(inputs, marked, gradient)):
            items[place] = tensor
        return type(outputs)(items) if several else items[0]

    @classmethod
    def _gradient(cls, context, inputs, shapes):
        count = len(inputs)

        def run(grads):
            import yuloh
            if context.materialize_grads:
                grads = [yuloh.zeros(shape, dtype=dtype) if g is None else g
                         for g, (shape, dtype) in zip(grads, shapes)]
            result = cls.backward(context, *grads)
            result = list(result) if isinstance(result, (list, tuple)) else [result]
            if len(result) != count:
                raise ValueError(f"{cls.__name__}: backward returned {len(result)} gradients, "
                                 f"but forward took {count} tensors.")
            return result
        return run


class Function(PyLayer):
    """torch's spelling of ``PyLayer``."""
