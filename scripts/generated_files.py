"""Writes generated files, or checks that they are those of today's code (``--check``)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_check(files: Mapping[Path, str]) -> None:
    """Writes each file: path → text. With ``--check`` it writes none and exits with the names of those that differ."""
    if "--check" in sys.argv[1:]:
        stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        sys.exit(f"run `make docs`: {', '.join(map(str, stale))}" if stale else 0)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
