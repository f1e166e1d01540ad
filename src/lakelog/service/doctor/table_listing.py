"""The tables of a warehouse, for checks that look at each of them."""

from __future__ import annotations

from collections.abc import Iterator

from lakelog.errors import LakelogError
from lakelog.io import file_io_for
from lakelog.lake import Lake, Table
from lakelog.service.doctor.check import CheckContext


def lake_of(around: CheckContext) -> Lake:
    """The lake that is looked at; nothing of it starts Spark."""
    return Lake(around.warehouse, storage_options=around.storage_options, catalog_options=around.catalog_options)


def list_tables(around: CheckContext) -> Iterator[Table]:
    """Its tables; none where they cannot be listed, which the check of the catalog tells of."""
    try:
        if not file_io_for(around.warehouse, around.storage_options).exists(around.warehouse):
            return
        lake = lake_of(around)
        names = lake.list_tables()
    except LakelogError:
        return
    for name in names:
        try:
            yield lake.table(name)
        except LakelogError:
            continue
