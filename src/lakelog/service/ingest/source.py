"""What the source has: tables, publication and slot. All checks run before anything is made."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from psycopg import sql

from lakelog.errors import InvalidRequest, NotFound
from lakelog.io.clock import pause
from lakelog.options.names import visible
from lakelog.service.ingest.column_types import TypeInfo, arrow_type_of
from lakelog.service.ingest.connection import Connection, Server
from lakelog.service.ingest.position import parse_lsn

PLUGIN: Final = "pgoutput"
_OLDEST: Final = 100_000
_RELEASE_CHECKS: Final = 10
"""Number of checks of a slot in use, over about ten seconds."""
_TEXT: Final = 25
_VARCHAR: Final = 1043
_NO_IDENTITY: Final = (
    "table {0} has neither a primary key nor REPLICA IDENTITY FULL, so UPDATE and DELETE in the source would fail once "
    "it is published: run ALTER TABLE {0} REPLICA IDENTITY FULL, or add a primary key"
)


@dataclass(frozen=True)
class SourceIdentity:
    """Tells a table and its columns from others of the same names: the table's id, and a checksum of each column.

    The checksum has the number, name and type of the column. ``file`` is the number of the file with the rows, and
    ``altered`` a checksum of the transactions that altered the columns last; "" if they are unknown. The text is
    ``16384:1a2b3c,4d5e6f:16390/7a8b9c``.
    """

    id: int
    columns: frozenset[str]
    file: str = ""
    altered: str = ""

    @staticmethod
    def parse(text: str) -> SourceIdentity | None:
        """The identity of a text; None for ""."""
        table, _, rest = text.partition(":")
        columns, _, state = rest.partition(":")
        file, _, altered = state.partition("/")
        return SourceIdentity(int(table), frozenset(columns.split(",")), file, altered) if table else None

    def is_rewritten_since(self, former: SourceIdentity) -> bool:
        """True if ALTER TABLE may have changed values since then: a new file (as of VACUUM FULL), and other columns."""
        is_known = bool(former.file and self.file)
        return is_known and former.file != self.file and former.altered != self.altered

    def __str__(self) -> str:
        columns = f"{self.id}:{','.join(sorted(self.columns))}"
        return f"{columns}:{self.file}/{self.altered}" if self.file else columns


@dataclass(frozen=True)
class SourceTable:
    """A table of the source: its columns as Arrow types, and the columns that identify a row (none: no key)."""

    schema: str
    name: str
    id: int
    columns: tuple[tuple[str, pa.DataType], ...]
    keys: tuple[str, ...]
    rows: int
    is_full: bool
    identity: SourceIdentity

    @property
    def full_name(self) -> str:
        """``schema.name``."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class SlotState:
    """A replication slot: its confirmed LSN, the bytes of WAL that it holds back, and whether a reader is connected.

    ``wal_status`` is PostgreSQL's, "" before version 13.
    """

    confirmed: int
    held_bytes: int
    is_active: bool
    wal_status: str = ""


