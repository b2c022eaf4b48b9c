# SPDX-License-Identifier: Apache-2.0
"""Optimizer room: how parameters are updated from gradients. ``lr`` holds the learning-rate schedules."""
from . import lr
from .adam import Adam, Adamax, AdamW, Lamb, NAdam, RAdam
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import ASGD, SGD, Adadelta, Adagrad, Momentum, RMSProp, Rprop

__all__ = ["ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Lamb", "Momentum", "NAdam",
           "Optimizer", "RAdam", "RMSProp", "Rprop", "SGD", "lr"]
