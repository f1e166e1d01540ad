"""Allowed changes of the options of an existing table, and the options that name columns (format sheet 3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lakelog.errors import InvalidOption
from lakelog.options.file_index import BLOOM_COLUMNS, BLOOM_PREFIX
from lakelog.options.option import Options
from lakelog.options.table import (
    BUCKET,
    BUCKET_KEY,
    DELETION_VECTORS,
    DELETION_VECTORS_MODIFIABLE,
    IGNORE_DELETE,
    PARTITION,
    PRIMARY_KEY,
    QUERY_AUTH,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    TABLE_OPTIONS,
)
from lakelog.paimon.schema.schema import TableSchema

IMMUTABLE: Final = frozenset(
    {
        *(o.key for o in TABLE_OPTIONS.options if o.immutable),
        # of the format, not declared here because lakelog writes no table that has them
        "type",
        "data-file.path-directory",
        "sequence.snapshot-ordering",
        "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "primary-key.nullable",
        "dynamic-bucket.initial-buckets",
        "force-lookup",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "index-file-in-data-file-dir",
        "blob-field",
        "blob-descriptor-field",
        "blob-view-field",
        "pk-clustering-override",
    }
)
"""Options that cannot change after the first snapshot, because the written files depend on them."""

_NEVER: Final = ("type", PRIMARY_KEY.key, PARTITION.key, QUERY_AUTH)
"""Options that cannot change even before the first snapshot."""

_ONE_WAY: Final = (IGNORE_DELETE.key, "ignore-update-before")
"""Flags that cannot go from true to false: rows were dropped that a reader would miss."""

_COLUMN_LISTS: Final = (
    BUCKET_KEY.key, SEQUENCE_FIELD.key, ROWKIND_FIELD.key, BLOOM_COLUMNS, "record-level.time-field",
    "watermark.column", "clustering.columns",
)  # fmt: skip
"""Options whose value is a column, or several with commas."""

_FIELDS: Final = "fields."
_SEQUENCE_GROUP: Final = ".sequence-group"
_NESTED_KEY: Final = "nested-key"


def check_option_change(schema: TableSchema, key: str, value: str | None, has_snapshots: bool) -> None:
    """Refuses a change of an option (None: its removal) that a table does not allow.

    Raises InvalidOption that names key and value and says what to do instead.
    """
    old = schema.options.get(key)
    if value == old:
        return
    refusal = f"option '{key}' cannot be " + ("reset" if value is None else f"set to '{value}'")
    if key in _NEVER:
        raise InvalidOption(f"{refusal}: it is fixed when a table is created; create a new table and copy the rows")
    if not has_snapshots:
        return
    if key in IMMUTABLE:
        raise InvalidOption(
            f"{refusal}: files of the table depend on it (it is {_shown(old)}); create a new table and copy the rows"
        )
    if key == BUCKET.key:
        _check_bucket(schema, value, refusal)
    if key == DELETION_VECTORS.key:
        _check_deletion_vectors(schema, value, refusal)
    if key in _ONE_WAY and (old or "false").lower() == "true" and (value or "false").lower() != "true":
        raise InvalidOption(f"{refusal}: rows were dropped while it was true; create a new table for all rows")


def is_same_key_option(schema: TableSchema, key: str, value: str) -> bool:
    """True if setting ``primary-key`` or ``partition`` only repeats the keys that the table has."""
    keys = {PRIMARY_KEY.key: schema.primary_keys, PARTITION.key: schema.partition_keys}.get(key)
    return keys is not None and tuple(part.strip() for part in value.split(",")) == keys


def _check_bucket(schema: TableSchema, value: str | None, refusal: str) -> None:
    if value is None:
        raise InvalidOption(f"{refusal}: set it to a number of buckets instead")
    if schema.num_buckets < 1 or BUCKET.parse(value) < 1:
        raise InvalidOption(
            f"{refusal}: it is {schema.num_buckets}, and only a fixed number can change to another fixed number. "
            "Then run INSERT OVERWRITE on each partition to move its rows"
        )


def _check_deletion_vectors(schema: TableSchema, value: str | None, refusal: str) -> None:
    options = Options(schema.options)
    same = options.need(DELETION_VECTORS) == (value is not None and DELETION_VECTORS.parse(value))
    if not same and not options.need(DELETION_VECTORS_MODIFIABLE):
        raise InvalidOption(
            f"{refusal}: readers would see uncompacted rows twice; compact the table fully, then set "
            f"'{DELETION_VECTORS_MODIFIABLE.key}' = 'true' first"
        )


def _shown(value: str | None) -> str:
    return "not set" if value is None else f"'{value}'"


def options_naming(options: Mapping[str, str], column: str) -> Iterator[str]:
    """The keys of the options that name a column, in their key or in their value."""
    for key, value in options.items():
        if (_is_column_list(key) and column in _names(value)) or column in _columns_in_key(key, column):
            yield key


def renamed_in_options(options: Mapping[str, str], path: tuple[str, ...], new_name: str) -> dict[str, str]:
    """The options of a table whose column at ``path`` gets another name, with its old name replaced."""
    column = path[0]
    if len(path) > 1:
        nested_key = f"{_FIELDS}{column}.{_NESTED_KEY}"
        return {k: _renamed(v, path[-1], new_name) if k == nested_key else v for k, v in options.items()}
    out: dict[str, str] = {}
    for key, value in options.items():
        columns = _columns_in_key(key, column)
        listed = _is_column_list(key)
        if column in columns:
            prefix = BLOOM_PREFIX if key.startswith(BLOOM_PREFIX) else _FIELDS
            rest = key[len(prefix) + len(",".join(columns)) :]
            key = f"{prefix}{','.join(new_name if c == column else c for c in columns)}{rest}"
        out[key] = _renamed(value, column, new_name) if listed else value
    return out


def options_as_of(now: TableSchema, then: TableSchema) -> dict[str, str]:
    """The options of a schema for reads with an older one: the columns that they name are those of the older schema.

    Called for time travel. A column has its former name. If an option names a column that was added or dropped in
    between, the value of the older schema counts.
    """
    names = {f.id: f.name for f in now.fields}
    former = {f.id: f.name for f in then.fields}
    options = dict(now.options)
    for field_id in names.keys() - former.keys():
        for key in list(options_naming(options, names[field_id])):
            options.pop(key)
            if key in then.options:
                options[key] = then.options[key]
    renamed = [field_id for field_id in names.keys() & former.keys() if names[field_id] != former[field_id]]
    # all away first: a column may have the former name of another
    for field_id in renamed:
        options = renamed_in_options(options, (names[field_id],), f"\0{field_id}")
    for field_id in renamed:
        options = renamed_in_options(options, (f"\0{field_id}",), former[field_id])
    for field_id in former.keys() - names.keys():
        options |= {key: then.options[key] for key in options_naming(then.options, former[field_id])}
    return options


def _is_column_list(key: str) -> bool:
    return key in _COLUMN_LISTS or (key.startswith(_FIELDS) and key.endswith(_SEQUENCE_GROUP))


def _columns_in_key(key: str, column: str) -> list[str]:
    """The columns in a key such as ``fields.a.aggregate-function`` or ``fields.a,b.sequence-group``.

    Or in one such as ``file-index.bloom-filter.a.items``.
    """
    if key.startswith(BLOOM_PREFIX):
        return [column] if key.removeprefix(BLOOM_PREFIX).startswith(f"{column}.") else []
    if not key.startswith(_FIELDS):
        return []
    inner = key.removeprefix(_FIELDS)
    if inner.startswith(f"{column}."):
        return [column]
    return inner.removesuffix(_SEQUENCE_GROUP).split(",") if inner.endswith(_SEQUENCE_GROUP) else []


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _renamed(text: str, column: str, new_name: str) -> str:
    names = _names(text)
    return ",".join(new_name if n == column else n for n in names) if column in names else text
