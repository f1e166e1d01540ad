"""``lakelog ingest``: tables of a PostgreSQL database, first as a copy and then by their changes, exactly once.

A run:

1. Check server, tables and targets; nothing is made before all of it is right.
2. Create missing tables, the publication and the slot. The slot holds all later changes.
3. Copy the tables without a position from one snapshot. Each is one commit, with the LSN of the snapshot.
4. Read the changes of the slot. Each table discards the transactions that it has, and commits the rest with the LSN
   after them. At some of these commits it makes a snapshot of each table, and records them as a cut.
5. Confirm to the slot what all tables have committed.

A run that is killed between any two steps leaves nothing that the next one does not continue. If the server goes away,
the run waits for it and starts again at step 1.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Final

from lakelog.errors import Fenced, InvalidRequest, Unavailable
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.metrics import METER
from lakelog.lake import Lake
from lakelog.options.metrics import INGEST_LAG
from lakelog.options.names import visible
from lakelog.service.ingest.connection import Server
from lakelog.service.ingest.cuts import Cuts, forget_ingested_cuts
from lakelog.service.ingest.pgoutput import Begin, Commit, Message, Other, Relation, Truncate
from lakelog.service.ingest.position import Position
from lakelog.service.ingest.replication import ReplicationStream
from lakelog.service.ingest.reports import IngestProgress, Reports, TableStatus, forget_reports
from lakelog.service.ingest.snapshot import exported_snapshot
from lakelog.service.ingest.source import Source, SourceTable
from lakelog.service.ingest.target import CopyAgain, Target
from lakelog.table.health.stats import ENDED, FAILED
from lakelog.table.model.waiting_epochs import waiting_position
from lakelog.table.tail.subscribe import is_set

Stop = threading.Event | None
_REPORT_EVERY_S: Final = 1.0
_MOST_ROWS: Final = 200_000
"""Number of rows after which a commit does not wait for the interval."""
_CHECK_EVERY: Final = 256
"""Number of messages of one transaction between checks of the clock."""
_LONGEST_WAIT_S: Final = 300.0
"""Time without the server after which a run fails."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True)
class Ingest:
    """Tables of one PostgreSQL database that are copied into a database of a lake (``Lake.ingest``).

    ``source`` is ``postgres://user@host/database``, ``tables`` are names such as ``public.orders``. ``slot`` and
    ``publication`` are "" for names that are made of the lake and its database. ``interval_s`` is the age of a change
    at which it is committed. ``options`` are those of new tables.
    """

    lake: Lake
    source: str = field(repr=False)
    tables: Sequence[str]
    into: str
    slot: str = ""
    publication: str = ""
    interval_s: float = 1.0
    options: Mapping[str, str] = field(default_factory=dict)

    def run(self, stop: Stop = None, once: bool = False, copy_again: bool = False) -> Iterator[IngestProgress]:
        """Copies the tables and follows their changes, without end, up to an event, or to the current end (``once``).

        The next run continues. ``copy_again`` replaces the rows of all tables first, and creates a missing slot.
        Yields the progress about once a second. Raises InvalidRequest, NotFound, AlreadyExists, InvalidSchema,
        Unavailable if the server is away for minutes, Fenced (another process copies the same source).
        """
        server, pause_s, away_s = Server(self.source), _FIRST_PAUSE_S, monotonic_s()
        reports = Reports(server, self.slot_name)
        while not is_set(stop):
            run, state, reason = _Run(self, server, reports, stop), ENDED, ""
            try:
                yield from run.steps(once, copy_again)
                return
            except CopyAgain:
                copy_again, state = False, "copy"
            except Unavailable as why:
                if run.is_streaming:
                    pause_s, away_s = _FIRST_PAUSE_S, monotonic_s()
                state, reason = FAILED, str(why)
                if not server.was_met or monotonic_s() > away_s + _LONGEST_WAIT_S:
                    raise
                state = "wait"
                copy_again = copy_again and not run.has_marked
                yield IngestProgress("wait", why=str(why))
                (stop or threading.Event()).wait(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
            except Fenced:
                state = ""  # the other process reports
                raise
            except Exception as why:
                state, reason = FAILED, str(why)
                raise
            finally:
                run.close(state, reason)

    def status(self) -> list[TableStatus]:
        """The tables and the slot as they are now; changes nothing. Raises InvalidRequest for a lost slot."""
        server = Server(self.source)
        with server.errors(), closing(server.connect()) as connection:
            source, out = Source(server, connection), []
            slot = source.slot(self.slot_name)
            for table in source.tables(self.tables):
                name, position = self.name_of(table), ""
                if self.lake.table_exists(name):
                    text = waiting_position(self.lake.table(name).logical, self.writer).partition(" ")[0]
                    position = "" if Position.parse(text) is None else text
                size, is_active = (slot.held_bytes, slot.is_active) if slot is not None else (0, False)
                has_slot = slot is not None
                out.append(TableStatus(name, table.full_name, position, self.slot_name, has_slot, is_active, size))
            return out

    def drop_slot(self) -> bool:
        """Drops the slot and its publication, for tables that are not followed any more; True if there was a slot.

        The rows stay. Raises InvalidRequest while a process ingests.
        """
        server = Server(self.source)
        with server.errors(), closing(server.connect()) as connection:
            publication = "" if self.publication else self.slot_name
            dropped = Source(server, connection).drop(self.slot_name, publication)
        forget_reports(self.lake, self.into, self.slot_name)
        forget_ingested_cuts(self.lake, self.into, self.slot_name)
        return dropped

    @property
    def slot_name(self) -> str:
        """The slot: letters, digits and _, as PostgreSQL wants them. Raises InvalidRequest."""
        if not self.slot:
            place = f"{self.lake.warehouse}/{self.into}"
            word = "".join(c if c.isascii() and c.isalnum() else "_" for c in self.into.lower())
            return f"lakelog_{word[:40]}_{zlib.crc32(place.encode()):08x}"
        if not all(c.isascii() and (c.islower() or c.isdigit() or c == "_") for c in self.slot) or len(self.slot) > 63:
            raise InvalidRequest(
                f"'{visible(self.slot)}' is not the name of a slot: write up to 63 lower-case letters, digits and _"
            )
        return self.slot

    @property
    def writer(self) -> str:
        """The writer of all positions."""
        return f"ingest-{self.slot_name}"

    def name_of(self, table: SourceTable) -> str:
        """The table of a source table."""
        plain = table.name.isidentifier()
        return f"{self.into}.{table.name}" if plain else f"{self.into}.`{table.name.replace('`', '``')}`"


class _Run:
    """One connection to the source, from its start to its loss."""

    def __init__(self, plan: Ingest, server: Server, reports: Reports, stop: Stop) -> None:
        self._reports = reports
        self._lake, self._server, self._plan, self._stop = plan.lake, server, plan, stop
        self._slot, self._publication = plan.slot_name, plan.publication or plan.slot_name
        self._resources = ExitStack()
        self._cuts = Cuts(self._slot, plan.interval_s, self._stay)
        self._targets: dict[int, Target] = {}
        self._relations: dict[int, Relation] = {}
        self._stream: ReplicationStream | None = None
        self._source: Source | None = None
        self.has_marked = False
        self._final_lsn, self._reached, self._time_us = 0, 0, 0
        self._confirmed, self._confirmed_s = 0, float("-inf")
        self._is_open, self._since_s, self._rows = False, float("inf"), 0
        self._reported_s, self._reported, self._lag_s = monotonic_s(), 0, 0.0

    def steps(self, once: bool, copy_again: bool) -> Generator[IngestProgress, None, None]:
        """The steps of a run, until the event is set or, with ``once``, the end is reached."""
        connection = self._resources.enter_context(closing(self._server.connect()))
        source = self._source = Source(self._server, connection)
        # 1
        with self._server.errors():
            tables = self._checked(source, copy_again)
            # 2
            unpublished, is_published = source.unpublished(self._publication, tables)
            for table in tables:
                Target.create(self._lake, table, self._plan.name_of(table), self._plan.options)
                name = self._plan.name_of(table)
                self._targets[table.id] = Target(self._lake, table, name, self._plan.writer, self._stay)
            for target in self._targets.values():
                lacks = target.is_of_another_table or target.source in unpublished
                if copy_again or (lacks and target.position is not None):
                    target.mark()
            self.has_marked = copy_again
            slot = source.slot(self._slot)
            if slot is not None and not is_published:
                source.drop(self._slot, "")  # it could not read what was written without the publication
            is_new = leaves_nothing = slot is None
            try:
                if unpublished:
                    source.publish(self._publication, unpublished, is_published)
                if is_new or not is_published:
                    source.create_slot(self._slot)
                # 3
                yield from self._copy()
            except (Unavailable, Fenced):  # it starts again, or another process uses the slot
                leaves_nothing = False
                raise
            finally:
                if leaves_nothing and all(target.position is None for target in self._targets.values()):
                    with contextlib.suppress(Exception):  # the reason is another error, or the end of the run
                        source.drop(self._slot, "" if is_published else self._publication)
        # 4, 5
        yield from self._follow(source, once)

    @property
    def is_streaming(self) -> bool:
        return self._stream is not None

    def _stay(self) -> None:
        if self._stream is not None:
            self._stream.report()

    def close(self, state: str, why: str = "") -> None:
        """Ends the connections, and discards what is not committed; reports the state, if it is named."""
        with self._resources:
            if state:
                self._tell(state, why)
            for target in self._targets.values():
                target.close()

    def _checked(self, source: Source, copy_again: bool) -> list[SourceTable]:
        source.check_server()
        tables = source.tables(self._plan.tables)
        writer, names = self._plan.writer, {}
        for table in tables:
            name = self._plan.name_of(table)
            if Target.check(self._lake, table, name, writer, copy_again):
                names[name] = Target.known_up_to(self._lake, name, writer)
        slot = source.slot(self._slot)
        if slot is not None and not copy_again and any(is_noted for _, is_noted in names.values()):
            for name, (known, _) in names.items():
                self._check_confirmed(name, known, slot.confirmed)
        if slot is None and names and not copy_again:
            raise InvalidRequest(
                f"slot '{self._slot}' of PostgreSQL {self._server.name} does not exist any more, so the changes since "
                "then are lost: run the command with --copy-again, which replaces the rows of the tables"
            )
        return tables

    def _check_confirmed(self, name: str, known: int, confirmed: int) -> None:
        if known and confirmed > known:
            raise InvalidRequest(
                f"table {name} has the changes up to {Position(known)}, and PostgreSQL {self._server.name} has "
                f"forgotten those up to {Position(confirmed)} (slot '{self._slot}'): the table is an older copy, or "
                "another run has left it out. Run the command with --copy-again, which replaces the rows of the tables"
            )

    def _copy(self) -> Iterator[IngestProgress]:
        missing = [target for target in self._targets.values() if target.position is None]
        if not missing:
            return
        with exported_snapshot(self._server) as snapshot:
            if not snapshot.may_copy(self._slot):
                raise Unavailable(f"another process copies the tables of slot '{self._slot}'")
            for target in missing:
                target.reopen()
                if target.position is not None:
                    continue
                name, expected, rows = target.name, target.source.rows, 0
                yield IngestProgress("copy", name, 0, expected)
                with self._server.errors(), METER.step("ingest", "rows", expected or None, table=name) as step:
                    for rows in target.copy(snapshot.read(target.source), snapshot.lsn):
                        step.done = rows
                        if self._is_stopped:
                            return
                        if self._is_report_due():
                            yield IngestProgress("copy", name, rows, max(expected, rows))
                yield IngestProgress("copy", name, rows, rows, position=str(Position(snapshot.lsn)), is_last=True)

    def _follow(self, source: Source, once: bool) -> Iterator[IngestProgress]:
        if self._is_stopped:
            return
        stream = self._resources.enter_context(ReplicationStream(self._server, self._slot, self._publication))
        self._stream = stream
        with self._server.errors():
            end = source.end() if once else None
        while True:
            for count, message in enumerate(stream.read(self._wait_s())):
                self._take(message, source)
                if self._is_open and count % _CHECK_EVERY:
                    continue
                stream.report()
                if self._is_due():
                    self._commit()
                    self._confirm(stream)
                if self._is_report_due():
                    yield self._progress()
            if self._is_due() or (self._is_stopped and not self._is_open):
                self._commit()
            is_clean = not self._is_open and not any(t.is_dirty for t in self._targets.values())
            if is_clean:
                self._reached = max(self._reached, stream.received)
                self._cuts.make(self._targets, self._reached)
                self._confirm(stream)
            if self._is_stopped or (end is not None and is_clean and self._reached >= end):
                for target in self._targets.values():
                    target.seal()
                    target.check_undone()
                if not self._is_open:
                    self._cuts.make(self._targets, self._reached, is_last=True)
                self._confirm(stream, is_last=True)
                yield self._progress()
                return
            if end is not None:
                stream.report(asks=True)
            if self._is_report_due():
                yield self._progress()

    def _confirm(self, stream: ReplicationStream, is_last: bool = False) -> None:
        """Lets the server forget what all tables have, about once a second; each table notes that before."""
        if self._reached <= self._confirmed or not (is_last or monotonic_s() > self._confirmed_s + _REPORT_EVERY_S):
            return
        for target in self._targets.values():
            target.confirm(self._reached)
        stream.confirm(self._reached)
        self._confirmed, self._confirmed_s = self._reached, monotonic_s()

    def _take(self, message: Message, source: Source) -> None:
        if isinstance(message, Begin):
            self._final_lsn, self._time_us, self._is_open = message.final_lsn, message.time_us, True
        elif isinstance(message, Commit):
            self._reached, self._is_open = message.end_lsn, False
        elif isinstance(message, Relation):
            self._relations[message.id] = message
            if message.id in self._targets:
                self._targets[message.id].renew()
        elif not isinstance(message, Other):
            changed = message.relations if isinstance(message, Truncate) else (message.relation,)
            for relation in changed:
                target = self._targets.get(relation)
                if target is not None:
                    with self._server.errors():
                        taken = target.apply(self._relations[relation], message, self._final_lsn, source)
                    self._rows += taken
                    if taken and self._since_s == float("inf"):
                        self._since_s = monotonic_s()

    def _is_due(self) -> bool:
        """True if the changes so far should be committed, which are whole transactions."""
        is_old = monotonic_s() >= self._since_s + self._plan.interval_s
        return not self._is_open and (is_old or self._rows >= _MOST_ROWS)

    def _wait_s(self) -> float:
        if self._is_open:
            return _REPORT_EVERY_S
        return max(0.0, min(_REPORT_EVERY_S, self._since_s + self._plan.interval_s - monotonic_s()))

    def _commit(self) -> None:
        for target in self._targets.values():
            if target.commit(Position(self._reached)):
                self._lag_s = max(0.0, (now_ms() - self._time_us / 1000) / 1000)
                METER.observe(INGEST_LAG, self._lag_s, table=target.name)
        self._cuts.make(self._targets, self._reached)
        self._since_s, self._rows = float("inf"), 0

    @property
    def _unread(self) -> int:
        return 0 if self._stream is None else max(0, self._stream.sent_end - self._reached)

    def _progress(self) -> IngestProgress:
        committed = sum(target.committed for target in self._targets.values())
        rows, self._reported = committed - self._reported, committed
        return IngestProgress(
            "stream", rows=rows, lag_s=self._lag_s, lag_bytes=self._unread, position=str(Position(self._reached))
        )

    def _is_report_due(self) -> bool:
        """True about once a second."""
        is_due = monotonic_s() > self._reported_s + _REPORT_EVERY_S
        if is_due:
            self._reported_s = monotonic_s()
            self._tell("stream" if self.is_streaming else "copy")
        return is_due

    def _tell(self, state: str, why: str = "") -> None:
        """Reports to the health of the tables."""
        if self._source is not None and (self.is_streaming or state != "wait"):  # else another process may copy
            self._reports.write(self._targets.values(), self._source, state, self._lag_s, self._unread, why)

    @property
    def _is_stopped(self) -> bool:
        return is_set(self._stop)
