"""Avro object container files as lists of plain records: manifests, and the rows of Avro data files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, parse_schema, to_parsing_canonical_form

from lakelog.errors import Corrupt
from lakelog.fileformat.avro_container import SCHEMA_KEY, Container, containers, parse_container, parse_metadata

Record = dict[str, Any]
Block = tuple[int, bytes]
"""(number of records, their uncompressed bytes)."""

_CODECS: Final = {"zstd": "zstandard", "deflate": "deflate", "none": "null", "null": "null"}
_BLOCK_BYTES: Final = 64 << 10
_PART_BYTES: Final = 4 << 20
_LIST_BYTES: Final = 4 << 20
_INVALID: Final = (
    ValueError, LookupError, EOFError, TypeError, AttributeError, RecursionError, SchemaParseException,
)  # fmt: skip
"""What ``fastavro`` raises for bytes or a schema that are not Avro."""


def read_records(data: bytes) -> list[Record]:
    """All records of a metadata file, as dicts.

    Values are raw: a timestamp, date or time is the number in the file, a decimal its bytes. Creation times are used
    as numbers, and a year may exceed Python's range. A record becomes some kilobytes, so a small file has fewer of
    them; each has a name that nothing compresses. Raises Corrupt, UnsupportedFeature.
    """
    return _records(parse_metadata(data, _LIST_BYTES))


def read_schema(data: bytes) -> dict[str, Any]:
    """The writer's schema of a data file, with its logical types. Raises Corrupt, UnsupportedFeature."""
    schema = _schema(next(containers(data, 0)))
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise Corrupt("invalid Avro file: its values are not records")
    return schema


def read_parts(data: bytes) -> Iterator[Iterator[Record]]:
    """The records of a data file, in parts of some megabytes, or of one block. Raises as ``read_schema``."""
    for container in containers(data, _PART_BYTES):
        yield _plain_records(_raw(container, _schema(container)))


def _records(container: Container) -> list[Record]:
    return read_plain(_raw(container, _schema(container)))


def _schema(container: Container) -> dict[str, Any]:
    try:
        schema: dict[str, Any] = json.loads(container.header[SCHEMA_KEY])
        parse_schema(schema)
        check_sizes(schema, set())
    except _INVALID as why:
        raise Corrupt(f"invalid Avro file: {why!r}") from None
    return schema


def _raw(container: Container, schema: Mapping[str, Any]) -> bytes:
    """The container, uncompressed and without logical types."""
    raw = json.dumps(without_logical_types(schema)).encode()
    return replace(container, header={SCHEMA_KEY: raw}).to_bytes("null")


def read_plain(data: bytes) -> list[Record]:
    """All records of an uncompressed container file, with the logical types of its schema. Raises Corrupt."""
    return list(_plain_records(data))


def _plain_records(data: bytes) -> Iterator[Record]:
    records: Iterator[Any] | None = None
    while True:
        try:
            records = records or iter(fastavro.reader(io.BytesIO(data)))
            record = next(records, None)
        except _INVALID as why:
            raise Corrupt(f"invalid Avro file: {why!r}") from None
        if record is None:
            return
        yield record


def write_records(
    schema: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    compression: str = "zstd",
    blocks: Sequence[Block] = (),
    metadata: Mapping[str, str] | None = None,
    sync: bytes | None = None,
) -> bytes:
    """A container file of records; ``compression`` is zstd, deflate or none. Times are raw numbers.

    ``blocks`` are blocks of other files with this schema, which precede the records. ``metadata`` is added to the
    header. ``sync`` (16 bytes; default: random) makes the bytes a function of the records.
    """
    out = io.BytesIO()
    fastavro.writer(
        out,
        dict(schema),
        records,
        codec="null",
        sync_interval=_BLOCK_BYTES,
        metadata=dict(metadata or {}),
        sync_marker=sync or b"",
    )
    container = parse_container(out.getvalue())
    return replace(container, blocks=(*blocks, *container.blocks)).to_bytes(_CODECS[compression])


def read_blocks(data: bytes, schema: Mapping[str, Any]) -> tuple[Block, ...] | None:
    """The blocks of a container file; None if its schema differs. Raises Corrupt."""
    container = parse_metadata(data)
    try:
        written = json.loads(container.header[SCHEMA_KEY])
        is_same = to_parsing_canonical_form(written) == to_parsing_canonical_form(dict(schema))
    except _INVALID as why:
        raise Corrupt(f"invalid Avro file: {why!r}") from None
    return container.blocks if is_same else None


def check_sizes(schema: Any, empty: set[str]) -> None:
    """Raises Corrupt for a list whose items take no bytes, because a few bytes could encode any number of them.

    ``empty`` collects the names of such types; a type is defined before it is referenced.
    """
    if isinstance(schema, list):
        for part in schema:
            check_sizes(part, empty)
    elif isinstance(schema, dict):
        parts = [schema.get(key) for key in ("items", "values", "type")]
        for part in (*parts, *(field["type"] for field in schema.get("fields", ()))):
            check_sizes(part, empty)
        if schema["type"] in ("record", "fixed") and not _takes_bytes(schema, empty):
            empty.add(str(schema.get("name")).rpartition(".")[2])
        if schema["type"] == "array" and not _takes_bytes(schema["items"], empty):
            raise Corrupt("invalid Avro file: a list has items of zero bytes")


def _takes_bytes(schema: Any, empty: set[str]) -> bool:
    """Returns whether each value of a type takes at least one byte."""
    if isinstance(schema, str):
        return schema != "null" and schema.rpartition(".")[2] not in empty
    if isinstance(schema, list) or schema["type"] in ("array", "map", "enum"):
        return True
    if schema["type"] == "record":
        return any(_takes_bytes(field["type"], empty) for field in schema["fields"])
    return bool(schema["size"]) if schema["type"] == "fixed" else _takes_bytes(schema["type"], empty)


def without_logical_types(schema: Any) -> Any:
    """An Avro schema with raw values: the numbers and bytes in the file."""
    if isinstance(schema, dict):
        return {k: without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    if isinstance(schema, list):
        return [without_logical_types(part) for part in schema]
    return schema
