"""The configuration of a terminal: plain values, sent to the worker as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.paimon.types.json_record import JsonRecord
from lakelog.sql.runtime.statement import Privilege

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True)
class Limits(JsonRecord):
    """The limits of one terminal.

    ``max_rows`` of one result are kept: the first ones, or the newest of a stream; ``max_bytes`` is their size as JSON.
    ``statement_s`` is the maximum duration of a statement other than a stream, ``idle_s`` the idle time after which a
    process ends, and ``parse_s`` the maximum duration of parsing a text. ``memory_bytes`` is the limit of the worker
    and its descendants, including Spark's heap.
    """

    max_rows: int = 1_000
    max_bytes: int = 8 * _MIB
    statement_s: float = 300.0
    idle_s: float = 1_800.0
    memory_bytes: int = 3 * _GIB
    max_text_bytes: int = _MIB
    max_statements: int = 1_000
    parse_s: float = 5.0
    max_queued: int = 20
    max_streams: int = 4
    kept_executions: int = 50
    cancel_s: float = 10.0
    """Seconds within which a cancelled statement must end; otherwise its process is killed."""

    @property
    def heap_bytes(self) -> int:
        """The size of Spark's heap: three tenths, beside its other memory and a Python process of each stream."""
        return self.memory_bytes * 3 // 10


@dataclass(frozen=True)
class TerminalConfig(JsonRecord):
    """The user and the catalogs of a terminal. Options may be secrets, which only the pipe to the worker has.

    The catalogs are those of ``lakelog.connect``. ``allow_local_files`` lets an admin, and no other user, read files of
    the server by path. No user may run own code. ``settings`` are those of the Spark session.
    """

    warehouse: str
    role: Privilege = Privilege.READ
    user: str = ""
    catalog: str = "lakelog"
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_local_files: bool = False
    limits: Limits = field(default_factory=Limits)
