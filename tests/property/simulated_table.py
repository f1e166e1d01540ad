"""The table of a schedule: the real code of lakelog on storage, log and file store in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import protocol_calls
from greenlet import getcurrent
from simulated_log import SimulatedLog, SimulatedLogs
from simulated_process import Scheduler
from simulated_storage import SimulatedIO
from simulated_store import SimulatedStore
from simulated_values import InlineRuns, parsed_once
from simulated_warehouse import Warehouse

from lakelog.catalog import base, directories
from lakelog.catalog.base import Identifier, TableLocation
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.filestore.metadata import identity
from lakelog.io import clock, names
from lakelog.logstore import clients
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import BIGINT, DataField
from lakelog.table import alter, create, log_switch, new_log
from lakelog.table.create import create_table
from lakelog.table.model import dynamic_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read import file_scan as scan
from lakelog.table.staging import staged_rows
from register_history import History

LEASE_S = 10
_DATABASE = "memory/db.db"


@dataclass(frozen=True)
class Case:
    """The kind of a schedule's table: changelog mode, key, and log. ``replaces``: statements replace rows in it;
    ``rolls``: it is rolled back at times; ``waits``: commits of an open writer share a snapshot."""

    mode: str
    keyed: bool
    format: str = "debezium-json"
    buckets: int = 1
    system: str = "embedded"
    partitions: int | None = None
    replaces: bool = False
    rolls: bool = False
    waits: bool = False

    def __str__(self) -> str:
        key = "with" if self.keyed else "without"
        return f"mode {self.mode}, {key} a key, {self.format}, {self.buckets} buckets, {self.system}" + (
            ("" if self.partitions is None else f", {self.partitions} log partitions")
            + (", replacements" if self.replaces else "")
            + (", rollbacks" if self.rolls else "")
        )


CASES = (
    Case("upsert", True),
    Case("all", True),
    Case("upsert", True, system="kafka"),
    Case("all", False, replaces=True),
    Case("upsert", True, buckets=2),
    Case("all", True, system="kafka"),
    Case("upsert", True),
    Case("all", True, buckets=2),
    Case("upsert", True, "arrow"),
    Case("all", True, "arrow"),
    Case("all", False, "arrow"),
)
_FILE_CASES = (
    Case("upsert", True, system="files"),
    Case("all", True, buckets=2, system="files"),
    Case("all", False, system="files"),
    Case("upsert", True, "arrow", system="files"),
)
_UNALIGNED_CASES = (
    Case("upsert", True, buckets=2, partitions=1),
    Case("all", True, buckets=3, partitions=2),
    Case("upsert", True, "arrow", partitions=2),
    Case("all", False, buckets=2, partitions=3),
    Case("upsert", True, buckets=2, partitions=3, system="files"),
)
_REPLACEMENT_CASES = (
    Case("all", False, replaces=True),
    Case("all", False, "arrow", replaces=True),
    Case("all", False, buckets=2, replaces=True),
    Case("all", False, system="kafka", replaces=True),
    Case("all", False, "arrow", buckets=2, partitions=3, replaces=True),
    Case("all", False, system="files", replaces=True),
)
_ROLLBACK_CASES = (
    Case("upsert", True, rolls=True),
    Case("all", True, "arrow", rolls=True),
    Case("all", False, replaces=True, rolls=True),
    Case("all", True, buckets=2, system="files", rolls=True),
    Case("all", False, "arrow", buckets=2, partitions=3, replaces=True, rolls=True),
    Case("upsert", True, buckets=2, partitions=1, rolls=True),
    Case("all", False, system="files", replaces=True, rolls=True),
)
_WAITING_CASES = tuple(
    replace(case, waits=True)
    for case in (*CASES, *_FILE_CASES, *_UNALIGNED_CASES, *_REPLACEMENT_CASES, *_ROLLBACK_CASES)
)
FIRST_WITH_WAITING = 5_000_000
"""The first seed whose table has snapshots of several commits of an open writer (``commit.interval``)."""
FIRST_WITH_ROLLBACKS = 4_000_000
"""The first seed whose table is rolled back (RFC 23)."""
FIRST_WITH_REPLACEMENTS = 3_000_000
"""The first seed whose table has no key, and statements that replace its rows (RFC 21)."""
FIRST_UNALIGNED = 2_000_000
"""The first seed whose table has other log partitions than buckets (RFC 18)."""
FIRST_WITH_FILES = 1_000_000
"""The first seed whose table has a log in files."""


def case_of(seed: int) -> Case:
    """The kind of table of a schedule; seeds cycle through the kinds."""
    ranges = (
        (FIRST_WITH_WAITING, _WAITING_CASES),
        (FIRST_WITH_ROLLBACKS, _ROLLBACK_CASES),
        (FIRST_WITH_REPLACEMENTS, _REPLACEMENT_CASES),
        (FIRST_UNALIGNED, _UNALIGNED_CASES),
        (FIRST_WITH_FILES, _FILE_CASES),
    )
    cases = next((cases for first, cases in ranges if seed >= first), CASES)
    return cases[seed % len(cases)]


def _schema(case: Case) -> TableSchema:
    fields = (DataField(0, "id", BIGINT), DataField(1, "v", BIGINT), DataField(2, "w", BIGINT))
    options = {
        "bucket": str(case.buckets),
        "log-store.enabled": "true",
        "log-store.type": case.system,
        **({"log-store.address": "broker:9092"} if case.system == "kafka" else {}),
        "log-store.data-format": case.format,
        "log.changelog-mode": case.mode,
        "log.writer-timeout": f"{LEASE_S} s",
        "write.concurrent-writers": "true",
        "commit.interval": "600 ms" if case.waits else "0 s",
        "write-only": "true",
        **({} if case.keyed else {"bucket-key": "id"}),
        **({} if case.partitions is None else {"log-store.partitions": str(case.partitions)}),
    }
    return TableSchema(0, fields, 2, primary_keys=("id",) if case.keyed else (), options=options)


_SCHEMAS = {
    case: _schema(case)
    for cases in (CASES, _FILE_CASES, _UNALIGNED_CASES, _REPLACEMENT_CASES, _ROLLBACK_CASES, _WAITING_CASES)
    for case in cases
}


@dataclass(eq=False)
class SimulatedTable:
    """One table from its CREATE on, independent of its name, and an open handle."""

    warehouse: Warehouse
    log: SimulatedLog
    handle: DynamicTable
    history: History = field(default_factory=History)
    known: dict[int, int] = field(default_factory=dict)


class World:
    """The durable state of a schedule, and its tables. The first one is db.t."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.dice = case, random.Random(seed)
        self.scheduler = Scheduler(self.dice, LEASE_S)
        self.io = SimulatedIO(self.scheduler)
        self.logs = SimulatedLogs(self.scheduler, self.io)
        self.runs = InlineRuns()
        self.catalog = FilesystemCatalog("memory", self.io)
        self.tables: list[SimulatedTable] = []
        self.extras: dict[tuple[int, int], set[int | None]] = {}
        self._values = 0
        self.io.write(f"{_DATABASE}/.kept", b"")
        self.io.on_create = self._note_table

    def new_value(self) -> int:
        """A unique value."""
        self._values += 1
        return self._values

    def create(self, name: str) -> None:
        """CREATE TABLE."""
        create_table(self.catalog, Identifier("db", name), _SCHEMAS[self.case])

    def name_of(self, table: SimulatedTable) -> str | None:
        """The current name of a table; None for a dropped one."""
        found = (path for path, held in self.io.beside.items() if held is table.warehouse and ".dropped-" not in path)
        return next((path.removeprefix(f"{_DATABASE}/") for path in found), None)

    def is_dropped(self, table: SimulatedTable) -> bool:
        """Returns whether the table was dropped. A DROP also deletes its decisions."""
        return self.name_of(table) is None

    def open(self, name: str) -> DynamicTable:
        """A new handle of the table with this name. Raises NotFound."""
        return DynamicTable(self.catalog.load_table(Identifier("db", name)))

    def table_of(self, handle: DynamicTable) -> SimulatedTable:
        """The table that was opened."""
        return next(t for t in self.tables if t.handle.identity.id == handle.identity.id)

    def _note_table(self, path: str, data: bytes) -> None:
        """Called for each created file; the first schema creates a table."""
        self.logs.note_file(path, data)
        root, is_schema, number = path.partition("/schema/schema-")
        if is_schema and number == "0":
            schema = TableSchema.from_json(data)
            self.io.beside[root] = warehouse = Warehouse(self.scheduler, schema)
            name = Identifier("db", root.removeprefix(f"{_DATABASE}/"))
            handle = DynamicTable(TableLocation(name, root, schema, self.io.within(root)))
            self.tables.append(SimulatedTable(warehouse, self.logs.logs[schema.options["lakelog.log-id"]], handle))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Context in which lakelog's code runs in this world. It lists all replaced parts."""
        clients.drop_clients()
        identity._SEEN.clear()
        with ExitStack() as stack:
            for module, name, fake in (
                (clock, "time", self.scheduler),
                (names, "uuid", self.scheduler),
                (names, "random", self.scheduler),
                (dynamic_table, "FileStore", self._store),
                (base, "confined", lambda io, root: io),
                (directories, "confined", lambda io, root: io),
                (alter, "LOG_SYSTEMS", self.logs),
                (clients, "LOG_SYSTEMS", self.logs),
                (clients, "threading", SimpleNamespace(get_ident=getcurrent)),
                (create, "LOG_SYSTEMS", self.logs),
                (new_log, "LOG_SYSTEMS", self.logs),
                (log_switch, "LOG_SYSTEMS", self.logs),
                (staged_rows, "ThreadPoolExecutor", Serial),
                (scan, "ThreadPoolExecutor", Serial),
                *self.runs.seams(),
                *parsed_once(),
                *protocol_calls.seams(self.scheduler),
            ):
                stack.enter_context(patch.object(module, name, fake))
            if self.case.replaces:  # with pauses between two appends, which another process must not flush
                stack.enter_context(patch.object(clients, "_CLIENTS", ClientsOfThreads()))
            self.create("t")
            yield

    def _store(self, *given: Any) -> SimulatedStore:
        return SimulatedStore(self.scheduler, self.runs, self.io.beside, self.case.replaces, *given)


class ClientsOfThreads:
    """The clients of each simulated thread; ``threading.local`` has one place for all of them."""

    def __init__(self) -> None:
        self._held: dict[object, tuple[dict[Any, Any], dict[Any, Any]]] = {}

    @property
    def appenders(self) -> dict[Any, Any]:
        """Those of the running thread."""
        return self._held.setdefault(getcurrent(), ({}, {}))[0]

    @property
    def readers(self) -> dict[Any, Any]:
        """Those of the running thread."""
        return self._held.setdefault(getcurrent(), ({}, {}))[1]

    def drop(self) -> None:
        """Forgets those of the running thread."""
        self._held.pop(getcurrent(), None)


class Serial:
    """A thread pool without threads."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
        """Calls the function in this thread."""
        return [function(value) for value in values]
