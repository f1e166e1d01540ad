"""Runs the statements of one text in the worker, and reports their progress."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, LakelogError, NotAllowed
from lakelog.io.clock import monotonic_s
from lakelog.lake.lazy_engine import LazyEngine
from lakelog.lake.output.result import arrow_of
from lakelog.service.servers.server_process import QUICK_START
from lakelog.service.terminal.guard.guarded_tables import GuardedTables
from lakelog.service.terminal.guard.syntax import check_syntax
from lakelog.service.terminal.protocol.config import TerminalConfig
from lakelog.service.terminal.protocol.error_report import Failure, failure_of, line_and_column
from lakelog.service.terminal.protocol.results import Shown, columns_of, row_batches
from lakelog.service.terminal.worker.streams import Streams
from lakelog.sql.parse import Session, parse_script
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.syntax.token_stream import Name
from lakelog.table.catalog_config import CatalogConfig

Send = Callable[..., None]
"""Called with an execution's id, a kind of event, the number of a statement, and the event's data."""

_PROGRESS_S: Final = 0.4
_JAVA: Final = f"{QUICK_START} -XX:+ExitOnOutOfMemoryError -XX:MaxMetaspaceSize=384m"
"""JVM options: it exits if it runs out of memory, and the process with it."""


class Runner:
    """The session of one user: one text at a time, and streams in parallel.

    ``on_jvm_loss`` is called in a separate thread when Spark's JVM has ended, because nothing can run here any more.
    """

    def __init__(self, config: TerminalConfig, directory: str, send: Send, on_jvm_loss: Callable[[], None]) -> None:
        self._config, self._send, self._on_jvm_loss = config, send, on_jvm_loss
        allowed = config.allow_local_files
        tables = GuardedTables(config.warehouse, config.storage_options, config.catalog_options, config.role, allowed)
        for name, options in config.catalogs.items():
            tables.add_catalog(name, CatalogConfig.of(name, options))
        settings = {**_settings(config, directory), **config.settings}
        self._engine = ObservedEngine(
            self._spark_starts, tables, config.catalog, None, settings, "guarded", role=config.role, files=allowed
        )
        self.session = Session(tables, self._engine, config.catalog)
        self.streams = Streams(config.limits, send)
        self._cancelled: set[int] = set()
        self._running: int | None = None
        self._group = contextlib.ExitStack()
        self._text = ""

    def cancel(self, execution: int) -> None:
        """Cancels the statements of an execution and its streams. Called from any thread, also repeatedly."""
        self._cancelled.add(execution)
        if self._running == execution and self._engine.is_started:
            self._engine.started.jobs.cancel(_group(execution))
        self.streams.stop_all(execution)

    def run(self, execution: int, text: str, catalog: str | None, database: str | None) -> None:
        """Runs a text and reports its events; raises nothing."""
        self._running = execution
        try:
            statements = self._parsed(execution, text, catalog, database)
            for number, statement in enumerate(statements):
                if execution in self._cancelled:
                    self._send(execution, "ended", number, state="cancelled")
                elif not self._run(execution, number, statement):
                    break
        except Exception as failed:
            self._send(execution, "ended", None, state="failed", error=failure_of(failed).to_values())
        finally:
            self._running = None
            self._cancelled.discard(execution)

    def close(self) -> None:
        """Stops the streams and Spark; decided epochs of streaming writes are sealed."""
        self.streams.stop_all()
        self._engine.close()

    def _parsed(
        self, execution: int, text: str, catalog: str | None, database: str | None
    ) -> tuple[ParsedStatement, ...]:
        """The statements, all of them allowed; () if one is refused or invalid."""
        try:
            if catalog is not None:
                self.session.use_catalog(catalog)
            if database is not None:
                self.session.use_database(database)
            limits = self._config.limits
            with time_limit(limits.parse_s, f"the text was not parsed within {limits.parse_s:g} s: send it in parts"):
                check_syntax(text)
                statements = tuple(parse_script(text))
            if not statements:
                raise InvalidRequest("the text has no statement: write one, such as SHOW TABLES")
            if len(statements) > limits.max_statements:
                raise InvalidRequest(
                    f"the text has {len(statements)} statements; the maximum is {limits.max_statements}. Send it in "
                    "parts"
                )
        except LakelogError as wrong:
            self._send(execution, "ended", None, state="failed", error=failure_of(wrong).to_values())
            return ()
        described = [_described(statement) for statement in statements]
        self._send(execution, "parsed", None, statements=described)
        for number, statement in enumerate(statements):
            refusal = self._refusal(statement)
            if refusal is not None:
                self._send(execution, "ended", number, state="failed", error=refusal.to_values())
                return ()
        return statements

    def _refusal(self, statement: ParsedStatement) -> Failure | None:
        role, needs = self._config.role, type(statement).needs
        if role >= needs:
            return None
        first = " ".join(statement.source.text.split()[:2]).upper()
        refused = NotAllowed(
            f"{first} needs the role {needs.word}, these statements run as {role.word}: ask an administrator; nothing "
            f"of the text was run"
        )
        return failure_of(refused, statement.source)

    def _run(self, execution: int, number: int, statement: ParsedStatement) -> bool:
        """Runs a statement; False if the others must not run."""
        began = monotonic_s()
        self._send(execution, "started", number)
        end: dict[str, Any] = {}
        try:
            before = self._snapshot(statement)
            with self._watched(execution, number, statement):
                end = self._answer(execution, number, statement)
            if end.get("state") == "streaming":
                return True
            end = {"state": "done", "message": self._change(statement, before), **end}
        except Exception as failed:
            if self._engine.is_started and self._engine.started.jobs.is_over(failed):
                self._on_jvm_loss()
            end = {"state": "failed", "error": failure_of(failed, statement.source).to_values()}
        if execution in self._cancelled and end["state"] == "failed":
            end = {"state": "cancelled"}
        here = {"catalog": self.session.catalogs.shown(self.session.current_catalog), "database": self.session.database}
        self._send(execution, "ended", number, elapsed_ms=round((monotonic_s() - began) * 1000), **end, **here)
        return bool(end["state"] == "done")

    def _answer(self, execution: int, number: int, statement: ParsedStatement) -> dict[str, Any]:
        """Runs it and shows its rows."""
        result: Any = statement.run(self.session)
        limits = self._config.limits
        if result is None:
            return {}
        if hasattr(result, "awaitTermination"):
            self.streams.add(execution, number, statement.source.text, result)
            return {"state": "streaming"}
        if not isinstance(result, pa.Table) and result.isStreaming:
            self.streams.show(execution, number, statement.source.text, result)
            return {"state": "streaming"}
        table = result if isinstance(result, pa.Table) else _first_rows(result, limits.max_rows)
        if not table.column_names:
            return {}
        self._send(execution, "columns", number, columns=columns_of(table))
        shown = Shown()
        for batch in row_batches(table, shown, limits.max_rows, limits.max_bytes):
            self._send(execution, "rows", number, first=shown.rows - len(batch), rows=batch)
        why = None
        if shown.truncated:
            kept = f"the first {limits.max_rows} rows" if shown.rows == limits.max_rows else f"{limits.max_bytes} bytes"
            why = f"only {kept} are shown: select fewer rows or columns, or use `lakelog sql` for all of them"
        return {"rows": shown.rows, "truncated": shown.truncated, **({"message": why} if why else {})}

    @contextlib.contextmanager
    def _watched(self, execution: int, number: int, statement: ParsedStatement) -> Iterator[None]:
        """Context that reports the progress of Spark's jobs, and cancels those that start after a cancellation."""
        done = threading.Event()
        self._text = " ".join(statement.source.text.split())[:100]
        if self._engine.is_started:
            self._join_group()

        def watch() -> None:
            last: Mapping[str, Any] = {}
            while not done.wait(_PROGRESS_S):
                if not self._engine.is_started:
                    continue
                with contextlib.suppress(Exception):  # the JVM ends; the statement reports the reason
                    jobs = self._engine.started.jobs
                    if execution in self._cancelled:
                        jobs.cancel(_group(execution))
                    described = asdict(jobs.progress(_group(execution)))
                    if described != last and described["jobs"]:
                        last = described
                        self._send(execution, "progress", number, **described)

        watcher = threading.Thread(target=watch, name="progress", daemon=True)
        watcher.start()
        try:
            with self._group:
                yield
        finally:
            done.set()
            watcher.join()

    @contextlib.contextmanager
    def _spark_starts(self) -> Iterator[None]:
        """Context of Spark's start: reports the reason of the wait."""
        execution = self._running or 0
        self._send(execution, "waiting", None, why="Spark starts", what_to_do="this takes seconds, once per process")
        yield
        self._send(execution, "spark", None)
        threading.Thread(target=self._follow_jvm, name="jvm", daemon=True).start()
        self._join_group()

    def _follow_jvm(self) -> None:
        self._engine.started.jobs.wait_for_jvm()
        self._on_jvm_loss()

    def _join_group(self) -> None:
        """Assigns the jobs of this thread to the running execution."""
        self._group.enter_context(self._engine.started.jobs.group(_group(self._running or 0), self._text))

    def _table_of(self, statement: ParsedStatement) -> Identifier | None:
        name = getattr(statement, "name", None)
        if type(statement).needs < Privilege.WRITE or not isinstance(name, Name):
            return None
        return self.session.find(name)

    def _snapshot(self, statement: ParsedStatement) -> tuple[int, int] | None:
        """(id, rows) of the newest snapshot of a statement's table."""
        identifier = self._table_of(statement)
        if identifier is None or "$" in identifier.table:
            return None
        with contextlib.suppress(LakelogError):
            snapshot = self.session.tables.open(identifier).store.latest_snapshot()
            return (0, 0) if snapshot is None else (snapshot.id, snapshot.total_record_count or 0)
        return None

    def _change(self, statement: ParsedStatement, before: tuple[int, int] | None) -> str | None:
        after = self._snapshot(statement)
        if before is None or after is None or after[0] <= before[0]:
            return None
        change = after[1] - before[1]
        rows = f"{abs(change)} rows {'more' if change > 0 else 'less'} in its files" if change else "as many rows"
        return f"snapshot {after[0]} of table {self._table_of(statement)}: {rows} ({after[1]})"


