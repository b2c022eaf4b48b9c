# SPDX-License-Identifier: Apache-2.0
"""A few lines that write ONNX files for tests: fields by number, nothing checked, so that damaged ones can be made, too."""
import struct


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def field(number, value):
    """One field: an int is a varint, a float 4 bytes, text and bytes are length-delimited."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, array=None, dims=None, kind=1, raw=None, external=None):
    dims = array.shape if dims is None else dims
    out = b"".join(field(1, int(d)) for d in dims) + field(2, kind) + field(8, name)
    if external is not None:
        out += b"".join(field(13, field(1, k) + field(2, v)) for k, v in external.items()) + field(14, 1)
    else:
        out += field(9, array.tobytes() if raw is None else raw)
    return out


def attribute(name, value):
    if isinstance(value, tuple):  # (kind, payload): a graph, a tensor, a reference
        return field(1, name) + value[1] + field(20, value[0])
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    return field(1, name) + b"".join(field(8, v) for v in value) + field(20, 7)


def graph_attribute(name, graph):
    return attribute(name, (5, field(6, graph)))


def node(op, inputs, outputs, attributes=(), domain="", name=""):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, name) + field(4, op)
            + b"".join(field(5, a) for a in attributes) + (field(7, domain) if domain else b""))


def port(name, dims=("N", 4), kind=1):
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def graph(nodes, inputs=(), outputs=(), weights=(), sparse=()):
    return (b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, w) for w in weights)
            + b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs) + b"".join(field(15, s) for s in sparse))


def function(name, inputs, outputs, nodes, domain="local"):
    return (field(1, name) + b"".join(field(4, i) for i in inputs) + b"".join(field(5, o) for o in outputs)
            + b"".join(field(7, n) for n in nodes) + field(9, field(1, "") + field(2, 17)) + field(9, field(1, domain) + field(2, 1))
            + field(10, domain))


def model(body, opset=17, functions=()):
    return (field(1, 9) + field(8, field(1, "") + field(2, opset)) + field(8, field(1, "local") + field(2, 1))
            + field(7, body) + b"".join(field(25, f) for f in functions))
