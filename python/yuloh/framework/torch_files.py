# SPDX-License-Identifier: Apache-2.0
"""Framework room: weight files of PyTorch (``.pt``, ``.pth``, ``.bin``), tensors only.

Two formats: a zip archive of a pickle and one uncompressed entry per storage (since 1.6), and a chain of pickles
followed by the storages. The pickle is read by the restricted reader: nothing in the file is run. Archives are
mapped; a tensor is copied only where its strides, alignment or byte order ask for it.
"""
import io
import struct
import zipfile
import zlib

from .. import _core
from .pickles import RestrictedUnpickler, _refuse

__all__ = ["is_torch_file", "load_torch"]

_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the pickled number that the older format begins with
_MAX_DIRECTORY = 64 << 20  # bytes of an archive's list of entries
_MAX_CHAIN = 1 << 28  # of the older format's pickles

_STORAGES = {
    "FloatStorage": "F32",
    "DoubleStorage": "F64",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
    "ComplexDoubleStorage": "C128",
}
_DTYPES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "complex128": "C128",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_BYTES = {
    "F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1, "C64": 8,
    "C128": 16, "U16": 2, "U32": 4, "U64": 8, "F8_E4M3": 1, "F8_E5M2": 1
}


class _Marker:
    """Stands for a name of PyTorch's that is not called: an element type or a class of storage."""
    __slots__ = ("kind", "text")

    def __init__(self, kind, text):
        self.kind, self.text = kind, text


class _Storage:
    __slots__ = ("key", "element", "count", "offset")

    def __init__(self, key, element, count):
        self.key, self.element, self.count, self.offset = key, element, count, None


class _Tensor:
    """A tensor of the file before its data are looked up."""
    __slots__ = ("storage", "element", "start", "shape", "strides")

    def __init__(self, storage, start, shape, strides, element=None):
        if not isinstance(storage, _Storage):
            _refuse("a tensor without a storage")
        self.storage, self.element = storage, element or storage.element
        self.start, self.shape, self.strides = start, tuple(shape), tuple(strides)
        numbers = (start, *self.shape, *self.strides)
        if len(self.shape) != len(self.strides) or any(type(n) is not int or not 0 <= n < 1 << 46 for n in numbers):
            _refuse(f"a tensor of shape {str(self.shape)[:80]} and strides {str(self.strides)[:80]}")


def _tensor_v2(storage, start, shape, strides, requires_grad=False, hooks=None, metadata=None):
    if metadata and any(dict(metadata).values()):
        _refuse(f"a tensor that is a lazy view ({', '.join(map(str, dict(metadata)))})")
    return _Tensor(storage, start, shape, strides)


def _tensor_v3(storage, start, shape, strides, requires_grad, hooks, dtype, metadata=None):
    if not isinstance(dtype, _Marker) or dtype.kind != "dtype":
        _refuse("a tensor without an element type")
    made = _tensor_v2(storage, start, shape, strides, metadata=metadata)
    made.element = dtype.text
    return made


def _parameter(data, requires_grad=True, hooks=None, state=None):
    return data if isinstance(data, _Tensor) else _refuse("a parameter that is no tensor")


def _from_type(function, kind, args, state=None):
    """Tensors and Parameters with attributes of their own: the attributes are dropped."""
    if function not in (_tensor_v2, _tensor_v3, _parameter):
        _refuse("a tensor made by a class of its own")
    return function(*args)


def _size(numbers=()):
    return tuple(numbers)


def _device(*text):
    return ":".join(map(str, text))


def _counter(items=None):
    return dict(items or {})


def _default_dict(factory=None, items=None):
    return dict(items or {})


_ALLOWED = {
    **RestrictedUnpickler.allowed,
    ("torch._utils", "_rebuild_tensor"): _Tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _from_type,
    ("torch", "Size"): _size,
    ("torch", "device"): _device,
    ("torch", "Tensor"): _Marker("class", "Tensor"),
    ("torch.nn.parameter", "Parameter"): _Marker("class", "Parameter"),
    ("torch.storage", "UntypedStorage"): _Marker("storage", "U8"),
    ("torch", "UntypedStorage"): _Marker("storage", "U8"),
    ("collections", "Counter"): _counter,
    ("collections", "defaultdict"): _default_dict,
    **{("torch", name): _Marker("storage", element)
       for name, element in _STORAGES.items()},
    **{("torch", name): _Marker("dtype", element)
       for name, element in _DTYPES.items()},
}
_REASONS = (
    ("quantiz", "quantised tensors have no counterpart here; save dequantize()d ones."),
    ("_rebuild_qtensor", "quantised tensors have no counterpart here; save dequantize()d ones."),
    ("_rebuild_sparse", "sparse tensors have no counterpart here; save tensor.to_dense()."),
    ("_rebuild_nested", "nested tensors have no counterpart here; save their parts."),
    ("_rebuild_meta", "the file holds tensors on the device `meta`, which have no data."),
    ("_rebuild_wrapper", "tensors of a class of their own are refused; save plain ones."),
    ("nn.", "the file holds a whole module, which is code; in PyTorch, save model.state_dict() instead."),
    ("models.", "the file holds a whole module, which is code; in PyTorch, save model.state_dict() instead."),
    ("__torch__", "the file is a TorchScript program; in PyTorch, save module.state_dict(), or export it to ONNX."),
)


