"""The table that has the rows of one source table: created, altered and written with its position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import AlreadyExists, InvalidRequest, InvalidSchema, UnsupportedFeature
from lakelog.io.metrics import METER
from lakelog.lake import Lake, Table
from lakelog.options.log import COMMIT_INTERVAL, EMIT_MODE
from lakelog.options.metrics import ROWS_INGESTED
from lakelog.options.table import MISSING_AS_NULL
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import with_kind
from lakelog.paimon.schema.changes import AddColumn, ChangeType, SchemaChange
from lakelog.paimon.types.arrow import arrow_type, type_from_arrow
from lakelog.service.ingest.column_types import arrow_type_of, widens
from lakelog.service.ingest.pgoutput import UNCHANGED, Delete, Insert, Relation, Truncate, Update
from lakelog.service.ingest.position import COPY, ConfirmedPosition, Position
from lakelog.service.ingest.rows import Key, MissingValue, RowBuffer
from lakelog.service.ingest.source import Source, SourceIdentity, SourceTable
from lakelog.table.health.stats import IngestStats
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.waiting_epochs import is_undone, waiting_position
from lakelog.table.write.positioned_writer import PositionedWriter

_KEYS_AT_ONCE: Final = 500

Change = Insert | Update | Delete | Truncate


class CopyAgain(Exception):
    """A table cannot follow its source by changes alone, so its rows are to be copied again. It is marked for that."""


class Target:
    """One table and its source; not for several threads. ``writer`` names the writer of all its positions.

    ``stays`` is called again and again during work that may take minutes, so that the server keeps the connection.
    """

    def __init__(
        self, lake: Lake, source: SourceTable, name: str, writer: str, stays: Callable[[], None] = lambda: None
    ) -> None:
        self.source, self.name = source, name
        self._stays = stays
        self._lake, self._writer_name = lake, writer
        self._open(lake.table(name))
        self._relation: Relation | None = None
        self._is_renewed = False
        self._buffer: RowBuffer | None = None
        self._transaction = self._number = 0
        self._is_dirty = False
        self._parsed: tuple[str, Position | None] = "", None
        self._identity = SourceIdentity.parse(self._writer.position.partition(" ")[2])
        self.committed = 0

    @staticmethod
    def check(lake: Lake, source: SourceTable, name: str, writer: str, copies_again: bool) -> bool:
        """True if the table has a position.

        Raises AlreadyExists for a table of another use, InvalidRequest for one that cannot follow or was rolled back.
        """
        if not lake.table_exists(name):
            return False
        table = lake.table(name)
        if table.primary_keys != source.keys:
            raise InvalidRequest(
                f"table {name} has the primary key ({', '.join(table.primary_keys)}), and {source.full_name} has "
                f"({', '.join(source.keys)}): drop the table, or ingest into another database"
            )
        if not copies_again and is_undone(table.logical, writer):
            raise _undone(name, source)
        is_known = bool(waiting_position(table.logical, writer))
        if not is_known and not copies_again and (table.latest_snapshot() is not None or table.scan().count()):
            raise AlreadyExists(
                f"table {name} has rows or had some, and not from this slot: drop it, ingest into another database, or "
                "replace its rows with --copy-again"
            )
        if source.keys and _needs_whole_changes(table) and not source.is_full:
            raise InvalidRequest(
                f"the log of table {name} needs the former row of each change ('log.changelog-mode' = 'all'), and "
                f"PostgreSQL does not send it: run ALTER TABLE {source.full_name} REPLICA IDENTITY FULL"
            )
        return is_known

    @staticmethod
    def create(lake: Lake, source: SourceTable, name: str, options: Mapping[str, str]) -> None:
        """Creates the table if it is missing."""
        schema = pa.schema([pa.field(column, kind) for column, kind in source.columns])
        lake.create_table(name, schema, primary_key=source.keys, options=options, if_not_exists=True)

    @staticmethod
    def known_up_to(lake: Lake, name: str, writer: str) -> tuple[int, bool]:
        """The LSN up to which the table has all changes, 0 if it will be copied; and whether that was noted, too."""
        table = lake.table(name).logical
        position = Position.parse(waiting_position(table, writer))
        if position is None:
            return 0, False
        noted = ConfirmedPosition(table.io, table.path).read(writer)
        return max(noted, position.lsn), noted > 0

    @property
    def position(self) -> Position | None:
        """What the table has, None if it has to be copied."""
        if self._parsed[0] != self._writer.position:
            self._parsed = self._writer.position, Position.parse(self._writer.position)
        return self._parsed[1]

    @property
    def is_of_another_table(self) -> bool:
        """True if the rows are those of a dropped or renamed table, whose name another one has now."""
        return self._identity is not None and self._identity.id != self.source.id

    def reopen(self) -> None:
        """Reads the position again, because another process may have copied the table."""
        self.close()
        self._open(self._lake.table(self.name))
        self._identity = SourceIdentity.parse(self._writer.position.partition(" ")[2])

    def renew(self) -> None:
        """Notes that the source may have been altered: the next change compares its columns."""
        self._is_renewed = True

    def check_undone(self) -> None:
        """Raises InvalidRequest if the table was rolled back since its last commit."""
        if is_undone(self._table.logical, self._writer_name):
            raise _undone(self.name, self.source)

    def confirm(self, lsn: int) -> None:
        """Notes that the server may forget the changes up to an LSN. Raises Unavailable."""
        ConfirmedPosition(self._table.logical.io, self._table.logical.path).write(self._writer_name, lsn)

    @property
    def is_dirty(self) -> bool:
        """True if changes wait for a commit."""
        return self._is_dirty

    @property
    def is_heavy(self) -> bool:
        """True if the open epoch should end soon."""
        return self._buffer is not None and self._buffer.is_heavy

    def mark(self) -> None:
        """Marks the table for a new copy."""
        self.close()
        self._open(self._lake.table(self.name))
        self._writer.commit(COPY)

    def copy(self, batches: Any, lsn: int) -> Any:
        """Replaces all rows with those of a snapshot, in one commit with its LSN; yields the number of rows so far."""
        self._follow_columns(dict(self.source.columns), frozenset())
        self._delete_all()
        rows = 0
        for batch in batches:
            self._writer.write(batch)
            rows += batch.num_rows
            yield rows
        self._identity = self.source.identity
        self._writer.commit(self._text(Position(lsn)))
        METER.add(ROWS_INGESTED, rows, table=self.name)

    def apply(self, relation: Relation, change: Change, final_lsn: int, source: Source) -> int:
        """Takes a change; returns its number of rows, 0 for one that the table has already. Raises CopyAgain."""
        if self._transaction != final_lsn:
            self._transaction, self._number = final_lsn, 0
        number, self._number = self._number, self._number + 1
        position = self.position
        assert position is not None
        if position.has(final_lsn, number):
            return 0
        if self._is_renewed or relation != self._relation:
            self._adopt(relation, Position(final_lsn, number), source)
        assert self._buffer is not None
        if isinstance(change, Truncate):
            self._flush()
            self.commit(Position(final_lsn, number))
            self._delete_all()
            self._is_dirty = True
            return 1
        self._add(self._buffer, change)
        self._is_dirty = True
        if self._buffer.is_full:
            self._flush()
            if self._buffer.is_heavy:
                self.commit(Position(final_lsn, number + 1))
        return 1

    def commit(self, position: Position) -> int:
        """Commits the changes so far, and the position after them; returns the number of rows. Raises CopyAgain."""
        if not self._is_dirty:
            return 0
        self.check_undone()
        self._flush()
        rows = self._writer.commit(self._text(position))
        METER.add(ROWS_INGESTED, rows, table=self.name)
        self.committed += rows
        self._is_dirty = False
        if self._buffer is not None:
            self._buffer.forget()
        return rows

    def report(self, stats: IngestStats) -> None:
        """Stores what ``Table.health()`` says of the ingest. Raises Unavailable."""
        position = "" if self.position is None else str(self.position)
        report = replace(stats, source=self.source.full_name, position=position)
        report.write(self.logical.io, self.logical.path)

    @property
    def logical(self) -> DynamicTable:
        """The table as the lower layers use it."""
        return self._table.logical

    @property
    def epoch(self) -> int:
        """The number of the next epoch, which grows with each commit."""
        return self._writer.epoch

    @property
    def snapshot_interval_s(self) -> float:
        """Time between two snapshots of the table, in seconds."""
        return float(self._table.logical.options.need(COMMIT_INTERVAL).total_seconds())

    def seal(self) -> None:
        """Makes a snapshot of what is committed."""
        self._writer.seal()

    def sealed(self) -> Snapshot | None:
        """A snapshot of exactly what is committed, None if there is none; see ``PositionedWriter.sealed``."""
        return self._writer.sealed()

    def close(self) -> None:
        """Discards what is not committed."""
        self._writer.close()

    def _text(self, position: Position) -> str:
        return f"{position} {self._identity}" if self._identity is not None else str(position)

    def _open(self, table: Table) -> None:
        self._table = table
        self._writer = PositionedWriter(table.logical.with_hints(MISSING_AS_NULL), self._writer_name, may_reject=True)

    def _add(self, buffer: RowBuffer, change: Insert | Update | Delete) -> None:
        if isinstance(change, Insert):
            buffer.add("+I", change.new)
            return
        if not self.source.keys:  # rows without a key cannot be retracted
            self.mark()
            raise CopyAgain
        if isinstance(change, Delete):
            buffer.add("-D", change.old)
            return
        old, new = change.old, change.new
        if old is None:
            buffer.add("+U", new)
            return
        new = [
            before if value is UNCHANGED and before is not None else value
            for value, before in zip(new, old, strict=True)
        ]
        if any(old[place] != new[place] for place in self._key_places):
            buffer.add("-D", old)
            buffer.add("+I", new, before=old)
            return
        if _needs_whole_changes(self._table):
            buffer.add("-U", old)
        buffer.add("+U", new)

    def _flush(self) -> None:
        """Writes the buffered rows to the open epoch."""
        if self._buffer is None:
            return
        try:
            batch = self._buffer.take(self._find)
        except MissingValue:
            self.mark()
            raise CopyAgain from None
        if batch is not None:
            self._writer.write(batch)

    def _adopt(self, relation: Relation, position: Position, source: Source) -> None:
        """Follows the columns of the source; commits what came before. Raises InvalidSchema, CopyAgain."""
        self._is_renewed = False
        now, marks = source.identity(relation.id)
        if now is None:
            now = self._identity
        if relation == self._relation and now == self._identity:
            return
        former = self._identity.columns if self._identity is not None else frozenset(marks.values())
        here = self._table.definition.field_names
        replaced = [name for name, mark in marks.items() if mark not in former and name in here]
        is_rewritten = now is not None and self._identity is not None and now.is_rewritten_since(self._identity)
        flagged = {column.name for column in relation.columns if column.is_key}
        if relation.identity != "f" and flagged != set(self.source.keys):
            raise InvalidSchema(
                f"the key of {self.source.full_name} is now ({', '.join(sorted(flagged))}), and that of table "
                f"{self.name} is ({', '.join(self.source.keys)}): drop the table, and ingest it again"
            )
        self.commit(position)
        columns = {c.name: arrow_type_of(c.type_id, c.modifier, source.type_info) for c in relation.columns}
        dropped = set(self._relation and [c.name for c in self._relation.columns] or self._table.schema.names) - set(
            columns
        )
        added, is_widened = self._follow_columns(columns, dropped)
        self._relation, self._identity = relation, now
        self._key_places = [list(columns).index(name) for name in self.source.keys]
        keeps = bool(self.source.keys) and relation.identity != "f"
        self._buffer = RowBuffer(tuple(columns.items()), self._key_places, keeps)
        if (
            is_widened
            or is_rewritten
            or replaced
            or (added and (dropped or source.may_have_values(relation.id, added)))
        ):
            self.mark()
            raise CopyAgain

    def _follow_columns(self, columns: Mapping[str, pa.DataType], dropped: Any) -> tuple[list[str], bool]:
        """Adds new columns and widens others; returns the new ones, and whether any is wider now."""
        changes: list[SchemaChange] = []
        added = []
        for name, kind in columns.items():
            if name not in self._table.definition.field_names:
                added.append(name)
                changes.append(AddColumn((name,), type_from_arrow(kind)))
                continue
            here = arrow_type(self._table.definition.field(name).type)
            if here == kind or widens(kind, here):
                continue
            if not widens(here, kind):
                raise InvalidSchema(
                    f"column '{name}' of {self.source.full_name} is now {kind}, and values of table {self.name} are "
                    f"{here}, which that type does not include: drop the table, and ingest it again"
                )
            changes.append(ChangeType((name,), type_from_arrow(kind)))
        lacking = [name for name in self.source.keys if name not in columns]
        if lacking:
            raise InvalidSchema(
                f"{self.source.full_name} has no column '{lacking[0]}' of the key of table {self.name} any more"
            )
        if changes:
            try:
                self._table.alter(*changes)
            except UnsupportedFeature as why:
                raise InvalidSchema(f"table {self.name} cannot follow its source: {why}") from why
            self._open(self._lake.table(self.name))
        return added, len(changes) > len(added)

    def _delete_all(self) -> None:
        """Empties the table: by retractions in the open epoch, or at once if it has no key."""
        if not self.source.keys:
            if self._table.latest_snapshot() is not None or self._table.scan().count():
                self._table.seal()
                self._table.truncate(options={EMIT_MODE.key: "file"})  # a log of rows without a key keeps them
            return
        for batch in self._table.scan(columns=list(self.source.keys)).to_batches():
            self._writer.write(with_kind(batch, "-D"))
            self._stays()

    def _find(self, keys: Sequence[Key]) -> pa.Table:
        """The committed rows with these keys."""
        names, parts = self.source.keys, []
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            if len(names) == 1:
                condition: Any = [[(names[0], "in", [key[0] for key in some])]]
            else:
                condition = [[(name, "=", value) for name, value in zip(names, key, strict=True)] for key in some]
            parts.append(self._table.scan(filter=condition).to_arrow())
            self._stays()
        return pa.concat_tables(parts)


def _needs_whole_changes(table: Table) -> bool:
    """True if the log of a table with a key wants the former row of an update, too."""
    logical = table.logical
    return logical.emits_log and not logical.publishes and logical.changelog_mode == "all"


def _undone(name: str, source: SourceTable) -> InvalidRequest:
    return InvalidRequest(
        f"table {name} was rolled back after changes of {source.full_name} had been committed to it, and the server "
        "does not send them again: run the command with --copy-again, which replaces the rows of the tables"
    )
