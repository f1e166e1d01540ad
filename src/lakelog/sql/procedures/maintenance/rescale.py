"""CALL sys.rescale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.options.table import BUCKET
from lakelog.paimon.schema.changes import SchemaChange, SetOption
from lakelog.sql.runtime.procedure import Parameter, Procedure, number, partition_specs
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.rescale import rescale


def _run(
    table: DynamicTable,
    alter: Callable[[Sequence[SchemaChange]], object],
    bucket_num: int | None = None,
    partitions: Sequence[Mapping[str, str]] = (),
) -> pa.Table:
    if bucket_num is not None and bucket_num != table.schema.num_buckets:
        if bucket_num < 1:
            raise InvalidRequest(f"bucket_num = {bucket_num} of table {table.name}: give a number of at least 1")
        alter([SetOption(BUCKET.key, str(bucket_num))])
        table = table.with_newest_schema()
    for values in partitions or [{}]:
        rescale(table, values)
    return done_result()


RESCALE = Procedure(
    "rescale", (Parameter("bucket_num", number), Parameter("partitions", partition_specs)), _run, alters=True
)
"""Writes the rows of all or some partitions again in another number of buckets, which becomes the table's."""