class _Unpickler(RestrictedUnpickler):
    allowed = _ALLOWED

    def __init__(self, file, storages):
        super().__init__(file, encoding="utf-8")
        self._storages = storages

    def reason(self, module, name):
        full = f"{module}.{name}"
        for part, text in _REASONS:
            if part in full:
                return text
        return ("tensors, numbers, text and containers of them are read, no code. In PyTorch, save "
                "model.state_dict() (or only that entry of the checkpoint).")

    def persistent_load(self, pid):
        """A storage: ('storage', class, key, device, number of elements[, view])."""
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage":
            _refuse("a reference to something outside the file")
        kind, key, count = pid[1], pid[2], pid[4]
        if not isinstance(kind,
                          _Marker) or kind.kind != "storage" or type(count) is not int or not 0 <= count < 1 << 46:
            _refuse("a storage of an unknown kind")
        if len(pid) == 6 and pid[5] is not None:
            _refuse("a view of a storage (written by PyTorch before 0.4)")
        storage = self._storages.setdefault(str(key), _Storage(str(key), kind.text, count))
        if (storage.element, storage.count) != (kind.text, count):
            _refuse(f"a storage ({key}) of two kinds")
        return storage


class _Finisher:
    """Tensors for ``_Tensor`` in nested containers, every object once."""

    def __init__(self, file, swap):
        self._file, self._swap, self._done = file, swap, {}

    def __call__(self, value, name=""):
        if isinstance(value, _Marker):
            return next((n for n, e in _DTYPES.items() if e == value.text), value.text)
        if not isinstance(value, (_Tensor, dict, list, tuple, set)):
            return value
        found = self._done.get(id(value))
        if found is None:
            found = self._done[id(value)] = (value, self._finish(value, name))
        return found[1]

    def _finish(self, value, name):
        if isinstance(value, _Tensor):
            return self._tensor(value, name)
        self._done[id(value)] = (value, value)  # what refers to itself
        if isinstance(value, dict):
            for key in value:
                value[key] = self(value[key], str(key))
            return value
        if isinstance(value, list):
            value[:] = [self(item, name) for item in value]
            return value
        return type(value)(self(item, name) for item in value)

    def _tensor(self, t, name):
        s, size = t.storage, _BYTES[t.element]
        last = t.start + 1 + sum((n - 1) * by for n, by in zip(t.shape, t.strides))
        if 0 not in t.shape and last * size > s.count * _BYTES[s.element]:
            raise ValueError(f"tensor {name} reaches beyond its storage, got {last} elements; expected at most "
                             f"{s.count * _BYTES[s.element] // size}")
        start = 0 if 0 in t.shape else t.start
        return self._file.tensor(f"tensor {name}", s.offset + start * size, t.element, t.shape, t.strides, self._swap)


