# SPDX-License-Identifier: Apache-2.0
"""Other people's weights and models: names and layouts (weights.py), formats with proof (models.py).

    net = yuloh.vision.models.resnet50()
    found = yuloh.convert.weights("resnet50.pth", net)     # torchvision's names
    print(found.table()); net.set_state_dict(found.state)
"""
from .weights import Conversion, convert_state, evident_origin, pick_state

__all__ = ["Conversion", "convert_state", "pick_state", "weights"]


def weights(path, layer, key=None, origin=None, rename=None, ignore=(), loose=False):
    """Conversion of a weight file (.pth, .safetensors, .pdparams) to a Layer's names and layouts; see
    ``convert_state``.

    ``key``: entry of a checkpoint that holds the tensors; ``origin``: "pytorch", "paddle" or "auto", by default
    what the file says it is.
    """
    from ..framework.io import load
    state = pick_state(load(path), key)
    if origin is None:  # a file may have been written here and hold names of elsewhere
        origin = evident_origin(state) or origin_of(path)
    return convert_state(state, layer, origin, rename, ignore, loose)


def origin_of(path):
    """Who wrote a weight file, as far as the file itself says: "pytorch", "paddle" or "auto"."""
    from ..framework import foreign_files
    with open(path, "rb") as file:
        kind = foreign_files.kind_of(file)
    if kind == "safetensors":
        return {"pt": "pytorch", "pd": "paddle"}.get(foreign_files.metadata_of(path).get("format"), "auto")
    return {"torch": "pytorch", "index": "auto"}.get(kind, "paddle")
