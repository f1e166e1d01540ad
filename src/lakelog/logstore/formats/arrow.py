"""``arrow``: a record is an Arrow IPC stream of up to 8,192 changes of one attempt; ten times as fast as JSON.

Any Arrow implementation can read a value, a stream of one schema and one batch with the table's columns plus
``_row_kind`` (int8: 0 = +I, 1 = -U, 2 = +U, 3 = -D). Each value has its own schema, so that one log can contain rows
from before and after an ALTER TABLE. Columns are matched by name. The schema's metadata ``lakelog.keys`` (JSON) names
the primary key. The key of a record is null. If the record is one change (a correction), its key is the JSON object of
the primary key.

The log counts, cuts and corrects *records*. A record is appended, accepted or rejected as a whole. Its inverse contains
all of its changes, inverted, newest first. Only the last state of a key needs the single changes (``split``).

Operations are those of ``debezium-json``: mode all: a -U followed by the +U of its key stays a pair, a lone one is -D
or +I; mode upsert: +I and -D only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import ClassVar, Final

import numpy as np
import orjson
import pyarrow as pa

from lakelog.errors import Corrupt
from lakelog.io.arrow_messages import MIB, UnpackLimit, check_plain
from lakelog.logstore.base import Records
from lakelog.logstore.encoding.json_rows import parsed_column, parsed_object, plain_rows, to_json_texts
from lakelog.logstore.encoding.record_format import LogFormat, Messages
from lakelog.logstore.encoding.update_pairs import may_hold_pairs, second_of_pair
from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.types.null_rows import cast_rows
from lakelog.paimon.types.text_decimals import decimals_from_text

_MOST_ROWS: Final = 8192
_MOST_BYTES: Final = 512 * 1024
"""Below the default message limit of a Kafka broker (1 MB), with room for rows longer than the average."""

_LIMIT: Final = UnpackLimit(rows=1 << 16, size=32 * MIB, ratio=8)
"""Room for messages of other producers, which may compress them; lakelog's have at most ``_MOST_ROWS``, as they are."""

_SMALL_ROWS: Final = 1024
"""Average number of rows of batches that are joined when they are read."""

_KEYS: Final = b"lakelog.keys"
_KIND_FIELD: Final = pa.field(ROW_KIND_COLUMN, pa.int8(), nullable=False)
_MARK: Final = b"\xff\xff\xff\xff"
_END: Final = _MARK + bytes(4)
_INVERSE: Final = np.zeros(4, np.int8)
_INVERSE[[INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER]] = [DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE]


