# SPDX-License-Identifier: Apache-2.0
"""paddle.vision.datasets: official file formats, damaged and missing files, folders, synthetic data."""

import gzip
import io as bytes_io
import os
import pickle
import random
import tarfile

import numpy as np
import pytest

import yuloh as paddle
from yuloh.vision import datasets
from yuloh.vision import transforms as T
from yuloh.vision.datasets import _files

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return datasets.make_synthetic_cifar100(str(tmp_path_factory.mktemp("cifar") / "c.tar.gz"), 600, 100)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return datasets.make_synthetic_mnist(str(tmp_path_factory.mktemp("mnist")), 300, 50)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """No data anywhere and no network."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YULOH_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("YULOH_DATA", raising=False)

    def refuse(url, **kwargs):
        raise _files.urllib.error.URLError("no network")

    monkeypatch.setattr(_files.urllib.request, "urlopen", refuse)
    return tmp_path / "data"


def test_cifar100_samples(archive):
    data = datasets.Cifar100(archive)
    image, label = data[7]
    assert isinstance(image, Image.Image) and image.size == (32, 32) and image.mode == "RGB"
    assert label.dtype == np.int64 and label.shape == () and len(data) == 600
    assert len(datasets.Cifar100(archive, mode="test")) == 100
    raw = datasets.Cifar100(archive, backend="cv2")[7][0]
    assert raw.dtype == np.float32 and raw.shape == (32, 32, 3)
    np.testing.assert_array_equal(raw, np.asarray(image))
    assert data.data[7][0].shape == (3072,) and data.data[7][1] == int(label)
    tensor, _ = datasets.Cifar100(archive, transform=T.ToTensor())[7]
    assert isinstance(tensor, paddle.Tensor) and tensor.shape == [3, 32, 32]


def official_style(path, folder="cifar-100-python", member="train", content=None):
    """An archive as Python 2 wrote it: no manifest, protocol 2, bytes keys."""
    if content is None:
        rows = np.arange(2 * 3072).astype("uint8").reshape(2, 3072)
        content = {
            b"data": rows,
            b"fine_labels": [3, 99],
            b"coarse_labels": [0, 1],
            b"filenames": [b"a", b"b"],
        }
    data = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
    with tarfile.open(path, "w:gz") as tar:
        for name in (f"{folder}/meta", f"{folder}/{member}"):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, bytes_io.BytesIO(data))
    return str(path)


def test_official_layout(tmp_path):
    data = datasets.Cifar100(official_style(tmp_path / "a.tar.gz"), backend="cv2")
    assert len(data) == 2 and int(data[1][1]) == 99
    np.testing.assert_array_equal(data[0][0][:, :, 1].ravel(), np.arange(1024, 2048).astype("uint8"))


class Danger:
    def __reduce__(self):
        return os.system, ("true",)


def test_damaged_archives(tmp_path, archive):
    whole = open(archive, "rb").read()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for name, data in (
        ("cut", whole[: len(whole) // 2]),
        ("flip", bytes(flipped)),
        ("text", b"hello" * 100),
        ("none", b""),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"Cifar100.*{name}"):
            datasets.Cifar100(str(path))
    with pytest.raises(ValueError, match="system"):
        datasets.Cifar100(official_style(tmp_path / "evil.tar.gz", content={b"data": Danger()}))
    with pytest.raises(ValueError, match="has no member"):
        datasets.Cifar100(official_style(tmp_path / "odd.tar.gz", member="other"))
    with pytest.raises(ValueError, match=r"\[N, 3072\]"):
        datasets.Cifar100(official_style(tmp_path / "x.tar.gz", content={b"data": np.zeros((2, 5))}))
    with pytest.raises(FileNotFoundError):
        datasets.Cifar100(str(tmp_path / "absent.tar.gz"))
    with pytest.raises(ValueError, match="'train' or 'test'"):
        datasets.Cifar100(archive, mode="valid")


def test_missing_file_names_file_and_folder(home):
    with pytest.raises(RuntimeError, match="cifar-100-python.tar.gz") as e:
        datasets.Cifar100()
    assert (
        str(home / "cifar") in str(e.value) and "no network" in str(e.value) and "synthetic" in str(e.value)
    )
    with pytest.raises(ValueError, match="download is False"):
        datasets.Cifar100(download=False)
    with pytest.raises(RuntimeError, match="train-images-idx3-ubyte.gz"):
        datasets.MNIST()
    assert not any(files for _, _, files in os.walk(home))


def test_wrong_checksum_in_the_cache(home, archive):
    (home / "cifar").mkdir(parents=True)
    (home / "cifar" / "cifar-100-python.tar.gz").write_bytes(open(archive, "rb").read())
    with pytest.raises(RuntimeError, match="expected MD5 eb9058c3a382ffc7106e4002c42a8d85"):
        datasets.Cifar100()
    assert datasets.cifar100_archive() == str(home / "cifar" / "cifar-100-python.tar.gz")


def test_download(home, monkeypatch, archive):
    content = open(archive, "rb").read()
    served = []

    class Answer(bytes_io.BytesIO):
        headers = {"Content-Length": str(len(content))}

    def serve(url, **kwargs):
        served.append(url)
        return Answer(content)

    monkeypatch.setattr(_files.urllib.request, "urlopen", serve)
    with pytest.raises(RuntimeError, match="MD5"):
        datasets.Cifar100()
    kinds = dict(datasets.cifar._KINDS)
    kinds["Cifar100"] = (kinds["Cifar100"][0], _files.md5_of(archive), *kinds["Cifar100"][2:])
    monkeypatch.setattr(datasets.cifar, "_KINDS", kinds)
    assert len(datasets.Cifar100()) == 600
    count = len(served)
    assert len(datasets.Cifar100()) == 600 and len(served) == count
    assert os.listdir(home / "cifar") == ["cifar-100-python.tar.gz"]


def test_synthetic_mode(home, monkeypatch, capsys, archive):
    monkeypatch.setenv("YULOH_DATA", "synthetic")
    monkeypatch.setattr(datasets.synthetic, "_said", set())
    assert len(datasets.Cifar100()) == 10000 and len(datasets.Cifar100(mode="test")) == 2000
    assert len(datasets.MNIST(mode="test")) == 1000
    err = capsys.readouterr().err
    assert err.count("Cifar100: using synthetic data") == 1 and err.count("MNIST: using synthetic data") == 1
    monkeypatch.setenv("YULOH_DATA", archive)
    assert len(datasets.Cifar100()) == 600
    monkeypatch.setenv("YULOH_DATA", "/no/such/file")
    with pytest.raises(FileNotFoundError):
        datasets.Cifar100()


def test_synthetic_is_repeatable_and_checked(tmp_path):
    one, two, three = (str(tmp_path / n) for n in "abc")
    datasets.make_synthetic_cifar100(one, 300, 50, seed=1)
    datasets.make_synthetic_cifar100(two, 300, 50, seed=1)
    datasets.make_synthetic_cifar100(three, 300, 50, seed=1, shuffle_labels=True)
    assert open(one, "rb").read() == open(two, "rb").read() != open(three, "rb").read()
    a, b = datasets.Cifar100(one), datasets.Cifar100(three)
    np.testing.assert_array_equal(a._images, b._images)
    assert sorted(a._targets) == sorted(b._targets) and (a._targets != b._targets).any()
    with pytest.raises(ValueError):
        datasets.make_synthetic_cifar100(one, 0, 1)
    ten = datasets.Cifar10(datasets.make_synthetic_cifar10(str(tmp_path / "ten"), 100, 20))
    assert len(ten) == 100 and set(ten._targets) == set(range(10))


def test_mnist(digits, tmp_path):
    data = datasets.MNIST(f"{digits}/train-images-idx3-ubyte.gz", f"{digits}/train-labels-idx1-ubyte.gz")
    image, label = data[3]
    assert image.mode == "L" and image.size == (28, 28) and label.shape == (1,) and label.dtype == np.int64
    assert data.images.shape == (300, 784) and data.labels.shape == (300, 1) and len(data) == 300
    # As in Paddle: a grey image is normalised as it is, not scaled.
    out, _ = datasets.MNIST(data.image_path, data.label_path, transform=T.Normalize([127.5], [127.5]))[3]
    np.testing.assert_allclose(out, (np.asarray(image, "float32")[None] - 127.5) / 127.5, rtol=1e-6)
    raw = gzip.open(data.image_path).read()
    for name, content in (("cut", raw[:-5]), ("odd", b"abcd" + raw[4:]), ("short", raw[:6])):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"MNIST.*{name}"):
            datasets.MNIST(str(path), data.label_path)
    broken = tmp_path / "x.gz"
    broken.write_bytes(open(data.image_path, "rb").read()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        datasets.MNIST(str(broken), data.label_path)
    with pytest.raises(ValueError, match="50 labels"):
        datasets.MNIST(data.image_path, f"{digits}/t10k-labels-idx1-ubyte.gz")


CHAINS = [
    lambda: T.Compose([T.ToTensor(), T.Normalize([0.5, 0.4, 0.3], [0.5, 0.2, 0.3])]),
    lambda: T.Normalize([0.5] * 3, [0.5] * 3),
    lambda: T.Compose(
        [T.RandomHorizontalFlip(), T.RandomCrop(32, 4), T.RandomVerticalFlip(0.3), T.ToTensor()]
    ),
    lambda: T.Transpose(),
    lambda: T.Compose([T.Transpose(), T.Normalize([127.5] * 3, [127.5] * 3)]),
    lambda: T.Compose([T.CenterCrop(20), T.ToTensor()]),
    lambda: T.Compose([T.Resize(16), T.ToTensor()]),
    lambda: T.Compose([T.ToTensor(), lambda x: x * 2]),
]


@pytest.mark.parametrize("backend", ["pil", "cv2"])
@pytest.mark.parametrize("chain", range(len(CHAINS)))
@pytest.mark.parametrize("workers", [0, 2])
def test_whole_batches_equal_single_samples(archive, chain, backend, workers):
    results = []
    for fast in (True, False):
        data = datasets.Cifar100(archive, transform=CHAINS[chain](), backend=backend)
        if not fast:
            data._fetch_batch_ = lambda indices: None
        paddle.seed(1)
        np.random.seed(1)
        random.seed(1)
        loader = paddle.io.DataLoader(data, batch_size=50, shuffle=True, num_workers=workers)
        results.append([(x.numpy(), y.numpy()) for x, y in loader])
    for (x, y), (u, v) in zip(*results):
        assert x.dtype == u.dtype and y.dtype == v.dtype and y.shape == (50,)
        np.testing.assert_array_equal(x, u)
        np.testing.assert_array_equal(y, v)


def test_whole_batch_respects_subclasses(archive):
    class Mine(datasets.Cifar100):
        def __getitem__(self, idx):
            image, label = super().__getitem__(idx)
            return image * 0, label + 1

    x, y = next(iter(paddle.io.DataLoader(Mine(archive, transform=T.ToTensor()), batch_size=3)))
    assert not x.numpy().any() and y.numpy().min() >= 1


def test_folders(tmp_path):
    for name, color in (("cat", 10), ("dog", 200)):
        (tmp_path / name / "deep").mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (6, 5), (color, i, 0)).save(tmp_path / name / f"{i}.png")
        Image.new("L", (6, 5), color).save(tmp_path / name / "deep" / "2.JPG")
    (tmp_path / "cat" / "notes.txt").write_text("x")
    data = datasets.DatasetFolder(str(tmp_path))
    assert data.classes == ["cat", "dog"] and data.class_to_idx == {"cat": 0, "dog": 1} and len(data) == 6
    assert data.targets == [0, 0, 0, 1, 1, 1]
    image, target = data[5]
    assert image.mode == "RGB" and target == 1
    batch = next(
        iter(
            paddle.io.DataLoader(datasets.DatasetFolder(str(tmp_path), transform=T.ToTensor()), batch_size=6)
        )
    )
    assert batch[0].shape == [6, 3, 5, 6] and batch[1].tolist() == data.targets
    plain = datasets.ImageFolder(str(tmp_path), transform=T.Normalize([0.5] * 3, [0.5] * 3))
    assert len(plain) == 6 and isinstance(plain[0], list) and plain[0][0].shape == [3, 5, 6]
    assert len(datasets.ImageFolder(str(tmp_path), is_valid_file=lambda p: p.endswith("0.png"))) == 2
    own = datasets.DatasetFolder(str(tmp_path), loader=lambda p: p, extensions=(".txt",))
    assert own[0][0].endswith("notes.txt")


def test_folder_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        datasets.DatasetFolder(str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="no folder"):
        datasets.DatasetFolder(str(tmp_path))
    (tmp_path / "a").mkdir()
    for make in (datasets.DatasetFolder, datasets.ImageFolder):
        with pytest.raises(RuntimeError, match="no image"):
            make(str(tmp_path))
    Image.new("RGB", (64, 64)).save(tmp_path / "a" / "ok.png")
    whole = (tmp_path / "a" / "ok.png").read_bytes()
    noise = np.random.RandomState(0).randint(0, 255, (64, 64, 3), "uint8")
    Image.fromarray(noise).save(tmp_path / "a" / "cut.png")
    cut = (tmp_path / "a" / "cut.png").read_bytes()
    (tmp_path / "a" / "cut.png").write_bytes(cut[: len(cut) // 2])
    (tmp_path / "a" / "text.png").write_text("no picture")
    (tmp_path / "a" / "empty.png").write_bytes(b"")
    data = datasets.ImageFolder(str(tmp_path))
    for i, path in enumerate(data.samples):
        if path.endswith("ok.png"):
            assert data[i][0].size == (64, 64) and whole
            continue
        with pytest.raises(OSError, match=os.path.basename(path)):
            data[i]
    for workers in (0, 1):
        with pytest.raises(OSError, match="cut.png"):
            list(paddle.io.DataLoader(data, num_workers=workers, collate_fn=lambda b: b))


def test_image_backends(tmp_path):
    path = str(tmp_path / "a.png")
    Image.fromarray(np.arange(60, dtype="uint8").reshape(4, 5, 3)).save(path)
    assert paddle.vision.get_image_backend() == "pil" and paddle.vision.image_load(path).size == (5, 4)
    bgr = paddle.vision.image_load(path, backend="cv2")
    assert bgr.shape == (4, 5, 3) and bgr[0, 0].tolist() == [2, 1, 0]
    assert paddle.vision.image_load(path, backend="tensor").shape == [3, 4, 5]
    with pytest.raises(ValueError):
        paddle.vision.set_image_backend("gif")
    try:
        paddle.vision.set_image_backend("cv2")
        assert paddle.vision.get_image_backend() == "cv2"
    finally:
        paddle.vision.set_image_backend("pil")


def _train(archive, net, steps):
    data = datasets.Cifar100(archive, transform=T.Normalize([0.5] * 3, [0.5] * 3))
    loader = paddle.io.DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    losses = []
    while len(losses) < steps:
        for x, y in loader:
            loss = paddle.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
            if len(losses) == steps:
                break
    return float(np.mean(losses[-5:]))


def _small_net():
    nn = paddle.nn
    return nn.Sequential(
        nn.Conv2D(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(6, 16, 5), nn.ReLU(),
        nn.MaxPool2D(2, 2), nn.Flatten(), nn.Linear(576, 120), nn.Linear(120, 84), nn.Linear(84, 100),
    )  # fmt: skip


def test_synthetic_is_learnable_and_shuffled_is_not(tmp_path):
    paddle.seed(0)
    np.random.seed(0)
    good = datasets.make_synthetic_cifar100(str(tmp_path / "a"), 6400, 10)
    assert _train(good, _small_net(), 100) < np.log(100) / 2
    bad = datasets.make_synthetic_cifar100(str(tmp_path / "b"), 6400, 10, shuffle_labels=True)
    assert _train(bad, _small_net(), 60) > 0.95 * np.log(100)
