"""Names and directories given as text: what keeps a path inside the directory that it is joined to."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_NOT_IN_NAMES: Final = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MOST_BYTES: Final = 255
"""Bytes of one name that every file system takes."""
_INVISIBLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Characters that move the cursor of a terminal, change its colours, or the order in which text is shown."""
_MEANT: Final = re.compile(r"[./\\$`:]")
"""Characters with a meaning in paths and in statements; other file systems and programs may normalize to them."""
_KEPT_CONTROLS: Final = "\n\t"
_MOST_BYTES_OF_A_NAME: Final = 200
"""Bytes of a name that becomes a part of the name of a file."""


def visible(text: str) -> str:
    """A text with control characters and bidirectional marks as escapes, so that a terminal shows them."""
    return _INVISIBLE.sub(lambda found: found[0] if found[0] in _KEPT_CONTROLS else _escape(found[0]), text)


def column_fault(name: str) -> str:
    """The reason why a text cannot be the name of a new column; "" if it can."""
    match = _INVISIBLE.search(name)
    return f"it has {_escape(match[0])}, an invisible character" if match else ""


def name_fault(name: str, most_bytes: int = _MOST_BYTES_OF_A_NAME) -> str:
    """The reason why a text cannot be the name of a new tag, branch, consumer or such; "" if it can."""
    return stored_name_fault(name.replace("$", "_").lstrip("."), most_bytes) or column_fault(name)


def stored_name_fault(name: str, most_bytes: int = _MOST_BYTES_OF_A_NAME + 50) -> str:
    """The reason why a table or database of any engine cannot have this name; "" if it can."""
    if not name.strip():
        return "a name is not blank"
    if name.startswith("."):
        return "it begins with '.'"
    if match := re.search(r"[/\\$\x00-\x1f]", name):
        return column_fault(match[0]) or f"it has '{match[0]}'"
    size = len(name.encode("utf-8", "surrogatepass"))
    return f"it has {size} bytes, too long: at most {most_bytes}" if size > most_bytes else ""


def sql_name_fault(name: str) -> str:
    """The reason why a text cannot be the name of a new table or database; "" if it can."""
    if fault := stored_name_fault(name, _MOST_BYTES_OF_A_NAME) or column_fault(name):
        return fault
    if match := re.search(r"[.`]", name):
        return f"it has '{match[0]}', which has a special meaning in names"
    if unicodedata.normalize("NFC", name) != name:
        return "it has decomposed letters (an accent after its letter), so it resembles another name: write it in NFC"
    twin = next(
        (char for char in name if not char.isascii() and _MEANT.search(unicodedata.normalize("NFKC", char))), ""
    )
    return f"it has '{twin}', which looks like '{unicodedata.normalize('NFKC', twin)}'" if twin else ""


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def file_name_fault(name: str) -> str:
    """The reason why a text cannot be a file name or its prefix; "" if it can."""
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
