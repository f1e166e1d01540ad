"""Options of file indexes, ``file-index.…``: which columns of a data file have a Bloom filter, and of what size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakelog.errors import InvalidOption
from lakelog.options.fields import split_names
from lakelog.options.option import MemorySize, Option, Options

BLOOM_PREFIX: Final = "file-index.bloom-filter."

INDEX_IN_MANIFEST: Final = Option(
    "file-index.in-manifest-threshold",
    MemorySize,
    MemorySize(500),
    "Maximum size of a file index in the manifest. A larger index goes to a separate file in the data file's "
    "directory.",
)
INDEX_READ: Final = Option("file-index.read.enabled", bool, True, "Whether reads use file indexes to skip files.")

FILE_INDEX_OPTIONS: Final = (INDEX_IN_MANIFEST, INDEX_READ)

BLOOM_COLUMNS: Final = f"{BLOOM_PREFIX}columns"
"""The option with the columns that have a Bloom filter in each data file, with commas."""

_ITEMS: Final = Option("items", int, 1_000_000, "Expected number of distinct values of a filter.")
_FPP: Final = Option("fpp", float, 0.1, "False positive probability of a filter.")


@dataclass(frozen=True)
class BloomOptions:
    """One column with a Bloom filter."""

    column: str
    items: int
    fpp: float


def bloom_columns(options: Mapping[str, str]) -> tuple[BloomOptions, ...]:
    """The columns of ``file-index.bloom-filter.columns`` with their sizes (``….<column>.items`` and ``….fpp``).

    Raises InvalidOption for sizes that no filter can have.
    """
    out = []
    for column in split_names(options.get(BLOOM_COLUMNS)):
        items, fpp = (_of_column(options, column, option) for option in (_ITEMS, _FPP))
        if items < 1:
            raise InvalidOption(f"option '{BLOOM_PREFIX}{column}.items' = '{items}' must be 1 or more")
        if not 0 < fpp < 1:
            raise InvalidOption(f"option '{BLOOM_PREFIX}{column}.fpp' = '{fpp}' must be between 0 and 1")
        out.append(BloomOptions(column, items, fpp))
    return tuple(out)


def _of_column(options: Mapping[str, str], column: str, option: Option[Any]) -> Any:
    key = f"{BLOOM_PREFIX}{column}.{option.key}"
    return Options(options).need(Option(key, option.kind, option.default, option.doc))
