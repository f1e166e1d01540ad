"""Unreadable records of the log: a read either raises one error with the position, or skips and counts them.

The reader notes each one as ``<table>/lakelog/bad-records/<bucket>-<offset>``, for the table's health.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakelog.errors import Corrupt, InvalidSchema, LakelogError
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.logstore.encoding.record_format import MALFORMED
from lakelog.options.log import ON_BAD_RECORD
from lakelog.options.metrics import BAD_RECORDS
from lakelog.table.model.dynamic_table import DynamicTable

_LOG = logging.getLogger("lakelog.read")


@dataclass(frozen=True)
class RecordDecoder:
    """Decodes the records of one bucket (None: unknown) of a table's log."""

    table: DynamicTable
    decode: Callable[[pa.LargeBinaryArray], pa.Table]
    bucket: int | None

    def rows(self, values: pa.LargeBinaryArray, offsets: pa.Int64Array) -> pa.Table | None:
        """The rows of log values. Raises Corrupt with topic, bucket and offset of the first bad record.

        With ``scan.on-bad-record`` = ``skip`` it skips bad records instead; None if it skips all of them.
        """
        parts = list(self._good(values, offsets))
        return pa.concat_tables(parts) if parts else None

    def _good(self, values: pa.LargeBinaryArray, offsets: pa.Int64Array) -> Iterator[pa.Table]:
        """The rows of the readable records, found by bisection."""
        try:
            yield self.decode(values)
        except InvalidSchema:
            raise  # the reader is older than the record
        except MALFORMED as why:
            middle = len(values) // 2
            if middle:
                yield from self._good(values.slice(0, middle), offsets.slice(0, middle))
                yield from self._good(values.slice(middle), offsets.slice(middle))
            else:
                self.bad(int(offsets[0].as_py()), why)

    def bad(self, offset: int, why: BaseException) -> None:
        """Notes a bad record, and counts it. Raises Corrupt unless ``scan.on-bad-record`` = ``skip``."""
        table, log = self.table, self.table.log
        where = f"the record at offset {offset} of bucket {'?' if self.bucket is None else self.bucket}"
        text = f"{where} of the log of table {table.name} (topic '{'' if log is None else log.topic}') cannot be read"
        with contextlib.suppress(LakelogError):  # a reader may lack the privilege to write
            if self.bucket is not None:
                table.io.create(f"{_directory(table)}/{self.bucket}-{offset}", str(why).encode())
        if table.options.need(ON_BAD_RECORD) == "error":
            raise Corrupt(f"{text}: {why}. To skip it, read with '{ON_BAD_RECORD.key}'='skip'") from None
        METER.add(BAD_RECORDS, table=table.name)
        _LOG.warning("%s, and is skipped: %s", text, why, extra=fields(table=table.name, bucket=self.bucket))


def noted_bad_records(table: DynamicTable) -> tuple[str, ...]:
    """The bad records that readers have noted, as bucket-offset."""
    return tuple(status.name for status in table.io.list(_directory(table)))


def _directory(table: DynamicTable) -> str:
    return f"{table.path}/lakelog/bad-records"
