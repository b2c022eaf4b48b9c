# SPDX-License-Identifier: Apache-2.0
"""Convert room: weights under somebody else's names as the state dict of a Layer.

Units (units.py) are matched by path first; what is left by order if both sequences agree shape by shape, or by shape
where every shape is there once. Anything else is refused with both lists: a guess would be a model that runs and is
wrong.
"""
import re
from collections import Counter, OrderedDict

from .. import _core, nn
from .units import as_tensor, source_units, target_units

__all__ = ["Conversion", "Row", "convert_state", "evident_origin", "pick_state"]

_NESTS = ("state_dict", "model", "model_state_dict", "net", "weights", "params")
# Words for one role in attention: order alone must never exchange them.
_ROLES = {
    word: role
    for role, words in {
        "query": "q query q_proj query_proj wq to_q q_lin", "key": "k key k_proj key_proj wk to_k k_lin", "value":
        "v value v_proj value_proj wv to_v v_lin"
    }.items()
    for word in words.split()
}


class Row:
    """One tensor of the Layer: its name, where it comes from and what was done to it."""

    def __init__(self, target, source, shape, how, note):
        self.target, self.source, self.shape, self.how, self.note = target, source, shape, how, note


class Conversion:
    """The outcome: ``state`` (complete or not), ``rows``, ``dropped``, ``unused`` and ``missing`` names,
    ``origin``.
    """

    def __init__(self, origin):
        self.origin, self.state, self.rows = origin, OrderedDict(), []
        self.dropped, self.unused, self.missing, self.hints = [], [], [], []

    @property
    def complete(self):
        """Whether every tensor of the Layer and of the file has found its place."""
        return not self.unused and not self.missing

    def __str__(self):
        return self.table()

    def table(self, full=True):
        """As text, one line a tensor."""
        lines = []
        if full and self.rows:
            width = max(len(r.target) for r in self.rows), max(len(r.source) for r in self.rows)
            lines += [
                f"  {r.target:<{width[0]}}  <-  {r.source:<{width[1]}}  {str(list(r.shape)):<18} "
                f"{r.how}{', ' + r.note if r.note else ''}" for r in self.rows
            ]
        counts = Counter(r.how for r in self.rows)
        lines.append(
            f"{len(self.rows)} tensors mapped ({', '.join(f'{n} {how}' for how, n in counts.items()) or 'none'})" +
            (f", {len(self.dropped)} batch counters dropped" if self.dropped else ""))
        for title, names in (("of the file not used", self.unused), ("of the model without a value", self.missing)):
            if names:
                lines.append(f"{len(names)} {title}: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}")
        return "\n".join(lines + self.hints)


def pick_state(value, key=None):
    """The flat {name: tensor} in what a file holds: the dict itself, or the only dict of tensors in it (``key``
    chooses).
    """
    if key is not None:
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                have = sorted(map(str, value))[:8] if isinstance(value, dict) else type(value).__name__
                raise ValueError(f"convert: there is no entry {part!r}; got {have}.")
            value = value[part]
    if not isinstance(value, dict):
        raise ValueError(f"convert: expected a dict of tensors, got {type(value).__name__}.")
    flat = _flat(value)
    if flat:
        return flat
    found = {k: _flat(v) for k, v in value.items() if isinstance(v, dict)}
    found = {k: v for k, v in found.items() if v}
    names = [k for k in _NESTS if k in found] or list(found)
    if len(found) > 1 and len(names) != 1:
        raise ValueError(
            f"convert: the file holds several dicts of tensors, {sorted(found)}. Hint: choose one by --key.")
    if not found:
        raise ValueError("convert: the file holds no dict of tensors.")
    return found[names[0]]


def _flat(value):
    tensors = OrderedDict((k, as_tensor(v)) for k, v in value.items() if _is_tensor(v))
    nested = [k for k, v in value.items() if isinstance(v, dict) and k != "StructuredToParameterName@@"]
    return tensors if tensors and not nested else None


def _is_tensor(value):
    return isinstance(value, _core.Tensor) or (hasattr(value, "dtype") and hasattr(value, "shape")
                                               and value.dtype.kind in "fiubc")


