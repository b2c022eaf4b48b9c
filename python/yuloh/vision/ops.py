# SPDX-License-Identifier: Apache-2.0
"""paddle.vision.ops: building blocks for vision models, and (row by row) detection ops."""

from __future__ import annotations

from typing import Any

from .. import nn

__all__ = ["ConvNormActivation", "read_file", "nms"]


class ConvNormActivation(nn.Sequential):
    """Convolution, normalisation and activation in a row (the last two only if given).

    Args:
        padding: None keeps the size at stride 1: (kernel - 1) // 2 * dilation.
        norm_layer, activation_layer: called as ``norm_layer(out_channels)`` and ``activation_layer()``.
        bias: of the convolution; None means only without normalisation.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Any = nn.BatchNorm2D,
        activation_layer: Any = nn.ReLU,
        dilation: int = 1,
        bias: "bool | None" = None,
    ) -> None:
        if padding is None:
            padding = (kernel_size - 1) // 2 * dilation
        if bias is None:
            bias = norm_layer is None
        layers = [
            nn.Conv2D(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                padding,
                dilation=dilation,
                groups=groups,
                bias_attr=None if bias else False,
            )
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer())
        super().__init__(*layers)


def read_file(filename: str, name: "str | None" = None) -> Any:
    """The bytes of a file as a uint8 Tensor of shape [size]."""
    import numpy as np

    import yuloh

    with open(filename, "rb") as f:
        return yuloh.to_tensor(np.frombuffer(f.read(), dtype=np.uint8))


def nms(
    boxes: Any,
    iou_threshold: float = 0.3,
    scores: Any = None,
    category_idxs: Any = None,
    categories: Any = None,
    top_k: "int | None" = None,
) -> Any:
    """Indices of the boxes that greedy non-maximum suppression keeps.

    Args:
        boxes: [N, 4], corners x1, y1, x2, y2. scores: [N]; None takes the boxes in the given order.
        category_idxs: [N] int64, each box's category; boxes of different categories never suppress each
            other.
        top_k: keep at most so many, best scores first (only with scores).

    The number of results depends on the data, so this reads the boxes (a cut point) and works on the host.
    """
    import numpy as np

    import yuloh

    corners = boxes.numpy()
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ValueError(f"nms: boxes have shape {list(corners.shape)}; expected [N, 4].")
    values = None if scores is None else scores.numpy()
    order = np.arange(len(corners)) if values is None else np.argsort(-values, kind="stable")
    groups = np.zeros(len(corners), np.int64) if category_idxs is None else category_idxs.numpy()
    allowed = None if categories is None else set(int(c) for c in categories)
    if scores is None and category_idxs is not None:
        raise ValueError("nms: category_idxs was given without scores; expected both.")
    keep: list = []
    for i in order.tolist():
        if allowed is not None and int(groups[i]) not in allowed:
            continue
        rivals = [k for k in keep if groups[k] == groups[i]]
        if not rivals or _iou(corners[i], corners[rivals]).max() <= iou_threshold:
            keep.append(i)
    return yuloh.to_tensor(np.asarray(keep[:top_k], dtype=np.int64))


def _iou(box: Any, others: Any) -> Any:
    import numpy as np

    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    overlap = np.clip(high - low, 0, None).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1)
    return overlap / np.maximum((box[2:] - box[:2]).prod() + areas - overlap, 1e-12)
