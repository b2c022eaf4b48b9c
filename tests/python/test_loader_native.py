# SPDX-License-Identifier: Apache-2.0
"""The loader's thread path (io/native.py, src/data) against the Python path and Pillow: same batches, same
draws, same
errors."""

import io
import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import yuloh as paddle
from yuloh.io import DataLoader, Dataset, Subset, random_split
from yuloh.io.native import NativeIterator
from yuloh.vision import datasets
from yuloh.vision import transforms as T
from yuloh.vision.datasets import _native

Image = pytest.importorskip("PIL.Image")
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]
TAIL = [T.ToTensor(), T.Normalize(MEAN, STD)]
needs_jpeg = pytest.mark.skipif(
    not _native.jpeg_library(), reason="no libjpeg-turbo that the module was built for"
)


@pytest.fixture(autouse=True)
def _flag():
    yield
    paddle.set_flags({"FLAGS_native_loader": True})


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("cifar") / "cifar-100-python.tar.gz"
    return datasets.make_synthetic_cifar100(str(path), n_train=200, n_test=100)


def picture(width, height, seed):
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)).resize((width, height), 3)
    noise = rng.integers(-20, 20, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(coarse).astype(int) + noise, 0, 255).astype(np.uint8))


def jpeg(image, **options):
    data = io.BytesIO()
    image.save(data, "JPEG", **{"quality": 85, **options})
    return data.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """24 JPEG files: three chroma samplings, progressive, grey, restart markers, odd sizes, one upper-case
    name."""
    root = tmp_path_factory.mktemp("photos")
    for i in range(24):
        image = picture(60 + 7 * i, 150 - 3 * i, i)
        if i % 6 == 5:
            image = image.convert("L")
        (root / f"class{i % 3}").mkdir(exist_ok=True)
        name = f"{i:02}.JPG" if i == 7 else f"{i:02}.jpg"
        options = {"subsampling": i % 3} if image.mode == "RGB" else {}
        data = jpeg(image, progressive=i % 4 == 1, restart_marker_rows=i % 5 == 2, **options)
        (root / f"class{i % 3}" / name).write_bytes(data)
    return str(root)


def epochs(dataset, native, workers=0, count=1, **options):
    """All batches of `count` epochs as arrays, and what the global streams give next."""
    paddle.set_flags({"FLAGS_native_loader": native})
    paddle.seed(3)
    np.random.seed(5)
    random.seed(7)
    loader = DataLoader(dataset, num_workers=workers, **{"batch_size": 7, "shuffle": True, **options})
    batches = []
    for _ in range(count):
        iterator = iter(loader)
        assert isinstance(iterator, NativeIterator) == native
        batches += [[field.numpy() for field in batch] for batch in iterator]
    return batches, (np.random.rand(), random.random())


def check_same(dataset, **options):
    for workers in (0, 2):
        ours, stream = epochs(dataset, True, workers, **options)
        theirs, their_stream = epochs(dataset, False, workers, **options)
        assert stream == their_stream
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            assert [x.shape for x in a] == [x.shape for x in b] and [x.dtype for x in a] == [
                x.dtype for x in b
            ]
            for x, y in zip(a, b):
                np.testing.assert_array_equal(x, y)


MEMORY = {
    "normalise": TAIL,
    "bytes": [T.Transpose()],
    "unscaled": [T.Transpose(), T.Normalize(MEAN, STD)],
    "normalise only": [T.Normalize(MEAN, STD)],
    "one mean": [T.ToTensor(), T.Normalize([0.5], [0.5])],
    "twice": [*TAIL, T.Normalize([0.1] * 3, [0.7] * 3)],
    "augment": [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), *TAIL],
    "flips": [T.RandomVerticalFlip(0.7), T.RandomHorizontalFlip(0.3), T.Pad((1, 2, 3, 4)), *TAIL],
    "flip between": [
        T.RandomHorizontalFlip(),
        T.RandomCrop(20),
        T.RandomVerticalFlip(),
        T.CenterCrop(26),
        *TAIL,
    ],
}


