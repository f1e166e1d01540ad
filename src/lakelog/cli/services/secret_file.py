"""Files with a token, which only their owner may read."""

from __future__ import annotations

import stat
from pathlib import Path

from lakelog.errors import InvalidRequest


def read_token(file: Path) -> str:
    """The token in a file. Raises InvalidRequest for a missing or empty file, or one that other users can read."""
    try:
        mode, text = file.stat().st_mode, file.read_text(encoding="utf-8").strip()
    except OSError as failed:
        raise InvalidRequest(f"cannot read the token in '{file}': {failed.strerror}") from failed
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidRequest(f"other users can read the token in '{file}': chmod 600 {file}")
    if not text:
        raise InvalidRequest(f"the token file '{file}' is empty: write a token into it")
    return text
