"""Bounds of the memory that a row group of a Parquet file takes, however well it was packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.fileformat.parquet_thrift import BYTE_ARRAY, FIXED, Chunk, Page, RowGroup, pages_of

_BATCH_BYTES: Final = 64 << 20
_PAGES_BYTES: Final = 128 << 20
"""The most that one page of each column unpacks to, together."""
_LISTS_BYTES: Final = 256 << 20
"""The most that the lists of a group unpack to, because a single row may have all their elements."""
_RATIO: Final = 64
"""A group that takes more bytes packed may unpack to as many times of them."""
_PAGE_VALUES: Final = 1 << 25
_CHECKED_BYTES: Final = 1 << 20
_DICTIONARIES: Final = (2, 8)
_LENGTHS_FIRST: Final = (6, 7)
"""DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY: the lengths of all values of a page are unpacked first."""
_PREFIXES: Final = 7
_WIDTHS: Final = {0: 1, 1: 4, 4: 4, BYTE_ARRAY: 4}
"""Bytes of a value by its physical type; of a text, those beside its characters."""
_LEVELS: Final = 4
"""Bytes of the two levels of a value in a list."""


@dataclass(frozen=True)
class GroupBounds:
    """How to read a group: rows at a time, and the columns to be read as dictionaries."""

    batch_rows: int
    dictionaries: tuple[str, ...]


@dataclass(frozen=True)
class _Column:
    """The costs of a column of a group, in bytes."""

    packed: int
    page: int = 0
    row: float = 0.0
    lists: float = 0.0
    dictionary: str | None = None


def chunks_of(group: RowGroup, columns: Sequence[str]) -> list[Chunk]:
    """The Parquet columns that hold the columns of a file."""
    wanted = set(columns)
    return [c for c in group.chunks if c.leaf.path in wanted or any(at in wanted for at in _prefixes(c.leaf.path))]


def _prefixes(path: str) -> Iterator[str]:
    parts = path.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))


def group_bounds(source: pa.NativeFile, group: RowGroup, columns: Sequence[str]) -> GroupBounds:
    """The bounds of a group, of which some columns are read.

    They follow from the headers of its pages; in a large file over a network from its footer, which may lie. Raises
    Corrupt for a group that unpacks to more than there should be memory for.
    """
    is_checked = not isinstance(source, pa.PythonFile) or source.size() <= _CHECKED_BYTES
    costs = [_cost(chunk, source if is_checked else None) for chunk in chunks_of(group, columns)]
    packed = sum(cost.packed for cost in costs)
    lists = sum(cost.lists for cost in costs)
    for what, size, most in (("pages", sum(cost.page for cost in costs), _PAGES_BYTES), ("lists", lists, _LISTS_BYTES)):
        if size > max(most, _RATIO * packed):
            raise Corrupt(f"the {what} of a row group unpack to {size:.0f} bytes, from {packed}")
    row = sum(cost.row for cost in costs) + lists / max(1, group.rows)
    rows = max(1, int(_BATCH_BYTES / max(1.0, row)))
    return GroupBounds(1 << rows.bit_length() - 1, tuple(cost.dictionary for cost in costs if cost.dictionary))


def check_written(metadata: pq.FileMetaData) -> None:
    """Raises UnsupportedFeature for a file that readers would refuse: a row that packs like nothing real."""
    for about in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = [about.column(i) for i in range(about.num_columns)]
        most = _RATIO * sum(chunk.total_compressed_size for chunk in chunks)
        lists = sum(_LEVELS * 4 * chunk.num_values for chunk in chunks if chunk.num_values > about.num_rows)
        if about.total_byte_size > max(_PAGES_BYTES, most) or lists > max(_LISTS_BYTES, most):
            size = max(about.total_byte_size, lists)
            raise UnsupportedFeature(
                f"a row of {size} bytes packs to a part of it that readers refuse as an attack on their memory: use "
                "'file.compression' = 'none', or split its values"
            )


def _cost(chunk: Chunk, source: pa.NativeFile | None) -> _Column:
    leaf, packed = chunk.leaf, chunk.packed
    if source is None:
        worst = max(chunk.encodings, default=0, key=lambda one: (one == _PREFIXES, one in _DICTIONARIES))
        pages = [Page(packed, chunk.unpacked, chunk.values, worst, False)]
    else:
        pages = list(pages_of(source, chunk.start, chunk.start + packed, chunk.values))
    data = [page for page in pages if not page.is_dictionary]
    for page in data:
        if page.encoding in _LENGTHS_FIRST and page.values > max(_PAGE_VALUES, page.packed):
            raise Corrupt(f"a page of column '{leaf.path}' has {page.values} values, from {page.packed} bytes")
    is_text = leaf.kind == BYTE_ARRAY
    width = leaf.length if leaf.kind == FIXED else _WIDTHS.get(leaf.kind, 8)
    plain = [page for page in data if is_text and page.encoding not in _DICTIONARIES and page.values]
    # Arrow cannot decode an empty dictionary below a struct that is NULL in all rows
    is_empty = any(page.is_dictionary and not page.values for page in pages)
    dictionary = leaf.path if is_text and len(plain) < len(data) and not is_empty else None
    most = 0 if source is None else max((page.unpacked for page in pages), default=0)
    if leaf.repetition:
        values = sum(page.values for page in data)
        lists = values * (width + _LEVELS) + sum(page.unpacked for page in plain)
        return _Column(packed, most, 0.0, lists, dictionary)
    widest = max((p.unpacked if p.encoding == _PREFIXES else p.unpacked / p.values for p in plain), default=0.0)
    return _Column(packed, most, width + widest, 0.0, dictionary)


def plain_parts(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A batch with plain values instead of dictionaries, in parts whose values take a bounded memory."""
    if batch.schema.types == schema.types:
        yield batch
    elif batch.num_rows < 2 or sum(map(_text_bytes, batch.columns)) <= _BATCH_BYTES:
        yield batch.cast(schema)
    else:
        half = batch.num_rows // 2
        yield from plain_parts(batch.slice(0, half), schema)
        yield from plain_parts(batch.slice(half), schema)


def _text_bytes(column: pa.Array) -> int:
    """Bytes of the values of all dictionaries in a column once they are plain."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        return pc.sum(lengths.take(column.indices)).as_py() or 0
    if pa.types.is_map(kind):
        ends = column.offsets
        start, stop = ends[0].as_py(), ends[-1].as_py()
        return sum(_text_bytes(part.slice(start, stop - start)) for part in (column.keys, column.items))
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        parts = column.flatten()
        return sum(map(_text_bytes, parts if pa.types.is_struct(kind) else [parts]))
    return 0
