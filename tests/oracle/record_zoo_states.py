# SPDX-License-Identifier: Apache-2.0
"""Records names and shapes of all weights of every model of the zoo: run with a Python that has paddlepaddle 3.3.1.

    python tests/oracle/record_zoo_states.py > tests/data/zoo_states.json

{architecture: [number of entries, SHA-1 of the sorted lines "name shape"]}; tests/python/test_vision_weights.py compares.
"""
import hashlib
import json
import sys


def digest(state):
    lines = sorted(f"{name} {[int(n) for n in value.shape]}" for name, value in state.items())
    return [len(lines), hashlib.sha1("\n".join(lines).encode()).hexdigest()]


def main():
    import paddle
    from paddle.vision import models

    paddle.set_device("cpu")
    found = {}
    for name in sorted(models.__all__):
        make = getattr(models, name)
        if isinstance(make, type):
            continue
        found[name] = digest(make().state_dict())
        print(name, found[name][0], file=sys.stderr)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
