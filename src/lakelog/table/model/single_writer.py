"""One streaming writer per table with a key: which run of which query started first, and whether it is still active.

Two queries that change the same key have no common order until they commit. The first is known to be alive if it
commits an epoch after those that it had decided when the second one started. This needs no clock, lease or wait. A
query that has ended, for any reason, never blocks another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.errors import InvalidRequest
from lakelog.io.clock import now_ms
from lakelog.paimon.types.json_record import JsonRecord, stored_as


@dataclass(frozen=True)
class StreamingRun(JsonRecord):
    """A query from one start to its end: Spark's run id, its start time, and every writer's newest epoch then."""

    id: str
    started_ms: int = field(metadata=stored_as("started"))
    met: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class OtherWriter:
    """A streaming writer in the newest snapshot: its last epoch there, the time of that epoch, and its run."""

    name: str
    epoch: int
    time_ms: int
    run: StreamingRun


def check_alone(table_name: str, writer: str, run: StreamingRun, others: list[OtherWriter]) -> None:
    """Raises InvalidRequest if another writer's run started first and has committed since this one started.

    Called after an epoch is decided and healed, so that nothing is left open. Of two active runs, the later one is
    refused. The other one has the earlier start.
    """
    for other in others:
        is_first = (other.run.started_ms, other.name) < (run.started_ms, writer)
        if is_first and other.epoch > run.met.get(other.name, -1):
            age_s = max(0.0, (now_ms() - other.time_ms) / 1000)
            raise InvalidRequest(
                f"query {writer} is a second stream into table {table_name}: query {other.name} also writes to it "
                f"and committed epoch {other.epoch} {age_s:.1f} s ago, after this query had started. Changes of two "
                f"queries to the same key have no defined order: stop one of them (if '{other.name}' will never "
                f"restart, end it with CALL sys.end_writer('{table_name}', '{other.name}')). If no key is written by "
                "both, allow them with 'write.concurrent-writers'='true'"
            )
