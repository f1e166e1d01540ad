"""Names and directories given as text: what keeps a path inside the directory that it is joined to."""

from __future__ import annotations

import re
from typing import Final

_NOT_IN_NAMES: Final = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MOST_BYTES: Final = 255
"""Bytes of one name that every file system takes."""


def file_name_fault(name: str) -> str:
    """Why a text cannot be the name of a file in a directory, or the beginning of one; "" when it can."""
    if not name or name in (".", ".."):
        return "a file name is not empty, '.' or '..'"
    if _NOT_IN_NAMES.search(name):
        return "a file name has no '/', no '\\' and no control character"
    if len(name.encode("utf-8", "surrogatepass")) > _MOST_BYTES:
        return f"a file name has at most {_MOST_BYTES} bytes"
    return ""


def name_part_fault(part: str) -> str:
    """Why a text cannot be a part of a file name; "" when it can, as the empty text."""
    return file_name_fault(f"{part}x")


def directory_fault(path: str) -> str:
    """Why a text cannot be a directory below another one, such as ``data`` or ``a/b``; "" when it can."""
    if path.startswith("/"):
        return "a directory below the table's is not absolute"
    return next((f"'{name}': {why}" for name in path.rstrip("/").split("/") if (why := file_name_fault(name))), "")
