# SPDX-License-Identifier: Apache-2.0
"""Layer room: losses. Each class keeps the settings of the function of its name and calls it."""
from .. import functional as F
from .layers import Layer

__all__ = ["AdaptiveLogSoftmaxWithLoss", "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss",
           "CrossEntropyLoss", "GaussianNLLLoss", "HSigmoidLoss", "HingeEmbeddingLoss", "KLDivLoss", "L1Loss",
           "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
           "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss", "RNNTLoss", "SmoothL1Loss", "SoftMarginLoss",
           "TripletMarginLoss", "TripletMarginWithDistanceLoss"]

_REDUCTIONS = ("mean", "sum", "none")


class _Loss(Layer):
    """Keeps keyword arguments for ``F.<function>``; ``reduction`` is checked at construction."""

    function = ""

    def __init__(self, **arguments):
        super().__init__()
        reduction = arguments.get("reduction", "mean")
        if reduction not in _REDUCTIONS:
            raise ValueError(f"{type(self).__name__}: reduction must be one of {_REDUCTIONS}, got "
                             f"{reduction!r}.")
        self._arguments = arguments
        for key, value in arguments.items():
            object.__setattr__(self, key, value)

    def _call(self, *tensors):
        return getattr(F, self.function)(*tensors, **self._arguments)


class _PairLoss(_Loss):
    """A loss of a prediction and a label."""

    def forward(self, input, label):
        return self._call(input, label)


class CrossEntropyLoss(_PairLoss):
    """-log softmax(input) at the label, with class weights, ignored labels, soft labels and smoothing."""

    function = "cross_entropy"

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", soft_label=False, axis=-1,
                 use_softmax=True, label_smoothing=0.0, name=None):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction, soft_label=soft_label,
                         axis=axis, use_softmax=use_softmax, label_smoothing=label_smoothing)


class MSELoss(_PairLoss):
    """(input - label)^2."""

    function = "mse_loss"

    def __init__(self, reduction="mean"):
        super().__init__(reduction=reduction)


class L1Loss(_PairLoss):
    """|input - label|."""

    function = "l1_loss"

    def __init__(self, reduction="mean", name=None):
        super().__init__(reduction=reduction)


class SmoothL1Loss(_PairLoss):
    """Squared near 0, linear beyond ``delta``."""

    function = "smooth_l1_loss"

    def __init__(self, reduction="mean", delta=1.0, is_huber=True, name=None):
        super().__init__(reduction=reduction, delta=delta, is_huber=is_huber)


class NLLLoss(_PairLoss):
    """-input at the label; ``input`` holds log probabilities [N, C, ...]."""

    function = "nll_loss"

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", name=None):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class BCELoss(_PairLoss):
    """Cross entropy of probabilities and 0/1 labels."""

    function = "binary_cross_entropy"

    def __init__(self, weight=None, reduction="mean", name=None):
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(_Loss):
    """Cross entropy of sigmoid(logit) and 0/1 labels."""

    function = "binary_cross_entropy_with_logits"

    def __init__(self, weight=None, reduction="mean", pos_weight=None, name=None):
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)

    def forward(self, logit, label):
        return self._call(logit, label)


class KLDivLoss(_PairLoss):
    """label (log label - input); ``input`` holds log probabilities."""

    function = "kl_div"

    def __init__(self, reduction="mean", log_target=False):
        Layer.__init__(self)
        if reduction not in (*_REDUCTIONS, "batchmean"):
            raise ValueError(f"KLDivLoss: reduction must be one of {(*_REDUCTIONS, 'batchmean')}, got "
                             f"{reduction!r}.")
        self.reduction, self.log_target = reduction, log_target
        self._arguments = {"reduction": reduction, "log_target": log_target}


class MarginRankingLoss(_Loss):
    """max(0, -label (input - other) + margin)."""

    function = "margin_ranking_loss"

    def __init__(self, margin=0.0, reduction="mean", name=None):
        super().__init__(margin=margin, reduction=reduction)

    def forward(self, input, other, label):
        return self._call(input, other, label)


