# SPDX-License-Identifier: Apache-2.0
"""torchvision's models with random weights through `yuloh.convert.weights`: same outputs?

    python torch_weights.py record FOLDER [MODEL...]     with PyTorch: MODEL.pth and MODEL.npz
    python torch_weights.py check FOLDER [MODEL...]      with Yuloh: a line per model, status 1 if one differs
"""
import pathlib
import sys

import numpy as np

MODELS = [
    "alexnet", "vgg11", "vgg16_bn", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small",
    "mobilenet_v3_large", "densenet121", "inception_v3", "shufflenet_v2_x1_0", "squeezenet1_0", "squeezenet1_1",
    "resnext50_32x4d", "wide_resnet50_2"
]


def record(folder, names):
    import torch
    import torchvision.models as zoo
    torch.manual_seed(0)
    for name in names:
        net = getattr(zoo, name)(**({"init_weights": False} if name == "inception_v3" else {})).eval()
        for part in net.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.uniform_(-.3, .3)
                part.running_var.uniform_(.5, 1.5)
                part.weight.data.uniform_(.5, 1.5)
                part.bias.data.uniform_(-.3, .3)
        torch.save(net.state_dict(), folder / f"{name}.pth")
        x = torch.randn(1, 3, *[299 if name == "inception_v3" else 224] * 2)
        with torch.no_grad():
            np.savez(folder / f"{name}.npz", x=x.numpy(), y=net(x).numpy())


def as_torchvision(net, name):
    """What weights cannot carry: settings in which Paddle's network differs from torchvision's."""
    from yuloh import nn
    for part in net.sublayers():
        if isinstance(part, nn.Dropout):
            part.mode = "upscale_in_train"
        if name == "inception_v3" and isinstance(part, nn.BatchNorm2D):
            part._epsilon = 1e-3
    if name.startswith("squeezenet"):
        net._pool = nn.MaxPool2D(3, 2, ceil_mode=True)
    if name == "squeezenet1_1":
        first = nn.Conv2D(3, 64, 3, stride=2)  # without padding
        first.set_state_dict(net._conv.state_dict())
        net._conv = first


def check(folder, names):
    import yuloh
    wrong = 0
    for name in names:
        net = getattr(yuloh.vision.models, name.replace("_bn",
                                                        ""))(**({"batch_norm": True} if name.endswith("_bn") else {}))
        net.eval()
        found = yuloh.convert.weights(str(folder / f"{name}.pth"),
                                      net,
                                      ignore=["^AuxLogits"] if name == "inception_v3" else [])
        net.set_state_dict(found.state)
        as_torchvision(net, name)
        with np.load(folder / f"{name}.npz") as want:
            most = np.abs(want["y"]).max()
            difference = np.abs(net(yuloh.to_tensor(want["x"])).numpy() - want["y"]).max() / most
        good = found.complete and difference < 1e-5
        wrong += not good
        print(
            f"{name:<20} {found.table(False).splitlines()[0]}; difference {difference:.2g} of {most:.3g}{'' if good else '  WRONG'}"
        )
    return wrong


if __name__ == "__main__":
    action, folder, *names = sys.argv[1:]
    sys.exit(bool({"record": record, "check": check}[action](pathlib.Path(folder), names or MODELS)))
