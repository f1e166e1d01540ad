"""Base of formats in which other systems write: JSON records with an envelope, by columns; lakelog reads them only.

A record is read twice at most. pyarrow reads all records of usual types at once. Any other record is parsed alone,
with all digits of its numbers and without a field that comes twice (``exact_object``). Both give ``Changes``, so types,
names by case and errors are those of Debezium's records.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt, InvalidOption, UnsupportedFeature
from lakelog.logstore.base import Records
from lakelog.logstore.encoding.changes import (
    DELETED,
    NOTHING,
    UPDATED,
    Changes,
    Image,
    changed_rows,
    image_of,
    image_of_objects,
    in_order,
    no_changes,
    read_by_case,
    struct_of,
)
from lakelog.logstore.encoding.connect_columns import NATIVE_JSON, Meaning, json_type
from lakelog.logstore.encoding.json_rows import exact_object, read_lines
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.options.adopted import INCLUDE_DATABASE, INCLUDE_TABLE
from lakelog.options.log import DATA_FORMAT
from lakelog.options.option import Option, Options
from lakelog.paimon.types.variant import is_variant

OLD_NULL: Final = r'(?s)"old"\s*:\s*[\[{].*:\s*null|\\u00'
"""Records whose former row may have NULL, which pyarrow's reader does not tell from a field that did not change."""


class Change(NamedTuple):
    """One change of a parsed record: what it does (``Changes.op``), the former row, and the new one."""

    code: int
    before: Image
    after: Image


@dataclass(frozen=True)
class RawChanges:
    """Changes as pyarrow reads them: structs of raw values, the codes of ``Changes.op``, the changes of each record.

    ``old`` has the former values of an update; a NULL in it is a column that did not change.
    """

    data: pa.StructArray
    old: pa.StructArray | None
    codes: np.ndarray
    counts: np.ndarray