def convert_state(state, layer, origin="auto", rename=None, ignore=(), loose=False):
    """Conversion of ``{name: tensor}`` to ``layer``'s names and layouts.

    ``origin``: "pytorch" (Linear weights are transposed, running_mean is _mean ...), "paddle" (nothing is turned)
    or "auto". ``rename(name, shape)`` gives another name, or None to leave a tensor out; ``ignore``: patterns of
    names to leave out; ``loose``: what is left may be matched by the order within each shape (a norm stands
    elsewhere in its block). ValueError where the origin or a match is ambiguous; a Conversion that is not
    ``complete`` says what is left.
    """
    chosen = OrderedDict()
    for name, tensor in state.items():
        new = name if rename is None else rename(name, list(tensor.shape))
        if new is None or any(re.search(p, new) for p in ignore):
            continue
        if new in chosen:
            raise ValueError(f"convert: two tensors are called {new!r} after renaming.")
        chosen[new] = tensor
    targets = target_units(layer)
    if origin != "auto":
        return _convert(chosen, layer, targets, origin, loose)
    evident = evident_origin(chosen)
    if evident:
        return _convert(chosen, layer, targets, evident, loose)
    both = [_convert(chosen, layer, targets, o, loose) for o in ("pytorch", "paddle")]
    whole = [c for c in both if c.complete]
    turned = [r for r in both[0].rows if "transposed" in r.note]
    if both[1].complete and any("left as it is" in r.note for r in both[0].rows):
        return both[1]
    if len(whole) == 2 and turned:
        raise ValueError(
            f"convert: {turned[0].source} is square, so its shape does not tell whether the file is PyTorch's ([out, in]) "
            "or Paddle's ([in, out]). Hint: say --from pytorch or --from paddle.")
    return whole[0] if whole else both[0]


def evident_origin(names):
    """Whose names these are, where some of them are one side's only: "pytorch", "paddle" or ""."""
    leaves = {name.rpartition(".")[2] for name in names}
    if leaves & {"running_mean", "num_batches_tracked", "in_proj_weight"}:
        return "pytorch"
    return "paddle" if leaves & {"_mean", "_variance"} else ""


# ---- one origin --------------------------------------------------------------------------------------------
def _convert(state, layer, targets, origin, loose):
    result = Conversion(origin)
    sources, result.dropped = source_units(state, origin, targets)
    sources, targets = _strip_wrappers(sources, targets), list(targets)
    pairs = _by_path(sources, targets, origin)
    left_s = [s for s in sources if s not in [p[0] for p in pairs]]
    left_t = [t for t in targets if t not in [p[1] for p in pairs]]
    left_s = _without_tied(left_s, pairs, result)
    if left_s and left_t:
        more = _by_order(left_s, left_t, origin) or _by_shape(left_s, left_t, origin)
        more = more or (_by_order_of_shape(left_s, left_t, origin) if loose else [])
        pairs += more
        left_s = [s for s in left_s if s not in [p[0] for p in more]]
        left_t = [t for t in left_t if t not in [p[1] for p in more]]
        if not more:
            result.hints += _hints(left_s, left_t, origin)
    _fill(result, layer, pairs, origin)
    if origin == "pytorch" and any(
            isinstance(l, nn.Dropout) and l.mode == "downscale_in_infer" and l.p for l in layer.sublayers()):
        result.hints.append(
            "Note: this model's Dropout scales when it infers (mode=\"downscale_in_infer\"), PyTorch's when it trains: "
            "outputs differ until mode is \"upscale_in_train\".")
    result.unused += [name for s in left_s for _, name, _ in s.leaves.values()]
    result.missing += [_join(t.path, leaf) for t in left_t for leaf in t.leaves]
    return result


def _join(path, leaf):
    return f"{path}.{leaf}" if path else leaf


def _strip_wrappers(sources, targets):
    """Without the first words that all paths of the file share and none of the Layer's has ("module.", "model.")."""
    while sources:
        first = {s.path.split(".")[0] for s in sources}
        if len(first) != 1 or first == {""} or any(t.path.split(".")[0] in first for t in targets):
            return sources
        for s in sources:
            s.path = s.path.partition(".")[2]
    return sources


