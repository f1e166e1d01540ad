"""Secrets in the files of a warehouse: no example may leave one there."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from lakelog.options.secrets import HIDDEN, is_reference, looks_secret

_GIVEN: Final = re.compile(
    r"""(?i)["']?(?:[\w.-]*(?:password|passwd|secret|token|access[._-]?key)[\w.-]*)["']?\s*[=:,]\s*["']([^"'\s]{6,})["']"""
)


def secrets_given(text: str) -> set[str]:
    """The values that a text gives to what has the name of a secret, without references."""
    return {value for value in _GIVEN.findall(text) if not is_reference(value) and "…" not in value}


def warehouses(place: Path) -> set[Path]:
    """The directories below a place that have databases."""
    return {path.parent for path in place.rglob("*.db") if path.is_dir()}


def leaked(place: Path, text: str = "") -> list[str]:
    """The secrets in the warehouses below a place, among them what the text of an example gives."""
    return [line for warehouse in sorted(warehouses(place)) for line in secrets_in(warehouse, secrets_given(text))]


def secrets_in(warehouse: Path, values: Collection[str]) -> list[str]:
    """The files of a warehouse with one of these values, or with a plain value for an option that sounds secret."""
    places = []
    for path in sorted(path for path in warehouse.rglob("*") if path.is_file()):
        data = path.read_bytes()
        places += [f"{path}: {value[:2]}…" for value in values if value.encode() in data]
        try:
            parsed = json.loads(data)
        except (ValueError, RecursionError):
            continue
        places += [f"{path}: {name}" for name in _plain_secrets(parsed)]
    return places


def _plain_secrets(value: Any) -> Iterator[str]:
    """The names of options in a JSON value that sound secret, and have a value in plain text."""
    if isinstance(value, list):
        for part in value:
            yield from _plain_secrets(part)
    elif isinstance(value, dict):
        for name, part in value.items():
            is_plain = isinstance(part, str) and part not in ("", HIDDEN) and not is_reference(part)
            if is_plain and looks_secret(name):
                yield name
            yield from _plain_secrets(part)
