# SPDX-License-Identifier: Apache-2.0
"""Framework room: ``ParamAttr``, the wishes a user has about one parameter."""

__all__ = ["ParamAttr", "WeightNormParamAttr"]


class ParamAttr:
    """Name, initializer, learning-rate factor, regularizer, trainability and clipping of one parameter."""

    def __init__(self, name=None, initializer=None, learning_rate=1.0, regularizer=None, trainable=True,
                 do_model_average=True, need_clip=True):
        if name is not None and (not isinstance(name, str) or name == ""):
            raise ValueError(f"ParamAttr: name must be a non-empty str or None, got {name!r}.")
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip

    @staticmethod
    def _to_attr(arg):
        """``ParamAttr`` (or False: no parameter) from what users give: None, bool, name, initializer, ..."""
        if arg is None or arg is True:
            return ParamAttr()
        if arg is False:
            return False
        if isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(a) for a in arg]
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        from ..nn.initializer import Initializer
        from ..regularizer import WeightDecayRegularizer
        if isinstance(arg, Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, WeightDecayRegularizer):
            return ParamAttr(regularizer=arg)
        raise TypeError(f"ParamAttr: cannot be made from {type(arg).__name__}; "
                        "expected ParamAttr, bool, str, Initializer, regularizer or None.")

    def __repr__(self):
        return f"ParamAttr({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class WeightNormParamAttr(ParamAttr):
    """A ``ParamAttr`` whose parameter is meant to be weight-normalised along ``dim``."""

    def __init__(self, dim=None, name=None, initializer=None, learning_rate=1.0, regularizer=None,
                 trainable=True, do_model_average=False, need_clip=True):
        super().__init__(name, initializer, learning_rate, regularizer, trainable, do_model_average,
                         need_clip)
        self.dim = dim