def _squeezed(shape):
    return tuple(n for n in shape if n != 1)


def _signature_of_target(unit, origin):
    """What a matching source unit looks like: {leaf: shape} in the file's layout."""
    result = {}
    for leaf, tensor in unit.leaves.items():
        shape = list(tensor.shape)
        if unit.is_linear and leaf == "weight" and origin == "pytorch":
            shape = shape[::-1]
        result[unit.foreign_leaf(leaf, origin)] = _squeezed(shape)
    return result


def _signature_of_source(unit):
    return {leaf: _squeezed(tensor.shape) for leaf, (tensor, _, _) in unit.leaves.items()}


def _fits(source, target, origin):
    """"" where every tensor has its counterpart; "as it is" where a Linear's does if it is not transposed (GPT-2's
    Conv1D); None otherwise.
    """
    a, b = _signature_of_source(source), _signature_of_target(target, origin)
    if a == b:
        return ""
    if target.is_linear and origin == "pytorch" and "weight" in a and len(a["weight"]) == 2:
        a["weight"] = a["weight"][::-1]
        if a == b:
            return "as it is"
    return None


def _by_path(sources, targets, origin):
    at = {t.path: t for t in targets}
    found = [(s, at[s.path], "by name") for s in sources if s.path in at and _fits(s, at[s.path], origin) is not None]
    return found


def _by_order(sources, targets, origin):
    if len(sources) != len(targets):
        return []
    pairs = list(zip(sources, targets))
    if any(_fits(s, t, origin) is None for s, t in pairs) or any(_crossed(s, t, sources, targets) for s, t in pairs):
        return []
    return [(s, t, "by order") for s, t in pairs]


def _crossed(source, target, sources, targets):
    """Whether the names say that this pair exchanges two of a kind: query and key, fc1 and fc2."""
    (home_s, _, last_s), (home_t, _, last_t) = source.path.rpartition("."), target.path.rpartition(".")
    role_s, role_t = _ROLES.get(last_s.lower()), _ROLES.get(last_t.lower())
    if role_s and role_t and role_s != role_t:
        return True
    names_s = {s.path.rpartition(".")[2] for s in sources if s.path.rpartition(".")[0] == home_s}
    names_t = {t.path.rpartition(".")[2] for t in targets if t.path.rpartition(".")[0] == home_t}
    same = not last_s.isdigit() and not last_t.isdigit()
    return same and last_s != last_t and last_s in names_t and last_t in names_s


def _by_order_of_shape(sources, targets, origin):
    """Pairs within each shape in their order, if that settles everything."""

    def grouped(units, signature):
        groups = {}
        for unit in units:
            groups.setdefault(_key(signature(unit)), []).append(unit)
        return groups

    a = grouped(sources, _signature_of_source)
    b = grouped(targets, lambda t: _signature_of_target(t, origin))
    if {k: len(v) for k, v in a.items()} != {k: len(v) for k, v in b.items()}:
        return []
    pairs = [pair for k in a for pair in zip(a[k], b[k])]
    if any(_crossed(s, t, sources, targets) for s, t in pairs):
        return []
    return [(s, t, "by order within its shape") for s, t in pairs]


def _key(signature):
    return tuple(sorted(signature.items()))


def _by_shape(sources, targets, origin):
    """Pairs whose shapes are there once on either side, if that settles everything."""
    key = _key
    a = Counter(key(_signature_of_source(s)) for s in sources)
    b = {key(_signature_of_target(t, origin)): t for t in targets}
    if len(b) != len(targets) or max(a.values()) > 1 or set(a) != set(b):
        return []
    return [(s, b[key(_signature_of_source(s))], "by shape") for s in sources]


def _without_tied(left, pairs, result):
    """A file may name one tensor twice (a language model's head and its embedding)."""
    used = {id(tensor): name for s, _, _ in pairs for tensor, name, _ in s.leaves.values()}
    rest = []
    for unit in left:
        twins = [used.get(id(tensor)) for tensor, _, _ in unit.leaves.values()]
        if all(twins):
            result.hints += [
                f"{name} is the same tensor as {twin}" for (_, name, _), twin in zip(unit.leaves.values(), twins)
            ]
        else:
            rest.append(unit)
    return rest


