# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own peak (process, CPU, Adam, float32) for four models: predicted by `facts(...)["memory"]["eager"]`, measured.

    python bench/estimates_torch.py --python /path/to/python-with-torch-and-torchvision [--json torch.json]

The prediction is the eager account of our recorded step plus what a PyTorch process takes with a model of one weight
(measured here). The twins below run in that Python, each in a fresh process.
"""
import argparse
import json
import subprocess
import sys

TWIN = '''
import sys, torch
from torch import nn
from torch.nn import functional as F
name, batch = sys.argv[1], int(sys.argv[2])

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)
    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))

class GPT(nn.Module):
    def __init__(self, layers=4, width=192, heads=6, vocabulary=4096, length=128):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)
    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

if name == "gpt":
    net, x, y = GPT(), torch.randint(0, 10, (batch, 128)), torch.randint(0, 10, (batch, 128))
elif name == "nothing":
    net, x, y = nn.Linear(1, 10), torch.ones(1, 1), torch.zeros(1, dtype=torch.int64)
else:
    import torchvision
    net, x, y = getattr(torchvision.models, name)(num_classes=100), torch.randn(batch, 3, 64, 64), torch.randint(0, 10, (batch,))
opt = torch.optim.Adam(net.parameters())
for _ in range(4):
    out = net(x)
    loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
    loss.backward()
    opt.step()
    opt.zero_grad()
    loss.item()
print(next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
'''
PAIRS = {"resnet50": "resnet50", "mobilenet_v2": "mobilenet_v2", "densenet": "densenet121", "gpt": "gpt"}  # ours: torchvision's


def high(python, name, batch):
    done = subprocess.run([python, "-c", TWIN, name, str(batch)], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with torch and torchvision")
    parser.add_argument("--batches", nargs="+", type=int, default=(16, 32))
    parser.add_argument("--json", default="estimates_torch.json")
    args = parser.parse_args()
    import estimates
    base = high(args.python, "nothing", 1)
    rows = []
    for ours, theirs in PAIRS.items():
        for batch in args.batches:
            f = estimates.asked({"model": ours, "batch": batch, "precision": "float32", "training": True, "recompute": False})
            eager = f["memory"]["eager"]["value"]
            row = {"model": ours, "batch": batch, "base": base, "predicted": base + eager, "measured": high(args.python, theirs, batch)}
            rows.append(row)
            print(f"{ours:14} {batch:3} predicted {row['predicted'] / 1e6:7.0f} MB, measured {row['measured'] / 1e6:7.0f} MB, "
                  f"{100 * (row['predicted'] / row['measured'] - 1):+.1f} %", flush=True)
    with open(args.json, "w", encoding="utf-8") as f:
        json.dump(rows, f, indent=0)


if __name__ == "__main__":
    sys.exit(main())
