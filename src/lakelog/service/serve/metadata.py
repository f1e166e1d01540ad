"""The answers of Flight SQL's calls for metadata: catalogs, databases, tables, their columns and keys, this server.

Their schemas are those of ``FlightSql.proto``. A database of lakelog is a ``db_schema`` there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import Any, Final

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.errors import LakelogError, NotFound
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.sql.parse import Session

_TEXT: Final = pa.string()
_TABLE: Final = "TABLE"
_CATALOGS: Final = pa.schema([pa.field("catalog_name", _TEXT, False)])
_DATABASES: Final = pa.schema([pa.field("catalog_name", _TEXT), pa.field("db_schema_name", _TEXT, False)])
_TABLES: Final = pa.schema(
    [*_DATABASES.set(1, pa.field("db_schema_name", _TEXT)), pa.field("table_name", _TEXT, False)]
    + [pa.field("table_type", _TEXT, False)]
)
_TABLE_SCHEMA: Final = pa.field("table_schema", pa.binary(), False)
_TYPES: Final = pa.schema([pa.field("table_type", _TEXT, False)])
_KEYS: Final = pa.schema(
    [
        pa.field("catalog_name", _TEXT),
        pa.field("db_schema_name", _TEXT),
        pa.field("table_name", _TEXT, False),
        pa.field("column_name", _TEXT, False),
        pa.field("key_sequence", pa.int32(), False),
        pa.field("key_name", _TEXT),
    ]
)
_VALUES: Final = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
_INFO: Final = pa.schema([pa.field("info_name", pa.uint32(), False), pa.field("value", _VALUES, False)])
_KNOWN: Final[Mapping[int, Any]] = {
    0: "lakelog",
    1: version("lakelog"),
    2: pa.__version__,
    3: False,  # read-only
    4: True,  # SQL
    5: False,  # Substrait
    8: 0,  # transactions: none
    9: False,  # cancel
    10: True,  # bulk ingest
    11: False,  # transactions of an ingest
}
"""Codes of ``SqlInfo`` → their values here."""

_GLOB: Final = str.maketrans({"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"})
"""Signs of LIKE as those of ``fnmatch``, whose patterns take no time that grows with the number of ``%``."""


@dataclass(frozen=True)
class Answer:
    """The answer to a command: its schema, which may depend on the command, and its rows for a session."""

    schema: Callable[[Any], pa.Schema]
    rows: Callable[[Session, Any], Iterable[tuple[Any, ...]]]

    def table(self, session: Session, command: Any) -> pa.Table:
        """The rows as Arrow. Raises NotFound for a catalog or a table that is not there."""
        schema, rows = self.schema(command), list(self.rows(session, command))
        columns = [_column([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
        return pa.Table.from_arrays(columns, schema=schema)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind != _VALUES:
        return pa.array(values, kind)
    kinds = [{str: 0, bool: 1, int: 3}[type(value)] for value in values]
    children = [
        pa.array([value for value, kind in zip(values, kinds, strict=True) if kind == at], _VALUES.field(at).type)
        for at in range(_VALUES.num_fields)
    ]
    offsets = [kinds[:at].count(kind) for at, kind in enumerate(kinds)]
    names = [field.name for field in _VALUES]
    return pa.UnionArray.from_dense(pa.array(kinds, pa.int8()), pa.array(offsets, pa.int32()), children, names)


def _tables(session: Session, command: Any) -> Iterator[tuple[Any, ...]]:
    matches = _matcher(command, "table_name_filter_pattern")
    if command.table_types and _TABLE not in command.table_types:
        return
    for catalog, database in _databases(session, command):
        there = session.catalogs.need(catalog)
        for name in sorted(filter(matches, session.tables.list_tables(database, there))):
            row = (catalog, database, name, _TABLE)
            if not command.include_schema:
                yield row
            elif (columns := _columns(session, Identifier(database, name, there))) is not None:
                yield (*row, columns.serialize().to_pybytes())


def _primary_keys(session: Session, command: Any) -> Iterator[tuple[Any, ...]]:
    catalog = command.catalog or session.catalogs.first
    database = command.db_schema or session.database
    schema = session.tables.load_schema(Identifier(database, command.table, session.catalogs.need(catalog)))
    if schema is None:
        raise NotFound(f"table '{database}.{command.table}' does not exist in catalog '{catalog}'")
    for at, name in enumerate(schema.primary_keys, 1):
        yield catalog, database, command.table, name, at, None


def _databases(session: Session, command: Any) -> Iterator[tuple[str, str]]:
    matches = _matcher(command, "db_schema_filter_pattern")
    for catalog in session.catalogs.all():
        if not command.HasField("catalog") or command.catalog == catalog:
            there = session.catalogs.need(catalog)
            yield from ((catalog, name) for name in sorted(filter(matches, session.tables.list_databases(there))))


def _matcher(command: Any, field: str) -> Callable[[str], bool]:
    """A pattern of LIKE; without one all names match."""
    pattern = getattr(command, field).translate(_GLOB) if command.HasField(field) else "*"
    return lambda name: fnmatchcase(name, pattern)


def _columns(session: Session, identifier: Identifier) -> pa.Schema | None:
    try:
        schema = session.tables.load_schema(identifier)
    except LakelogError:
        return None
    return None if schema is None else arrow_schema(schema.fields)


METADATA: Final[Mapping[str, Answer]] = {
    "CommandGetCatalogs": Answer(lambda c: _CATALOGS, lambda session, c: ((name,) for name in session.catalogs.all())),
    "CommandGetDbSchemas": Answer(lambda c: _DATABASES, _databases),
    "CommandGetPrimaryKeys": Answer(lambda c: _KEYS, _primary_keys),
    "CommandGetSqlInfo": Answer(
        lambda c: _INFO, lambda s, c: ((code, _KNOWN[code]) for code in c.info or _KNOWN if code in _KNOWN)
    ),
    "CommandGetTableTypes": Answer(lambda c: _TYPES, lambda s, c: [(_TABLE,)]),
    "CommandGetTables": Answer(lambda c: _TABLES.append(_TABLE_SCHEMA) if c.include_schema else _TABLES, _tables),
}
"""A command → its answer."""
