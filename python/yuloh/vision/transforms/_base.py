# SPDX-License-Identifier: Apache-2.0
"""What every transform shares: the call (keys, draws, one method per kind of input) and who is built in.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence




def is_builtin(transform: Any) -> bool:
    """Whether the class of `transform` is one of this package's own (not a subclass of a user's)."""
    return type(transform).__module__.startswith(__package__ + ".")


class BaseTransform:
    """Base of transforms: define ``_apply_image`` (and ``_get_params`` for draws shared by all inputs).

    Args:
        keys: names of the inputs of a call, such as ("image", "mask"); each goes to ``_apply_<key>``.
            Inputs beyond the keys pass unchanged.
    """

    def __init__(self, keys: "Sequence[str] | None" = None) -> None:
        if keys is None:
            keys = ("image",)
        elif not isinstance(keys, (list, tuple)):
            raise ValueError(f"{type(self).__name__}: keys is {keys!r}; expected a list or tuple of names.")
        self.params: Any = None
        self.keys = keys

    def _get_params(self, inputs: tuple) -> Any:
        return None

    def __call__(self, inputs: Any) -> Any:
        if len(self.keys) == 1 and not isinstance(inputs, tuple):
            self.params = self._get_params((inputs,))
            work = self._get_apply(self.keys[0])
            return inputs if work is None else work(inputs)
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(inputs)
        outputs = []
        for i, value in enumerate(inputs):
            work = self._get_apply(self.keys[i]) if i < len(self.keys) else None
            outputs.append(value if work is None else work(value))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _get_apply(self, key: str) -> "Callable | None":
        return getattr(self, f"_apply_{key}", None)

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: _apply_image is not defined.")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: _apply_boxes is not defined.")

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: _apply_mask is not defined.")
