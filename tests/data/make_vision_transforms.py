# SPDX-License-Identifier: Apache-2.0
"""Results of image transforms on a small fixed picture: recorded from Paddle, compared with ours.

``python make_vision_transforms.py > vision_transforms.json`` with an interpreter that has paddlepaddle.
The test imports this file and calls ``results`` with our modules.
"""

import json
import random

import numpy as np


def pictures(paddle):
    """The picture as RGB and grey PIL images and as a float CHW Tensor."""
    from PIL import Image

    rng = np.random.RandomState(0)
    pixels = rng.randint(0, 255, (8, 10, 3), dtype="uint8")
    grey = rng.randint(0, 255, (8, 10), dtype="uint8")
    chw = np.ascontiguousarray(pixels.astype("float32").transpose(2, 0, 1))
    return {
        "rgb": Image.fromarray(pixels),
        "grey": Image.fromarray(grey),
        "tensor": paddle.to_tensor(chw),
        "unit": paddle.to_tensor(chw / np.float32(255)),
        "hwc": pixels,
    }


def cases(T):
    """(name, kinds of picture, function). Random ones are seeded before the call."""
    F = T.functional
    both, pil, three = ("rgb", "grey", "tensor"), ("rgb", "grey"), [0.5] * 3
    corners = [[0, 0], [9, 0], [9, 7], [0, 7]], [[1, 1], [8, 0], [9, 6], [0, 7]]
    return [
        ("to_tensor", (*both, "hwc"), T.ToTensor()),
        ("to_tensor_hwc", pil, T.ToTensor("HWC")),
        ("normalize_hwc", ("rgb", "hwc"), T.Normalize([127.5] * 3, [127.5] * 3, "HWC")),
        ("normalize_rgb", ("rgb",), T.Normalize(three, three, "HWC", to_rgb=True)),
        ("normalize_tensor", ("tensor",), T.Normalize(three, three)),
        ("normalize_one", (*both, "hwc"), T.Normalize([127.5], [127.5])),
        ("transpose", (*both, "hwc"), T.Transpose()),
        ("hflip", both, F.hflip),
        ("vflip", both, F.vflip),
        ("crop", both, lambda i: F.crop(i, 1, 2, 3, 4)),
        ("center_crop", both, lambda i: F.center_crop(i, 5)),
        ("pad", both, lambda i: F.pad(i, (1, 2))),
        ("pad_reflect", both, lambda i: F.pad(i, (1, 2, 3, 4), padding_mode="reflect")),
        ("pad_edge", both, lambda i: F.pad(i, 2, padding_mode="edge")),
        ("pad_fill", ("rgb",), lambda i: F.pad(i, 2, fill=(1, 2, 3))),
        ("grey", both[:1] + both[2:], F.to_grayscale),
        ("grey3", both[:1] + both[2:], lambda i: F.to_grayscale(i, 3)),
        ("brightness", ("rgb", "grey", "unit"), lambda i: F.adjust_brightness(i, 0.5)),
        ("contrast", ("rgb", "grey", "unit"), lambda i: F.adjust_contrast(i, 0.5)),
        ("saturation", ("rgb", "grey", "unit"), lambda i: F.adjust_saturation(i, 0.5)),
        ("hue", ("rgb", "grey", "unit"), lambda i: F.adjust_hue(i, 0.2)),
        ("resize", both, lambda i: F.resize(i, 5)),
        ("resize_bicubic", both, lambda i: F.resize(i, (4, 7), "bicubic")),
        ("resize_nearest", both, lambda i: F.resize(i, (13, 7), "nearest")),
        ("rotate", ("rgb", "tensor"), lambda i: F.rotate(i, 30)),
        ("rotate_expand", ("rgb",), lambda i: F.rotate(i, 30, "bilinear", True, fill=7)),
        ("affine", both, lambda i: F.affine(i, 20, (1, 2), 1.2, (3, 4))),
        ("perspective", pil, lambda i: F.perspective(i, *corners)),
        ("erase", ("rgb", "tensor"), lambda i: F.erase(i, 1, 2, 3, 4, 0)),
        ("random_resized_crop", both, T.RandomResizedCrop(6)),
        ("random_crop", both, T.RandomCrop(6)),
        ("random_crop_padded", both, T.RandomCrop(8, padding=3)),
        ("random_hflip", both, T.RandomHorizontalFlip()),
        ("random_vflip", both, T.RandomVerticalFlip(0.8)),
        ("color_jitter", pil, T.ColorJitter(0.4, 0.4, 0.4, 0.4)),
        ("random_rotation", ("rgb",), T.RandomRotation(40)),
        ("random_erasing", ("rgb", "tensor"), T.RandomErasing(1.0)),
        ("random_perspective", pil, T.RandomPerspective(1.0)),
        ("random_affine", ("rgb",), T.RandomAffine(30, (0.2, 0.2), (0.5, 1.5), 10)),
    ]


def describe(value):
    """[kind and dtype, shape, mean, mean weighted by position]."""
    kind = "tensor" if type(value).__name__ in ("Tensor", "EagerParamBase") else type(value).__name__
    array = value.numpy() if kind == "tensor" else np.asarray(value)
    kind = {"ndarray": "array", "tensor": "tensor"}.get(kind, "pil")
    flat = array.astype("float64").ravel()
    weights = np.cos(np.arange(flat.size))
    return [
        f"{kind} {array.dtype}",
        list(array.shape),
        round(flat.mean(), 4),
        round(float((flat * weights).mean()), 4),
    ]


def results(paddle, transforms):
    """{"case/kind/seed": description} for every case."""
    out = {}
    inputs = pictures(paddle)
    for name, kinds, function in cases(transforms):
        for kind in kinds:
            for seed in range(3 if name.startswith(("random", "color")) else 1):
                random.seed(seed)
                np.random.seed(seed)
                out[f"{name}/{kind}/{seed}"] = describe(function(inputs[kind]))
    return out


if __name__ == "__main__":
    import paddle
    import paddle.vision.transforms as module

    print(json.dumps(results(paddle, module), indent=0))
