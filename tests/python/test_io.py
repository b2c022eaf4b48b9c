# SPDX-License-Identifier: Apache-2.0
"""The data path: data sets, samplers, collate and the DataLoader with and without worker processes."""

import os
import random
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import yuloh as paddle
from yuloh import io


class Rows(io.Dataset):
    """Sample i is f(i)."""

    def __init__(self, f, n=10):
        self.f = f
        self.n = n

    def __getitem__(self, i):
        return self.f(i)

    def __len__(self):
        return self.n


class Stream(io.IterableDataset):
    def __init__(self, n=10, share=False):
        self.n = n
        self.share = share

    def __iter__(self):
        info = io.get_worker_info() if self.share else None
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(start, self.n, step))


def describe(value):
    if isinstance(value, paddle.Tensor):
        assert value.stop_gradient
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return [describe(v) for v in value]
    if isinstance(value, dict):
        return {k: describe(v) for k, v in value.items()}
    return value


def first(f, workers=0, **kwargs):
    kwargs.setdefault("batch_size", 4)
    return next(iter(io.DataLoader(Rows(f), num_workers=workers, **kwargs)))


def shared_files():
    """Names in /dev/shm that a data worker could have left (other programs use the folder too)."""
    return {n for n in os.listdir("/dev/shm") if n.startswith(("yuloh", "psm_", "pym-", "sem.", "tmp"))}


SAMPLES = [
    (lambda i: i, "int64[4]"),
    (lambda i: i * 1.0, "float64[4]"),
    (lambda i: np.float32(i), "float32[4]"),
    (lambda i: i > 3, "bool[4]"),
    (lambda i: np.zeros(3, "float16"), "float16[4, 3]"),
    (lambda i: (np.zeros(2, "uint8"), i), ["uint8[4, 2]", "int64[4]"]),
    (lambda i: {"a": np.zeros(2), "b": (i, 2.0)}, {"a": "float64[4, 2]", "b": ["int64[4]", "float64[4]"]}),
    (lambda i: (i, f"x{i}"), ["int64[4]", ["x0", "x1", "x2", "x3"]]),
    (lambda i: (1, (2, [3, np.zeros(2)])), ["int64[4]", ["int64[4]", ["int64[4]", "float64[4, 2]"]]]),
    (lambda i: (np.zeros((100, 100), "float32"), i), ["float32[4, 100, 100]", "int64[4]"]),
]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("case", range(len(SAMPLES)))
def test_collate_structures(case, workers):
    f, expected = SAMPLES[case]
    assert describe(first(f, workers)) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_single_samples_without_collate(workers):
    assert describe(first(lambda i: (np.zeros(2), i, "s"), workers, batch_size=None)) == [
        "float64[2]",
        0,
        "s",
    ]
    loader = io.DataLoader(Rows(lambda i: i), batch_size=None, num_workers=workers)
    assert list(loader) == list(range(10)) and len(loader) == 10


def test_tensor_samples():
    assert describe(first(lambda i: paddle.full([2], float(i)))) == "float32[4, 2]"
    x, y = paddle.to_tensor(np.arange(12).reshape(6, 2)), paddle.arange(6)
    for workers in (0, 2):
        batches = list(io.DataLoader(io.TensorDataset([x, y]), batch_size=4, num_workers=workers))
        assert [describe(b) for b in batches] == [["int64[4, 2]", "int64[4]"], ["int64[2, 2]", "int64[2]"]]
        np.testing.assert_array_equal(np.concatenate([b[0].numpy() for b in batches]), x.numpy())


