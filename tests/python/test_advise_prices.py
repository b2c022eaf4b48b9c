# SPDX-License-Identifier: Apache-2.0
"""Price lists as people's tools write them; a bad row is named with its line."""

from __future__ import annotations

import pytest
from test_advise import run

from yuloh.advise.prices import load_prices


def written(tmp_path, content, name="prices.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        "device,price_hour,currency\nt4,3.5,CNY\na10,5,CNY\n",
        "\ufeffdevice,price_hour,currency\r\nt4,3.5,CNY\r\n\r\n# a comment\r\nNVIDIA A10,5,\r\n",
        "device,price_hour,currency\nt4,３．５,CNY\na10，５，CNY\n",
        "设备,每小时价格,货币\nt4,3.5,CNY\na10,5,CNY\n".encode("gbk"),
        "device;price_hour;currency\nt4;3.5;CNY\na10;5;CNY\n",
        "device\tprice_hour\tcurrency\nt4\t3.5\tCNY\na10\t5\tCNY\n".encode("utf-16"),
        'device,price_hour,currency,who\n"t4","3.5",CNY,me\na10,5,CNY\n,,,\n',
    ],
)
def test_read(tmp_path, content):
    assert load_prices(written(tmp_path, content)) == ({"t4": 3.5, "a10": 5.0}, "CNY")


def test_toml(tmp_path):
    pytest.importorskip("tomllib")
    good = '\ufeffcurrency = "元"\n[prices]\nt4 = 3.5\n"a10" = 5\n'
    assert load_prices(written(tmp_path, good, "p.toml")) == ({"t4": 3.5, "a10": 5.0}, "元")
    for text, said in (
        ("[prices]\nt4 = 1\nzx81 = 2\n", "line 3: unknown device"),
        ('[prices]\nt4 = "one"\n', "line 2: the price of t4"),
        ("[prices]\nt4 = true\n", "line 2: the price of t4"),
        ("prices = 3\n", "a table [prices]"),
        ("[prices]\nt4 =\n", "no TOML"),
        ("a = " + "[" * 5000, "no TOML"),
    ):
        with pytest.raises(ValueError) as raised:
            load_prices(written(tmp_path, text, "p.toml"))
        assert said in str(raised.value)


@pytest.mark.parametrize(
    "content,said",
    [
        ("", "holds no price"),
        ("device,price_hour\n", "holds no price"),
        ("device,price_hour\nt4,nan\n", "line 2: the price of t4 must be a number of 0 or more, got 'nan'"),
        ("device,price_hour\n\n# x\nt4,-1\n", "line 4: the price of t4"),
        ("device,price_hour\nt4,1e300\n", "line 2: the price of t4"),
        ("device,price_hour\nt4\n", "line 2: the price of t4"),
        ("device,price_hour\nt4,1\ntesla-t4,2\n", "line 3: tesla-t4 has two prices, the first in line 2"),
        ("device,price_hour\nt4,1\nt44,1\n", "line 3: unknown device, got 't44'. Near: t4"),
        ("device,price_hour\n,1\n", "line 2: no device"),
        ("device,price_hour\nt4,1,2,3\n", "line 2: 4 cells"),
        ('device,price_hour\n"t4,1\n', "line 2: no CSV"),
        ("device,cost\nt4,1\n", "lacks a column, got device,cost"),
        ("device,price_hour,currency\nt4,1,CNY\na10,1,USD\n", "line 3: mixes currencies, got USD after CNY in line 2"),
        (b"\xff\xfe\x00", "no text"),
        (b"\x80\x81\xff\x00" * 9, "no text"),
        (b"x" * ((1 << 20) + 1), "larger than"),
    ],
)
def test_refused(tmp_path, content, said):
    with pytest.raises(ValueError) as raised:
        load_prices(written(tmp_path, content))
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_command(tmp_path):
    done = run("resnet50", "--prices", written(tmp_path, "device,price_hour\nt4,-1\n"), ok=2)
    assert "line 2" in done.stderr and done.stderr.count("\n") == 1
    assert "no price list" in run("resnet50", "--prices", str(tmp_path), ok=2).stderr
    assert "energy-price" in run("resnet50", "--energy-price", "-1", ok=2).stderr
