# SPDX-License-Identifier: Apache-2.0
"""Make vision_keys.json: what PaddlePaddle's model zoo calls its parameters, to compare ours with.

Run with an interpreter that has paddlepaddle: ``python make_vision_keys.py > vision_keys.json``.
Per model: count of parameters and of state_dict entries, and a SHA-256 over the lines
``key shape name`` of the whole state_dict; for a few models the lines themselves.
"""

import hashlib
import json

FULL = ("LeNet", "resnet18", "mobilenet_v2", "squeezenet1_1")


def describe(model):
    """(lines, number of parameters) of a Layer's state_dict."""
    state = model.state_dict()
    lines = [f"{key} {list(value.shape)} {value.name}" for key, value in state.items()]
    count = sum(int(p.size) for p in model.parameters())
    return lines, count


def main():
    import paddle
    from paddle.vision import models

    out = {"paddle": paddle.__version__}
    for name in models.__all__:
        if not (name[0].islower() or name == "LeNet"):
            continue
        with paddle.utils.unique_name.guard():
            lines, count = describe(getattr(models, name)())
        entry = {"parameters": count, "entries": len(lines)}
        entry["sha256"] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        if name in FULL:
            entry["lines"] = lines
        out[name] = entry
    print(json.dumps(out, indent=0))


if __name__ == "__main__":
    main()
