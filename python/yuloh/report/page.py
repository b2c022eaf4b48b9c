# SPDX-License-Identifier: Apache-2.0
"""report.html: one self-contained file (style inline, pictures as data URIs), both languages behind one
switch."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Dict

TEMPLATES = Path(__file__).parent / "templates"


def render(views: Dict[str, dict], folder: Path) -> str:
    """The page of one view per language; pictures are read from `folder`."""
    from ..cli import need

    jinja2 = need("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(TEMPLATES)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def picture(name: str) -> str:
        return "data:image/png;base64," + base64.b64encode((folder / name).read_bytes()).decode()

    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    return environment.get_template("report.html.j2").render(
        views=list(views.values()), style=style, picture=picture
    )