@pytest.mark.parametrize("workers", [0, 2])
def test_tensor_dataset_gathers_what_single_samples_give(workers):
    class Mine(io.TensorDataset):
        def __getitem__(self, idx):
            x, y = super().__getitem__(idx)
            assert type(x) is paddle.Tensor and x.shape == [2]
            return x, y

    tensors = [paddle.to_tensor(np.arange(12.0).reshape(6, 2)), paddle.to_tensor(np.arange(6, dtype="int32"))]
    for order in ([[3, 1], [5, 0]], [[2, 2]]):
        one, two = (
            [
                [t.numpy() for t in b]
                for b in io.DataLoader(kind(tensors), batch_sampler=order, num_workers=workers)
            ]
            for kind in (io.TensorDataset, Mine)
        )
        for b, c in zip(one, two):
            assert all(u.dtype == v.dtype and np.array_equal(u, v) for u, v in zip(b, c))
    with pytest.raises(IndexError):
        list(io.DataLoader(io.TensorDataset(tensors), batch_sampler=[[7]], num_workers=workers))


def test_workers_see_the_newest_value_of_a_tensor_dataset():
    x = paddle.zeros([4, 2])
    loader = io.DataLoader(io.Subset(io.TensorDataset([x]), [0, 1, 2, 3]), batch_size=4, num_workers=1)
    assert next(iter(loader))[0].numpy().sum() == 0
    x[:] = 1.0
    assert next(iter(loader))[0].numpy().sum() == 8


