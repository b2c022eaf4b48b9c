# SPDX-License-Identifier: Apache-2.0
"""The scripts of the user's article (mission, table A), shortened, run unchanged through `yuloh run`."""

import os
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def run(tmp_path):
    def go(code, *options):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(code))
        env = {
            **os.environ,
            "YULOH_CACHE": str(tmp_path / "cache"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        command = [sys.executable, "-m", "yuloh.cli", "run", *options, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return go


def test_environment_check(run):
    out = run("""
        import paddle
        print(paddle.__version__)
        print(paddle.is_compiled_with_cuda())
        print(paddle.distributed.get_world_size())
    """)
    assert out.split()[1:] == ["False", "1"] and out.startswith("3.3")


def test_cifar100_with_normalize_on_plain_images(run):
    out = run(
        """
        import paddle
        from paddle.vision.transforms import Normalize
        transform = Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
        dataset = paddle.vision.datasets.Cifar100(mode='train', transform=transform)
        image, label = dataset[0]
        scaled = -5 < float(image.min()) and float(image.max()) < 5
        print(tuple(image.shape), scaled, int(label) in range(100))
        """,
        "--data",
        "synthetic",
    )
    assert out.splitlines()[-1] == "(3, 32, 32) True True"


def test_hundred_steps_script(run):
    out = run(
        """
        import time
        import paddle
        import paddle.nn as nn
        from paddle.vision.models import resnet50
        from paddle.vision.transforms import Compose, Normalize, ToTensor

        transform = Compose([ToTensor(), Normalize(mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5])])
        train = paddle.vision.datasets.Cifar100(mode='train', transform=transform)
        from paddle.io import DataLoader
        loader = DataLoader(train, batch_size=4, shuffle=True, num_workers=2, use_shared_memory=True)
        model = resnet50(num_classes=100)
        optimizer = paddle.optimizer.Adam(parameters=model.parameters())
        loss_fn = nn.CrossEntropyLoss()
        model.train()
        start = time.time()
        for step, (images, labels) in enumerate(loader):
            if step >= 3:
                break
            loss = loss_fn(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        total = time.time() - start
        print(f"total {total:.2f} s, mean {total / 3:.2f} s, loss {float(loss):.3f}")
        """,
        "--data",
        "synthetic",
    )
    assert "mean" in out and "nan" not in out


def test_mixed_precision_script(run):
    out = run("""
        import paddle
        model = paddle.vision.models.LeNet()
        optimizer = paddle.optimizer.Adam(parameters=model.parameters())
        scaler = paddle.amp.GradScaler(init_loss_scaling=1024)
        x, y = paddle.randn([8, 1, 28, 28]), paddle.randint(0, 10, [8])
        losses = []
        for i in range(6):
            with paddle.amp.auto_cast():
                loss = paddle.nn.functional.cross_entropy(model(x), y)
            scaled = scaler.scale(loss)
            scaled.backward()
            if i % 2:
                scaler.step(optimizer)
                scaler.update()
            else:
                scaler.minimize(optimizer, scaled)
            optimizer.clear_grad()
            losses.append(float(loss))
        print(losses[-1] < losses[0])
    """)
    assert out.split()[-1] == "True"


def test_fusion_switches(run):
    out = run("""
        import paddle
        print(paddle.fluid.core.is_compiled_with_nvtops())
        paddle.set_flags({'FLAGS_cudnn_exhaustive_search': 1})
        print(int(paddle.get_flags('FLAGS_cudnn_exhaustive_search')['FLAGS_cudnn_exhaustive_search']))
    """)
    assert out.split() == ["True", "1"]


def test_fusion_option_turns_fusion_off(run):
    out = run(
        """
        import paddle
        on = bool(paddle.get_flags(['FLAGS_fusion'])['FLAGS_fusion'])
        print(on, paddle.fluid.core.is_compiled_with_nvtops())
    """,
        "--fusion",
        "off",
    )
    assert out.split() == ["False", "False"]
