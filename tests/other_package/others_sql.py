"""Statements and a procedure of a package outside of lakelog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.procedure import Parameter, Procedure, number
from lakelog.sql.runtime.statement import Privilege, TableStatement, counts_row
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan


@dataclass(frozen=True)
class TellTheRowsOf(TableStatement):
    """``TELL THE ROWS OF name``: the number of rows."""

    needs: ClassVar[Privilege] = Privilege.READ

    @classmethod
    def parse(cls, cursor: TokenStream) -> TellTheRowsOf:
        cursor.expect_words("TELL", "THE", "ROWS", "OF")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        return rows_of(session.tables.open(identifier))


@dataclass(frozen=True)
class Sweep(TableStatement):
    """``SWEEP name``: removes all rows."""

    needs: ClassVar[Privilege] = Privilege.WRITE
    is_explained: ClassVar[bool] = True

    @classmethod
    def parse(cls, cursor: TokenStream) -> Sweep:
        cursor.expect_words("SWEEP")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        return counts_row(session.tables.delete(identifier, None, {}))


def rows_of(table: DynamicTable, beside: int = 0) -> pa.Table:
    return pa.table({"rows": pa.array([Scan(table).to_arrow().num_rows + beside], pa.int64())})


TELL_ROWS = Procedure("tell_rows", (Parameter("beside", number),), rows_of)
