"""The schema of a table, as its schema file holds it, and the rules for a new one (format sheet 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import orjson

from lakelog.errors import Corrupt, InvalidOption, InvalidSchema, UnsupportedFeature, did_you_mean
from lakelog.options.fields import split_names
from lakelog.options.names import column_fault, visible
from lakelog.paimon.types.checked_values import check_version, checked, metadata_json
from lakelog.paimon.types.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    is_ordered,
    nested_fields,
    parse_field,
    type_keyword,
)

SCHEMA_VERSION: Final = 3
DYNAMIC_BUCKET: Final = -1
"""``bucket`` of an append table without buckets, or of a keyed table whose buckets grow."""
POSTPONE_BUCKET: Final = -2
PADDED_KEYS: Final = "lakelog.padded-keys"
"""Option of a table that was made with CHAR columns of fixed length in its keys."""
_RESERVED: Final = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "_ROW_ID", "rowkind")
_RESERVED_HERE: Final = re.compile(r"_row_kind|_lakelog_.*", re.IGNORECASE)
"""Names of columns that lakelog adds to rows; Spark ignores their case."""
KEY_PREFIX: Final = "_KEY_"
KEY_ID_OFFSET: Final = 1073741823
SEQUENCE_NUMBER: Final = DataField(2147483646, "_SEQUENCE_NUMBER", AtomicType("BIGINT", False))
VALUE_KIND: Final = DataField(2147483645, "_VALUE_KIND", AtomicType("TINYINT", False))


@dataclass(frozen=True)
class TableSchema:
    """Columns, keys and options of a table at one schema id.

    ``highest_field_id`` counts the fields of nested rows too; ids are never used again.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    version: int = SCHEMA_VERSION

    def to_json(self) -> bytes:
        """The bytes of the schema file."""
        out: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [f.to_json() for f in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            out["comment"] = self.comment
        out["timeMillis"] = self.time_millis
        return orjson.dumps(out, option=orjson.OPT_INDENT_2)

    @staticmethod
    def from_json(data: bytes) -> TableSchema:
        """Reads a schema file. Raises Corrupt, or UnsupportedFeature for an unknown column type or a newer version."""
        try:
            values: dict[str, Any] = metadata_json(data)
            check_version(values.get("version"), SCHEMA_VERSION, "schema")
            return checked(
                TableSchema(
                    id=int(values["id"]),
                    fields=tuple(parse_field(f) for f in values["fields"]),
                    highest_field_id=int(values["highestFieldId"]),
                    partition_keys=_names(values.get("partitionKeys")),
                    primary_keys=_names(values.get("primaryKeys")),
                    options={key: _option_text(value) for key, value in (values.get("options") or {}).items()},
                    comment=values.get("comment"),
                    time_millis=int(values.get("timeMillis") or 0),
                    version=int(values.get("version") or 1),
                )
            )
        except UnsupportedFeature:
            raise
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as why:
            raise Corrupt(f"not a schema file: {why!r}") from None

    def field(self, name: str) -> DataField:
        """The column of this name. Raises InvalidSchema with the nearest name."""
        field = self._by_name.get(name)
        if field is None:
            raise InvalidSchema(_unknown("column", name, self.field_names))
        return field

    @cached_property
    def _by_name(self) -> dict[str, DataField]:
        return {f.name: f for f in self.fields}

    @cached_property
    def field_names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key columns that are not partition columns: the key inside a bucket."""
        return tuple(k for k in self.primary_keys if k not in self.partition_keys)

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns that decide the bucket: ``bucket-key``, else the trimmed primary key, else none (sheet 5.1)."""
        names = split_names(self.options.get("bucket-key"))
        return names or self.trimmed_primary_keys

    @cached_property
    def num_buckets(self) -> int:
        """Number of buckets; -1 dynamic or none, -2 postponed. Raises InvalidOption for text that is no number."""
        text = self.options.get("bucket")
        if text is None:
            return 1 if self.version <= 1 else DYNAMIC_BUCKET
        try:
            return int(text)
        except ValueError:
            raise InvalidOption(f"option 'bucket' = '{text}' is not a whole number") from None

    @property
    def padded_columns(self) -> dict[str, int]:
        """CHAR columns with padded values, and their lengths.

        Key, partition and bucket columns are padded in tables that lakelog made with ``PADDED_KEYS``. In others, they
        are as they were written, because equal rows would get two keys.
        """
        exact = set() if PADDED_KEYS in self.options else self._place_columns
        kinds = ((f.name, f.type) for f in self.fields if f.name not in exact)
        return {name: t.length for name, t in kinds if isinstance(t, AtomicType) and t.root == "CHAR" and t.length}

    @property
    def _place_columns(self) -> set[str]:
        """The columns whose values determine where a row is."""
        return {*self.primary_keys, *self.partition_keys, *self.bucket_keys}

    @property
    def with_padded_keys(self) -> TableSchema:
        """The schema of a new table, whose CHAR columns are padded, all of them."""
        roots = [t.root for f in self.fields if f.name in self._place_columns and isinstance(t := f.type, AtomicType)]
        return replace(self, options={**self.options, PADDED_KEYS: "true"}) if "CHAR" in roots else self

    @property
    def is_keyed(self) -> bool:
        """True if the table has a primary key."""
        return bool(self.primary_keys)

    @property
    def has_dynamic_buckets(self) -> bool:
        """True if an index determines the buckets, not the key alone."""
        return self.is_keyed and self.num_buckets == DYNAMIC_BUCKET

    def select(self, names: Sequence[str]) -> tuple[DataField, ...]:
        """The columns of these names, in this order. Raises InvalidSchema."""
        return tuple(self.field(name) for name in names)


def new_schema(
    fields: Sequence[tuple[str, DataType, str | None]],
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    time_millis: int = 0,
) -> TableSchema:
    """Schema 0 of a new table from (name, type, comment) of its columns.

    Called for CREATE TABLE. Moves the options ``primary-key`` and ``partition`` into the keys, forces key columns NOT
    NULL, numbers all columns first and the fields of nested rows after them. Without a primary key and ``bucket-key``,
    the whole row decides the bucket: ``bucket-key`` gets all columns that may be in it. Raises InvalidSchema (no or
    duplicate columns, unknown key columns, reserved names), InvalidOption (buckets that do not fit the keys),
    UnsupportedFeature (a primary key without the partition columns).
    """
    kept = dict(options or {})
    primary = _keys("primary-key", primary_keys, kept)
    partition = _keys("partition", partition_keys, kept)
    numbers = _Numbers(len(fields) - 1)
    columns = tuple(
        DataField(i, name, numbers.renumber(kind.with_nullable(kind.nullable and name not in primary)), text)
        for i, (name, kind, text) in enumerate(fields)
    )
    schema = TableSchema(0, columns, numbers.highest, partition, primary, kept, comment, time_millis)
    _check_cases(columns, "")
    if not schema.bucket_keys and schema.num_buckets > 0:
        schema = replace(schema, options={**kept, "bucket-key": ",".join(_whole_row(schema))})
    check_schema(schema)
    return schema


def _whole_row(schema: TableSchema) -> list[str]:
    """The columns that may be in ``bucket-key``: neither nested nor of the partition."""
    return [
        field.name
        for field in schema.fields
        if field.name not in schema.partition_keys
        and is_ordered(field.type)
        and split_names(field.name) == (field.name,)
    ]


def check_schema(schema: TableSchema) -> None:
    """Checks names, keys and buckets of a new or changed schema.

    Raises InvalidSchema, InvalidOption, UnsupportedFeature as ``new_schema`` says.
    """
    _check_names(schema.field_names)
    _check_keys(schema.field_names, schema.primary_keys, schema.partition_keys)
    for key in (*schema.primary_keys, *schema.partition_keys):
        _check_key_type(key, schema.field(key).type)
    _check_buckets(schema)


def renumbered(kind: DataType, highest: int) -> tuple[DataType, int]:
    """A type that is new in a table: the fields of its rows get ids above ``highest``; and the new highest id."""
    numbers = _Numbers(highest)
    return numbers.renumber(kind), numbers.highest


class _Numbers:
    """Gives ids to the fields of nested rows, from one counter per table."""

    def __init__(self, highest: int) -> None:
        self.highest = highest

    def renumber(self, kind: DataType) -> DataType:
        if next(nested_fields(kind), None) is None:
            return kind
        if isinstance(kind, RowType):
            return RowType(tuple(self._field(f) for f in kind.fields), kind.nullable)
        if isinstance(kind, MapType):
            return MapType(self.renumber(kind.key), self.renumber(kind.value), kind.nullable)
        if isinstance(kind, VectorType):
            return VectorType(self.renumber(kind.element), kind.length, kind.nullable)
        if isinstance(kind, MultisetType):
            return MultisetType(self.renumber(kind.element), kind.nullable)
        if isinstance(kind, ArrayType):
            return ArrayType(self.renumber(kind.element), kind.nullable)
        return kind

    def _field(self, part: DataField) -> DataField:
        self.highest += 1
        number = self.highest
        return DataField(number, part.name, self.renumber(part.type), part.description)


def _names(given: Any) -> tuple[str, ...]:
    if given is not None and not isinstance(given, list):
        raise TypeError(f"{given!r} is no list of columns")
    return tuple(given or ())


def _option_text(value: Any) -> Any:
    """The text of an option; numbers and flags are text for Paimon, too."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _keys(option: str, keys: Sequence[str], kept: dict[str, str]) -> tuple[str, ...]:
    text = kept.pop(option, None)
    if text is not None and keys:
        raise InvalidSchema(
            f"option '{option}' = '{text}' repeats the keys ({', '.join(keys)}): give only one of the two"
        )
    return tuple(keys) or split_names(text)


def _unknown(what: str, name: str, known: Sequence[str]) -> str:
    return f"unknown {what} '{name}'{did_you_mean(name, known, '.')} The table has: {', '.join(known)}"


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise InvalidSchema("a table needs at least one column")
    for name in names:
        if not name.strip():
            raise InvalidSchema("a column needs a name that is not blank")
        if fault := column_fault(name):
            raise InvalidSchema(f"'{visible(name)}' cannot be the name of a column: {fault}")
        if names.count(name) > 1:
            raise InvalidSchema(f"column '{name}' occurs twice: rename one of them")
        if name in _RESERVED or name.startswith("_KEY_"):
            raise InvalidSchema(f"column name '{name}' is reserved by the file format: choose another")
        if _RESERVED_HERE.fullmatch(name):
            raise InvalidSchema(f"column name '{name}' is reserved by lakelog: choose another")


def _check_cases(fields: Sequence[DataField], path: str) -> None:
    """Raises InvalidSchema for names of siblings that differ by case only: SQL, and rows by name, mean both by one."""
    seen: dict[str, str] = {}
    for column in fields:
        other = seen.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise InvalidSchema(
                f"columns '{path}{other}' and '{path}{column.name}' differ by case only: rename one of them"
            )
        for row in _outer_rows(column.type):
            _check_cases(row.fields, f"{path}{column.name}.")


def _outer_rows(kind: DataType) -> Sequence[RowType]:
    """The rows in a type that are in no other row."""
    if isinstance(kind, RowType):
        return (kind,)
    if isinstance(kind, ArrayType | MultisetType | VectorType):
        return _outer_rows(kind.element)
    return (*_outer_rows(kind.key), *_outer_rows(kind.value)) if isinstance(kind, MapType) else ()


def _check_keys(names: Sequence[str], primary: Sequence[str], partition: Sequence[str]) -> None:
    for what, keys in (("primary key column", primary), ("partition column", partition)):
        for key in keys:
            if key not in names:
                raise InvalidSchema(_unknown(what, key, names))
            if keys.count(key) > 1:
                raise InvalidSchema(f"{what} '{key}' occurs twice")
    if len(partition) == len(names):
        raise InvalidSchema("a table needs at least one column that is not a partition column")
    missing = [p for p in partition if primary and p not in primary]
    if missing:
        raise UnsupportedFeature(
            f"primary key ({', '.join(primary)}) does not contain partition column '{missing[0]}': add it to the key"
        )
    if primary and set(primary) == set(partition):
        raise InvalidSchema(
            f"primary key ({', '.join(primary)}) has partition columns only, so each partition would have only one "
            "row: add a column to the key"
        )


def _check_key_type(name: str, kind: DataType) -> None:
    if not is_ordered(kind):
        raise InvalidSchema(
            f"column '{name}' of type {type_keyword(kind)} cannot be a key: only atomic types can, except "
            "VARIANT and BLOB"
        )


def _check_buckets(schema: TableSchema) -> None:
    buckets, keys = schema.num_buckets, schema.bucket_keys
    if buckets == 0 or buckets < POSTPONE_BUCKET:
        raise InvalidOption(f"option 'bucket' = '{buckets}' must be at least 1, or -1 for no fixed buckets")
    text = schema.options.get("bucket-key")
    for key in keys:
        if key not in schema.field_names:
            raise InvalidOption(f"option 'bucket-key' = '{text}': {_unknown('column', key, schema.field_names)}")
        _check_key_type(key, schema.field(key).type)
    if schema.is_keyed and not set(keys) <= set(schema.trimmed_primary_keys):
        raise InvalidOption(
            f"option 'bucket-key' = '{text}' must name columns of the primary key that are not partition columns: "
            f"{', '.join(schema.trimmed_primary_keys)}"
        )
    if buckets > 0 and not keys:
        raise InvalidOption(
            f"option 'bucket' = '{buckets}' needs a column that decides the bucket, and this table has none that can: "
            f"add a column that is neither nested nor of the partition, or leave 'bucket' out"
        )
    if buckets == DYNAMIC_BUCKET and text is not None:
        raise InvalidOption(f"option 'bucket-key' = '{text}' needs 'bucket' with a number of buckets")


def key_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """``_KEY_<name>`` of each trimmed primary key column, NOT NULL, in key order."""
    return tuple(
        DataField(KEY_ID_OFFSET + f.id, KEY_PREFIX + f.name, f.type.with_nullable(False))
        for f in schema.select(schema.trimmed_primary_keys)
    )


def file_fields(schema: TableSchema, thin: bool = False) -> tuple[DataField, ...]:
    """The columns of a data file, in file order: key copies (not when ``thin``), sequence number, row kind, columns.

    A table without a primary key has its own columns only.
    """
    if not schema.is_keyed:
        return schema.fields
    return (*(() if thin else key_fields(schema)), SEQUENCE_NUMBER, VALUE_KIND, *schema.fields)
