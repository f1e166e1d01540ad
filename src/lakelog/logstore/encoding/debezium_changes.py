"""Changes in Debezium's JSON, of lakelog or of a connector, as rows of a table: by columns, in their order.

A connector's record is the envelope ``{"before":…,"after":…,"op":…}``, alone or with its schema, as
``{"schema":…,"payload":…}``. Records with the same schema are read together; its text is the same in all of them.

``op`` c and r are inserts, u is an update with or without a before-image, d a delete. Logical messages (m),
transaction markers, heartbeats and empty payloads are no rows. A truncation (t) cannot be a row, so it is an error.

Source: Debezium's documentation, "Change events" of its PostgreSQL connector and "Transaction metadata".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt
from lakelog.logstore.encoding.changes import (
    NOTHING,
    Changes,
    image_of,
    image_of_objects,
    in_order,
    no_changes,
    read_by_case,
)
from lakelog.logstore.encoding.connect_columns import Encodings, Meaning, json_type
from lakelog.logstore.encoding.json_rows import exact_object, exact_text, parsed_object, read_lines, read_type
from lakelog.logstore.encoding.names_by_case import of_name

_OPS: Final = pa.array(["c", "u", "d", "r", "m"])
"""The codes of ``Changes.op`` in the words of Debezium."""
_NO_CHANGES: Final = (
    "io.debezium.connector.common.TransactionMetadataValue",
    "io.debezium.connector.common.Heartbeat",
)
"""Names of schemas whose records change no row."""
_START: Final = b'{"schema":'
_PAYLOAD: Final = b',"payload":'


@dataclass(frozen=True)
class _Group:
    """Records of one schema: their places among all, their payloads, and the fields of the schema (None: no schema)."""

    positions: np.ndarray
    payloads: pa.LargeBinaryArray
    fields: Mapping[str, Meaning] | None = None
    is_empty: bool = False
    has_envelope: bool = False


def read_changes(values: pa.LargeBinaryArray, schema: pa.Schema, encodings: Encodings) -> Changes:
    """The changes of records, in order. Raises Corrupt, which names the field of the record."""
    if not len(values):
        return no_changes(0, schema)
    return read_by_case(values, schema, images, lambda chosen: _read_all(chosen, schema, encodings))


def images(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows in a parsed record."""
    change = record.get("payload", record)
    if isinstance(change, dict):
        yield from (image for name in ("before", "after") if isinstance(image := change.get(name), dict))


def _read_all(values: pa.LargeBinaryArray, schema: pa.Schema, encodings: Encodings) -> Changes:
    if not (values[0].as_py().startswith(_START)) and not _has_bytes(schema, encodings):
        changes = _own(values, schema)
        if changes is not None:
            return changes
    parts, positions = [], []
    for group in _groups(values):
        parts.append(_read(group, schema, encodings))
        positions.append(group.positions)
    return in_order(parts, positions)


def changes_no_row(name: str) -> bool:
    """Whether records with the schema of this name change no row: heartbeats, markers of transactions."""
    return name in _NO_CHANGES


def _has_bytes(schema: pa.Schema, encodings: Encodings) -> bool:
    return encodings.decimals == "precise" and any(pa.types.is_decimal(f.type) for f in schema)


def _own(values: pa.LargeBinaryArray, schema: pa.Schema) -> Changes | None:
    """Changes in lakelog's own encodings; None if there is anything else."""
    image = pa.struct([pa.field(f.name, read_type(f.type)) for f in schema])
    read = read_lines(values, pa.schema([("before", image), ("after", image), ("op", pa.string())]))
    if read is None:
        return None
    op = pc.index_in(read.column("op").combine_chunks(), value_set=_OPS)
    if op.null_count:
        return None
    before, after = (read.column(name).combine_chunks() for name in ("before", "after"))
    return Changes(before, after, op.to_numpy(zero_copy_only=False))


def _groups(values: pa.LargeBinaryArray) -> Iterator[_Group]:
    """The records by schema."""
    positions, is_canonical = np.arange(len(values)), False
    while len(positions):
        first = values[0].as_py()
        prefix = _prefix(first)
        envelope = None if prefix else parsed_object(first)
        if envelope is not None and "payload" in envelope and "op" not in envelope and not is_canonical:
            values, is_canonical = pa.array([_canonical(v) for v in values.to_pylist()], pa.large_binary()), True
            continue
        if prefix:
            chosen = pc.and_(pc.starts_with(values, prefix), pc.ends_with(values, b"}"))
            payloads = pc.binary_slice(values.filter(chosen), len(prefix), -1)
            yield _group(positions[chosen.to_numpy(zero_copy_only=False)], payloads, prefix)
        else:
            chosen = pc.invert(pc.starts_with(values, _START))
            if not chosen[0].as_py():
                raise Corrupt(f"log value {first[:200]!r} has a field 'schema' and no field 'payload'")
            yield _Group(positions[chosen.to_numpy(zero_copy_only=False)], values.filter(chosen))
        rest = pc.invert(chosen)
        values, positions = values.filter(rest), positions[rest.to_numpy(zero_copy_only=False)]


