"""Procedures of the writers of a log and of stream readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lakelog.options.log import LOG_ENABLED, LOG_OPTIONS
from lakelog.paimon.schema.changes import SchemaChange, SetOption
from lakelog.sql.runtime.procedure import number, options_among, procedure, text
from lakelog.table.commit import take_over
from lakelog.table.log.register import NamedReaders
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.replay_rejected import replay_rejected as write_again


@procedure(options=options_among(LOG_OPTIONS.options))
def add_log(table: DynamicTable, alter: Callable[[Sequence[SchemaChange]], object]) -> None:
    """Adds a log, which begins at the present snapshot: ALTER TABLE … SET TBLPROPERTIES ('log-store.enabled' = 'true').

    ``options`` are those of the log, which the table keeps.
    """
    alter([SetOption(key, value) for key, value in {**table.hints, LOG_ENABLED.key: "true"}.items()])


@procedure()
def remove_log(table: DynamicTable, alter: Callable[[Sequence[SchemaChange]], object]) -> None:
    """Removes the log; all rows stay in the files: ALTER TABLE … SET TBLPROPERTIES ('log-store.enabled' = 'false')."""
    alter([SetOption(LOG_ENABLED.key, "false")])


@procedure()
def clear_consumers(table: DynamicTable) -> None:
    """Forgets all consumers of the table, and all named readers of its log."""
    for consumer in table.store.consumers.list():
        table.store.consumers.delete(consumer.name)
    readers = NamedReaders(table.io, table.path)
    for reader in readers.list():
        readers.delete(reader.name)


@procedure(writer=text)
def end_writer(table: DynamicTable, writer: str) -> pa.Table:
    """Ends a streaming writer whose query never restarts: aborts its open micro-batch and rejects its later writes."""
    snapshot = take_over.end_writer(table, writer)
    return pa.table({"snapshot_id": pa.array([None if snapshot is None else snapshot.id], pa.int64())})


@procedure()
def replay_rejected(table: DynamicTable) -> pa.Table:
    """Writes the rows of ``t$rejected`` that fit the table by now, and removes them from there, exactly once."""
    done = write_again(table)
    return pa.table({"written_rows": pa.array([done.written]), "rejected_rows": pa.array([done.rejected])})


@procedure(consumer_id=text, next_snapshot_id=number)
def reset_consumer(table: DynamicTable, consumer_id: str, next_snapshot_id: int | None = None) -> None:
    """Moves a consumer to a snapshot; without a snapshot, deletes it, also as a named reader of the log."""
    consumers = table.store.consumers
    if next_snapshot_id is None:
        was_reader = NamedReaders(table.io, table.path).delete(consumer_id)
        if not was_reader or consumers.position(consumer_id) is not None:
            consumers.delete(consumer_id)
    else:
        consumers.record(consumer_id, next_snapshot_id)
