# SPDX-License-Identifier: Apache-2.0
"""paddle.metric against values that Paddle 3.3.1 gives."""

import numpy as np
import pytest

import yuloh as paddle
from yuloh import metric


def test_accuracy():
    pred = paddle.to_tensor(
        np.array([[0.1, 0.9, 0.0], [0.8, 0.15, 0.05], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]], "float32")
    )
    label = np.array([1, 1, 2, 0])
    one = metric.Accuracy()
    for shape in ((4,), (4, 1)):
        correct = one.compute(pred, paddle.to_tensor(label.reshape(shape)))
        assert correct.shape == [4, 1] and correct.numpy().ravel().tolist() == [1, 0, 1, 0]
    hot = one.compute(pred, paddle.to_tensor(np.eye(3, dtype="float32")[label]))
    assert hot.numpy().ravel().tolist() == [1, 0, 1, 0]
    assert one.update(correct) == 0.5 and one.update(correct.numpy()[:1]) == 1.0
    assert one.accumulate() == 3 / 5 and one.name() == ["acc"]
    one.reset()
    assert one.accumulate() == 0.0
    two = metric.Accuracy(topk=(1, 2), name="q")
    assert two.update(two.compute(pred, paddle.to_tensor(label))) == [0.5, 0.75]
    assert two.accumulate() == [0.5, 0.75] and two.name() == ["q_top1", "q_top2"]
    deep = one.compute(paddle.rand([2, 3, 4]), paddle.zeros([2, 3], "int64"))
    assert deep.shape == [2, 3, 1]


def test_compute_reads_nothing():
    pred, label = paddle.rand([8, 5]), paddle.zeros([8, 1], "int64")
    assert metric.Accuracy((1, 3)).compute(pred, label).shape == [8, 3]


def test_precision_and_recall():
    scores, labels = np.array([0.1, 0.5, 0.6, 0.7]), np.array([0, 1, 1, 0])
    precision, recall = metric.Precision(), metric.Recall()
    assert precision.accumulate() == 0.0 and recall.accumulate() == 0.0
    precision.update(scores, labels)
    recall.update(scores[:, None], labels[:, None])
    assert precision.accumulate() == 2 / 3 and recall.accumulate() == 1.0
    precision.update(paddle.to_tensor(scores), paddle.to_tensor(labels))
    assert precision.accumulate() == 4 / 6
    assert precision.name() == "precision" and metric.Recall("r").name() == "r"
    with pytest.raises(ValueError):
        precision.update(scores, labels[:2])


def test_auc():
    auc = metric.Auc()
    assert auc.accumulate() == 0.0 and auc.name() == "auc"
    auc.update(np.array([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6], [0.7, 0.3]]), np.array([[0], [1], [1], [0]]))
    assert auc.accumulate() == 1.0
    auc.reset()
    rng = np.random.RandomState(0)
    score, label = rng.rand(500), rng.randint(0, 2, 500)
    auc.update(np.stack([1 - score, score], 1), label)
    order = (score[label == 1][:, None] > score[label == 0][None]).mean()
    assert abs(auc.accumulate() - order) < 1e-3
    with pytest.raises(ValueError):
        auc.update(score, label)


def test_accuracy_function():
    pred = paddle.to_tensor(np.array([[0.1, 0.9], [0.8, 0.2]], "float32"))
    out = metric.accuracy(pred, paddle.to_tensor(np.array([[1], [1]])))
    assert out.shape == [] and float(out) == 0.5
    assert float(metric.accuracy(pred, paddle.to_tensor(np.array([1, 1])), k=2)) == 1.0
    with pytest.raises(ValueError):
        metric.accuracy(pred, paddle.to_tensor(np.array([1, 1])), k=3)


def test_own_metric():
    class Mean(metric.Metric):
        def __init__(self):
            super().__init__()
            self.reset()

        def reset(self):
            self.values = []

        def update(self, values, *rest):
            self.values += values.ravel().tolist()

        def accumulate(self):
            return float(np.mean(self.values))

        def name(self):
            return "mean"

    mean = Mean()
    mean.update(*[v.numpy() for v in mean.compute(paddle.ones([2]), paddle.zeros([2]))])
    assert mean.accumulate() == 1.0
    with pytest.raises(TypeError):
        metric.Metric()