@pytest.mark.parametrize("name", MEMORY)
def test_images_in_memory_exact(archive, name):
    check_same(datasets.Cifar100(archive, transform=T.Compose(MEMORY[name])), count=2, drop_last=True)


@pytest.mark.parametrize("resize", [T.Resize(48), T.Resize((21, 40), "bicubic"), T.RandomResizedCrop(24)])
def test_images_in_memory_resized(archive, resize):
    check_same(datasets.Cifar100(archive, transform=T.Compose([resize, *TAIL])))


def test_grey_images_with_label_rows(tmp_path):
    datasets.make_synthetic_mnist(str(tmp_path), n_train=40, n_test=10)
    files = [str(tmp_path / f"train-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    for steps in (TAIL[:1], [T.RandomCrop(28, 2), T.ToTensor(), T.Normalize([0.5], [0.5])]):
        check_same(datasets.MNIST(*files, transform=T.Compose(steps)))


@needs_jpeg
@pytest.mark.parametrize(
    "moves",
    [
        [T.CenterCrop(50)],
        [T.RandomCrop(33, pad_if_needed=False, padding=9), T.RandomHorizontalFlip()],
        [T.Pad(4), T.CenterCrop((44, 52)), T.RandomVerticalFlip()],
    ],
    ids=["centre", "random", "pad"],
)
def test_files_exact(folder, moves):
    check_same(datasets.DatasetFolder(folder, transform=T.Compose([*moves, *TAIL])), count=2)
    check_same(datasets.ImageFolder(folder, transform=T.Compose([*moves, T.Transpose()])))


@needs_jpeg
@pytest.mark.parametrize(
    "moves",
    [
        [T.RandomResizedCrop(32), T.RandomHorizontalFlip()],
        [T.Resize(40), T.CenterCrop(32)],
        [T.Resize((30, 50), "bicubic")],
        [T.RandomResizedCrop((64, 40), interpolation="bicubic"), T.RandomCrop(32)],
    ],
    ids=["random", "centre", "bicubic", "two"],
)
def test_files_resized(folder, moves):
    check_same(datasets.DatasetFolder(folder, transform=T.Compose([*moves, *TAIL])), count=2)


@needs_jpeg
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_any_part_of_a_picture_is_that_of_the_whole(tmp_path, subsampling, progressive):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg(picture(150, 130, 1), subsampling=subsampling, progressive=progressive))
    whole = np.asarray(Image.open(path).convert("RGB")).transpose(2, 0, 1)
    rng = np.random.default_rng(0)
    core = paddle._core.BatchLoader(None, None, 0)
    for _ in range(200):
        h, w = rng.integers(1, 131), rng.integers(1, 151)
        top, left = rng.integers(0, 131 - h), rng.integers(0, 151 - w)
        ticket = core.submit(None, [str(path)], np.array([[[1, top, left, h, w]]], np.int32), int(h), int(w))
        assert core.wait(ticket) == []
        np.testing.assert_array_equal(core.take(ticket).numpy()[0], whole[:, top : top + h, left : left + w])


RESIZES = """
import hashlib, sys
import numpy as np, yuloh
from PIL import Image
from yuloh.vision.datasets._native import _down_first
rng = np.random.default_rng(0)
for filter in (2, 3):
    for _ in range(150):
        h, w, new_h, new_w = (int(n) for n in rng.integers(1, 90, 4))
        image = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
        core = yuloh._core.BatchLoader(np.ascontiguousarray(image.transpose(2, 0, 1)[None]), None, 0)
        moves = np.array([[[2, new_h, new_w, filter, _down_first((h, w), (new_h, new_w))]]], np.int32)
        ticket = core.submit(np.zeros(1, np.int64), None, moves, new_h, new_w)
        assert core.wait(ticket) == []
        ours = core.take(ticket).numpy()[0].transpose(1, 2, 0)
        theirs = Image.fromarray(image).resize((new_w, new_h), filter)
        assert (ours == np.asarray(theirs)).all(), (filter, h, w, new_h, new_w)
"""


@pytest.mark.parametrize("isa", ["sse2", "avx2", "avx512"])
def test_resize_is_pillows_bit_by_bit(isa):
    env = {**os.environ, "YULOH_MAX_ISA": isa}
    done = subprocess.run([sys.executable, "-c", RESIZES], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_jpeg
def test_paddle_seed_fixes_workers_and_epochs_differ(folder):
    dataset = datasets.DatasetFolder(folder, transform=T.Compose([T.RandomResizedCrop(16), *TAIL]))
    a, _ = epochs(dataset, True, 2, 2, shuffle=False)
    b, _ = epochs(dataset, True, 2, 2, shuffle=False)
    assert all((x[0] == y[0]).all() for x, y in zip(a, b))
    half = len(a) // 2
    assert not (a[0][0] == a[half][0]).all()  # the same files in the second epoch


def test_subsets(archive):
    dataset = datasets.Cifar100(archive, transform=T.Compose(MEMORY["augment"]))
    check_same(Subset(dataset, [5, 3, -1, 3, 150, 7, 8, 9]))
    check_same(Subset(random_split(dataset, [150, 50])[1], range(10, 40)))


class _Own(datasets.Cifar100):
    def __getitem__(self, idx):
        image, label = super().__getitem__(idx)
        return image, label + 1


def test_what_stays_on_the_python_path(archive, folder):
    cifar = lambda *steps: datasets.Cifar100(archive, transform=T.Compose(list(steps)))  # noqa: E731
    plain = cifar(*TAIL)
    assert isinstance(iter(DataLoader(plain)), NativeIterator)
    others = [
        DataLoader(plain, collate_fn=lambda samples: len(samples)),
        DataLoader(plain, batch_size=None),
        DataLoader(plain, num_workers=1, worker_init_fn=print),
        DataLoader(_Own(archive, transform=T.Compose(TAIL))),
        DataLoader(Subset(_Own(archive, transform=T.Compose(TAIL)), [0, 1])),
        DataLoader(cifar(lambda image: image, *TAIL)),
        DataLoader(cifar(T.ColorJitter(0.1), *TAIL)),
        DataLoader(cifar(T.Resize(40, "lanczos"), *TAIL)),
        DataLoader(cifar(T.RandomCrop(40, 8, fill=3), *TAIL)),
        DataLoader(cifar(T.ToTensor(data_format="HWC"))),
        DataLoader(datasets.Cifar100(archive, transform=T.Compose(TAIL), backend="cv2")),
        DataLoader(datasets.DatasetFolder(folder, loader=lambda p: Image.open(p), transform=T.Compose(TAIL))),
    ]
    for loader in others:
        iterator = iter(loader)
        assert not isinstance(iterator, NativeIterator)
        del iterator
    label = next(iter(DataLoader(_Own(archive, transform=T.Compose(TAIL)), batch_size=4)))[1]
    np.testing.assert_array_equal(label.numpy(), plain._targets[:4] + 1)
    paddle.set_flags({"FLAGS_native_loader": 0})
    assert not isinstance(iter(DataLoader(plain)), NativeIterator)


def test_without_a_jpeg_library(folder, monkeypatch):
    monkeypatch.setattr(_native, "_library", "")
    dataset = datasets.DatasetFolder(folder, transform=T.Compose([T.Resize((8, 8)), *TAIL]))
    iterator = iter(DataLoader(dataset, batch_size=4))
    assert not isinstance(iterator, NativeIterator)
    assert next(iterator)[0].shape == [4, 3, 8, 8]


class _Order:
    def __init__(self, *batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_unusual_indices(archive, workers):
    dataset = datasets.Cifar100(archive, transform=T.Compose(TAIL))
    order = _Order([0, -1], np.array([3]), [999], (4, 5), [])
    iterator = iter(DataLoader(dataset, batch_sampler=order, num_workers=workers))
    assert isinstance(iterator, NativeIterator)
    np.testing.assert_array_equal(next(iterator)[1].numpy(), dataset._targets[[0, 199]])
    assert next(iterator)[0].shape == [1, 3, 32, 32]
    with pytest.raises(IndexError, match="999"):
        next(iterator)
    assert next(iterator)[0].shape == [2, 3, 32, 32]


@needs_jpeg
@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_of_different_sizes(folder, workers):
    dataset = datasets.DatasetFolder(folder, transform=T.Compose([T.Resize(20), *TAIL]))
    with pytest.raises(ValueError, match="samples differ in shape"):
        list(DataLoader(dataset, batch_size=4, num_workers=workers))


def _bad_folder(tmp_path, name, data):
    folder = tmp_path / "bad" / "a"
    folder.mkdir(parents=True)
    for i in range(10):
        (folder / f"{i}.jpg").write_bytes(jpeg(picture(40, 30, i)))
    if data is None:
        dataset = datasets.DatasetFolder(
            str(tmp_path / "bad"), transform=T.Compose([T.Resize((8, 8)), *TAIL])
        )
        (folder / name).unlink()
        return dataset
    (folder / name).write_bytes(data)
    return datasets.DatasetFolder(str(tmp_path / "bad"), transform=T.Compose([T.Resize((8, 8)), *TAIL]))


DAMAGED = {
    "cut": (jpeg(picture(40, 30, 3))[:400], OSError),
    "text": (b"this is no picture" * 10, OSError),
    "empty": (b"", OSError),
    "header only": (jpeg(picture(40, 30, 3))[:180] + b"\xff\xd9", OSError),
    "gone": (None, FileNotFoundError),
}


@needs_jpeg
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", DAMAGED)
def test_bad_files(tmp_path, how, workers):
    data, kind = DAMAGED[how]
    dataset = _bad_folder(tmp_path, "3.jpg", data)
    threads, shared = threading.active_count(), sorted(os.listdir("/dev/shm"))
    iterator = iter(DataLoader(dataset, batch_size=2, num_workers=workers))
    assert isinstance(iterator, NativeIterator)
    next(iterator)
    with pytest.raises(kind) as raised:
        next(iterator)
    text = str(raised.value) + "".join(getattr(raised.value, "__notes__", []))
    assert os.path.join("a", "3.jpg") in text and "sample 3" in text
    assert len(list(iterator)) == 3  # the rest is there
    assert (threading.active_count(), sorted(os.listdir("/dev/shm"))) == (threads, shared)


@needs_jpeg
def test_files_that_only_python_reads(tmp_path):
    """A four-channel JPEG, and a PNG under the name of a JPEG: their pixels come from Pillow, in the same
    batch."""
    data = io.BytesIO()
    picture(40, 30, 5).save(data, "PNG")
    dataset = _bad_folder(tmp_path, "3.jpg", data.getvalue())
    (tmp_path / "bad" / "a" / "5.jpg").write_bytes(jpeg(picture(40, 30, 1).convert("CMYK")))
    trailing = jpeg(picture(40, 30, 2)) + bytes(3000)  # its end mark is far from the end
    (tmp_path / "bad" / "a" / "7.jpg").write_bytes(trailing)
    check_same(dataset, batch_size=4)


def test_iterator_in_a_forked_child(archive):
    dataset = datasets.Cifar100(archive, transform=T.Compose(TAIL))
    iterator = iter(DataLoader(dataset, batch_size=4, num_workers=2))
    next(iterator)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            next(iterator)
        except RuntimeError as e:
            os.write(write, str(e).encode())
        del iterator
        fresh = next(iter(DataLoader(dataset, batch_size=4)))
        os.write(write, str(fresh[0].shape).encode())
        os._exit(0)
    os.close(write)
    assert os.waitpid(pid, 0)[1] == 0
    with os.fdopen(read) as answer:
        text = answer.read()
    assert "belong to the process that made it" in text and "[4, 3, 32, 32]" in text
    next(iterator)  # the parent's threads are not disturbed


def test_leaving_early_and_several_at_once(archive):
    loader = DataLoader(datasets.Cifar100(archive, transform=T.Compose(TAIL)), batch_size=8, num_workers=2)
    first, second = iter(loader), iter(loader)
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a[0].numpy(), b[0].numpy())
        break
    del first
    assert len(list(second)) == len(loader) - 1


def test_batches_belong_to_the_user(archive):
    """No later batch writes into an earlier one's memory."""
    loader = DataLoader(datasets.Cifar100(archive, transform=T.Compose(TAIL)), batch_size=8, num_workers=2)
    batches = list(loader)
    kept = [b[0].numpy() for b in batches]
    list(loader)
    for batch, array in zip(batches, kept):
        np.testing.assert_array_equal(batch[0].numpy(), array)


class _Pairs(Dataset):
    def __getitem__(self, i):
        return np.full((3,), i, np.float32), i

    def __len__(self):
        return 8


def test_own_data_sets_see_nothing_of_it():
    assert [b[1].tolist() for b in DataLoader(_Pairs(), batch_size=4)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


class _Arrays(Dataset):
    """Samples of every kind of array, large enough for the batch to be stacked into a tensor's own memory."""

    def __init__(self, dtype, make=lambda array: array):
        self.arrays = (np.arange(6 * 40000) % 1999).reshape(6, 40, 1000).astype(dtype)
        self.make = make

    def __getitem__(self, i):
        return {"x": self.make(self.arrays[i]), "i": i}

    def __len__(self):
        return 6


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "uint8", "int16", "int32", "int64", "bool"]
)
@pytest.mark.parametrize("workers", [0, 2])
def test_own_arrays(dtype, workers):
    dataset = _Arrays(dtype)
    batches = list(DataLoader(dataset, batch_size=3, num_workers=workers))
    assert [b["x"].numpy().dtype for b in batches] == [np.dtype(dtype)] * 2
    np.testing.assert_array_equal(np.concatenate([b["x"].numpy() for b in batches]), dataset.arrays)
    assert (batches[0]["x"].astype("float32") + 1).shape == [3, 40, 1000]


def test_own_arrays_keep_their_values():
    """A batch's memory is its tensor's alone: neither the samples nor a later batch share it."""
    dataset = _Arrays("float32")
    batches = list(DataLoader(dataset, batch_size=3))
    want = dataset.arrays[:3].copy()
    dataset.arrays[:] = -1
    batches[1]["x"][:] = 7
    np.testing.assert_array_equal(batches[0]["x"].numpy(), want)


def test_own_tensors():
    """Values at hand are copied together; pending ones and those with a gradient go the way of the graph."""
    for make in (
        paddle.to_tensor,
        lambda a: paddle.to_tensor(a) * 2,
        lambda a: paddle.to_tensor(a).transpose([1, 0]),
    ):
        dataset = _Arrays("float32", make)
        (batch,) = DataLoader(dataset, batch_size=6)
        want = np.stack([make(a).numpy() for a in dataset.arrays])
        np.testing.assert_array_equal(batch["x"].numpy(), want)
    weight = paddle.to_tensor(np.ones(3, np.float32), stop_gradient=False)
    stacked = paddle.io.dataloader.collate.default_collate_fn([weight, weight])
    stacked.sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy(), [2, 2, 2])


@pytest.mark.parametrize("mean", [0.3, [0.3], [0.3, 0.2, 0.1]])
@pytest.mark.parametrize("shape", [(9, 7, 3), (9, 7, 1), (9, 7)])
def test_values_through_a_table_are_those_of_the_steps(shape, mean):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    channels = 1 if len(shape) < 3 else shape[2]
    mean = [mean] * channels if isinstance(mean, float) else mean
    if len(mean) not in (1, channels):
        return
    steps = [T.ToTensor(), T.Normalize(mean, [0.3] * len(mean)), T.Normalize([0.1], [3.0])]
    images = [array, array[::-1, ::2]]
    if len(shape) == 2 or channels == 3:
        images.append(Image.fromarray(array))
    for image in images:
        want = image
        for step in steps:
            want = step(want)
        got = T.Compose(steps)(image)
        assert isinstance(got, paddle.Tensor) and got.dtype == paddle.float32
        np.testing.assert_array_equal(got.numpy(), want.numpy())
