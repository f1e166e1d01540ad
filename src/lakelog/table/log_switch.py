"""Adds a log to a table that has none, and removes it, while others read and write (RFC 27).

The schema says that the table has a log. The snapshot that is the first one with its generation decides where the log
begins or has ended: all earlier rows are in the files, and all later ones in both stores.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.catalog.base import Catalog, TableLocation
from lakelog.errors import InvalidOption, InvalidRequest, Unavailable, UnsupportedFeature
from lakelog.io.lease import Leases
from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.logstore.formats import other_writer
from lakelog.options.log import DROP_WITH_TABLE, EMIT_MODE, LOG_ADDRESS, LOG_ADOPT, READ_MODE
from lakelog.options.option import Options
from lakelog.options.view import VIEW
from lakelog.paimon.schema.changes import RemoveOption, SchemaChange, SetOption
from lakelog.paimon.schema.constraint_changes import ConstraintChange
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.log.register import NamedReaders
from lakelog.table.maintenance.publish import publish
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import LOG_GENERATION, check_log_partitions, placing_options, planned_log
from lakelog.table.model.log_state import FOLLOWER, newest_state
from lakelog.table.new_log import NewLog, with_log_defaults
from lakelog.table.write.materializer import LogMaterializer

_WAIT_S: Final = 10.0


@contextlib.contextmanager
def switching(table: DynamicTable) -> Iterator[None]:
    """The right to add or remove the log of a table for a block; raises Unavailable if another process keeps it."""
    leases = Leases(table.io, f"{table.store.paths.branch_root}/lakelog/log-switch")
    busy = Unavailable(f"another process adds or removes the log of table {table.name}: try again")
    with leases.holding("log", _WAIT_S, busy):
        yield


def settle_log(table: DynamicTable) -> None:
    """Makes the snapshot with which the log begins or has ended, if there is none yet; any process may do so.

    In a table with a key the decision is a link of the chain: links after it are of writers that know of it, because
    each writer reads all links before its own. Without a key, and in a log of changes, the first snapshot decides.
    Raises Unavailable, CommitConflict, CommitUnknown.
    """
    if not table.log_generation:
        return
    if table.publishes:
        publish(table)
    elif newest_state(table.store)[1].log < table.log_generation:
        writer = f"log-{table.log_generation}"
        committer = Committer(table, writer, once=True)
        committer.commit(0, [])
        seal(committer)
        table.registered.drop(writer)
        committer.forget()


def create_added_log(catalog: Catalog, location: TableLocation, options: Mapping[str, str]) -> NewLog:
    """Creates the log of a table that has none; ``options`` are those of the table with the ones of its log.

    Raises the errors of ``NewLog.create``, InvalidOption for the topic of another producer.
    """
    table = DynamicTable(location)
    if asked := other_writer(Options(options)):
        raise InvalidOption(
            f"option {asked} cannot be set for a table that exists: its rows are not in that topic. "
            "Create a new table with it"
        )
    generation = {LOG_GENERATION: str(table.log_generation + 1)}
    schema = replace(location.schema, options={**with_log_defaults(dict(options)), **generation})
    check_log_partitions(schema)
    settle_log(table)  # a statement that removed the log may have ended half-way
    _forget_log(table)
    planned = replace(planned_log(schema, location.path, location.identifier), storage=location.io)
    if log_factory(planned.system).is_local and LOG_ADDRESS.key not in schema.options:
        LOG_SYSTEMS.create(planned.system).drop(planned)  # what a statement has left that ended half-way
    return NewLog.create(catalog, location.identifier, schema, location.path, location.io)


def end_log(table: DynamicTable) -> list[SchemaChange]:
    """Brings the last rows of a log to the files; returns the changes of the schema that remove the log.

    Raises UnsupportedFeature for a materialized view, InvalidRequest for a log with rows that no file has, Unavailable,
    OffsetExpired.
    """
    if VIEW.key in table.schema.options:
        raise UnsupportedFeature(
            f"the log of {table.name} cannot be removed, because it is a materialized view: drop it"
        )
    settle_log(table)
    if FOLLOWER in table.registered.all():
        for _ in LogMaterializer(table).follow("latest"):
            pass
    seal_staged(table)
    if table.has_input_log and newest_state(table.store)[1].log_only:
        raise InvalidRequest(
            f"the log of table {table.name} cannot be removed, because it has rows that no file has "
            f"('{EMIT_MODE.key}' = 'log'): write what a read with '{READ_MODE.key}' = 'union' returns to a new table"
        )
    removed: list[SchemaChange] = [RemoveOption(key) for key in placing_options(table.schema)]
    return [*removed, SetOption(LOG_GENERATION, str(table.log_generation + 1))]


def drop_ended_log(table: DynamicTable) -> None:
    """Deletes the log of a table as it was before, as DROP TABLE does, with the positions of its readers and writers.

    A topic stays without ``log-store.drop-with-table``, and so do files at an address that the user gave.
    """
    _forget_log(table)
    log = table.log
    if log is None or table.options.need(LOG_ADOPT):
        return
    is_local, is_placed = log_factory(log.system).is_local, LOG_ADDRESS.key in table.schema.options
    if not is_placed if is_local else table.options.need(DROP_WITH_TABLE):
        LOG_SYSTEMS.create(log.system).drop(log)


def options_after(options: Mapping[str, str], changes: Sequence[SchemaChange]) -> dict[str, str]:
    """The options of a table after the changes of options among these changes."""
    after = dict(options)
    for change in changes:
        if isinstance(change, SetOption):
            after[change.key] = change.value
        elif isinstance(change, RemoveOption):
            after.pop(change.key, None)
        elif isinstance(change, ConstraintChange):
            after = change.options_after(after)
    return after


def _forget_log(table: DynamicTable) -> None:
    """Deletes what is known of writers and readers of a log that a table no longer has."""
    readers = NamedReaders(table.io, table.path)
    for reader in readers.list():
        readers.delete(reader.name)
    for writer in table.registered.all():
        if not table.decided.of(writer):
            table.registered.drop(writer)
            table.registered.forget(writer)
