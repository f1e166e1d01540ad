"""Schema evolution: changes of a table's schema as frozen values, and their application (format sheet 3.2). Pure."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import InvalidRequest, InvalidSchema, UnsupportedFeature
from lakelog.options.option import Options
from lakelog.options.table import (
    ADD_COLUMN_BEFORE_PARTITION,
    BUCKET,
    EXPLICIT_CASTING_DISABLED,
    FILE_FORMAT,
    NULL_TO_NOT_NULL_DISABLED,
)
from lakelog.paimon.schema.field_path import (
    PART_ID,
    Fields,
    Path,
    edit_field,
    edit_siblings,
    has_path,
    index_of,
    path_text,
)
from lakelog.paimon.schema.option_changes import (
    check_option_change,
    is_same_key_option,
    options_naming,
    renamed_in_options,
)
from lakelog.paimon.schema.schema import SCHEMA_VERSION, TableSchema, check_schema, renumbered
from lakelog.paimon.types.defaults import default_scalar
from lakelog.paimon.types.evolution import can_change_type, types_after
from lakelog.paimon.types.types import AtomicType, DataField, DataType, type_keyword


class SchemaChange(ABC):
    """One change. A column is named by its path: ``("a",)``, or ``("address", "city")`` for a part of a row."""

    @abstractmethod
    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        """The schema with the change, under the same id. Raises InvalidSchema, InvalidOption, UnsupportedFeature."""


class ColumnPosition(enum.Enum):
    """The kinds of column positions among the siblings."""

    FIRST = "FIRST"
    LAST = "LAST"
    BEFORE = "BEFORE"
    AFTER = "AFTER"


@dataclass(frozen=True)
class Position:
    """``FIRST``, ``LAST``, or ``BEFORE``/``AFTER`` the sibling named ``other``."""

    place: ColumnPosition
    other: str | None = None

    def index(self, siblings: Fields, path: Path) -> int:
        """The index of a new field among its siblings. Raises InvalidSchema for an unknown ``other``."""
        if self.place is ColumnPosition.FIRST:
            return 0
        if self.place is ColumnPosition.LAST or self.other is None:
            return len(siblings)
        return index_of(siblings, (*path[:-1], self.other)) + (self.place is ColumnPosition.AFTER)


FIRST: Final = Position(ColumnPosition.FIRST)
LAST: Final = Position(ColumnPosition.LAST)


def after(column: str) -> Position:
    """Directly after a column."""
    return Position(ColumnPosition.AFTER, column)


def before(column: str) -> Position:
    """Directly before a column."""
    return Position(ColumnPosition.BEFORE, column)


@dataclass(frozen=True)
class AddColumn(SchemaChange):
    """Adds a column, NULL in all existing rows, at the end, or before the partition columns by the table's options.

    It gets a new unique id, so a re-added name of a dropped column does not restore the old values.
    """

    path: Path
    type: DataType
    comment: str | None = None
    position: Position | None = None

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        if not self.type.nullable:
            raise InvalidSchema(
                f"column '{path_text(self.path)}' cannot be added as NOT NULL: existing rows have no value for it. "
                "Add it without NOT NULL"
            )
        new_id = schema.highest_field_id + 1
        kind, highest = renumbered(self.type, new_id)

        def add(siblings: Fields) -> Fields:
            _check_new_name(siblings, self.path)
            at = self._index(siblings, schema)
            return (*siblings[:at], DataField(new_id, self.path[-1], kind, self.comment), *siblings[at:])

        fields = edit_siblings(schema.fields, self.path, add)
        return replace(schema, fields=fields, highest_field_id=highest)

    def _index(self, siblings: Fields, schema: TableSchema) -> int:
        if self.position is not None:
            return self.position.index(siblings, self.path)
        if len(self.path) == 1 and Options(schema.options).need(ADD_COLUMN_BEFORE_PARTITION):
            partition_indexes = [i for i, f in enumerate(siblings) if f.name in schema.partition_keys]
            return min(partition_indexes, default=len(siblings))
        return len(siblings)


@dataclass(frozen=True)
class DropColumn(SchemaChange):
    """Drops a column, except a key column or the last one. Its values stay in old files and are never read again.

    ``if_exists`` ignores a missing column.
    """

    path: Path
    if_exists: bool = False

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        if self.if_exists and not has_path(schema.fields, self.path):
            return schema
        _refuse_keys(schema, self.path, "dropped", schema.partition_keys, "partition column")
        _refuse_keys(schema, self.path, "dropped", schema.primary_keys, "primary key column")
        index_of(schema.fields, self.path[:1])
        if len(self.path) == 1:
            _refuse_named_by_options(schema, self.path[0], "dropped")

        def drop(siblings: Fields) -> Fields:
            at = index_of(siblings, self.path)
            if len(siblings) == 1 and siblings[0].id != PART_ID:
                raise InvalidSchema(f"column '{path_text(self.path)}' cannot be dropped: it is the only one")
            return (*siblings[:at], *siblings[at + 1 :])

        return replace(schema, fields=edit_siblings(schema.fields, self.path, drop))


@dataclass(frozen=True)
class RenameColumn(SchemaChange):
    """Renames a column, which keeps its id and so its values. Options that name it are rewritten.

    A primary key column can be renamed. A partition column cannot, because file paths contain its name.
    """

    path: Path
    new_name: str

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        _refuse_keys(schema, self.path, "renamed", schema.partition_keys, "partition column")
        target = (*self.path[:-1], self.new_name)

        def rename(siblings: Fields) -> Fields:
            at = index_of(siblings, self.path)
            if siblings[at].type == AtomicType("BLOB", siblings[at].type.nullable):
                raise UnsupportedFeature(f"column '{path_text(self.path)}' cannot be renamed: it is a BLOB")
            others = siblings if self.new_name == siblings[at].name else (*siblings[:at], *siblings[at + 1 :])
            _check_new_name(others, target)
            return (*siblings[:at], replace(siblings[at], name=self.new_name), *siblings[at + 1 :])

        fields = edit_siblings(schema.fields, self.path, rename)
        keys = schema.primary_keys
        if len(self.path) == 1:
            keys = tuple(self.new_name if k == self.path[0] else k for k in keys)
        options = renamed_in_options(schema.options, self.path, self.new_name)
        return replace(schema, fields=fields, primary_keys=keys, options=options)


@dataclass(frozen=True)
class ChangeType(SchemaChange):
    """Changes a type; files keep their values, which reads cast.

    ``keep_nullable`` keeps the nullability regardless of ``type``. Not for key columns and columns of ``bucket-key``,
    whose values determine the location of a row.
    """

    path: Path
    type: DataType
    keep_nullable: bool = False

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        for keys, what in (
            (schema.partition_keys, "partition column"),
            (schema.primary_keys, "primary key column"),
            (schema.bucket_keys, "column of 'bucket-key'"),
        ):
            if len(self.path) == 1 and self.path[0] in keys:
                if schema.field(self.path[0]).type.with_nullable(True) == self.type.with_nullable(True):
                    return schema  # MODIFY repeats the type to change a comment or a position
                _refuse_keys(schema, self.path, "given another type", keys, what)
        explicit = not Options(schema.options).need(EXPLICIT_CASTING_DISABLED)

        def change(field: DataField) -> DataField:
            if not self.keep_nullable:
                _check_nullable(schema, self.path, field.type.nullable, self.type.nullable)
            if not can_change_type(field.type, self.type, explicit):
                raise InvalidSchema(self._refused(field.type, explicit))
            kind = self.type if field.type.with_nullable(True) != self.type.with_nullable(True) else field.type
            nullable = (field if self.keep_nullable else self).type.nullable
            return _with_checked_default(replace(field, type=kind.with_nullable(nullable)))

        return replace(schema, fields=edit_field(schema.fields, self.path, change))

    def _refused(self, old: DataType, explicit: bool) -> str:
        text = (
            f"column '{path_text(self.path)}' of type {type_keyword(old)} cannot become {type_keyword(self.type)}: "
            "existing files would be unreadable"
        )
        if not explicit and can_change_type(old, self.type, explicit=True):
            return (
                f"{text} where a value does not fit; set '{EXPLICIT_CASTING_DISABLED.key}' = 'false' to allow it, or "
                "add a new column of the other type"
            )
        possible = types_after(old, explicit)
        if not possible:
            return f"{text}; add a new column of the other type"
        return f"{text}; it can become {', '.join(possible)}; or add a new column of the other type"


@dataclass(frozen=True)
class ChangeNullability(SchemaChange):
    """Changes the nullability. Rejects NOT NULL unless ``alter-column-null-to-not-null.disabled`` is false."""

    path: Path
    nullable: bool

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        if self.nullable:
            _refuse_keys(schema, self.path, "made nullable", schema.primary_keys, "primary key column")

        def change(field: DataField) -> DataField:
            _check_nullable(schema, self.path, field.type.nullable, self.nullable)
            return replace(field, type=field.type.with_nullable(self.nullable))

        return replace(schema, fields=edit_field(schema.fields, self.path, change))


@dataclass(frozen=True)
class ChangeComment(SchemaChange):
    """Changes the comment of a column; None removes it."""

    path: Path
    comment: str | None

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        changed = edit_field(schema.fields, self.path, lambda f: replace(f, description=self.comment))
        return replace(schema, fields=changed)


@dataclass(frozen=True)
class ChangePosition(SchemaChange):
    """Changes the position among the siblings; files are read by id, so nothing else changes."""

    path: Path
    position: Position

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        def move(siblings: Fields) -> Fields:
            at = index_of(siblings, self.path)
            if self.position.other == self.path[-1]:
                raise InvalidSchema(f"column '{path_text(self.path)}' cannot be placed before or after itself")
            others = (*siblings[:at], *siblings[at + 1 :])
            to = self.position.index(others, self.path)
            return (*others[:to], siblings[at], *others[to:])

        return replace(schema, fields=edit_siblings(schema.fields, self.path, move))


@dataclass(frozen=True)
class ChangeDefault(SchemaChange):
    """Changes the default that writers use for missing values, as text; None removes it. Existing rows keep NULL."""

    path: Path
    value: str | None

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        def change(field: DataField) -> DataField:
            return _with_checked_default(replace(field, default_value=self.value))

        return replace(schema, fields=edit_field(schema.fields, self.path, change))


@dataclass(frozen=True)
class SetOption(SchemaChange):
    """Sets an option; the key is canonical."""

    key: str
    value: str

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        if is_same_key_option(schema, self.key, self.value):
            return schema
        check_option_change(schema, self.key, self.value, has_snapshots)
        return replace(schema, options={**schema.options, self.key: self.value})


@dataclass(frozen=True)
class RemoveOption(SchemaChange):
    """Removes an option, so that its default applies; ignores an option that is not set."""

    key: str

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        check_option_change(schema, self.key, None, has_snapshots)
        return replace(schema, options={k: v for k, v in schema.options.items() if k != self.key})


@dataclass(frozen=True)
class ChangeTableComment(SchemaChange):
    """Changes the comment of the table; None removes it."""

    comment: str | None

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        return replace(schema, comment=self.comment)


def apply_changes(
    schema: TableSchema, changes: Sequence[SchemaChange], has_snapshots: bool, time_millis: int
) -> TableSchema:
    """The successor of ``schema`` with all changes in order, as one new schema with the next id.

    Called for ALTER TABLE, and again after each conflict with another schema. ``has_snapshots`` makes options that
    files depend on immutable. Changes without effect return ``schema`` itself. Raises InvalidSchema, InvalidOption,
    UnsupportedFeature, without any change.
    """
    if not changes:
        raise InvalidRequest("no change given: name at least one")
    current = _as_newest_version(schema)
    for change in changes:
        current = change.apply(current, has_snapshots)
    check_schema(current)
    if current == _as_newest_version(schema):
        return schema
    return replace(current, id=schema.id + 1, time_millis=time_millis)


def _as_newest_version(schema: TableSchema) -> TableSchema:
    """The schema with explicit defaults of older versions: one bucket before version 2, ORC files before version 3."""
    options = dict(schema.options)
    if schema.version <= 1:
        options.setdefault(BUCKET.key, "1")
    if schema.version <= 2:
        options.setdefault(FILE_FORMAT.key, "orc")
    return replace(schema, options=options, version=SCHEMA_VERSION)


def _with_checked_default(field: DataField) -> DataField:
    """The field, if its default is a value of its type."""
    default_scalar(field)
    return field


def _check_new_name(siblings: Fields, path: Path) -> None:
    same = next((f.name for f in siblings if f.name.lower() == path[-1].lower()), None)
    if same is not None:
        as_what = "" if same == path[-1] else f" as '{same}', in another case"
        raise InvalidSchema(f"column '{path_text(path)}' exists{as_what}: choose another name")


def _refuse_keys(schema: TableSchema, path: Path, done: str, keys: Sequence[str], what: str) -> None:
    if len(path) == 1 and path[0] in keys:
        raise InvalidSchema(
            f"column '{path[0]}' cannot be {done}: it is a {what} ({', '.join(keys)}); create a new table and copy "
            "the rows"
        )


def _refuse_named_by_options(schema: TableSchema, column: str, done: str) -> None:
    for key in options_naming(schema.options, column):
        raise InvalidSchema(
            f"column '{column}' cannot be {done}: option '{key}' = '{schema.options[key]}' names it; "
            f"change or reset the option first"
        )


def _check_nullable(schema: TableSchema, path: Path, old: bool, new: bool) -> None:
    if old and not new and Options(schema.options).need(NULL_TO_NOT_NULL_DISABLED):
        raise InvalidSchema(
            f"column '{path_text(path)}' cannot become NOT NULL: existing rows may have NULL. If you know that none "
            f"does, set '{NULL_TO_NOT_NULL_DISABLED.key}' = 'false' first"
        )
