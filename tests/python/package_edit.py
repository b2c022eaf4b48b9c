# SPDX-License-Identifier: Apache-2.0
"""Test room: packages (src/formats/package.cpp) taken apart and put together again with right checksums, so that tests reach
what lies behind those.
"""
import struct

_MASK = 2 ** 64 - 1


def number(*values):
    return struct.pack(f"<{len(values)}q", *values)


def text(s):
    return number(len(s)) + s.encode()


def checksum(data):
    lanes = [len(data), 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9]

    def mix(lane, word):
        x = (lanes[lane] ^ word) * 0xd6e8feb86659fd93 & _MASK
        lanes[lane] = (x << 29 | x >> 35) & _MASK

    whole = len(data) // 32 * 32
    for at, (word,) in enumerate(struct.iter_unpack("<Q", data[:whole])):
        mix(at % 4, word)
    for at in range(whole, len(data), 8):
        mix(0, int.from_bytes(data[at:at + 8], "little"))
    for lane in (1, 2, 3):
        mix(0, lanes[lane])
    return lanes[0] ^ lanes[0] >> 31


def _padded(data):
    return data + bytes(-len(data) % 64)


def sections(data):
    """{name: bytes} in the order of the file."""
    count, = struct.unpack_from("<q", data, 64)
    at, found = 72, {}
    for _ in range(count):
        length, = struct.unpack_from("<q", data, at)
        name = data[at + 8:at + 8 + length].decode()
        offset, size, _ = struct.unpack_from("<3q", data, at + 8 + length)
        found[name] = data[offset:offset + size]
        at += 8 + length + 24
    return found


def composed(parts):
    """A package of {name: bytes}; the list of tensors gets the checksums of `data`."""
    tensors = bytearray(parts["tensors"])
    for at in range(8, len(tensors), 24):
        offset, size = struct.unpack_from("<2q", tensors, at)
        struct.pack_into("<Q", tensors, at + 16, checksum(parts["data"][offset:offset + size]))
    parts = {**parts, "tensors": bytes(tensors)}
    size = 8 + sum(len(text(name)) + 24 for name in parts)
    at, table = len(_padded(bytes(64 + size))), number(len(parts))
    for name, data in parts.items():
        table += text(name) + number(at, len(data)) + (0 if name == "data" else checksum(data)).to_bytes(8, "little")
        at += len(_padded(data))
    head = b"YULOHPK2" + number(at, len(table)) + checksum(table).to_bytes(8, "little")
    return _padded(head + bytes(32) + table) + b"".join(map(_padded, parts.values()))


def edit(path, name, change):
    """Rewrites one section of a file; ``change`` takes and gives bytes."""
    parts = sections(path.read_bytes())
    assert composed(parts) == path.read_bytes(), "the helper does not know the format any more"
    changed = change(parts[name])
    assert changed != parts[name]
    path.write_bytes(composed({**parts, name: changed}))