class ArrowMessages(LogFormat):
    """See the module."""

    changes_per_record: ClassVar[int] = _MOST_ROWS

    def encode(
        self, rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str], header: bytes
    ) -> tuple[Records, np.ndarray]:
        batch, row_of_change = _changes(rows, kinds, mode, keys)
        parts = list(_singles(batch))
        key_texts = pa.nulls(len(parts), pa.large_binary()) if not keys else pa.array(_keys(batch), pa.large_binary())
        return Records(key_texts, pa.array(parts, pa.large_binary()), header), row_of_change

    def messages(
        self,
        rows: pa.RecordBatch,
        kinds: np.ndarray,
        mode: str,
        keys: Sequence[str],
        header: bytes,
        places: Mapping[int, np.ndarray],
    ) -> dict[int, Messages]:
        if any(len(indices) == rows.num_rows for indices in places.values()):
            return {bucket: _messages(rows, kinds, mode, keys, header) for bucket in places}
        parts = {bucket: rows.take(pa.array(indices)) for bucket, indices in places.items()}
        return {
            bucket: replace(_messages(part, kinds[places[bucket]], mode, keys, header), rows=part)
            for bucket, part in parts.items()
        }

    def row_counts(self, values: pa.LargeBinaryArray) -> np.ndarray:
        return np.array([batch.num_rows for batch in _batches(values)], np.int64)

    def split(self, key: bytes | None, value: bytes) -> list[tuple[bytes | None, bytes]]:
        if key is not None:
            return [(key, value)]
        batch = _batch(value)
        keys = _keys(batch) if _key_names(batch.schema) else [None] * batch.num_rows
        return list(zip(keys, _singles(batch), strict=False))

    def decode(self, values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        tables = [
            _conformed(_joined(list(run)), schema)
            for _, run in groupby(_batches(values), key=lambda batch: batch.schema)
        ]
        if not tables:
            return schema.append(pa.field(ROW_KIND_COLUMN, pa.string())).empty_table()
        return pa.concat_tables(tables)

    def lacking(self, values: pa.LargeBinaryArray, names: Sequence[str]) -> list[frozenset[str]]:
        return [_lacking(value, frozenset(names)) for value in values.to_pylist()]

    def decode_keys(self, keys: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        read = plain_rows([parsed_object(key) for key in keys.to_pylist()], schema)
        return pa.Table.from_arrays(
            [parsed_column(read.column(f.name).combine_chunks(), f.type) for f in schema], schema=schema
        )

    def inverse(self, value: bytes) -> bytes:
        batch = _batch(value)
        back = batch.take(pa.array(np.arange(batch.num_rows)[::-1]))
        return _value(_with_kinds(back, _INVERSE[_kinds(back)]))

    def images(self, value: bytes) -> tuple[bytes | None, bytes | None]:
        batch = _batch(value)
        kinds = _kinds(batch)
        images: list[bytes | None] = []
        for is_wanted in ((kinds == DELETE) | (kinds == UPDATE_BEFORE), (kinds == INSERT) | (kinds == UPDATE_AFTER)):
            rows = np.flatnonzero(is_wanted)
            images.append(_value(_with_kinds(batch.take(pa.array(rows[-1:])), [INSERT])) if len(rows) else None)
        return images[0], images[1]

    def asserting(self, after: bytes | None, before: bytes | None) -> bytes:
        if after is None or before is None:
            batch = _batch(after or before or b"")
            return _value(_with_kinds(batch, [INSERT if before is None else DELETE]))
        new = _batch(after)
        old = _conformed(pa.Table.from_batches([_batch(before)]), new.schema.remove(len(new.schema) - 1))
        rows = pa.concat_tables([_plain(old, new.schema), pa.Table.from_batches([new])]).combine_chunks()
        return _value(_with_kinds(rows.to_batches()[0], [UPDATE_BEFORE, UPDATE_AFTER]))


def _lacking(value: bytes, names: frozenset[str]) -> frozenset[str]:
    try:
        with pa.ipc.open_stream(value) as stream:
            return names - frozenset(stream.schema.names)
    except (pa.ArrowException, OSError):
        return frozenset()  # decoding says what is wrong


def _plain(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Decoded rows with the columns of a message."""
    kinds = pa.array(np.zeros(rows.num_rows, np.int8))
    return cast_rows(rows.drop_columns([ROW_KIND_COLUMN]).append_column(_KIND_FIELD, kinds), schema)


def _changes(
    rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str]
) -> tuple[pa.RecordBatch, np.ndarray]:
    """The rows of a message, with their kinds, and for each change the row that it represents."""
    pairs = bool(keys) and may_hold_pairs(kinds)
    second = second_of_pair(kinds, to_json_texts(rows.select(list(keys))) if pairs else None)
    first = np.append(second[1:], False)[: len(kinds)]
    added = (kinds == INSERT) | (kinds == UPDATE_AFTER)
    kinds_of_rows = np.where(added, INSERT, DELETE).astype(np.int8)
    if mode == "all":
        kinds_of_rows[first], kinds_of_rows[second] = UPDATE_BEFORE, UPDATE_AFTER
    elif pairs:
        kept = np.flatnonzero(~first)
        rows, kinds_of_rows = rows.take(pa.array(kept)), kinds_of_rows[kept]
    # names and types only, so that a row of the files is encoded like a row of the log
    fields = [*(pa.field(f.name, f.type) for f in rows.schema), _KIND_FIELD]
    schema = pa.schema(fields, {_KEYS: orjson.dumps(list(keys))})
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(kinds_of_rows)], schema=schema), np.flatnonzero(~first)


def _messages(rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str], header: bytes) -> Messages:
    """The rows of one bucket, packed."""
    batch, row_of_change = _changes(rows, kinds, mode, keys)
    starts = np.append(_starts(batch), batch.num_rows)
    values, firsts = [], []
    for start, end in _cuts(0, len(starts) - 1, max(1, _MOST_BYTES * batch.num_rows // max(1, batch.nbytes))):
        for first, value in _fitting(batch, starts, start, end):
            values.append(value)
            firsts.append(first)
    change = np.searchsorted(row_of_change, np.arange(rows.num_rows))
    record = np.searchsorted(np.array(firsts, np.int64), change, side="right") - 1
    nothing = pa.nulls(len(values), pa.large_binary())
    records = Records(nothing, pa.array(values, pa.large_binary()), header, changes=_MOST_ROWS)
    return Messages(records, record, change - np.array(firsts, np.int64)[record])


def _cuts(start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    for first in range(start, end, min(most, _MOST_ROWS)):
        yield first, min(first + min(most, _MOST_ROWS), end)


def _fitting(batch: pa.RecordBatch, starts: np.ndarray, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Changes start..end as messages of limited size: (first change, value)."""
    value = _value(batch.slice(starts[start], starts[end] - starts[start]))
    if len(value) <= 3 * _MOST_BYTES // 2 or end - start == 1:
        yield start, value
        return
    middle = (start + end) // 2
    yield from _fitting(batch, starts, start, middle)
    yield from _fitting(batch, starts, middle, end)


def _kinds(batch: pa.RecordBatch) -> np.ndarray:
    kinds: np.ndarray = batch.column(batch.num_columns - 1).to_numpy()
    return kinds


def _with_kinds(batch: pa.RecordBatch, kinds: Sequence[int] | np.ndarray) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns[:-1], pa.array(kinds, pa.int8())], schema=batch.schema)


def _starts(batch: pa.RecordBatch) -> np.ndarray:
    """The first row of each change; a second row is always the +U of a pair."""
    return np.flatnonzero(_kinds(batch) != UPDATE_AFTER)


def _singles(batch: pa.RecordBatch) -> Iterator[bytes]:
    """One value per change."""
    starts = _starts(batch)
    schema = _schema_bytes(batch.schema)
    for start, count in zip(starts.tolist(), np.diff(starts, append=batch.num_rows).tolist(), strict=True):
        yield b"".join([schema, batch.slice(start, count).serialize(), _END])


def _key_names(schema: pa.Schema) -> list[str]:
    names: list[str] = orjson.loads((schema.metadata or {}).get(_KEYS, b"[]"))
    return names


def _keys(batch: pa.RecordBatch) -> list[bytes]:
    texts = to_json_texts(batch.select(_key_names(batch.schema)).take(pa.array(_starts(batch))))
    return [text.encode() for text in texts.to_list()]


def _schema_bytes(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize())


def _value(batch: pa.RecordBatch) -> bytes:
    return b"".join([_schema_bytes(batch.schema), batch.serialize(), _END])


def _batch(value: bytes) -> pa.RecordBatch:
    (batch,) = _batches(pa.array([value], pa.large_binary()))
    return batch


def _batches(values: pa.LargeBinaryArray) -> Iterator[pa.RecordBatch]:
    """The batch of each value; a schema is parsed once. Raises Corrupt."""
    known: dict[bytes, pa.Schema] = {}
    for value in values:
        data = value.as_buffer()
        try:
            head = bytes(data.slice(0, 8))
            if head[:4] != _MARK:
                raise pa.ArrowInvalid("it does not begin as an Arrow stream does")
            length = 8 + struct.unpack_from("<I", head, 4)[0]
            begin = bytes(data.slice(0, length))
            schema = known.get(begin)
            if schema is None:
                schema = pa.ipc.read_schema(data)
                check_plain(schema)
                known[begin] = schema
            _LIMIT.check(data)
            batch = pa.ipc.read_record_batch(data.slice(length), schema)
            batch.validate(full=True)
            if schema.names[-1:] != [ROW_KIND_COLUMN] or not ((_kinds(batch) >= 0) & (_kinds(batch) < 4)).all():
                raise pa.ArrowInvalid(f"its last column is not {ROW_KIND_COLUMN} with numbers 0 to 3")
        except (pa.ArrowException, OSError, ValueError, IndexError, TypeError, struct.error) as wrong:
            raise Corrupt(f"log value {bytes(data[:40])!r} is not an arrow message: {wrong}") from wrong
        yield batch


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """The rows of batches of one schema; small ones as one batch, because each batch costs its reader as much again."""
    rows = pa.Table.from_batches(batches)
    return rows.combine_chunks() if rows.num_rows < _SMALL_ROWS * len(batches) else rows


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_decimal(kind) and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return pa.chunked_array([decimals_from_text(chunk, kind) for chunk in column.chunks], kind)
    return column.cast(kind)


def _conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of one message schema with the columns of ``schema`` and ``_row_kind`` as text."""
    columns = []
    for field in schema:
        index = rows.schema.get_field_index(field.name)
        if index < 0:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
            continue
        column = rows.column(index)
        try:
            columns.append(column if column.type == field.type else _cast(column, field.type))
        except pa.ArrowException as wrong:
            raise Corrupt(f"column '{field.name}' of a log value is not {field.type}: {wrong}") from wrong
    kinds = pa.chunked_array(
        [pa.array(NAMES).take(chunk) for chunk in rows.column(ROW_KIND_COLUMN).chunks], pa.string()
    )
    return pa.Table.from_arrays([*columns, kinds], names=[*schema.names, ROW_KIND_COLUMN])
