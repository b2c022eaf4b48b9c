# SPDX-License-Identifier: Apache-2.0
"""paddle.metric: measures of a model over many batches, for loops of one's own and for ``Model.fit``."""

from .metrics import Accuracy, Auc, Metric, Precision, Recall, accuracy

__all__ = ["Metric", "Accuracy", "Precision", "Recall", "Auc", "accuracy"]
