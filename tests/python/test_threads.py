# SPDX-License-Identifier: Apache-2.0
"""Tensors shared between threads: one trains, others read, write and drop what is still pending."""
import threading
import time

import numpy as np

import yuloh as paddle


def run_threads(*functions, seconds=2.0):
    """Runs each function again and again, all at once, for `seconds`; re-raises the first error."""
    stop, errors = threading.Event(), []

    def loop(f):
        try:
            while not stop.is_set():
                f()
        except BaseException as e:  # noqa: BLE001 (reported below)
            errors.append(e)
            stop.set()

    threads = [threading.Thread(target=loop, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    stop.wait(seconds)
    stop.set()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_readers_beside_a_training_thread():
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 1))
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    shared = {"loss": paddle.zeros([])}
    x = paddle.randn([16, 4])

    def train():
        loss = (net(x) ** 2).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        shared["loss"] = loss

    def read():
        assert np.isfinite(float(shared["loss"]))
        for p in net.parameters():
            assert np.isfinite(p.numpy()).all()

    def evaluate():
        with paddle.no_grad():
            assert np.isfinite(net(x).numpy()).all()

    run_threads(train, read, evaluate)


def test_reading_inside_another_threads_backward():
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    shared = {"y": x * 1.0}
    seen = []

    def differentiate():
        h = x * 3.0
        h.register_hook(lambda g: time.sleep(0.001))
        y = (h * h).sum()
        shared["y"] = y
        x.clear_grad()
        y.backward()
        np.testing.assert_array_equal(x.grad.numpy(), [18.0, 36.0])

    def read():
        seen.append(float(shared["y"].sum()))

    run_threads(differentiate, read)
    assert set(seen) <= {3.0, 45.0} and len(seen) > 10


def test_counting_in_place_from_two_threads():
    # Each add_ is recorded under the interpreter's lock: none may be lost.
    n, lock, done = paddle.zeros([3]), threading.Lock(), [0]

    def count():
        with lock:
            n.add_(paddle.ones([3]))
            done[0] += 1
        n.numpy()

    run_threads(count, count, seconds=1.0)
    np.testing.assert_array_equal(n.numpy(), [done[0]] * 3)


def test_dropping_what_another_thread_recorded():
    box = []

    def make():
        if len(box) < 100:
            box.append(paddle.ones([100]) * 2 + 1)

    def drop():
        if box:
            t = box.pop()
            if id(t) % 3:
                assert float(t[0]) == 3.0

    run_threads(make, drop, drop, seconds=1.0)