@pytest.mark.parametrize("workers", [0, 2])
def test_custom_collate(workers):
    def collate(batch):
        return {"x": np.array(batch), "n": len(batch), "s": "hi", "t": (np.ones(2), 5)}

    got = first(lambda i: i, workers, collate_fn=collate)
    assert describe(got) == {"x": "int64[4]", "n": 4, "s": "hi", "t": ["float64[2]", 5]}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_order_and_values_with_workers(shared, persistent):
    def sample(i):
        return np.full((60, 60 + (i // 40) * 20), i, "float32"), i  # the slots must grow on the way

    loader = io.DataLoader(
        Rows(sample, 120),
        batch_size=8,
        num_workers=3,
        use_shared_memory=shared,
        persistent_workers=persistent,
    )
    before = shared_files()
    for _ in range(3):
        seen = []
        for x, y in loader:
            assert (x.numpy()[:, 0, 0] == y.numpy()).all() and (x.numpy() == y.numpy()[:, None, None]).all()
            seen += y.tolist()
        assert seen == list(range(120))
    assert shared_files() <= before


@pytest.mark.parametrize("shared", [True, False])
def test_large_orders_and_large_batches_do_not_block_each_other(shared):
    loader = io.DataLoader(
        Rows(float, 600000), batch_size=100000, num_workers=2, use_shared_memory=shared, prefetch_factor=3
    )
    assert [b.numpy()[-1] for b in loader] == [99999.0 + 100000 * i for i in range(6)]


def test_batches_survive_their_slot():
    kept = list(io.DataLoader(Rows(lambda i: np.full(5000, i, "float32"), 64), batch_size=4, num_workers=2))
    assert [int(b.numpy()[0, 0]) for b in kept] == list(range(0, 64, 4))
    assert all((b.numpy() == b.numpy()[:, :1]).all() for b in kept)


def test_persistent_workers_keep_their_process_and_drop_an_epoch_left_early():
    loader = io.DataLoader(
        Rows(lambda i: os.getpid(), 40), batch_size=4, num_workers=2, persistent_workers=True
    )
    pids = {int(b.numpy()[0]) for b in loader}
    early = iter(loader)
    next(early)
    assert {int(b.numpy()[0]) for b in loader} == pids and len(pids) == 2
    with pytest.raises(StopIteration):
        next(early)


def test_iterable_dataset():
    def sizes(**kw):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [b.shape[0] for b in io.DataLoader(Stream(), batch_size=4, **kw)]

    assert sizes() == [4, 4, 2]
    assert sizes(drop_last=True) == [4, 4]
    assert sizes(num_workers=2) == [4, 4, 4, 4, 2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shared = [
            v for b in io.DataLoader(Stream(share=True), batch_size=2, num_workers=3) for v in b.tolist()
        ]
        chained = io.ChainDataset([Stream(3), Stream(2)])
        assert [b.tolist() for b in io.DataLoader(chained, batch_size=5)] == [[0, 1, 2, 0, 1]]
    assert sorted(shared) == list(range(10))
    with pytest.warns(UserWarning, match="get_worker_info"):
        list(io.DataLoader(Stream(), batch_size=4, num_workers=2))


def killed(i):
    if i == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return i


def test_killed_worker():
    with pytest.raises(
        RuntimeError, match=r"worker 1 \(pid \d+\) was killed by signal 9 \(SIGKILL\) at sample 20"
    ):
        list(io.DataLoader(Rows(killed, 40), batch_size=4, num_workers=2))
    with pytest.raises(RuntimeError, match="exit code 3"):
        list(io.DataLoader(Rows(lambda i: os._exit(3)), batch_size=4, num_workers=1))


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(
    "error", [ValueError("bad sample"), KeyError("k"), OSError(2, "gone", "f"), Odd(1, 2)]
)
@pytest.mark.parametrize("workers", [0, 2])
def test_error_keeps_type_text_and_sample(error, workers):
    def sample(i):
        if i == 20:
            raise error
        return i

    with pytest.raises(type(error)) as e:
        list(io.DataLoader(Rows(sample, 40), batch_size=4, num_workers=workers))
    text = str(e.value) + "".join(getattr(e.value, "__notes__", []))
    assert str(error.args[-1]) in text
    if hasattr(BaseException, "add_note"):
        assert "sample 20" in text
    if workers:
        assert "in sample" in str(e.value.__cause__) and "raise error" in str(e.value.__cause__)


def test_loading_goes_on_after_an_error():
    def sample(i):
        if i == 5:
            raise ValueError("five")
        return i

    for workers in (0, 1, 2):
        it = iter(io.DataLoader(Rows(sample, 12), batch_size=4, num_workers=workers))
        assert next(it).tolist() == [0, 1, 2, 3]
        with pytest.raises(ValueError):
            next(it)
        assert next(it).tolist() == [8, 9, 10, 11]
        with pytest.raises(StopIteration):
            next(it)


def test_stop_iteration_of_a_sample_does_not_end_the_loop():
    def sample(i):
        return next(iter(()))

    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(io.DataLoader(Rows(sample), num_workers=workers))


def test_unpicklable_error_comes_as_its_base():
    class Local(ValueError):
        pass

    def sample(i):
        raise Local("here")

    with pytest.raises(ValueError, match="here"):
        list(io.DataLoader(Rows(sample), num_workers=1))


def test_timeout():
    with pytest.raises(RuntimeError, match="within 0.5 s"):  # a worker that sleeps as good as for ever
        list(io.DataLoader(Rows(lambda i: time.sleep(100_000)), num_workers=1, timeout=0.5))


def test_worker_init_and_info():
    def init(worker_id):
        info = io.get_worker_info()
        info.dataset.offset = 100 * (info.id + 1)
        assert info.num_workers == 2 and info.id == worker_id

    data = Rows(lambda i: i + data.offset, 8)
    data.offset = 0
    got = [b.tolist() for b in io.DataLoader(data, batch_size=4, num_workers=2, worker_init_fn=init)]
    assert got == [[100, 101, 102, 103], [204, 205, 206, 207]]
    assert io.get_worker_info() is None

    def broken(worker_id):
        raise LookupError("no luck")

    with pytest.raises(LookupError, match="no luck"):
        list(io.DataLoader(data, num_workers=1, worker_init_fn=broken))


def draw(i):
    return np.random.randint(0, 2**31), random.randrange(2**31)


def test_tensor_code_in_workers():
    # It is slower than NumPy there, but user code that uses tensors must work after a fork, on one thread.
    w = paddle.rand([300, 300])
    float((w @ w).sum())

    def sample(i):
        x = paddle.rand([64, 64])
        return x @ x.t() + paddle.to_tensor(np.full([64, 64], i, "float32")), x.mean()

    for workers in (1, 3):
        paddle.seed(7)
        loader = io.DataLoader(Rows(sample, 24), batch_size=2, num_workers=workers)
        batches = list(loader)
        assert batches[0][0].shape == [2, 64, 64] and batches[0][1].shape == [2]
        means = [v for b in batches for v in b[1].tolist()]
        assert len(set(means)) == 24


def draws(seed, persistent=False):
    paddle.seed(seed)
    loader = io.DataLoader(Rows(draw, 16), batch_size=2, num_workers=4, persistent_workers=persistent)
    return [v for _ in range(2) for a, b in loader for v in a.tolist() + b.tolist()]


@pytest.mark.parametrize("persistent", [True, False])
def test_random_streams(persistent):
    one = draws(3, persistent)
    assert len(set(one)) == len(one) == 64
    assert draws(3, persistent) == one
    assert draws(4, persistent) != one


def test_worker_affinity_is_reset():
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    code = (
        "import os, yuloh\nfull = os.sched_getaffinity(0)\nos.sched_setaffinity(0, {min(full)})\n"
        "class D(yuloh.io.Dataset):\n"
        "    def __getitem__(s, i): return len(os.sched_getaffinity(0))\n"
        "    def __len__(s): return 2\n"
        "n = int(next(iter(yuloh.io.DataLoader(D(), num_workers=1))))\nassert n == len(full), (n, full)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT", "exit"])
def test_no_orphans_and_nothing_in_shared_memory(how):
    code = (
        "import os, sys, time, numpy as np, yuloh\n"
        "class D(yuloh.io.Dataset):\n"
        "    def __getitem__(s, i): return np.full(100000, os.getpid())\n"
        "    def __len__(s): return 10**6\n"
        "it = iter(yuloh.io.DataLoader(D(), batch_size=2, num_workers=2))\n"
        "print(int(next(it).numpy()[0, 0]), int(next(it).numpy()[0, 0]), flush=True)\n"
        + ("sys.exit(0)\n" if how == "exit" else "time.sleep(60)\n")
    )
    before = shared_files()
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    pids = [int(p) for p in parent.stdout.readline().split()]
    assert len(set(pids)) == 2
    if how != "exit":
        parent.send_signal(getattr(signal, how))
    parent.wait(20)
    end = time.time() + 10
    while any(alive(p) for p in pids) and time.time() < end:
        time.sleep(0.05)
    assert not any(alive(p) for p in pids)
    assert shared_files() <= before


def test_fork_after_the_core_has_run_its_threads():
    w = paddle.rand([256, 256])
    float((w @ w).sum())  # thread team exists now
    batches = list(io.DataLoader(Rows(lambda i: np.full(3, i, "float32"), 8), batch_size=4, num_workers=2))
    assert [float((b.sum() * 2).item()) for b in batches] == [36.0, 132.0]
    float((w @ w).sum())


def test_arguments():
    rows = Rows(lambda i: i)
    for kwargs in (
        {"batch_size": 0},
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 0, "num_workers": 1},
        {"batch_sampler": [[0]], "batch_size": 3},
    ):
        with pytest.raises(ValueError):
            io.DataLoader(rows, **kwargs)
    with pytest.raises(ValueError):
        io.DataLoader(Stream(), shuffle=True)
    with pytest.raises(ValueError):
        len(io.DataLoader(Stream()))
    assert list(io.ChainDataset([Stream(2), Stream(1)])) == [0, 1, 0]
    with pytest.raises(TypeError):
        next(io.DataLoader(rows))
    assert (
        len(io.DataLoader(rows, batch_size=3)) == 4
        and len(io.DataLoader(rows, batch_size=3, drop_last=True)) == 3
    )
    assert [b.tolist() for b in io.DataLoader(rows, batch_sampler=[[3, 1], [2]])] == [[3, 1], [2]]
    assert next(iter(io.DataLoader([5, 6, 7], batch_size=3))).tolist() == [5, 6, 7]
    for bad, error in (
        (lambda i: None, TypeError),
        (lambda i: np.zeros(i), ValueError),
        (lambda i: [0] * i, ValueError),
    ):
        for workers in (0, 1):
            with pytest.raises(error):
                first(bad, workers)


def test_datasets():
    rows = Rows(lambda i: i)
    both = io.ConcatDataset([rows, Rows(lambda i: -i, 5)])
    assert len(both) == 15 and both[12] == -2 and both[-1] == -4
    with pytest.raises(IndexError):
        both[15]
    with pytest.raises(ValueError):
        both[-16]
    assert io.ComposeDataset([rows, Rows(lambda i: (i, 2 * i))])[3] == (3, 3, 6)
    with pytest.raises(ValueError):
        io.ComposeDataset([rows, Rows(lambda i: i, 3)])
    with pytest.raises(TypeError):
        io.ChainDataset([rows])
    with pytest.raises(ValueError):
        io.TensorDataset([paddle.ones([2]), paddle.ones([3])])
    parts = io.random_split(rows, [3, 7])
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))
    assert [len(p) for p in io.random_split(rows, [0.33, 0.33, 0.34])] == [4, 3, 3]
    paddle.seed(1)
    order = io.random_split(rows, [5, 5])[0].indices
    paddle.seed(1)
    assert io.random_split(rows, [5, 5])[0].indices == order
    with pytest.raises(ValueError):
        io.random_split(rows, [3, 3])
    with pytest.raises(NotImplementedError):
        io.Dataset()[0]
    with pytest.raises(RuntimeError):
        io.IterableDataset()[0]