def _hints(sources, targets, origin):
    lines = []
    for s, t in zip(sources, targets):
        if _fits(s, t, origin) is None or _crossed(s, t, sources, targets):
            lines.append(
                f"By order the first that do not agree: {_describe(s.path, _signature_of_source(s))} in the file, "
                f"{_describe(t.path, _signature_of_target(t, origin))} in the model.")
            break
    words = list(dict.fromkeys(s.path.split(".")[0] for s in sources))
    for word in words:
        rest = [s for s in sources if s.path.split(".")[0] != word]
        if rest and _by_order(rest, targets, origin):
            lines.append(f"Hint: without `{word}` the file has what the model has: --ignore '^{re.escape(word)}\\.'")
    if _by_order_of_shape(sources, targets, origin):
        lines.append("Hint: --loose matches them by the order within each shape; look at the table then.")
    if len(lines) < 2:
        lines.append("Hint: rename in a hook file (def rename_weight(name, shape): ...) or leave out by --ignore.")
    return lines


def _describe(path, signature):
    return f"{path or '(top)'} {{{', '.join(f'{k} {list(v)}' for k, v in signature.items())}}}"


# ---- values ------------------------------------------------------------------------------------------------
def _fill(result, layer, pairs, origin):
    pairs = sorted(pairs, key=lambda p: p[2] != "by name")
    layouts = _linear_layouts(pairs, origin)
    values, rows = {}, {}
    for source, target, how in pairs:
        for leaf, own in target.leaves.items():
            tensor, name, note = source.leaves[target.foreign_leaf(leaf, origin)]
            notes = [note] if note else []
            if target.is_linear and leaf == "weight" and origin == "pytorch":
                if layouts[id(target)]:
                    notes.append("left as it is")
                else:
                    tensor = tensor.reshape(_squeeze_to(tensor.shape, 2)).transpose([1, 0])
                    notes.append("transposed")
            if list(tensor.shape) != list(own.shape):
                notes.append(f"reshaped from {list(tensor.shape)}")
                tensor = tensor.reshape(list(own.shape))
            if tensor.dtype != own.dtype:
                notes.append(f"{tensor.dtype.name} to {own.dtype.name}")
                if tensor.dtype.name.startswith("float8"):
                    tensor = _core.float8_to_float32(tensor)
                tensor = tensor.astype(own.dtype)
            values[id(own)] = tensor
            rows[id(own)] = (name, how, ", ".join(notes))
    for name, own in layer.state_dict().items():
        if id(own) in values:
            result.state[name] = values[id(own)]
            source, how, note = rows[id(own)]
            result.rows.append(Row(name, source, own.shape, how, note))


def _squeeze_to(shape, rank):
    shape = list(shape)
    while len(shape) > rank and shape[-1] == 1:
        shape.pop()
    return shape


def _linear_layouts(pairs, origin):
    """{id of a Linear: whether its weight is stored [in, out] already}. Square ones follow the others of their
    name.
    """
    result, votes, square = {}, {}, []
    for s, t, _ in pairs:
        if not t.is_linear or origin != "pytorch":
            continue
        kind = s.path.rpartition(".")[2]
        rows, columns = (list(s.leaves["weight"][0].shape) + [1, 1])[:2]
        if rows == columns:
            square.append((t, kind, s))
            continue
        result[id(t)] = _fits(s, t, origin) == "as it is"
        votes.setdefault(kind, set()).add(result[id(t)])
    every = set().union(*votes.values()) if votes else set()
    for t, kind, s in square:
        vote = votes.get(kind) or every or {False}
        if len(vote) > 1:
            raise ValueError(
                f"convert: {s.path}.weight is square, and other Linears of the file are stored both as [out, in] and as "
                "[in, out]. Hint: say which by --from paddle, or turn it in a hook.")
        result[id(t)] = vote == {True}
    return result