class HingeEmbeddingLoss(_PairLoss):
    """input where the label is 1, max(0, margin - input) where it is -1."""

    function = "hinge_embedding_loss"

    def __init__(self, margin=1.0, reduction="mean", name=None):
        super().__init__(margin=margin, reduction=reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos where the label is 1, max(0, cos - margin) where it is -1."""

    function = "cosine_embedding_loss"

    def __init__(self, margin=0, reduction="mean", name=None):
        super().__init__(margin=margin, reduction=reduction)

    def forward(self, input1, input2, label):
        return self._call(input1, input2, label)


class TripletMarginLoss(_Loss):
    """max(0, distance to the positive - distance to the negative + margin)."""

    function = "triplet_margin_loss"

    def __init__(self, margin=1.0, p=2.0, epsilon=1e-6, swap=False, reduction="mean", name=None):
        super().__init__(margin=margin, p=p, epsilon=epsilon, swap=swap, reduction=reduction)

    def forward(self, input, positive, negative):
        return self._call(input, positive, negative)


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance function of the user's."""

    function = "triplet_margin_with_distance_loss"

    def __init__(self, distance_function=None, margin=1.0, swap=False, reduction="mean", name=None):
        super().__init__(distance_function=distance_function, margin=margin, swap=swap, reduction=reduction)

    def forward(self, input, positive, negative):
        return self._call(input, positive, negative)


class SoftMarginLoss(_PairLoss):
    """log(1 + exp(-label input))."""

    function = "soft_margin_loss"

    def __init__(self, reduction="mean", name=None):
        super().__init__(reduction=reduction)


class MultiLabelSoftMarginLoss(_PairLoss):
    """Mean over classes of the logistic loss of 0/1 labels."""

    function = "multi_label_soft_margin_loss"

    def __init__(self, weight=None, reduction="mean", name=None):
        super().__init__(weight=weight, reduction=reduction)


class MultiLabelMarginLoss(_PairLoss):
    """Hinge between every right and every wrong class."""

    function = "multi_label_margin_loss"

    def __init__(self, reduction="mean", name=None):
        super().__init__(reduction=reduction)


class MultiMarginLoss(_PairLoss):
    """Hinge between the right class and every other, to the power ``p``."""

    function = "multi_margin_loss"

    def __init__(self, p=1, margin=1.0, weight=None, reduction="mean", name=None):
        super().__init__(p=p, margin=margin, weight=weight, reduction=reduction)


class PoissonNLLLoss(_PairLoss):
    """Negative log likelihood of counts under a Poisson law."""

    function = "poisson_nll_loss"

    def __init__(self, log_input=True, full=False, epsilon=1e-8, reduction="mean", name=None):
        super().__init__(log_input=log_input, full=full, epsilon=epsilon, reduction=reduction)


class GaussianNLLLoss(_Loss):
    """Negative log likelihood under a normal law with the given variance."""

    function = "gaussian_nll_loss"

    def __init__(self, full=False, epsilon=1e-6, reduction="mean", name=None):
        super().__init__(full=full, epsilon=epsilon, reduction=reduction)

    def forward(self, input, label, variance):
        return self._call(input, label, variance)


class CTCLoss(Layer):
    """Connectionist temporal classification of log probabilities [T, N, C]."""

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def forward(self, log_probs, labels, input_lengths, label_lengths, norm_by_times=False):
        return F.ctc_loss(log_probs, labels, input_lengths, label_lengths, self.blank, self.reduction,
                          norm_by_times=norm_by_times, zero_infinity=self.zero_infinity)


class RNNTLoss(Layer):
    """Transducer loss of logits [N, T, U + 1, C]."""

    def __init__(self, blank=0, fastemit_lambda=0.001, reduction="mean", name=None):
        super().__init__()
        self.blank, self.fastemit_lambda, self.reduction = blank, fastemit_lambda, reduction

    def forward(self, input, label, input_lengths, label_lengths):
        return F.rnnt_loss(input, label, input_lengths, label_lengths, blank=self.blank,
                           fastemit_lambda=self.fastemit_lambda, reduction=self.reduction)


class HSigmoidLoss(Layer):
    """Hierarchical sigmoid over a binary tree of the classes."""

    def __init__(self, feature_size, num_classes, weight_attr=None, bias_attr=None, is_custom=False,
                 is_sparse=False, name=None):
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise ValueError(f"HSigmoidLoss: num_classes must be at least 2, got {num_classes}.")
        self._num_classes, self._is_custom, self._is_sparse = num_classes, is_custom, is_sparse
        nodes = num_classes if is_custom else num_classes - 1
        self.weight = self.create_parameter([nodes, feature_size], attr=weight_attr)
        self.bias = self.create_parameter([nodes, 1], attr=bias_attr, is_bias=True)

    def forward(self, input, label, path_table=None, path_code=None):
        return F.hsigmoid_loss(input, label, self._num_classes, self.weight, self.bias, path_table=path_table,
                               path_code=path_code, is_sparse=self._is_sparse)


class AdaptiveLogSoftmaxWithLoss(Layer):
    """Softmax over a head of frequent classes and clusters of rare ones, whose projections grow smaller."""

    def __init__(self, in_features, n_classes, cutoffs, weight_attr=None, bias_attr=None, div_value=4.0,
                 head_bias=False, name=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if cutoffs != sorted(set(cutoffs)) or not cutoffs or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError(f"AdaptiveLogSoftmaxWithLoss: cutoffs must rise strictly from 1 to at most "
                             f"{n_classes - 1}, got {cutoffs}.")
        self.in_features, self.n_classes, self.div_value = in_features, n_classes, div_value
        self.cutoffs = cutoffs + [n_classes]
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.is_head_bias = head_bias
        self.head_weight = self.create_parameter([in_features, self.head_size], attr=weight_attr)
        self.head_bias = (self.create_parameter([self.head_size], attr=bias_attr, is_bias=True) if head_bias
                          else None)
        self.tail_weights = []
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            pair = []
            for part, shape in enumerate(([in_features, hidden], [hidden, size])):
                weight = self.create_parameter(shape, attr=weight_attr)
                self.add_parameter(f"_tail_{i}_{part}", weight)
                pair.append(weight)
            self.tail_weights.append(pair)

    def forward(self, input, label):
        return F.adaptive_log_softmax_with_loss(input, label, self.head_weight, self.tail_weights,
                                                self.cutoffs, self.head_bias)
