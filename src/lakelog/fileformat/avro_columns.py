"""Avro object container files as columns, for manifests, of which a plan needs few entries out of many.

Polars decodes the schemas that it is known to read correctly, some ten times as fast as record by record and without
blocking other threads. ``avro_file`` decodes all others, and is the reference in tests.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from lakelog.errors import Corrupt
from lakelog.fileformat.avro_container import SCHEMA_KEY, Container, parse_metadata
from lakelog.fileformat.avro_file import check_sizes, read_plain, without_logical_types

Columns = Mapping[str, pl.Series]
"""Columns of equal length by path, like ``_FILE._KEY_STATS._MIN_VALUES``."""

CHUNK_BYTES: Final = 1 << 20
_PRIMITIVES: Final = frozenset(("boolean", "int", "long", "float", "double", "bytes", "string"))


def read_columns(data: bytes, paths: Sequence[str], chunk_bytes: int = CHUNK_BYTES) -> Iterator[Columns]:
    """The fields ``paths`` of all records, in parts of about ``chunk_bytes`` plain bytes, in order.

    A path may lead into nested records. A field that the file lacks has no column. Values are raw (see
    ``avro_file.read_records``). A file without records has no parts. Raises Corrupt, UnsupportedFeature.
    """
    container = parse_metadata(data)
    try:
        schema = without_logical_types(json.loads(container.header[SCHEMA_KEY]))
        check_sizes(schema, set())
    except (ValueError, KeyError, TypeError) as why:
        raise Corrupt(f"invalid Avro file: {why!r}") from None
    header = {SCHEMA_KEY: json.dumps(schema).encode()}
    fast = isinstance(schema, dict) and schema.get("type") == "record" and _is_plain(schema)
    for count, plain in _joined(container, chunk_bytes):
        part = replace(container, header=header, blocks=((count, plain),)).to_bytes("null")
        batches = _by_polars(part, paths, count) if fast else None
        yield _by_record(part, paths) if batches is None else batches


def _joined(container: Container, chunk_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The blocks merged to fewer, larger ones, without empty ones."""
    records, paths, size = 0, [], 0
    for count, plain in container.blocks:
        if count:
            records, size = records + count, size + len(plain)
            paths.append(plain)
        if size >= chunk_bytes:
            yield records, b"".join(paths)
            records, paths, size = 0, [], 0
    if records:
        yield records, b"".join(paths)


def _is_plain(schema: Any) -> bool:
    """Returns whether a type consists of primitives, records, arrays and ``["null", type]``, without repeated names."""
    if isinstance(schema, list):
        return len(schema) == 2 and schema[0] == "null" and not isinstance(schema[1], list) and _is_plain(schema[1])
    if isinstance(schema, str):
        return schema in _PRIMITIVES
    if schema["type"] == "record":
        return bool(schema["fields"]) and all(_is_plain(f["type"]) for f in schema["fields"])
    if schema["type"] == "array":
        return _is_plain(schema["items"])
    return _is_plain(schema["type"])


def _by_polars(part: bytes, paths: Sequence[str], count: int) -> Columns | None:
    """The columns of a part, decoded by polars; None if polars cannot read it."""
    try:
        frame = pl.read_avro(io.BytesIO(part))
    except (PolarsError, PanicException, OSError):
        return None
    return dict(_fields(frame, "", paths)) if len(frame) == count else None


def _fields(frame: pl.DataFrame, above: str, paths: Sequence[str]) -> Iterator[tuple[str, pl.Series]]:
    """The columns of paths that all begin with ``above``; each record is unnested once."""
    kinds = dict(zip(frame.columns, frame.dtypes, strict=True))
    inner: dict[str, list[str]] = {}
    for path in paths:
        name, _, rest = path[len(above) :].partition(".")
        if not rest and name in kinds:
            yield path, frame.get_column(name)
        elif rest and isinstance(kinds.get(name), pl.Struct):
            inner.setdefault(name, []).append(path)
    for name, deeper in inner.items():
        yield from _fields(frame.get_column(name).struct.unnest(), f"{above}{name}.", deeper)


def _by_record(part: bytes, paths: Sequence[str]) -> Columns:
    records = read_plain(part)
    out = {}
    for path in paths:
        *above, name = path.split(".")
        values = records
        for outer in above:
            values = [v.get(outer) or {} for v in values]
        if any(name in v for v in values):
            out[path] = pl.Series(path, [v.get(name) for v in values], strict=False)
    return out
