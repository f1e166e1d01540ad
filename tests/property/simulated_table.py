"""The table of a schedule: the real code of lakelog on storage, log and file store in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import protocol_calls
from simulated_log import SimulatedLog
from simulated_process import Scheduler
from simulated_storage import SimulatedIO
from simulated_store import SimulatedStore, Warehouse
from simulated_values import InlineRuns, parsed_once

from lakelog.catalog.base import Identifier, TableLocation
from lakelog.io import clock, names
from lakelog.logstore import clients
from lakelog.spec.schema import TableSchema
from lakelog.spec.types import BIGINT, DataField
from lakelog.table import dynamic_table, scan, task_writer
from lakelog.table.dynamic_table import DynamicTable
from register_history import History

LEASE_S = 10


@dataclass(frozen=True)
class Case:
    """The kind of table that a schedule has: its changelog mode, whether there is a key, and the format of its log."""

    mode: str
    keyed: bool
    format: str = "debezium-json"
    buckets: int = 1

    def __str__(self) -> str:
        key = "with" if self.keyed else "without"
        return f"mode {self.mode}, {key} a key, {self.format}, {self.buckets} buckets"


CASES = (
    Case("upsert", True),
    Case("all", True),
    Case("upsert", True),
    Case("all", False),
    Case("upsert", True, buckets=2),
    Case("all", True),
    Case("upsert", True),
    Case("all", True, buckets=2),
    Case("upsert", True, "arrow"),
    Case("all", True, "arrow"),
    Case("all", False, "arrow"),
)
"""Seeds go through them in turn."""


def _schema(case: Case) -> TableSchema:
    fields = (DataField(0, "id", BIGINT), DataField(1, "v", BIGINT))
    options = {
        "bucket": str(case.buckets),
        "log-store.enabled": "true",
        "log-store.type": "embedded",
        "log-store.topic": "t",
        "log-store.data-format": case.format,
        "log.changelog-mode": case.mode,
        "log.writer-timeout": f"{LEASE_S} s",
        "write.concurrent-writers": "true",
        "write-only": "true",
        **({} if case.keyed else {"bucket-key": "id"}),
    }
    return TableSchema(0, fields, 1, primary_keys=("id",) if case.keyed else (), options=options)


_SCHEMAS = {case: _schema(case) for case in CASES}


class World:
    """What is durable in a schedule, and the table as its processes see it."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.dice = case, random.Random(seed)
        self.scheduler = Scheduler(self.dice, LEASE_S)
        self.io = SimulatedIO(self.scheduler)
        self.log = SimulatedLog(self.scheduler, [[] for _ in range(case.buckets)])
        self.runs = InlineRuns()
        self.warehouse = Warehouse(self.scheduler, self.runs)
        self.history = History()
        location = TableLocation(Identifier("db", "t"), "memory/db.db/t", _SCHEMAS[case], self.io)
        self.table = DynamicTable(location)
        self.transactional = self.table.with_hints({"log.consistency": "transactional"})
        self._values = 0

    def new_value(self) -> int:
        """A value that no other row has."""
        self._values += 1
        return self._values

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Inside the block the code of lakelog runs in this world. All that is faked is named here."""
        clients._APPENDERS.clear()
        clients._READERS.clear()
        with ExitStack() as stack:
            for module, name, fake in (
                (clock, "time", self.scheduler),
                (names, "uuid", self.scheduler),
                (names, "random", self.scheduler),
                (dynamic_table, "FileStore", self._store),
                (dynamic_table.DynamicTable, "check_identity", lambda *_: None),
                (clients, "LOG_SYSTEMS", self.log),
                (task_writer, "ThreadPoolExecutor", Serial),
                (scan, "ThreadPoolExecutor", Serial),
                *self.runs.seams(),
                *parsed_once(),
                *protocol_calls.seams(self.scheduler),
            ):
                stack.enter_context(patch.object(module, name, fake))
            yield

    def _store(self, *given: Any) -> SimulatedStore:
        return SimulatedStore(self.warehouse, *given[:5])  # this table is never another one


class Serial:
    """A pool of threads that has none."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
        """Calls the function in this thread."""
        return [function(value) for value in values]
