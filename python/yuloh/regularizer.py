# SPDX-License-Identifier: Apache-2.0
"""Regularizers: what an optimizer adds to a gradient to keep parameters small."""

__all__ = ["L1Decay", "L2Decay"]


class WeightDecayRegularizer:
    """Base; ``term(param)`` is the tensor added to the gradient of ``param``."""

    def __init__(self, coeff=0.0):
        self._coeff = float(coeff)
        self._regularization_coeff = self._coeff

    @property
    def coeff(self):
        """Factor of the penalty."""
        return self._coeff

    def term(self, param):
        """Gradient of the penalty with respect to ``param``."""
        raise NotImplementedError

    def __repr__(self):
        return f"{type(self).__name__}, coeff={self._coeff:f}"


class L2Decay(WeightDecayRegularizer):
    """Penalty coeff / 2 * sum(w^2): adds coeff * w to the gradient."""

    def term(self, param):
        return param * self._coeff


class L1Decay(WeightDecayRegularizer):
    """Penalty coeff * sum(|w|): adds coeff * sign(w) to the gradient."""

    def term(self, param):
        import yuloh
        return yuloh.sign(param) * self._coeff
