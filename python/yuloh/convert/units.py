# SPDX-License-Identifier: Apache-2.0
"""Convert room: state dicts as units. A unit is what one module owns (a weight and its bias, a norm's four
tensors), under the module's path; source and Layer are compared unit by unit.
"""
import re
from collections import OrderedDict

from .. import _core, nn

__all__ = ["Source", "Target", "source_units", "target_units"]

# Leaf of a Layer -> what PyTorch calls it.
_LEAVES = {"_mean": "running_mean", "_variance": "running_var", "scale": "weight", "_weight": "weight"}
_OLD = {"gamma": "weight", "beta": "bias"}  # of layer norms in files of early BERTs
_COUNTERS = ("num_batches_tracked", )


class Source:
    """Tensors {leaf: (tensor, name in the file, note)} under a path."""

    def __init__(self, path):
        self.path, self.leaves = path, OrderedDict()

    def add(self, leaf, tensor, name, note=""):
        """One more tensor."""
        self.leaves[leaf] = (tensor, name, note)


class Target:
    """The own parameters and buffers {leaf: tensor} of a sublayer."""

    def __init__(self, path, layer, leaves):
        self.path, self.layer, self.leaves = path, layer, leaves

    @property
    def is_linear(self):
        """Whether its weight is an [in, out] matrix where PyTorch's is [out, in]."""
        return isinstance(self.layer, nn.Linear)

    def foreign_leaf(self, leaf, origin):
        """PyTorch's name of a leaf."""
        return leaf if origin == "paddle" else _LEAVES.get(leaf, leaf)


def target_units(layer):
    """Units of a Layer in the order of its state dict; a tensor that several names share belongs to the first."""
    seen, units = set(), []
    for path, sub in layer.named_sublayers(include_self=True):
        leaves = OrderedDict()
        hidden = sub._non_persistable_buffer_names_set
        for members in (sub._parameters, sub._buffers):
            for name, value in members.items():
                if value is not None and id(value) not in seen and not (members is sub._buffers and name in hidden):
                    seen.add(id(value))
                    leaves[name] = value
        if leaves:
            units.append(Target(path, sub, leaves))
    return units


def source_units(state, origin, targets):
    """(units of a flat {name: tensor}, names that are dropped because they count batches)."""
    units, dropped = OrderedDict(), []
    for name, tensor in state.items():
        path, _, leaf = name.rpartition(".")
        if origin == "pytorch":
            if leaf in _COUNTERS:
                dropped.append(name)
                continue
            weight_norm = re.fullmatch(r"(.*?)\.?parametrizations\.(\w+)\.original([01])", name)
            if weight_norm:
                path, leaf = weight_norm[1], weight_norm[2] + ("_g", "_v")[int(weight_norm[3])]
            leaf = _OLD.get(leaf, leaf)
        units.setdefault(path, Source(path)).add(leaf, tensor, name)
    own = {leaf for t in targets for leaf in t.leaves}
    if origin == "pytorch":
        if "in_proj_weight" not in own and any(p.endswith("q_proj") for p in (t.path for t in targets)):
            units = _split_attention(units)
        if not any(leaf.endswith("_g") for leaf in own):
            for unit in units.values():
                _fold_weight_norm(unit)
    return list(units.values()), dropped


def _split_attention(units):
    """A MultiheadAttention keeps query, key and value as one [3E, E] matrix and one vector; Paddle's as three
    Linears.
    """
    result = OrderedDict()
    for path, unit in units.items():
        leaves = unit.leaves
        parts = ["q_proj", "k_proj", "v_proj"]
        if "in_proj_weight" not in leaves and not all(f"{p}_weight" in leaves for p in parts):
            result.setdefault(path, Source(path)).leaves.update(leaves)
            continue
        for i, part in enumerate(parts):
            sub = Source(f"{path}.{part}" if path else part)
            for leaf in ("weight", "bias"):
                own = f"{part}_{leaf}"
                if own in leaves:
                    sub.add(leaf, *leaves[own][:2])
                elif f"in_proj_{leaf}" in leaves:
                    tensor, name, _ = leaves[f"in_proj_{leaf}"]
                    if tensor.shape[0] % 3:
                        raise ValueError(
                            f"convert: {name} should hold query, key and value, got shape {tensor.shape}; expected "
                            "3 times the embedding.")
                    rows = tensor.shape[0] // 3
                    sub.add(leaf, tensor[i * rows:(i + 1) * rows], name, f"rows {i * rows}:{(i + 1) * rows}")
            result[sub.path] = sub
        rest = {
            k: v
            for k, v in leaves.items() if not k.startswith("in_proj_") and k not in [f"{p}_weight" for p in parts]
        }
        if rest:
            result.setdefault(path, Source(path)).leaves.update(rest)
    return result


def _fold_weight_norm(unit):
    for leaf in [k[:-2] for k in unit.leaves if k.endswith("_g") and k[:-2] + "_v" in unit.leaves]:
        g, v = unit.leaves.pop(leaf + "_g"), unit.leaves.pop(leaf + "_v")
        axes = [i for i, n in enumerate(g[0].shape) if n == 1] or list(range(1, len(v[0].shape)))
        norm = (v[0] * v[0]).sum(axis=axes, keepdim=True).sqrt()
        unit.add(leaf, v[0] * (g[0] / norm), v[1], "weight norm folded")
        unit.leaves.move_to_end(leaf, last=False)


def as_tensor(value):
    """A Tensor for a tensor or array."""
    from ..tensor import to_tensor
    return value if isinstance(value, _core.Tensor) else to_tensor(value)
