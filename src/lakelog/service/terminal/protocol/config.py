"""What a terminal is started with; plain values, sent to the worker as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lakelog.sql.runtime.statement import Privilege

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What one terminal may take.

    ``max_rows`` of one result are kept: the first, of a stream the newest; ``max_bytes`` is their size as JSON.
    ``statement_s`` is how long a statement may run, streams not; ``idle_s`` how long a process waits for the next
    one. ``parse_s`` is how long a text may take to parse. ``memory_bytes`` is for the worker and all that it starts;
    Spark's heap is a part of it.
    """

    max_rows: int = 1_000
    max_bytes: int = 8 * _MIB
    statement_s: float = 300.0
    idle_s: float = 1_800.0
    memory_bytes: int = 2 * _GIB
    max_text_bytes: int = _MIB
    max_statements: int = 1_000
    parse_s: float = 5.0
    max_queued: int = 20
    max_streams: int = 4
    kept_executions: int = 50
    cancel_s: float = 10.0
    """How long a statement that was cancelled may take to end; then its process is ended."""

    @property
    def heap_bytes(self) -> int:
        """Spark's heap: two fifths, so that what it has besides and its Python workers fit in, too."""
        return self.memory_bytes * 2 // 5


@dataclass(frozen=True)
class TerminalConfig:
    """Whose statements run, on which catalogs. Options may be secrets: they are not printed.

    The catalogs are those of ``lakelog.connect``. ``allow_local_files`` lets an admin read files of the server by their
    paths; nobody else, and nobody runs code of his own. ``settings`` go to the Spark session.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, secrets in it: for the pipe to the worker alone."""
        return asdict(self) | {"role": int(self.role)}

    @staticmethod
    def from_dict(given: Mapping[str, Any]) -> TerminalConfig:
        """What ``to_dict`` made."""
        return TerminalConfig(**{**given, "role": Privilege(given["role"]), "limits": Limits(**given["limits"])})
