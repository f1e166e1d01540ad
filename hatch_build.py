"""Makes the README of the package: a page of a package index, where a relative link leads nowhere.

With ``LAKELOG_HOME`` (the address of the repository's files, such as ``https://example.org/lakelog/blob/main``) links
become absolute, and the project gets its URLs. Without it, a relative link is only its text, and a picture is left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

HOME = "LAKELOG_HOME"
_PICTURE = re.compile(r"^.*(?:!\[[^\]]*\]\((?!https?:)|<(?:img|picture)\b).*\n(?:\n)?", re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)]+)\)")
_SOURCE = re.compile(r"""\b(src|srcset|href)=(["'])(?!https?:|#)([^"']+)\2""")


def readme_of(text: str, home: str | None) -> str:
    """The text with absolute links, or without relative ones."""
    if not home:
        return _LINK.sub(r"\1", _PICTURE.sub("", text))
    base = home.rstrip("/")
    raw = base.replace("/blob/", "/raw/")
    text = re.sub(r"!\[([^\]]*)\]\((?!https?:)([^)]+)\)", rf"![\1]({raw}/\2)", text)
    text = _SOURCE.sub(lambda found: f"{found[1]}={found[2]}{raw}/{found[3]}{found[2]}", text)
    return _LINK.sub(rf"[\1]({base}/\2)", text)


def urls_of(home: str | None) -> dict[str, str]:
    """The project's URLs: name → address."""
    if not home:
        return {}
    base = home.rstrip("/")
    return {
        "Documentation": f"{base}/docs/quickstart.md",
        "Changelog": f"{base}/CHANGELOG.md",
        "Source": base.partition("/blob/")[0],
    }


class PackageReadme(MetadataHookInterface):
    """Sets ``readme`` and ``urls`` of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        home = os.environ.get(HOME)
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme_of(text, home)}
        if urls := urls_of(home):
            metadata["urls"] = urls