def _settings(config: TerminalConfig, directory: str) -> dict[str, str]:
    heap = max(256, config.limits.heap_bytes >> 20)
    return {
        "spark.driver.memory": f"{heap}m",
        "spark.driver.maxResultSize": f"{max(64, heap // 4)}m",
        "spark.driver.extraJavaOptions": f"{_JAVA} -Djava.io.tmpdir={directory}",
        "spark.local.dir": directory,
        "spark.sql.warehouse.dir": f"{directory}/spark-warehouse",
        "spark.sql.artifact.copyFromLocalToFs.allowDestLocal": "false",
    }


def _first_rows(frame: Any, most: int) -> pa.Table:
    """The first rows, one more than may be shown, so that the caller knows whether there are more."""
    return arrow_of(frame.limit(most + 1))


def _described(statement: ParsedStatement) -> dict[str, Any]:
    source = statement.source
    line, column = line_and_column(source.script, source.start)
    return {
        "start": source.start,
        "end": source.end,
        "line": line,
        "column": column,
        "text": source.text,
        "needs": type(statement).needs.word,
    }


def _group(execution: int) -> str:
    return f"lakelog-terminal-{execution}"


class ObservedEngine(LazyEngine):
    """A lazy engine; ``around`` is a context for its start."""

    def __init__(self, around: Callable[[], AbstractContextManager[None]], *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._around = around

    @property
    def started(self) -> Any:
        if self.is_started:
            return super().started
        with self._around():
            return super().started


@contextlib.contextmanager
def time_limit(seconds: float, why: str) -> Iterator[None]:
    """Raises InvalidRequest with ``why`` in a block that takes longer (wall-clock time). For the main thread only."""

    def end(*_: object) -> None:
        raise InvalidRequest(why)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
