# SPDX-License-Identifier: Apache-2.0
"""The user's prices: CSV or TOML, as people's tools write them. None are shipped."""

from __future__ import annotations

import codecs
import csv
import io
import math
import os
import re
import unicodedata
from typing import Dict, Iterable, Iterator, List, Tuple

from .. import _core
from . import catalogue

LARGEST_FILE, LARGEST_PRICE = 1 << 20, 1e9
COLUMNS = {"device": "device", "设备": "device", "price_hour": "price_hour", "每小时价格": "price_hour", "currency": "currency", "货币": "currency"}


def load_prices(path: str, more: Iterable[dict] = ()) -> Tuple[Dict[str, float], str]:
    """({device id: price of a device hour}, currency) of the user's list.

    CSV with the columns device, price_hour and perhaps currency (parted by comma, semicolon or tab; # begins a comment);
    or TOML with currency = "CNY" and a table [prices]. UTF-8 or GBK, with or without a byte order mark; full-width digits
    and commas are those of the keyboard. Raises ValueError, with the line, for an unknown device, a price that is no
    number of 0 or more, a device twice, two currencies, or an empty list.
    """
    if not os.path.isfile(path):
        example = os.path.join(os.path.dirname(__file__), "prices.example.csv")
        raise ValueError(f"advise: there is no price list {path!r}. Hint: {example} shows the form.")
    text = _text(path)
    rows, currency = (_of_toml if path.lower().endswith(".toml") else _of_csv)(path, text)
    extra = {d["id"]: d["id"] for d in more}
    prices: Dict[str, float] = {}
    lines: Dict[str, int] = {}
    for line, word, said in rows:
        at = f"advise: {path}, line {line}: "
        if not word:
            raise ValueError(f"{at}no device is named. Hint: a line device,price_hour such as t4,1.5")
        try:
            ident = extra.get(word) or catalogue.find_device(word)["id"]
        except ValueError as error:
            raise ValueError(f"{at}{str(error).removeprefix('advise: ')}") from None
        try:
            price = math.nan if isinstance(said, bool) else float(said)
        except (TypeError, ValueError):
            price = math.nan
        if not 0 <= price <= LARGEST_PRICE:
            raise ValueError(f"{at}the price of {word} must be a number of 0 or more, got {said!r}.")
        if ident in prices:
            raise ValueError(f"{at}{word} has two prices, the first in line {lines[ident]}. Hint: keep one line for each device.")
        prices[ident], lines[ident] = price, line
    if not prices:
        raise ValueError(f"advise: {path} holds no price. Hint: a line device,price_hour such as t4,1.5")
    return prices, currency


def with_energy(prices: Dict[str, float], entries: Iterable[dict], kilowatt_hour: float) -> Dict[str, float]:
    """Prices with the energy of an hour at full power added; where there were none at all, energy alone."""
    entries = list(entries)
    found = _core.advise_with_energy([catalogue.core_device(d, prices.get(d["id"])) for d in entries], float(kilowatt_hour), bool(prices))
    return {d["id"]: price for d, price in zip(entries, found) if price is not None}


def _text(path: str) -> str:
    with open(path, "rb") as file:
        held = file.read(LARGEST_FILE + 1)
    if len(held) > LARGEST_FILE:
        raise ValueError(f"advise: {path} is larger than {LARGEST_FILE} bytes; expected a price list.")
    marked = held.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if marked else ("utf-8-sig", "gb18030"):
        try:
            text = held.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return unicodedata.normalize("NFKC", text)
    raise ValueError(f"advise: {path} is no text; expected UTF-8 or GBK.")


def _of_csv(path: str, text: str) -> Tuple[List[Tuple[int, str, str]], str]:
    def lines() -> Iterator[Tuple[int, List[str]]]:
        part = next((p for p in ",;\t" if p in next((x for x in text.splitlines() if _tells(x)), "")), ",")
        for number, line in enumerate(text.splitlines(), 1):
            if _tells(line):
                try:
                    (cells,) = csv.reader(io.StringIO(line), delimiter=part, strict=True)
                except (csv.Error, ValueError) as error:
                    raise ValueError(f"advise: {path}, line {number}: no CSV ({error}).") from None
                yield number, [c.strip() for c in cells]

    rows = lines()
    _, head = next(rows, (0, []))
    columns = [COLUMNS.get(h.lower(), h) for h in head]
    if head and not {"device", "price_hour"} <= set(columns):
        raise ValueError(f"advise: {path} lacks a column, got {','.join(head)[:80]}; expected device,price_hour[,currency].")
    found, currency, first = [], "", 0
    for number, cells in rows:
        if len(cells) > len(columns) and any(cells[len(columns):]):
            raise ValueError(f"advise: {path}, line {number}: {len(cells)} cells; expected {len(columns)}: {','.join(head)}.")
        row = dict(zip(columns, cells))
        said = row.get("currency", "")
        if said and currency and said != currency:
            raise ValueError(f"advise: {path}, line {number}: mixes currencies, got {said} after {currency} in line {first}; expected one.")
        if said and not currency:
            currency, first = said, number
        found.append((number, row.get("device", ""), row.get("price_hour", "")))
    return found, currency


def _tells(line: str) -> bool:
    return bool(line.strip(" \t,;")) and not line.lstrip().startswith("#")


def _of_toml(path: str, text: str):
    try:
        import tomllib
    except ImportError:
        raise ValueError("advise: TOML needs Python 3.11 or later. Hint: give the prices as CSV.") from None
    try:
        read = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"advise: {path} is no TOML ({error}).") from None
    table, currency = read.get("prices", {}), read.get("currency", "")
    if not isinstance(table, dict) or not isinstance(currency, str):
        raise ValueError(f"advise: {path}: expected currency = \"CNY\" and a table [prices].")
    lines = text.splitlines()

    def line_of(key: str) -> int:
        mark = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*=""")
        return next((n for n, line in enumerate(lines, 1) if mark.match(line)), 1)

    return [(line_of(key), key, value) for key, value in table.items()], currency
