"""What a view's table may be: its rows are those of the query, so no option may change, hide or expire them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, Final

from lakelog.errors import Corrupt, InvalidOption, InvalidRequest, UnsupportedFeature
from lakelog.options.log import EMIT_MODE
from lakelog.options.option import Option, Options
from lakelog.options.retention import PARTITION_EXPIRATION_TIME, RECORD_EXPIRE_TIME
from lakelog.options.scan import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_TO_AUTO_TAG,
    SCAN_SNAPSHOT,
    SCAN_TAG,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
)
from lakelog.options.table import IGNORE_DELETE, MERGE_ENGINE, ROWKIND_FIELD, SEQUENCE_FIELD
from lakelog.options.view import VIEW
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.views.definition import ViewDefinition

_DEFAULT_ONLY: Final[tuple[Option[Any], ...]] = (MERGE_ENGINE, IGNORE_DELETE, EMIT_MODE)
"""Options with which writes keep other rows than they get."""
_NEVER: Final[tuple[Option[Any], ...]] = (
    SEQUENCE_FIELD, ROWKIND_FIELD, RECORD_EXPIRE_TIME, PARTITION_EXPIRATION_TIME, SCAN_SNAPSHOT, SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS, SCAN_TAG, SCAN_WATERMARK, SCAN_VERSION, INCREMENTAL_BETWEEN, INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_TO_AUTO_TAG,
)  # fmt: skip


def check_view_options(schema: TableSchema) -> None:
    """Raises InvalidOption if an option makes the rows of a view others than those of its query."""
    options = Options(schema.options)
    changing = [o for o in _DEFAULT_ONLY if options.need(o) != o.default]
    changing += [o for o in _NEVER if options.get_typed(o) is not None]
    if changing:
        key = changing[0].key
        raise InvalidOption(
            f"option '{key}' = '{options.get(key, '')}' of a materialized view would make its rows others than those "
            "of its query: leave it out"
        )


def check_view_change(before: TableSchema, after: TableSchema) -> None:
    """Checks a change of a schema, if the table is a view or would be one.

    Raises UnsupportedFeature for one of columns or of the definition, except of when the view is refreshed, and
    InvalidOption as ``check_view_options``.
    """
    if VIEW.key not in before.options and VIEW.key not in after.options:
        return
    old, new = _definition(before), _definition(after)
    same = old and replace(old, every_ms=None, suspended=False)
    if same is None or new is None or replace(new, every_ms=None, suspended=False) != same:
        raise UnsupportedFeature(
            f"option '{VIEW.key}' is written by CREATE MATERIALIZED VIEW and ALTER MATERIALIZED VIEW only"
        )
    if [(f.id, f.name, f.type) for f in before.fields] != [(f.id, f.name, f.type) for f in after.fields]:
        raise UnsupportedFeature(
            "the columns of a materialized view are those of its query: write CREATE OR REPLACE MATERIALIZED VIEW"
        )
    check_view_options(after)


def check_no_view(schema: TableSchema | None, name: str) -> None:
    """Raises InvalidRequest for a view, which its sources know, so that only its own statements drop or replace it."""
    if schema is not None and _definition(schema) is not None:
        raise InvalidRequest(f"{name} is a materialized view: write DROP MATERIALIZED VIEW")


def _definition(schema: TableSchema) -> ViewDefinition | None:
    """The definition of a view, None for a table and for a damaged one, which DROP TABLE drops."""
    with contextlib.suppress(Corrupt):
        return ViewDefinition.of(schema)
    return None
