# SPDX-License-Identifier: Apache-2.0
"""safetensors and PyTorch's weight files: recorded ones, written ones, damaged and hostile ones."""
import io
import json
import os
import pathlib
import pickle
import struct
import zipfile

import numpy as np
import pytest

import yuloh as paddle

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "weights"


def packed(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_safetensors_of_the_reference_writer():
    got, want = paddle.load(str(DATA / "oracle.safetensors")), np.load(DATA / "oracle.npz")
    assert set(got) == set(want.files) and len(want.files) == 14
    for name in want.files:
        assert got[name].numpy().shape == want[name].shape and (got[name].numpy() == want[name]).all(), name
    assert got["u16"].dtype == paddle.int32 and got["u64"].dtype == paddle.int64 and got["b"].dtype == paddle.bool
    arrays = paddle.load(str(DATA / "oracle.safetensors"), return_numpy=True)
    assert (arrays["f32"] == want["f32"]).all() and isinstance(arrays["f32"], np.ndarray)
    with open(DATA / "oracle.safetensors", "rb") as file:
        assert (paddle.load(file)["f64"].numpy() == want["f64"]).all()


def test_safetensors_round_trip(tmp_path):
    path = str(tmp_path / "x.safetensors")
    state = {k: v for k, v in paddle.load(str(DATA / "zip.pt")).items() if isinstance(v, paddle.Tensor)}
    state.update(tied=state["d"],
                 turned=paddle.arange(6, dtype="float32").reshape([2, 3]).transpose([1, 0]),
                 array=np.arange(3))
    assert {t.dtype.name
            for t in state.values() if isinstance(t, paddle.Tensor)
            } >= {"bfloat16", "float16", "bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2", "complex64"}
    paddle.save(state, path)
    back = paddle.load(path)
    assert set(back) == set(state)
    for name, value in state.items():
        value = value if isinstance(value, paddle.Tensor) else paddle.to_tensor(value)
        assert back[name].dtype == value.dtype and back[name].shape == value.shape, name
        assert (back[name].numpy() == value.numpy()).all(), name
    assert back["tied"] is back["d"]  # stored once
    head = json.loads(open(path, "rb").read()[8:].split(b"}}")[0] + b"}}")
    assert head["__metadata__"] == {"format": "pd", "tied": "d"}
    assert all(v["data_offsets"][0] % {"F64": 8, "I64": 8, "C64": 8, "F32": 4}.get(v["dtype"], 1) == 0
               for k, v in head.items() if k != "__metadata__")
    back["t"].add_(back["t"])  # the mapping itself is never written
    assert (paddle.load(path)["t"].numpy() == state["t"].numpy()).all()
    assert paddle._core.float8_to_float32(back["f8"]).numpy().tolist() == [1.5, -2]


def test_a_layer_comes_back_from_safetensors(tmp_path):
    path = str(tmp_path / "net.safetensors")
    net, other = (paddle.nn.Sequential(paddle.nn.Conv2D(3, 4, 3), paddle.nn.BatchNorm2D(4)) for _ in range(2))
    paddle.save(net.state_dict(), path)
    assert other.set_state_dict(paddle.load(path)) == ([], [])
    x = paddle.randn([2, 3, 8, 8])
    assert (net(x).numpy() == other(x).numpy()).all()


@pytest.mark.parametrize("obj, text", [([1], "takes a dict of tensors"), ({"a": {"b": 1}}, "names and tensors only"),
                                       ({3: np.ones(2)}, "names")])
def test_safetensors_takes_flat_dicts_only(obj, text, tmp_path):
    with pytest.raises(TypeError, match=text):
        paddle.save(obj, str(tmp_path / "x.safetensors"))


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BAD = {
    "short": (b"\1\0\0", "bytes"),
    "huge header": (struct.pack("<Q", 1 << 60) + b"{}", "claims"),
    "header beyond the end": (struct.pack("<Q", 99) + b"{}", "cut short"),
    "no json": (packed(b"{nothing"), "not JSON"),
    "twice": (packed(
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        bytes(8)), "twice"),
    "cut": (packed({"a": ONE}, bytes(7)), "cut short"),
    "rest": (packed({"a": ONE}, bytes(9)), "belong to no tensor"),
    "overlap": (packed({"a": ONE, "b": {**ONE, "data_offsets": [4, 12]}}, bytes(12)), "expected to begin at 8"),
    "hole": (packed({"a": {**ONE, "data_offsets": [4, 12]}}, bytes(12)), "expected to begin at 0"),
    "backwards": (packed({"a": {**ONE, "data_offsets": [0, -8]}}, bytes(8)), "whole numbers"),
    "length": (packed({"a": {**ONE, "shape": [3]}}, bytes(8)), "expected 12 for F32"),
    "product overflows": (packed({"a": {**ONE, "shape": [1 << 40, 1 << 40]}}, bytes(8)), "no file can hold"),
    "size": (packed({"a": {**ONE, "shape": [1 << 63]}}, bytes(8)), "no file can hold"),
    "negative": (packed({"a": {**ONE, "shape": [-2]}}, bytes(8)), "whole numbers"),
    "type": (packed({"a": {**ONE, "dtype": "F99"}}, bytes(8)), "unknown element type F99"),
    "axes": (packed({"a": {**ONE, "shape": [1] * 40}}, bytes(8)), "40 axes"),
    "key": (packed({"a": {**ONE, "more": 1}}, bytes(8)), "bad header"),
    "deep": (packed(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}", bytes(8)), "nested"),
    "metadata": (packed({"__metadata__": {"a": 1}}), "must hold texts"),
    "bool": (packed({"a": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}},
                    b"\1\2"), "neither true nor false"),
    "uint64": (packed({"a": {"dtype": "U64", "shape": [1], "data_offsets": [0, 8]}},
                      b"\xff" * 8), "int64 cannot hold"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_safetensors_are_refused(name, tmp_path):
    data, text = BAD[name]
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    before = paddle._core.memory_stats()["allocated"]
    paddle._core.reset_max_memory()
    with pytest.raises(ValueError, match=text):
        paddle.load(str(path))
    assert paddle._core.memory_stats()["max_allocated"] - before < 1 << 20
    with pytest.raises((ValueError, NotImplementedError), match="F4"):
        path.write_bytes(packed({"a": {**ONE, "dtype": "F4"}}, bytes(8)))
        paddle.load(str(path))


@pytest.mark.parametrize("file", ["zip.pt", "legacy.pt"])
def test_torch_files(file):
    got = paddle.load(str(DATA / file))
    base = np.arange(24, dtype="float32").reshape(4, 6)
    assert (got["t"].numpy() == base.T).all() and (got["slice"].numpy() == base[1:3, 2:5]).all()
    assert got["exp"].numpy().tolist() == [1, 1, 1, 1] and got["empty"].shape == [0, 3]
    assert got["lst"][0] is got["lst"][1] and (got["lst"][0].numpy() == base).all()
    want = {
        "b": ("bool", [True, False]), "i8": ("int8", [-3]), "u8": ("uint8", [200]), "i16": ("int16", [-300]), "i32":
        ("int32", [7]), "i64": ("int64", 2**40), "d": ("float64", 1.5), "c": ("complex64", [1 + 2j]), "u16":
        ("int32", [60000]), "h": ("float16", [1.5, -2])
    }
    for name, (dtype, value) in want.items():
        assert got[name].dtype.name == dtype and got[name].numpy().tolist() == value, name
    assert got["bf"].dtype == paddle.bfloat16 and got["bf"].astype("float32").numpy().tolist() == [1.5, -2]
    for name in ("f8", "f85"):
        assert paddle._core.float8_to_float32(got[name]).numpy().tolist() == [1.5, -2]
    assert (got["epoch"], got["name"], got["size"], got["dt"], got["dev"]) == (3, "x", (4, 3), "float16", "cpu")
    assert list(got["state_dict"]) == ["weight", "bias"] and got["npf"] == 2.5 and got["np"].tolist() == [0, 1, 2]
    assert (got["state_dict"]["weight"].numpy() == got["param"].numpy()).all()
    assert isinstance(paddle.load(str(DATA / file), return_numpy=True)["lst"][0], np.ndarray)


@pytest.mark.parametrize("file, text", [("module", "torch.nn.modules.linear.Linear.*state_dict"),
                                        ("q", "_rebuild_qtensor.*dequantize"), ("sparse", "sparse.*to_dense"),
                                        ("ts", "TorchScript"), ("evil", "system, which is refused")])
def test_torch_files_with_more_than_tensors_are_refused(file, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, NotImplementedError), match=text):
        paddle.load(str(DATA / f"refused_{file}.pt"))
    assert os.listdir(tmp_path) == []


def archive(path, pickled, entries=(), **options):
    with zipfile.ZipFile(path, "w", **options) as z:
        z.writestr("a/data.pkl", pickled)
        for name, data in entries:
            z.writestr(name, data)


def storage_pickle(count=2, start=0, shape=(2, ), strides=(1, ), kind="FloatStorage", key="0"):
    """A tensor as torch.save writes it, from hostile numbers if need be."""

    class Name:

        def __init__(self, module, name):
            self.text = (module, name)

    class Pickler(pickle._Pickler):

        def save(self, obj, save_persistent_id=True):
            if isinstance(obj, Name):
                self.write(pickle.GLOBAL + "\n".join(obj.text).encode() + b"\n")
            else:
                super().save(obj, save_persistent_id)

    out = io.BytesIO()
    p = Pickler(out, protocol=2)
    p.write(pickle.PROTO + b"\2")
    p.save(Name("torch._utils", "_rebuild_tensor_v2"))
    p.write(pickle.MARK + pickle.MARK)
    for item in ("storage", Name("torch", kind), key, "cpu", count):
        p.save(item)
    p.write(pickle.TUPLE + pickle.BINPERSID)
    for item in (start, shape, strides, False, None):
        p.save(item)
    p.write(pickle.TUPLE + pickle.REDUCE + pickle.STOP)
    return out.getvalue()


def test_archives_are_checked(tmp_path):
    path = str(tmp_path / "x.pt")
    data = struct.pack("<2f", 1, 2)
    good = [("a/data/0", data)]
    archive(path, storage_pickle(), good)
    assert paddle.load(path).numpy().tolist() == [1, 2]
    archive(path, storage_pickle(), [("a/data/0", struct.pack(">2f", 1, 2)), ("a/byteorder", "big")])
    assert paddle.load(path).numpy().tolist() == [1, 2]
    cases = [
        (storage_pickle(), [], "entry a/data/0 is missing"),
        (storage_pickle(count=3), good, "8 bytes; expected 12"),
        (storage_pickle(shape=(3, )), good, "beyond its storage"),
        (storage_pickle(start=1), good, "beyond its storage"),
        (storage_pickle(shape=(2, 2), strides=(1 << 45, 1)), good, "beyond its storage"),
        (storage_pickle(shape=(1 << 40, ), strides=(0, )), good, "repeats"),
        (storage_pickle(shape=(-1, )), good, "a tensor of shape"),
        (storage_pickle(shape=(1 << 70, )), good, "a tensor of shape"),
        (storage_pickle(strides=(-1, )), good, "a tensor of shape"),
        (storage_pickle(strides=()), good, "a tensor of shape"),
        (storage_pickle(kind="QInt8Storage"), good, "QInt8Storage"),
        (b"\x80\x02K\x01", good, "ends early"),
        (b"", good, "ends early"),
    ]
    for pickled, entries, text in cases:
        archive(path, pickled, entries)
        with pytest.raises(ValueError, match=text):
            paddle.load(path)
    archive(path, storage_pickle(), [("a/data/0", data), ("b/data.pkl", b"N.")])
    with pytest.raises(ValueError, match="2 entries data.pkl"):
        paddle.load(path)
    archive(path,
            storage_pickle(1 << 30, shape=(1 << 30, )), [("a/data/0", bytes(1 << 20))],
            compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="compressed"):  # a bomb is not unpacked
        paddle.load(path)


def test_checksums_of_archives(tmp_path):
    path = tmp_path / "x.pt"
    archive(path, storage_pickle(), [("a/data/0", struct.pack("<2f", 1, 2))])
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<2f", 1, 2), struct.pack("<2f", 1, 3)))
    with pytest.raises(ValueError, match="checksum.*verify=False"):
        paddle.load(str(path))
    assert paddle.load(str(path), verify=False).numpy().tolist() == [1, 3]


HOSTILE = {  # pickles that make Python's own readers allocate, run or hang
    "memo": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "bytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.",
    "bytearray": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.",
    "frame": b"\x80\x04\x95" + struct.pack("<Q", 1 << 50) + b"N.",
    "range": b"\x80\x02cbuiltins\nlist\n(cbuiltins\nrange\n(J\xff\xff\xff\x7ftRtR.",
    "bytearray of a number": b"\x80\x02cbuiltins\nbytearray\n(J\xff\xff\xff\x7ftR.",
    "digits": b"\x80\x02L" + b"9" * 100000 + b"L\n.",
    "call of a value": b"\x80\x02]\x85R.",
    "object": b"(cbuiltins\nlist\no.",
    "instance": b"(ibuiltins\nlist\n.",
    "state": b"\x80\x02cbuiltins\nlist\n}U\x01aK\x01sb.",
    "extension": b"\x80\x02\x82\x01.",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", ["torch", "paddle"])
def test_hostile_pickles_are_refused(name, kind, tmp_path):
    path = str(tmp_path / "x")
    if kind == "torch":
        archive(path, HOSTILE[name])
    else:
        pathlib.Path(path).write_bytes(HOSTILE[name])
    before = paddle._core.memory_stats()["allocated"]
    paddle._core.reset_max_memory()
    if name == "memo":  # harmless here: the memo is a dict
        assert paddle.load(path) is None
    else:
        with pytest.raises(ValueError):
            paddle.load(path)
    assert paddle._core.memory_stats()["max_allocated"] - before < 1 << 20


def test_a_small_file_that_names_one_list_very_often_is_read_quickly(tmp_path):
    nested = [1]
    for _ in range(60):
        nested = [nested] * 4
    path = str(tmp_path / "x")
    for protocol in (2, 4):
        pathlib.Path(path).write_bytes(pickle.dumps({"a": nested}, protocol))
        assert len(paddle.load(path)["a"]) == 4
        archive(path, pickle.dumps({"a": nested}, protocol))
        assert len(paddle.load(path)["a"]) == 4


def test_models_in_several_files(tmp_path):
    for i in range(2):
        paddle.save({f"w{i}": paddle.full([2], i)}, str(tmp_path / f"m-{i}.safetensors"))
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w0": "m-0.safetensors", "w1": "m-1.safetensors"}}))
    assert paddle.load(str(index))["w1"].numpy().tolist() == [1, 1]
    for place, text in (("../m-0.safetensors", "beside it"), ("m-1.safetensors", "holds no tensor"), ("none.bin",
                                                                                                      "no file")):
        index.write_text(json.dumps({"weight_map": {"w0": place}}))
        with pytest.raises(ValueError, match=text):
            paddle.load(str(index))


@pytest.mark.parametrize("file", ["oracle.safetensors", "zip.pt", "legacy.pt"])
def test_damage_anywhere_never_ends_the_process(file, tmp_path):
    data, r, path = (DATA / file).read_bytes(), np.random.RandomState(0), tmp_path / file
    refused = 0
    for i in range(300):
        one = bytearray(data)
        if i % 3 == 0:
            one = one[:r.randint(len(one))]
        else:
            for _ in range(r.randint(1, 4)):
                one[r.randint(len(one))] = r.randint(256)
        path.write_bytes(one)
        try:
            for value in paddle.load(str(path)).values():
                if isinstance(value, paddle.Tensor):
                    value.numpy()
        except (ValueError, NotImplementedError, AttributeError):
            refused += 1
    assert refused > 100
