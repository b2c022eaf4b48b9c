# SPDX-License-Identifier: Apache-2.0
"""VGG 11 to 19, with or without batch normalisation (Simonyan and Zisserman 2014)."""

from ... import nn
from ._build import finish

# Channels of the 3x3 convolutions; "M" is 2x2 max pooling.
_PLANS = {
    11: [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    13: [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    16: [64, 64, "M", 128, 128, "M", *[256] * 3, "M", *[512] * 3, "M", *[512] * 3, "M"],
    19: [64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M"],
}


class VGG(nn.Layer):
    """Features, 7x7 average pooling, three fully connected layers.

    Args:
        features: Layer giving [N, 512, h, w].
        num_classes: outputs; 0 or less leaves out the classifier. with_pool: pool to 7x7 first.
    """

    def __init__(self, features, num_classes=1000, with_pool=True):
        super().__init__()
        self.features = features
        self.num_classes = num_classes
        self.with_pool = with_pool
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(512 * 7 * 7, 4096),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(4096, 4096),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(4096, num_classes),
            )

    def forward(self, x):
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.classifier(x.flatten(1))
        return x


def _features(depth, batch_norm):
    layers, channels = [], 3
    for item in _PLANS[depth]:
        if item == "M":
            layers.append(nn.MaxPool2D(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2D(channels, item, kernel_size=3, padding=1))
        if batch_norm:
            layers.append(nn.BatchNorm2D(item))
        layers.append(nn.ReLU())
        channels = item
    return nn.Sequential(*layers)


def _vgg(depth, pretrained, batch_norm, kwargs):
    arch = f"vgg{depth}" + ("_bn" if batch_norm else "")
    return finish(VGG(_features(depth, batch_norm), **kwargs), arch, pretrained)


def vgg11(pretrained=False, batch_norm=False, **kwargs):
    """VGG with 11 weight layers."""
    return _vgg(11, pretrained, batch_norm, kwargs)


def vgg13(pretrained=False, batch_norm=False, **kwargs):
    """VGG with 13 weight layers."""
    return _vgg(13, pretrained, batch_norm, kwargs)


def vgg16(pretrained=False, batch_norm=False, **kwargs):
    """VGG with 16 weight layers."""
    return _vgg(16, pretrained, batch_norm, kwargs)


def vgg19(pretrained=False, batch_norm=False, **kwargs):
    """VGG with 19 weight layers."""
    return _vgg(19, pretrained, batch_norm, kwargs)
