# SPDX-License-Identifier: Apache-2.0
"""ResNet 18 to 152, ResNeXt and Wide ResNet (He et al. 2015, Xie et al. 2016, Zagoruyko and Komodakis
2016).
"""

from ... import nn
from ._build import finish

_BLOCKS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3], 152: [3, 8, 36, 3]}


class BasicBlock(nn.Layer):
    """Two 3x3 convolutions and the shortcut."""

    expansion = 1

    def __init__(
        self,
        inplanes,
        planes,
        stride=1,
        downsample=None,
        groups=1,
        base_width=64,
        dilation=1,
        norm_layer=None,
    ):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2D
        if dilation > 1:
            raise NotImplementedError(f"BasicBlock: dilation is {dilation}; expected 1.")
        self.conv1 = nn.Conv2D(inplanes, planes, 3, padding=1, stride=stride, bias_attr=False)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + identity)


class BottleneckBlock(nn.Layer):
    """1x1, 3x3 (here strided and grouped), 1x1 convolutions and the shortcut."""

    expansion = 4

    def __init__(
        self,
        inplanes,
        planes,
        stride=1,
        downsample=None,
        groups=1,
        base_width=64,
        dilation=1,
        norm_layer=None,
    ):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2D
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = nn.Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = norm_layer(width)
        self.conv2 = nn.Conv2D(
            width,
            width,
            3,
            padding=dilation,
            stride=stride,
            groups=groups,
            dilation=dilation,
            bias_attr=False,
        )
        self.bn2 = norm_layer(width)
        self.conv3 = nn.Conv2D(width, planes * self.expansion, 1, bias_attr=False)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU()
        self.downsample = downsample
        self.stride = stride

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + identity)


class ResNet(nn.Layer):
    """Residual network. Input [N, 3, H, W], output [N, num_classes].

    Args:
        block: BasicBlock or BottleneckBlock. depth: 18, 34, 50, 101 or 152.
        width: base width of a group. groups: groups of the 3x3 convolutions.
        num_classes: outputs; 0 or less leaves out the last layer. with_pool: average over the image.
    """

    def __init__(self, block, depth=50, width=64, num_classes=1000, with_pool=True, groups=1):
        super().__init__()
        if depth not in _BLOCKS:
            raise ValueError(f"ResNet: depth is {depth}; expected one of {sorted(_BLOCKS)}.")
        layers = _BLOCKS[depth]
        self.groups = groups
        self.base_width = width
        self.num_classes = num_classes
        self.with_pool = with_pool
        self._norm_layer = nn.BatchNorm2D
        self.inplanes = 64
        self.dilation = 1
        self.conv1 = nn.Conv2D(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias_attr=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2D(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2)
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2)
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2)
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = nn.Linear(512 * block.expansion, num_classes)

    def _make_layer(self, block, planes, blocks, stride=1):
        channels = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != channels:
            downsample = nn.Sequential(
                nn.Conv2D(self.inplanes, channels, 1, stride=stride, bias_attr=False),
                self._norm_layer(channels),
            )
        common = (self.groups, self.base_width, self.dilation, self._norm_layer)
        layers = [block(self.inplanes, planes, stride, downsample, *common)]
        self.inplanes = channels
        layers += [block(channels, planes, 1, None, *common) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.fc(x.flatten(1))
        return x


def _resnet(arch, block, depth, pretrained, kwargs, **fixed):
    for name, value in fixed.items():
        kwargs.setdefault(name, value)
    return finish(ResNet(block, depth, **kwargs), arch, pretrained)


def resnet18(pretrained=False, **kwargs):
    """ResNet of 18 layers, 11,689,512 trainable parameters with 1,000 classes."""
    return _resnet("resnet18", BasicBlock, 18, pretrained, kwargs)


def resnet34(pretrained=False, **kwargs):
    """ResNet of 34 layers."""
    return _resnet("resnet34", BasicBlock, 34, pretrained, kwargs)


def resnet50(pretrained=False, **kwargs):
    """ResNet of 50 layers, 25,557,032 trainable parameters with 1,000 classes."""
    return _resnet("resnet50", BottleneckBlock, 50, pretrained, kwargs)


def resnet101(pretrained=False, **kwargs):
    """ResNet of 101 layers."""
    return _resnet("resnet101", BottleneckBlock, 101, pretrained, kwargs)


def resnet152(pretrained=False, **kwargs):
    """ResNet of 152 layers."""
    return _resnet("resnet152", BottleneckBlock, 152, pretrained, kwargs)


def _resnext(depth, groups, pretrained, kwargs):
    arch = f"resnext{depth}_{groups}x4d"
    return _resnet(arch, BottleneckBlock, depth, pretrained, kwargs, groups=groups, width=4)


def resnext50_32x4d(pretrained=False, **kwargs):
    """ResNeXt of 50 layers, 32 groups of width 4."""
    return _resnext(50, 32, pretrained, kwargs)


def resnext50_64x4d(pretrained=False, **kwargs):
    """ResNeXt of 50 layers, 64 groups of width 4."""
    return _resnext(50, 64, pretrained, kwargs)


def resnext101_32x4d(pretrained=False, **kwargs):
    """ResNeXt of 101 layers, 32 groups of width 4."""
    return _resnext(101, 32, pretrained, kwargs)


def resnext101_64x4d(pretrained=False, **kwargs):
    """ResNeXt of 101 layers, 64 groups of width 4."""
    return _resnext(101, 64, pretrained, kwargs)


def resnext152_32x4d(pretrained=False, **kwargs):
    """ResNeXt of 152 layers, 32 groups of width 4."""
    return _resnext(152, 32, pretrained, kwargs)


def resnext152_64x4d(pretrained=False, **kwargs):
    """ResNeXt of 152 layers, 64 groups of width 4."""
    return _resnext(152, 64, pretrained, kwargs)


def wide_resnet50_2(pretrained=False, **kwargs):
    """ResNet-50 with twice the inner width."""
    return _resnet("wide_resnet50_2", BottleneckBlock, 50, pretrained, kwargs, width=128)


def wide_resnet101_2(pretrained=False, **kwargs):
    """ResNet-101 with twice the inner width."""
    return _resnet("wide_resnet101_2", BottleneckBlock, 101, pretrained, kwargs, width=128)
