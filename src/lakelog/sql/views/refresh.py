"""Refreshes of a materialized view: brings its table from one position in its sources to the newest one.

The rows of a refresh and the position after it are one epoch of the view. So a refresh that dies leaves nothing, and
two processes that refresh one view cannot both commit the same step.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.catalog.base import Identifier
from lakelog.errors import CommitUnknown, Fenced, InvalidRequest, NotFound, Unavailable
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.options.metrics import VIEW_DURATION, VIEW_FAILURES, VIEW_ROWS
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import type_text
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.views.plan import ViewPlan, plan_view, spark_plan
from lakelog.sql.views.sources import Source, SourceReads
from lakelog.state.spark_functions import NeedsSpark
from lakelog.table.commit.seal import seal_staged
from lakelog.table.cuts.writer import CutTable, record_cut
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.published_links import fingerprint_of
from lakelog.table.model.waiting_epochs import waiting_position
from lakelog.table.read.file_scan import Scan
from lakelog.table.views.definition import ViewDefinition
from lakelog.table.views.local_rows import RowState
from lakelog.table.views.local_state import LocalState
from lakelog.table.views.local_sums import SumState
from lakelog.table.views.position import ViewPosition
from lakelog.table.views.report import ViewReport, ViewReporter
from lakelog.table.write.positioned_writer import PositionedWriter

_LOG: Final = logging.getLogger("lakelog.views")
_ATTEMPTS: Final = 5
_NOTE_S: Final = 10.0
"""Seconds after which the sources get a note of the position again."""


@dataclass(frozen=True)
class Refresh:
    """The result of a refresh: the number of changed rows, and whether all rows were computed again."""

    view: str
    rows: int
    is_whole: bool
    is_current: bool = False
    """True if the view had everything already."""


class ViewRefresher:
    """Refreshes one view again and again; keeps its local state. Not for several threads.

    ``root`` is the local directory of the state. ``reads`` are those that it shares with other views; their owner
    forgets them.
    """

    def __init__(
        self, session: SessionContext, identifier: Identifier, root: str, reads: SourceReads | None = None
    ) -> None:
        self._session, self._identifier, self._root = session, identifier, root
        self._reads, self._shares = reads or SourceReads(session), reads is not None
        self._plan: ViewPlan | None = None
        self._writer: PositionedWriter | None = None
        self._state: LocalState | None = None
        self._position = self._only_spark = ""
        self._at: Mapping[str, Source] = {}
        self._noted_s = float("-inf")
        self._view: DynamicTable | None = None
        self._reporter = ViewReporter()

    def refresh(self, rebuild: bool = False) -> Refresh:
        """Brings the view to the newest snapshots of its sources.

        With ``rebuild`` it computes all rows, whatever has become of the sources. Raises InvalidRequest for a source
        that is another table than before or has other columns, NotFound for one that was dropped, Fenced if other
        processes refresh the view all the time, and the errors of reads and writes.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._reported(rebuild)
            except Fenced:
                self._drop_writer()
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                self.close()
                raise
        raise AssertionError

    def end(self) -> None:
        """Makes a snapshot of the view's rows, records it with those of its sources, and removes the local state."""
        if self._writer is not None:
            self._keep_snapshots()
            self._writer.end()
        if self._view is not None:
            self._reporter.end(self._view)
        self.close()

    def _record_cut(self) -> None:
        """Records the snapshots of the view and its sources as a cut, so that readers can have both (RFC 24)."""
        assert self._writer is not None and self._view is not None
        view, pairs = self._view, [(source.table, source.newest) for source in self._at.values()]
        members = [CutTable(table, s) for table, s in [(view, self._writer.sealed()), *pairs] if s is not None]
        if len(members) == len(pairs) + 1:
            with contextlib.suppress(NotFound, CommitUnknown):  # the next cut has another number
                record_cut(ViewDefinition.need(view.schema, view.name).writer, members, self._writer.position)

    def close(self) -> None:
        """Removes the local state."""
        self._drop_writer()
        if self._state is not None:
            self._state.close()
        self._plan = self._state = None

    def _drop_writer(self) -> None:
        """Forgets the position of the view; the next refresh reads it again. The local state stays."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def _reported(self, rebuild: bool) -> Refresh:
        """A refresh, which metrics and the report of the view know of."""
        begun, self._view = monotonic_s(), None
        try:
            done = self._refreshed(rebuild)
        except Fenced:
            raise
        except Exception as why:
            METER.add(VIEW_FAILURES, table=str(self._identifier), error=type(why).__name__)
            if self._view is not None:
                self._reporter.failed(self._view, why)
            raise
        assert self._view is not None
        seconds, by = monotonic_s() - begun, "Spark" if self._plan is not None and self._plan.needs_spark else "DuckDB"
        if not done.is_current:
            METER.add(VIEW_ROWS, done.rows, table=done.view)
            METER.observe(VIEW_DURATION, seconds, table=done.view)
        report = ViewReport(by, now_ms(), done.rows, round(seconds, 6), done.is_whole)
        self._reporter.refreshed(self._view, report, done.is_current)
        return done

    def _refreshed(self, rebuild: bool) -> Refresh:
        """One refresh; in Spark from the first value on that DuckDB does not compute as Spark does."""
        try:
            return self._computed(rebuild)
        except NeedsSpark as why:
            self.close()
            self._only_spark = str(why)
            return self._computed(rebuild)

    def _computed(self, rebuild: bool) -> Refresh:
        view = self._view = self._session.tables.open(self._identifier)
        definition = ViewDefinition.need(view.schema, view.name)
        if self._writer is not None and waiting_position(view, definition.writer) != self._writer.position:
            self._drop_writer()  # another process has refreshed the view
        if self._writer is None or not self._shares:
            self._reads.forget()  # the position may be beyond the snapshots that were read
        plan = self._plan or self._checked_plan(view, definition)
        sources = self._sources(view, plan)
        if plan.schema_ids != {name: source.table.schema.id for name, source in sources.items()}:
            self.close()
            plan = self._checked_plan(view, definition)
        self._plan = plan
        if self._writer is None:
            seal_staged(view)  # a process may have died after the commit of an epoch and before its seal
            self._writer = PositionedWriter(view, definition.writer)
        target = ViewPosition({name: source.position for name, source in sources.items()})
        position = None if rebuild else ViewPosition.parse(self._writer.position)
        if position is not None:
            _check_tables(view, position, sources)
        self._at = sources
        if position is not None and position.sources == target.sources:
            return Refresh(view.name, 0, False, is_current=True)
        before = None if position is None else _snapshots(position, sources)
        is_whole = before is None or bool(plan.needs_spark)
        state = self._filled(view, definition, plan, sources, before)
        with contextlib.ExitStack() as step:
            if plan.needs_spark:
                assert isinstance(state, RowState)
                batches = step.enter_context(state.computed(self._by_spark(definition, sources)))
            else:
                newest = {name: source.newest for name, source in sources.items()}
                changes = {} if before is None else self._changes(plan, sources, before, newest)
                batches = step.enter_context(state.changed(changes, is_whole))
            rows = self._write(view, batches)
            self._writer.commit(target.text)
        self._position = target.text
        if monotonic_s() > self._noted_s + _NOTE_S:  # until then the older note keeps these snapshots, too
            self._keep_snapshots()
        return Refresh(view.name, rows, is_whole)

    def _checked_plan(self, view: DynamicTable, definition: ViewDefinition) -> ViewPlan:
        """The plan for the newest schemas of the sources. Raises InvalidRequest if its columns are not the view's."""
        plan = plan_view(self._session, definition, self._only_spark)
        columns = [(f.name, type_text(f.type)) for f in view.schema.fields]
        planned = [(name, type_text(kind)) for name, kind in plan.columns]
        if columns != planned:
            other = next((column for column in planned if column not in columns), None)
            what = "other columns" if other is None else f"column '{other[0]}' of type {other[1]}"
            raise InvalidRequest(
                f"the query of view {view.name} now has {what}, because a source was altered: drop the view and "
                "create it again, or undo the change of the source"
            )
        return plan

    def _sources(self, view: DynamicTable, plan: ViewPlan) -> dict[str, Source]:
        """The sources with their newest rows in snapshots, by name."""
        out: dict[str, Source] = {}
        for source in plan.sources:
            try:
                out[source.name] = self._reads.newest(source.identifier)
            except NotFound as missing:
                raise NotFound(
                    f"source {source.name} of view {view.name} was dropped: create it again and run ALTER MATERIALIZED "
                    f"VIEW {view.name} REBUILD, or drop the view"
                ) from missing
        return out

    def _filled(
        self,
        view: DynamicTable,
        definition: ViewDefinition,
        plan: ViewPlan,
        sources: Mapping[str, Source],
        before: Mapping[str, Snapshot | None] | None,
    ) -> LocalState:
        """The local state at the position of the view; without ``before``, with the newest rows of the sources."""
        assert self._writer is not None
        if self._state is not None and before is not None and self._caught_up(plan, sources, before):
            return self._state
        if self._state is not None:
            self._state.close()
        schema = arrow_schema(view.schema.fields)
        kind = RowState if plan.local.by_changes is None else SumState
        self._state = kind(plan.local, schema, plan.source_schemas, self._root)
        at = {name: s.newest for name, s in sources.items()} if before is None else before
        filled = [] if plan.needs_spark else [
            _rows(sources[source.name].table, at[source.name], source.columns) for source in plan.local.sources
        ]  # fmt: skip
        needs_view = before is None or plan.local.by_changes is None
        with METER.step("read-sources", view=view.name):
            self._state.fill(filled, Scan(view.all_rows).to_batches() if needs_view else None)
        if waiting_position(view, definition.writer) != self._writer.position:
            raise Fenced(f"another process refreshes view {view.name}")
        self._position = self._writer.position
        return self._state

    def _caught_up(self, plan: ViewPlan, sources: Mapping[str, Source], before: Mapping[str, Snapshot | None]) -> bool:
        """Brings the local state to the position of the view, if another process has refreshed it; False if it cannot.

        The rows that the other process has written are those that the same changes make here.
        """
        assert self._writer is not None and self._state is not None
        if self._position == self._writer.position:
            return True
        position = None if plan.needs_spark else ViewPosition.parse(self._position)
        older = None if position is None else _snapshots(position, sources)
        if older is None:
            return False
        with self._state.changed(self._changes(plan, sources, older, before), everything=False) as batches:
            for _ in batches:
                pass
        self._position = self._writer.position
        return True

    def _changes(
        self,
        plan: ViewPlan,
        sources: Mapping[str, Source],
        before: Mapping[str, Snapshot | None],
        after: Mapping[str, Snapshot | None],
    ) -> dict[int, Iterator[pa.RecordBatch]]:
        """The changes of the sources that have any between two positions, by their number in the plan."""
        out: dict[int, Iterator[pa.RecordBatch]] = {}
        for at, local in enumerate(plan.local.sources):
            old, new = before[local.name], after[local.name]
            if fingerprint_of(old) != fingerprint_of(new):
                out[at] = self._reads.changes(sources[local.name].table, old, new, local.columns)
        return out

    def _by_spark(self, definition: ViewDefinition, sources: Mapping[str, Source]) -> Iterator[pa.RecordBatch]:
        ids = {name: 0 if source.newest is None else source.newest.id for name, source in sources.items()}
        assert self._plan is not None
        names = self._plan.local.columns
        for batch in self._session.engine.batches(spark_plan(self._session, definition, ids)):
            yield batch.rename_columns(list(names))
        for name, source in sources.items():
            if source.newest is None and source.table.store.latest_snapshot() is not None:
                raise Fenced(f"source {name} got its first rows while Spark read it without a snapshot")

    def _write(self, view: DynamicTable, batches: Iterator[pa.RecordBatch]) -> int:
        """Writes the changes of the view into the open epoch; returns the number of rows."""
        assert self._writer is not None
        keeps_old = view.emits_log and view.changelog_mode == "all"
        with METER.step("refresh", "rows", view=view.name) as step:
            for batch in batches:
                if not keeps_old:  # the new row of a key replaces the old one
                    batch = batch.filter(pc.not_equal(batch.column(ROW_KIND_COLUMN), "-U"))
                if batch.num_rows:
                    self._writer.write(batch)
                    step.advance(batch.num_rows)
        return step.done

    def _keep_snapshots(self) -> None:
        """Notes in the sources which snapshots the next refresh reads, so that expiry keeps them; records the cut."""
        assert self._writer is not None and self._view is not None
        position = ViewPosition.parse(self._writer.position)
        if position is None or position.sources != {name: source.position for name, source in self._at.items()}:
            return
        self._noted_s = monotonic_s()
        self._record_cut()
        writer = ViewDefinition.need(self._view.schema, self._view.name).writer
        for name, source in self._at.items():
            if source.newest is not None:
                try:
                    source.table.store.consumers.record(writer, source.newest.id, str(self._identifier))
                except Unavailable as why:  # the next refresh notes it, or computes all rows
                    _LOG.warning("source %s: %s", name, why, extra=fields(table=name))


def _check_tables(view: DynamicTable, position: ViewPosition, sources: Mapping[str, Source]) -> None:
    for name, source in sources.items():
        at = position.sources.get(name)
        if at is not None and at.table != source.table.identity.text:
            raise InvalidRequest(
                f"source {name} of view {view.name} was dropped and created again: run ALTER MATERIALIZED VIEW "
                f"{view.name} REBUILD to compute the view from the new table"
            )


def _snapshots(position: ViewPosition, sources: Mapping[str, Source]) -> dict[str, Snapshot | None] | None:
    """The snapshots of a position; None if one of them has expired, or a source was restored from an older copy."""
    out: dict[str, Snapshot | None] = {}
    for name, source in sources.items():
        at = position.sources.get(name)
        is_there, snapshot = (False, None) if at is None else at.find(source.table)
        newest = 0 if source.newest is None else source.newest.id
        if not is_there or (snapshot is not None and snapshot.id > newest):
            _LOG.info("source %s: its snapshot has expired, all rows are computed", name, extra=fields(table=name))
            return None
        out[name] = snapshot
    return out


def _rows(table: DynamicTable, snapshot: Snapshot | None, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    for split in table.store.plan(0 if snapshot is None else snapshot):
        yield from table.store.read_split(split, columns)