class Source:
    """The catalog of one database, over one connection."""

    def __init__(self, server: Server, connection: Connection) -> None:
        self._server, self._connection = server, connection
        self.type_info = lru_cache(maxsize=None)(self._type_info)

    def check_server(self) -> None:
        """Raises InvalidRequest for a server or a user that cannot replicate."""
        level, version, may = self._row(
            "SELECT current_setting('wal_level'), current_setting('server_version_num')::int, "
            "(SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user)"
        )
        if version < _OLDEST:
            raise InvalidRequest(f"PostgreSQL {self._server.name} is older than version 10, which has no pgoutput")
        if level != "logical":
            raise InvalidRequest(
                f"PostgreSQL {self._server.name} has wal_level = {level}: run ALTER SYSTEM SET wal_level = 'logical' "
                "and restart the server"
            )
        managed = "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname IN ('rds_replication', 'cloudsqlsuperuser'))"
        if not may and not self._row(managed)[0]:
            raise InvalidRequest(
                f"the user of PostgreSQL {self._server.name} may not replicate: run ALTER ROLE … REPLICATION"
            )

    def tables(self, names: Sequence[str]) -> list[SourceTable]:
        """The tables with these names (``schema.table``; ``public`` by default). Raises NotFound, InvalidRequest."""
        if not names:
            raise InvalidRequest("no table is chosen: name some, such as public.orders")
        tables = [self._table(*_parts(name)) for name in dict.fromkeys(names)]
        for name in {table.name for table in tables}:
            same = [table.full_name for table in tables if table.name == name]
            if len(same) > 1:
                raise InvalidRequest(f"{' and '.join(same)} would be the same table: ingest them into two databases")
        return tables

    def _table(self, schema: str, name: str) -> SourceTable:
        full = f"{visible(schema)}.{visible(name)}"
        rows = self._connection.execute(
            "SELECT c.oid::int8, c.relkind::text, c.relpersistence::text, c.relreplident::text, "
            "greatest(c.reltuples, 0)::int8, has_table_privilege(c.oid, 'SELECT') "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s",
            (schema, name),
        ).fetchall()
        if not rows or rows[0][1] not in "rp":
            raise NotFound(f"PostgreSQL {self._server.name} has no table {full}: name it as schema.table")
        oid, kind, persistence, identity, count, is_readable = rows[0]
        if kind == "p":
            raise InvalidRequest(f"table {full} is partitioned: name its partitions")
        if persistence != "p":
            raise InvalidRequest(
                f"table {full} is not logged, so it has no changes to follow: ALTER TABLE … SET LOGGED"
            )
        if not is_readable:
            raise InvalidRequest(f"the user of PostgreSQL {self._server.name} may not read {full}: run GRANT SELECT")
        keys = self._keys(oid, "i.indisreplident" if identity == "i" else "i.indisprimary")
        if identity == "n" or (identity in "di" and not keys):
            raise InvalidRequest(_NO_IDENTITY.format(full))
        known, _ = self.identity(oid)
        if known is None:
            raise NotFound(f"PostgreSQL {self._server.name} has no table {full} any more")
        return SourceTable(schema, name, oid, self.columns(oid), keys, count, identity == "f", known)

    def identity(self, oid: int) -> tuple[SourceIdentity | None, dict[str, str]]:
        """A table as of now, and the checksum of each column; None for a table that was dropped, or has no column."""
        attributes = self._attributes(oid)
        marks = {name: _checksum(name, n, *_stored_form(kind, modifier)) for name, n, kind, modifier, *_ in attributes}
        if not attributes:
            return None, marks
        altered = _checksum(*((n, transaction) for _, n, _, _, transaction, _ in attributes))
        return SourceIdentity(oid, frozenset(marks.values()), attributes[0][-1], altered), marks

    def columns(self, oid: int) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns that pgoutput sends: all but generated ones."""
        attributes = self._attributes(oid)
        return tuple(
            (name, arrow_type_of(type_id, modifier, self.type_info)) for name, _, type_id, modifier, *_ in attributes
        )

    def _attributes(self, oid: int) -> list[tuple[Any, ...]]:
        """Each column that is not generated, in their order: name, number, type, modifier, the transaction that has
        altered it last, and the number of the table's file.
        """
        return self._connection.execute(
            "SELECT attname, attnum, atttypid::int8, atttypmod, a.xmin::text, relfilenode::text "
            "FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
            (oid,),
        ).fetchall()

    def may_have_values(self, oid: int, columns: Sequence[str]) -> bool:
        """True if existing rows may have values of new columns, because these have or had a default."""
        return bool(
            self._row(
                "SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = %s AND attname = ANY(%s) "
                "AND NOT attisdropped AND (atthasdef OR atthasmissing OR attidentity <> '' OR attnotnull))",
                (oid, list(columns)),
            )[0]
        )

    def _keys(self, oid: int, which: str) -> tuple[str, ...]:
        rows = self._connection.execute(
            "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY k(attnum, n) "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
            f"WHERE i.indrelid = %s AND {which} AND k.n <= i.indnkeyatts ORDER BY k.n",
            (oid,),
        ).fetchall()
        return tuple(name for (name,) in rows)

    def _type_info(self, type_id: int) -> TypeInfo:
        rows = self._connection.execute(
            "SELECT typtype::text, typbasetype::int8, typtypmod, CASE WHEN typcategory = 'A' AND typlen = -1 "
            "AND typdelim = ',' THEN typelem::int8 ELSE 0 END FROM pg_type WHERE oid = %s",
            (type_id,),
        ).fetchall()
        return TypeInfo(*rows[0]) if rows else TypeInfo("b", 0, -1, 0)  # dropped since: its values are text

    def unpublished(self, name: str, tables: Sequence[SourceTable]) -> tuple[list[SourceTable], bool]:
        """The tables that a publication lacks, and whether it exists. Raises InvalidRequest for one that hides rows."""
        rows = self._connection.execute(
            "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate "
            "AND coalesce(to_jsonb(p)->>'pubviaroot', 'false') = 'false' AND NOT EXISTS (SELECT 1 "
            "FROM pg_publication_rel r WHERE r.prpubid = p.oid AND (to_jsonb(r)->>'prqual' IS NOT NULL "
            "OR to_jsonb(r)->>'prattrs' IS NOT NULL)) FROM pg_publication p WHERE pubname = %s",
            (name,),
        ).fetchall()
        if rows and not rows[0][0]:
            raise InvalidRequest(
                f"publication '{name}' does not publish all changes of its tables as they are (publish, WHERE, a list "
                "of columns, or publish_via_partition_root): name another one, or alter it"
            )
        lines = self._connection.execute(
            "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (name,)
        ).fetchall()
        missing = [t for t in tables if (t.schema, t.name) not in lines]
        for table in missing:
            owns = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s"
            if not self._row(owns, (table.id,))[0]:
                raise InvalidRequest(
                    f"the user of PostgreSQL {self._server.name} does not own {table.full_name}, and publication "
                    f"'{name}' lacks it: let its owner add it, and name the publication with --publication"
                )
        return missing, bool(rows)

    def publish(self, name: str, tables: Sequence[SourceTable], exists: bool) -> None:
        """Adds tables to a publication, which is created if it does not exist."""
        verb = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}" if exists else "CREATE PUBLICATION {} FOR TABLE {}")
        self._connection.execute(verb.format(sql.Identifier(name), _only(tables)))

    def slot(self, name: str) -> SlotState | None:
        """A slot that can be read; None without one. Raises InvalidRequest for one of another use, or a lost one."""
        rows = self._connection.execute(
            "SELECT plugin, database, current_database(), to_jsonb(s)->>'wal_status', active, "
            "confirmed_flush_lsn::text, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8 "
            "FROM pg_replication_slots s WHERE slot_name = %s",
            (name,),
        ).fetchall()
        if not rows:
            return None
        plugin, database, here, status, is_active, confirmed, held_bytes = rows[0]
        if plugin != PLUGIN or database != here:
            raise InvalidRequest(
                f"slot '{name}' of PostgreSQL {self._server.name} has another use (plugin {plugin}, database "
                f"{database}): name another one with --slot"
            )
        if status == "lost" or confirmed is None:
            raise InvalidRequest(
                f"slot '{name}' of PostgreSQL {self._server.name} is lost: the server has removed WAL that it needs "
                "(max_slot_wal_keep_size). Run the command with --drop-slot, then with --copy-again"
            )
        return SlotState(parse_lsn(confirmed), held_bytes or 0, is_active, status or "")

    def create_slot(self, name: str) -> None:
        """Creates the slot; it holds WAL back from now on."""
        self._connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (name, PLUGIN))

    def drop(self, slot: str, publication: str) -> bool:
        """Drops the slot and, if it is named, the publication; True if there was a slot.

        Raises InvalidRequest if a process uses it. The server releases that of an ended one some moments later.
        """
        for number in range(_RELEASE_CHECKS):
            rows = self._connection.execute(
                "SELECT active FROM pg_replication_slots WHERE slot_name = %s AND plugin = %s", (slot, PLUGIN)
            ).fetchall()
            if not rows or not rows[0][0]:
                break
            pause(number, 0.05, 2.0)
        else:
            raise InvalidRequest(f"slot '{slot}' is in use: stop the process that ingests from it")
        if rows:
            self._connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
        if publication:
            self._connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(publication)))
        return bool(rows)

    def end(self) -> int:
        """The LSN up to which the server has written its WAL."""
        return parse_lsn(self._row("SELECT pg_current_wal_flush_lsn()::text")[0])

    def _row(self, statement: str, values: Sequence[object] = ()) -> tuple[Any, ...]:
        row = self._connection.execute(statement, values or None).fetchone()
        assert row is not None
        return row


def _checksum(*values: object) -> str:
    return f"{zlib.crc32(repr(values).encode()) & 0xFFFFFF:06x}"


def _stored_form(kind: int, modifier: int) -> tuple[int, int]:
    """A type and its modifier; varchar of any length is text, so a longer one changes no row."""
    return (_TEXT, -1) if kind in (_TEXT, _VARCHAR) else (kind, modifier)


def _only(tables: Sequence[SourceTable]) -> sql.Composed:
    """The tables in a statement, without those that inherit from them."""
    return sql.SQL(", ").join(sql.SQL("ONLY {}").format(sql.Identifier(t.schema, t.name)) for t in tables)


def _parts(name: str) -> tuple[str, str]:
    schema, dot, table = name.strip().rpartition(".")
    if not table:
        raise InvalidRequest(f"'{visible(name)}' is not the name of a table: write schema.table")
    return (schema if dot else "public"), table