def test_samplers():
    rows = Rows(lambda i: i)
    np.random.seed(0)
    # NumPy's global stream decides, as in Paddle: this is Paddle 3.3.1's order for the seed.
    assert list(io.BatchSampler(rows, shuffle=True, batch_size=4)) == [[2, 8, 4, 9], [1, 6, 7, 3], [0, 5]]
    np.random.seed(0)
    assert list(io.RandomSampler(rows, replacement=True, num_samples=3)) == [5, 0, 3]
    np.random.seed(0)
    assert list(io.RandomSampler(rows, num_samples=3)) == [2, 8, 4]
    assert list(io.RandomSampler(rows, generator=iter([5, 6]))) == [5, 6]
    assert sorted(io.SubsetRandomSampler([4, 5, 6])) == [4, 5, 6]
    assert set(io.WeightedRandomSampler([0.0, 1.0, 0.0], 20)) == {1}
    assert list(io.SequenceSampler(rows)) == list(range(10))
    assert list(io.BatchSampler(sampler=[1, 2, 3], batch_size=2)) == [[1, 2], [3]]
    for bad in (
        lambda: io.BatchSampler(),
        lambda: io.BatchSampler(rows, batch_size=-1),
        lambda: io.BatchSampler(rows, shuffle=1),
        lambda: io.BatchSampler(sampler=[1], shuffle=True),
        lambda: io.RandomSampler(rows, num_samples=0),
        lambda: list(io.RandomSampler(rows, num_samples=20)),
        lambda: io.WeightedRandomSampler([1, 2], 3, False),
        lambda: io.WeightedRandomSampler([-1, 2], 3),
        lambda: io.SubsetRandomSampler([]),
        lambda: io.DistributedBatchSampler(rows, 2, 3, 3),
    ):
        with pytest.raises(ValueError):
            bad()


def test_distributed_batch_sampler():
    data = Rows(lambda i: i, 11)

    def share(rank, **kw):
        return list(io.DistributedBatchSampler(data, 2, 3, rank, **kw))

    # Paddle 3.3.1's shares.
    assert [share(r) for r in range(3)] == [[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 0]]]
    assert [share(r, shuffle=True) for r in range(3)] == [
        [[6, 0], [1, 7]],
        [[4, 10], [9, 3]],
        [[2, 8], [0, 5]],
    ]
    sampler = io.DistributedBatchSampler(data, 2, 1, 0, shuffle=True)
    one, two = list(sampler), list(sampler)
    sampler.set_epoch(0)
    assert one != two and list(sampler) == one and len(sampler) == 6
