# SPDX-License-Identifier: Apache-2.0
"""paddle.vision.datasets: known image data sets, images in folders, and made-up data in the same formats."""

from .cifar import Cifar10, Cifar100, cifar100_archive
from .folder import DatasetFolder, ImageFolder
from .mnist import MNIST, FashionMNIST
from .synthetic import make_synthetic_cifar10, make_synthetic_cifar100, make_synthetic_mnist

__all__ = [
    "Cifar10",
    "Cifar100",
    "DatasetFolder",
    "FashionMNIST",
    "ImageFolder",
    "MNIST",
    "cifar100_archive",
    "make_synthetic_cifar10",
    "make_synthetic_cifar100",
    "make_synthetic_mnist",
]