class AdoptedFormat(LogFormat):
    """See the module. ``includes`` are the fields of an envelope, and what their text has to match."""

    is_written: ClassVar[bool] = False

    slow: ClassVar[str] = ""
    """A pattern of the records that are read one by one."""

    def __init__(self, includes: Mapping[str, str] | None = None) -> None:
        self._includes = includes or {}

    def of_table(self, options: Options, topic: str) -> Self:
        asked = (("database", INCLUDE_DATABASE), ("table", INCLUDE_TABLE))
        return type(self)(
            {name: _pattern(option, text) for name, option in asked if (text := options.get_typed(option))}
        )

    @abstractmethod
    def fields(self, image: pa.StructType) -> pa.Schema:
        """What pyarrow reads of a record; ``image`` is the type of its rows."""

    @abstractmethod
    def columns(self, read: pa.Table) -> RawChanges | None:
        """The changes in what pyarrow has read; None if some record needs a look of its own."""

    @abstractmethod
    def changes(self, record: Mapping[str, Any]) -> list[Change]:
        """The changes of one parsed record. Raises Corrupt, which names the field."""

    @abstractmethod
    def rows_in(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The rows in a parsed record, whatever it does with them."""

    def parsed(self, value: bytes) -> list[Change]:
        """The changes of one record. Raises Corrupt."""
        return self.changes(exact_object(value))

    def meaning(self, kind: pa.DataType) -> Meaning:
        """How the values of a column of this type are written."""
        return Meaning(name=NATIVE_JSON) if pa.types.is_string(kind) or is_variant(kind) else Meaning()

    def json_type(self, kind: pa.DataType, meaning: Meaning) -> pa.DataType | None:
        """The type in which pyarrow reads the values of a column; None if it cannot."""
        return json_type(kind, meaning)

    def decode(self, values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        return changed_rows(read_by_case(values, schema, self.rows_in, partial(self._read, schema=schema)), schema)

    def lacking(self, values: pa.LargeBinaryArray, names: Sequence[str]) -> list[frozenset[str]]:
        by_fold = {name.lower(): name for name in names}
        return [
            frozenset(by_fold[name] for name in by_fold.keys() - self._new_names(value, frozenset(by_fold)))
            for value in values.to_pylist()
        ]

    def _new_names(self, value: bytes, known: frozenset[str]) -> frozenset[str]:
        """The names in the new rows of a value, in lower case; all known ones if it has none, or cannot be read."""
        try:
            record = orjson.loads(value)
            rows = [change.after for change in self.changes(record) if change.after is not None]
        except (orjson.JSONDecodeError, AttributeError, TypeError, Corrupt):
            return known
        if not rows or not all(isinstance(row, dict) for row in rows) or not self._is_included(record):
            return known
        return frozenset(name.lower() for row in rows for name in row)

    def _read(self, values: pa.LargeBinaryArray, schema: pa.Schema) -> Changes:
        if self._includes:
            values = values.filter(self._included(values))
        if not len(values):
            return no_changes(0, schema)
        meanings = [self.meaning(field.type) for field in schema]
        is_slow = np.zeros(len(values), np.bool_)
        if self.slow:
            is_slow = pc.match_substring_regex(values, self.slow).to_numpy(zero_copy_only=False)
        parts, positions = [], []
        for chosen, read in ((~is_slow, self._read_fast), (is_slow, self._read_slowly)):
            if chosen.any():
                part = values if chosen.all() else values.filter(pa.array(chosen))
                changes, counts = read(part, schema, meanings)
                parts.append(changes)
                positions.append(np.repeat(np.flatnonzero(chosen), counts))
        return in_order(parts, positions)

    def _read_fast(
        self, values: pa.LargeBinaryArray, schema: pa.Schema, meanings: Sequence[Meaning]
    ) -> tuple[Changes, np.ndarray]:
        kinds = [self.json_type(field.type, meaning) for field, meaning in zip(schema, meanings, strict=True)]
        raw = None
        if all(kind is not None for kind in kinds):
            image = pa.struct([pa.field(field.name, kind) for field, kind in zip(schema, kinds, strict=True)])
            read = read_lines(values, self.fields(image))
            raw = None if read is None else self.columns(read)
        if raw is None:
            return self._read_slowly(values, schema, meanings)
        return _merged(raw, schema, meanings), raw.counts

    def _read_slowly(
        self, values: pa.LargeBinaryArray, schema: pa.Schema, meanings: Sequence[Meaning]
    ) -> tuple[Changes, np.ndarray]:
        records = [self.parsed(value) for value in values.to_pylist()]
        changes = [change for record in records for change in record]
        before, after = (
            image_of_objects([getattr(change, part) for change in changes], schema, meanings, name)
            for part, name in (("before", "old"), ("after", "data"))
        )
        codes = np.array([change.code for change in changes], np.int8)
        return Changes(before, after, codes), np.array([len(record) for record in records], np.int64)

    def _included(self, values: pa.LargeBinaryArray) -> pa.BooleanArray:
        """Which records are of the tables that ``includes`` says; also those that cannot be read."""
        read = read_lines(values, pa.schema([(name, pa.string()) for name in self._includes]))
        if read is None:
            return pa.array([self._is_included(value) for value in map(_object, values.to_pylist())], pa.bool_())
        chosen = pa.array(np.ones(len(values), np.bool_))
        for name, pattern in self._includes.items():
            matches = pc.match_substring_regex(read.column(name).combine_chunks(), rf"\A(?:{pattern})\z")
            chosen = pc.and_(chosen, pc.fill_null(matches, False))
        return chosen

    def _is_included(self, record: Mapping[str, Any] | None) -> bool:
        if record is None:
            return True
        texts = ((pattern, record.get(name)) for name, pattern in self._includes.items())
        return all(isinstance(text, str) and re.fullmatch(pattern, text) is not None for pattern, text in texts)

    def encode(
        self, rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str], header: bytes
    ) -> tuple[Records, np.ndarray]:
        self._refuse()

    def decode_keys(self, keys: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        self._refuse()

    def inverse(self, value: bytes) -> bytes:
        self._refuse()

    def images(self, value: bytes) -> tuple[bytes | None, bytes | None]:
        self._refuse()

    def asserting(self, after: bytes | None, before: bytes | None) -> bytes:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedFeature(
            f"a log of this '{DATA_FORMAT.key}' is written by another system only: lakelog reads its records, and "
            "writes none"
        )


def _pattern(option: Option[Any], text: str) -> str:
    """A pattern of an option, which pyarrow and Python both know. Raises InvalidOption."""
    try:
        pc.match_substring_regex(pa.array([""]), text)
        re.compile(text)
    except (pa.ArrowInvalid, re.error) as why:
        raise InvalidOption(f"option '{option.key}' = '{text}' is no regular expression: {why}") from None
    return text


def _object(value: bytes) -> dict[str, Any] | None:
    try:
        return exact_object(value)
    except Corrupt:
        return None


def _merged(raw: RawChanges, schema: pa.Schema, meanings: Sequence[Meaning]) -> Changes:
    """The changes whose former rows are the new ones with the former values in their places."""
    count, codes = len(raw.codes), raw.codes
    data = image_of(raw.data, schema, meanings, "data")
    columns = [data.field(at) for at in range(len(schema))]
    has_old = np.zeros(count, np.bool_)
    former = columns
    if raw.old is not None and (codes == UPDATED).any():
        has_old = (codes == UPDATED) & raw.old.is_valid().to_numpy(zero_copy_only=False)
        old = image_of(raw.old, schema, meanings, "old")
        former = [_over(old.field(at), column) for at, column in enumerate(columns)]
    after = struct_of(columns, schema, pa.array((codes == DELETED) | (codes == NOTHING)))
    before = struct_of(former, schema, pa.array((codes != DELETED) & ~has_old))
    return Changes(before, after, codes)


def _over(old: pa.Array, new: pa.Array) -> pa.Array:
    """The former values where there is one, and the new ones elsewhere."""
    rows = np.arange(len(new))
    changed = old.is_valid().to_numpy(zero_copy_only=False)
    return pa.concat_arrays([new, old]).take(pa.array(np.where(changed, rows + len(new), rows)))


def missing(name: str, code: str) -> Corrupt:
    """The error of a record without its rows."""
    return Corrupt(
        f"field '{name}' of a record of type '{code}' is missing: the source has to log rows, and not statements "
        "(MySQL: binlog_format=ROW, binlog_row_image=FULL)"
    )


def codes_of(types: pa.Array, known: Mapping[str, int]) -> np.ndarray | None:
    """The codes of ``Changes.op`` for the types of records; None if one is unknown."""
    indices = pc.index_in(types, value_set=pa.array(list(known)))
    return (
        None if indices.null_count else np.array(list(known.values()), np.int8)[indices.to_numpy(zero_copy_only=False)]
    )


def code_of(record: Mapping[str, Any], known: Mapping[str, int]) -> int:
    """The code of ``Changes.op`` for the type of a parsed record. Raises Corrupt."""
    named = record.get("type")
    if isinstance(named, str) and named.upper() == "TRUNCATE":
        raise Corrupt(
            "field 'type' is 'TRUNCATE': the source table was truncated, which changes no single row. Delete the rows "
            "of this table, and continue after the record"
        )
    if not isinstance(named, str) or named not in known:
        raise Corrupt(f"field 'type' is {named!r}: a change has one of {', '.join(known)}")
    return known[named]


def change_of(code: int, row: Image, old: Image) -> Change:
    """The change of a row, with the former values of an update in ``old`` (None: unknown)."""
    if code == DELETED:
        return Change(code, row, None)
    if code == UPDATED and old is not None:
        if not isinstance(old, dict) or not isinstance(row, dict):
            raise Corrupt(f"field 'old' is {old!r}, not an object with the former values of a row")
        return Change(code, {**row, **old}, row)
    return Change(code, None, row)
