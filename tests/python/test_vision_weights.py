# SPDX-License-Identifier: Apache-2.0
"""Pretrained weights of the zoo: where the files come from, what is refused, and that Paddle's files fit every model."""
import functools
import hashlib
import http.server
import importlib.util
import json
import pathlib
import threading

import numpy as np
import pytest

import yuloh as paddle
from yuloh.vision import models
from yuloh.vision.models import _build

HERE = pathlib.Path(__file__).parent.parent
STATES = json.loads((HERE / "data" / "zoo_states.json").read_text())
spec = importlib.util.spec_from_file_location("record_zoo_states", HERE / "oracle" / "record_zoo_states.py")
record_zoo_states = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record_zoo_states)


@pytest.mark.parametrize("name", sorted(STATES))
def test_names_and_shapes_are_paddles(name):
    assert record_zoo_states.digest(getattr(models, name)().state_dict()) == STATES[name]


def test_every_published_file_has_its_model():
    asked = set()

    def note(arch):
        asked.add(arch)
        raise KeyError(arch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_build, "_obtain", note)
        for name in STATES:
            try:
                getattr(models, name)(pretrained=True)
            except KeyError:
                pass
    published = set(_build.official_weights())
    assert published <= asked, sorted(published - asked)


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """(folder that a local server serves, its address, a model whose file is the official one there)."""
    folder, home = tmp_path / "mirror", tmp_path / "home"
    folder.mkdir(), home.mkdir()
    source = models.resnet18(num_classes=3)
    paddle.save(source.state_dict(), str(folder / "resnet18.pdparams"))
    md5 = hashlib.md5((folder / "resnet18.pdparams").read_bytes()).hexdigest()
    unreachable = "http://127.0.0.1:9/resnet18.pdparams"
    monkeypatch.setattr(_build, "official_weights", lambda: {"resnet18": (unreachable, md5)})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("YULOH_WEIGHTS", raising=False)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *a: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}", source
    server.shutdown()
    thread.join()


def assert_loaded(source):
    loaded = models.resnet18(pretrained=True, num_classes=3)
    np.testing.assert_array_equal(loaded.fc.weight.numpy(), source.fc.weight.numpy())


def test_from_the_address_of_a_mirror(mirror, monkeypatch):
    folder, address, source = mirror
    monkeypatch.setenv("YULOH_WEIGHTS", address)
    assert_loaded(source)
    (folder / "resnet18.pdparams").unlink()  # it is in the cache now
    assert_loaded(source)


def test_from_a_folder(mirror, monkeypatch):
    folder, _, source = mirror
    monkeypatch.setenv("YULOH_WEIGHTS", str(folder))
    assert_loaded(source)


def test_without_a_network_the_file_and_the_folder_are_named(mirror):
    with pytest.raises(RuntimeError, match=r"resnet18.pdparams.*(?s:.)*weights.*YULOH_WEIGHTS"):
        models.resnet18(pretrained=True)


def test_damaged_files_are_refused(mirror, monkeypatch):
    folder, address, _ = mirror
    data = (folder / "resnet18.pdparams").read_bytes()
    (folder / "resnet18.pdparams").write_bytes(data[:-1])
    monkeypatch.setenv("YULOH_WEIGHTS", address)
    with pytest.raises(RuntimeError, match="MD5"):
        models.resnet18(pretrained=True)
    monkeypatch.setenv("YULOH_WEIGHTS", str(folder))
    with pytest.raises(RuntimeError, match="damaged.*pretrained='FILE.pdparams'"):
        models.resnet18(pretrained=True)


def test_a_file_of_ones_own(mirror):
    folder, _, source = mirror
    loaded = models.resnet18(pretrained=str(folder / "resnet18.pdparams"), num_classes=3)
    np.testing.assert_array_equal(loaded.fc.bias.numpy(), source.fc.bias.numpy())


def test_an_architecture_without_published_weights():
    with pytest.raises(ValueError, match="publishes no weights.*vgg16"):
        models.vgg11(pretrained=True)
