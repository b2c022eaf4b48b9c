# SPDX-License-Identifier: Apache-2.0
"""Records tests/data/weights with PyTorch and the safetensors wheel (each where it is installed):
python record_weights.py FOLDER.
"""
import collections
import os
import sys

import numpy as np

FOLDER = sys.argv[1]


class Evil:

    def __reduce__(self):
        return os.system, ("touch refused_evil_ran", )


def torch_files():
    import torch
    from torch import nn
    torch.manual_seed(0)
    linear = nn.Linear(3, 4)
    base = torch.arange(24.).reshape(4, 6)
    one = {
        "epoch": 3, "name": "x", "state_dict": collections.OrderedDict(linear.state_dict()), "t": base.t(), "slice":
        base[1:3, 2:5], "exp": torch.ones(1).expand(4), "bf": torch.tensor([1.5, -2]).bfloat16(), "h":
        torch.tensor([1.5, -2]).half(), "b": torch.tensor([True, False]), "i8": torch.tensor([-3], dtype=torch.int8),
        "u8": torch.tensor([200], dtype=torch.uint8), "i16": torch.tensor([-300], dtype=torch.int16), "i32":
        torch.tensor([7], dtype=torch.int32), "i64": torch.tensor(2**40), "d": torch.tensor(1.5, dtype=torch.float64),
        "c": torch.tensor([1 + 2j]), "empty": torch.zeros(0, 3), "u16": torch.tensor([60000], dtype=torch.uint16),
        "f8": torch.tensor([1.5, -2]).to(torch.float8_e4m3fn), "f85": torch.tensor([1.5, -2]).to(torch.float8_e5m2),
        "param": linear.weight, "size": linear.weight.shape, "dt": torch.float16, "dev": torch.device("cpu"), "lst":
        [base, base], "np": np.arange(3.), "npf": np.float32(2.5)
    }
    torch.save(one, f"{FOLDER}/zip.pt")
    torch.save(one, f"{FOLDER}/legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(linear, f"{FOLDER}/refused_module.pt")
    torch.save({"q": torch.quantize_per_tensor(base, 0.1, 0, torch.qint8)}, f"{FOLDER}/refused_q.pt")
    torch.save({"s": base.to_sparse()}, f"{FOLDER}/refused_sparse.pt")
    torch.jit.save(torch.jit.script(linear), f"{FOLDER}/refused_ts.pt")
    torch.save({"e": Evil()}, f"{FOLDER}/refused_evil.pt")


def safetensors_files():
    from safetensors.numpy import save_file
    r = np.random.RandomState(0)
    arrays = {
        "f32": r.randn(3, 4).astype("f4"), "f64": r.randn(2), "f16": r.randn(5).astype("f2"), "b":
        np.array([True, False, True]), "i8": np.array([-3], "i1"), "u8": np.array([[200]], "u1"), "i16":
        np.array([-300], "i2"), "i32": np.array([7], "i4"), "i64": np.array(2**40), "u16": np.array([60000], "u2"),
        "u32": np.array([2**32 - 1], "u4"), "u64": np.array([2**62], "u8"), "empty": np.zeros(
            (0, 3), "f4"), "\u540d\u524d": np.ones(2, "f4")
    }
    save_file(arrays, f"{FOLDER}/oracle.safetensors", {"format": "np", "note": "x"})
    np.savez(f"{FOLDER}/oracle.npz", **arrays)


def module_files():
    import torch
    from torch import nn
    torch.manual_seed(1)

    class All(nn.Module):

        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2)
            self.lstm = nn.LSTM(8, 5, 2, bidirectional=True, batch_first=True)
            self.gru = nn.GRU(10, 6, batch_first=True)
            self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 6, 3, padding=1))
            self.norm = nn.InstanceNorm1d(6, affine=True)
            self.act = nn.PReLU(6)
            self.up = nn.ConvTranspose1d(6, 4, 3)
            self.bn = nn.BatchNorm1d(4)
            self.out = nn.Linear(4, 4)

        def forward(self, ids):
            x = self.embed(ids)
            x = x + self.attend(x, x, x)[0]
            x = self.gru(self.lstm(self.encoder(x))[0])[0]
            x = self.act(self.norm(self.conv(x.transpose(1, 2))))
            return self.out(self.bn(self.up(x)).transpose(1, 2))

    net = All().eval()
    with torch.no_grad():
        for p in net.parameters():
            p.uniform_(-0.6, 0.6)
        net.bn.running_mean.uniform_(-1, 1)
        net.bn.running_var.uniform_(0.5, 2)
        ids = torch.randint(0, 11, (2, 7))
        torch.save({"epoch": 1, "state_dict": {"module." + k: v
                                               for k, v in net.state_dict().items()}}, f"{FOLDER}/modules.pt")
        np.savez(f"{FOLDER}/modules.npz", ids=ids.numpy(), out=net(ids).numpy())


def zoo_names():
    import json
    import lzma

    import torchvision.models as zoo
    kinds = [
        "alexnet", "vgg11", "resnet18", "mobilenet_v2", "mobilenet_v3_small", "densenet121", "inception_v3",
        "shufflenet_v2_x1_0", "squeezenet1_1"
    ]
    names = {
        kind: [[k, list(v.shape)] for k, v in getattr(zoo, kind)(
            **({"init_weights": False} if kind == "inception_v3" else {})).state_dict().items()]
        for kind in kinds
    }
    with lzma.open(f"{FOLDER}/torchvision_names.json.xz", "wt") as file:
        json.dump(names, file)


for record in (torch_files, module_files, zoo_names, safetensors_files):
    try:
        record()
    except ImportError as error:
        print(f"{record.__name__}: {error}")