def _group(positions: np.ndarray, payloads: pa.LargeBinaryArray, prefix: bytes) -> _Group:
    name, fields = _described(prefix[len(_START) : -len(_PAYLOAD)])
    return _Group(positions, payloads, fields, name in _NO_CHANGES, has_envelope=True)


@lru_cache(maxsize=256)
def _described(text: bytes) -> tuple[str, Mapping[str, Meaning] | None]:
    """Name of a connector's schema, and the fields of its rows (None: not an envelope)."""
    schema = orjson.loads(text)
    if not isinstance(schema, dict):
        return "", None
    for part in schema.get("fields") or ():
        if not isinstance(part, dict):
            raise Corrupt("the field 'schema' of a log value is not a schema of Kafka Connect: a field is no object")
        if part.get("field") in ("after", "before") and part.get("fields") is not None:
            try:
                return schema.get("name") or "", Meaning.of(part).parts
            except (KeyError, TypeError, ValueError, AttributeError) as why:
                raise Corrupt(f"the field 'schema' of a log value is not a schema of Kafka Connect: {why!r}") from None
    return schema.get("name") or "", None


def _prefix(value: bytes) -> bytes:
    """The text before the payload of a record with a schema, as Kafka's JsonConverter writes it; "" if it is not."""
    if not value.startswith(_START) or not value.endswith(b"}"):
        return b""
    end = value.find(_PAYLOAD)
    while end >= 0:
        try:
            orjson.loads(value[len(_START) : end])
        except orjson.JSONDecodeError:  # the words are in the text of a default
            end = value.find(_PAYLOAD, end + 1)
        else:
            return value[: end + len(_PAYLOAD)]
    return b""


def _canonical(value: bytes) -> bytes:
    """The record with its fields in order and without spaces, if it has a schema."""
    parsed = exact_object(value)
    if "payload" not in parsed or "op" in parsed:
        return value
    return _START + exact_text(parsed.get("schema")) + _PAYLOAD + exact_text(parsed["payload"]) + b"}"


def _read(group: _Group, schema: pa.Schema, encodings: Encodings) -> Changes:
    meanings = [
        encodings.meaning(f.type) if group.fields is None else of_name(group.fields, f.name, Meaning()) for f in schema
    ]
    kinds = [json_type(f.type, meaning) for f, meaning in zip(schema, meanings, strict=True)]
    if group.is_empty:
        return no_changes(len(group.positions), schema)
    read = None
    if all(kind is not None for kind in kinds):
        image = pa.struct([pa.field(f.name, kind) for f, kind in zip(schema, kinds, strict=True)])
        fields = pa.schema([("before", image), ("after", image), ("op", pa.string()), ("status", pa.string())])
        read = read_lines(group.payloads, fields)
    if read is None:
        return _read_slowly(group, schema, meanings)
    return changes_of({name: read.column(name).combine_chunks() for name in read.column_names}, schema, meanings)


def changes_of(read: Mapping[str, pa.Array], schema: pa.Schema, meanings: Sequence[Meaning]) -> Changes:
    """Changes from columns of raw values: ``before`` and ``after``, which are structs, ``op`` and ``status``, texts.

    ``meanings`` are those of the columns of ``schema``. Raises Corrupt.
    """
    before, after = (image_of(read[name], schema, meanings, name) for name in ("before", "after"))
    ops = pc.index_in(read["op"], value_set=_OPS)
    codes = pc.fill_null(ops, NOTHING).to_numpy(zero_copy_only=False).copy()
    for row in np.flatnonzero(ops.is_null().to_numpy(zero_copy_only=False)) if ops.null_count else ():
        codes[row] = _code(read["op"][row].as_py(), read["status"][row].as_py())
    return Changes(before, after, codes)


def _read_slowly(group: _Group, schema: pa.Schema, meanings: list[Meaning]) -> Changes:
    """The changes of records that pyarrow's reader does not take: maps, structs, columns of mixed encodings."""
    values = group.payloads.to_pylist()
    objects = [{} if group.has_envelope and value == b"null" else exact_object(value) for value in values]
    before, after = (
        image_of_objects([parsed.get(name) for parsed in objects], schema, meanings, name)
        for name in ("before", "after")
    )
    codes = [_code(parsed.get("op"), parsed.get("status"), group.has_envelope and not parsed) for parsed in objects]
    return Changes(before, after, np.array(codes))


def _code(op: Any, status: Any, is_tombstone: bool = False) -> int:
    if is_tombstone or (op is None and status in ("BEGIN", "END")):
        return NOTHING
    if op == "t":
        raise Corrupt(
            "field 'op' is 't': the source table was truncated, which changes no single row. Delete the rows of this "
            "table, and continue after the record"
        )
    code: int = pc.index(_OPS, pa.scalar(op)).as_py() if isinstance(op, str) else -1
    if code < 0:
        raise Corrupt(f"field 'op' is {op!r}: a change has c, r, u, d, m or t")
    return code
