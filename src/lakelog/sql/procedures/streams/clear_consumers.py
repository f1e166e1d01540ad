"""CALL sys.clear_consumers."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Procedure
from lakelog.sql.runtime.statement import done_result
from lakelog.table.log.register import NamedReaders
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable) -> pa.Table:
    for consumer in table.store.consumers.list():
        table.store.consumers.delete(consumer.name)
    readers = NamedReaders(table.io, table.path)
    for reader in readers.list():
        readers.delete(reader.name)
    return done_result()


CLEAR_CONSUMERS = Procedure("clear_consumers", (), _run)
"""Forgets all consumers of the table, and all named readers of its log."""