def is_torch_file(head):
    """Whether a file that begins with these bytes is one of PyTorch's."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06", _LEGACY))


def load_torch(source, name, verify=True):
    """The object in a file (a path, or all its bytes), with Tensors. ValueError, NotImplementedError or
    UnpicklingError say what is damaged or refused.
    """
    file = _core.FileBytes(source, name)
    storages = {}
    if file.read(0, 2) == b"PK":
        value, swap = _read_archive(source, file, storages, verify)
    else:
        value, swap = _read_chain(file, storages)
    return _Finisher(file, swap)(value)


# ---- the archive -------------------------------------------------------------------------------------------
def _directory_bytes(file):
    """Length that the archive gives for its list of entries, before the list is read."""
    tail = file.read(max(0, len(file) - 65557), min(len(file), 65557))
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 22 > len(tail):
        raise ValueError("the archive is cut short: its list of entries is missing")
    length = struct.unpack_from("<I", tail, at + 12)[0]
    if length == 0xFFFFFFFF and tail[at - 20:at - 16] == b"PK\x06\x07":
        record = file.read(struct.unpack_from("<Q", tail, at - 12)[0], 56)
        length = struct.unpack_from("<Q", record, 40)[0]
    return length


def _entries(source, file):
    """{name: (offset of the data, length, checksum)}, None for an entry that is compressed or encrypted."""
    if _directory_bytes(file) > _MAX_DIRECTORY:
        raise ValueError(f"its list of entries takes more than {_MAX_DIRECTORY} bytes")
    found = {}
    with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            if entry.filename in found:
                raise ValueError(f"entry {entry.filename[:100]} is there twice")
            head = file.read(entry.header_offset, 30)
            if head[:4] != b"PK\x03\x04":
                raise ValueError(f"entry {entry.filename[:100]} has no header")
            start = entry.header_offset + 30 + sum(struct.unpack_from("<HH", head, 26))
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size or entry.flag_bits & 1:
                found[entry.filename] = None
                continue
            if start + entry.file_size > len(file):
                raise ValueError(
                    f"entry {entry.filename[:100]} ends at {start + entry.file_size}, the file at {len(file)}")
            found[entry.filename] = (start, entry.file_size, entry.CRC)
    return found


def _entry(entries, name):
    if name not in entries:
        raise ValueError(f"entry {name[:100]} is missing")
    if entries[name] is None:
        raise ValueError(
            f"entry {name[:100]} is compressed or encrypted, and torch.save does neither. Hint: save it again with "
            "torch.save")
    return entries[name]


def _check(file, name, entry):
    start, size, expected = entry
    crc, at = 0, 0
    while at < size:
        block = file.read(start + at, min(size - at, 1 << 20))
        crc, at = zlib.crc32(block, crc), at + len(block)
    if crc != expected:
        raise ValueError(
            f"entry {name} is damaged: its checksum is {crc:08x}, the archive says {expected:08x}. Hint: "
            "verify=False reads it all the same")


def _read_archive(source, file, storages, verify):
    entries = _entries(source, file)
    pickles = [name for name in entries if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise ValueError(
            f"it is an archive with {len(pickles)} entries data.pkl; expected one, as torch.save writes it")
    prefix = pickles[0][:-len("data.pkl")]
    if prefix + "constants.pkl" in entries:
        raise NotImplementedError(
            "it is a TorchScript program, not weights. Hint: in PyTorch, save module.state_dict(), or "
            "export the module to ONNX and read that.")
    order = _entry_text(file, entries, prefix + "byteorder") or "little"
    if order not in ("little", "big"):
        raise ValueError(f"its byte order is {order[:20]!r}; expected little or big")
    start, size, _ = entry = _entry(entries, pickles[0])
    if verify:
        _check(file, pickles[0], entry)
    value = _Unpickler(io.BytesIO(file.read(start, size)), storages).load()
    for key, storage in storages.items():
        name = f"{prefix}data/{key}"
        storage.offset, size, _ = entry = _entry(entries, name)
        if size != storage.count * _BYTES[storage.element]:
            raise ValueError(f"entry {name} has {size} bytes; expected {storage.count * _BYTES[storage.element]} for "
                             f"{storage.count} elements of {storage.element}")
        if verify:
            _check(file, name, entry)
    return value, order == "big"


def _entry_text(file, entries, name):
    if name not in entries:
        return ""
    start, size, _ = _entry(entries, name)
    return file.read(start, min(size, 64)).decode("ascii", "replace").strip()


# ---- the older format --------------------------------------------------------------------------------------
def _read_chain(file, storages):
    stream = _Stream(file)

    def part():
        return _Unpickler(stream, storages).load()

    part()  # the magic number, seen already
    version, system = part(), part()
    if version != 1001 or not isinstance(system, dict):
        raise ValueError(f"it is of version {str(version)[:20]} of PyTorch's older format; expected 1001")
    value, keys = part(), part()
    swap = not system.get("little_endian", True)
    at = stream.tell()
    for key in keys if isinstance(keys, (list, tuple)) else _refuse("a list of storages that is none"):
        storage = storages.get(str(key))
        count = int.from_bytes(file.read(at, 8), "big" if swap else "little")
        if storage is None or count != storage.count:
            raise ValueError(f"storage {str(key)[:100]} has {count} elements; expected "
                             f"{storage.count if storage else 'none of this name'}")
        storage.offset = at + 8
        at += 8 + count * _BYTES[storage.element]
        if at > len(file):
            raise ValueError(f"the file is cut short: storage {key} ends at {at} of {len(file)} bytes")
    missing = [key for key, s in storages.items() if s.offset is None]
    if missing:
        raise ValueError(f"the data of storage {missing[0][:100]} are missing")
    return value, swap


class _Stream(io.RawIOBase):
    """The bytes of a file to be read one pickle after another."""

    def __init__(self, file):
        self._file, self._at, self._buffer, self._base = file, 0, b"", 0

    def read(self, n=-1):
        n = min(len(self._file) - self._at if n < 0 else n, len(self._file) - self._at)
        if n > _MAX_CHAIN:
            raise ValueError(f"one of its pickles asks for {n} bytes")
        begin = self._at - self._base
        if begin < 0 or begin + n > len(self._buffer):
            self._buffer = self._file.read(self._at, min(max(n, 1 << 16), len(self._file) - self._at))
            self._base, begin = self._at, 0
        self._at += n
        return self._buffer[begin:begin + n]

    def readline(self, limit=-1):
        line = bytearray()
        while not line.endswith(b"\n"):
            byte = self.read(1)
            if not byte or len(line) > 1 << 16:
                break
            line += byte
        return bytes(line)

    def seek(self, offset, whence=io.SEEK_SET):
        self._at = offset + (0, self._at, len(self._file))[whence]
        return self._at

    def tell(self):
        return self._at
