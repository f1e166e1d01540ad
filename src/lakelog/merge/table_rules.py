"""The requirements of a table's options on its merge engine, and the options that prevent writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.errors import InvalidOption, UnsupportedFeature
from lakelog.merge.base import MergeEngine
from lakelog.options.changelog import CHANGELOG_PRODUCER
from lakelog.options.features import TableFeatures
from lakelog.options.log import CHANGE_TRACKING, CHANGES, EMIT_MODE, INPUT, LOG_CONTENT, LOG_ENABLED
from lakelog.options.option import Options
from lakelog.options.parts import MERGE_ENGINES
from lakelog.options.table import (
    DELETION_VECTORS,
    FORCE_LOOKUP,
    MERGE_ENGINE,
    QUERY_AUTH,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
)
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import is_text

_LOOKUP_PRODUCER: Final = "lookup"
_UNKNOWN_FLAGS: Final = ("row-tracking.enabled", "data-evolution.enabled")
_OTHER_ORDERS: Final = {
    "primary-key.nullable": "a key may be NULL",
    "sequence.snapshot-ordering": "rows of a key are in the order of snapshots",
    "pk-clustering-override": "files are not sorted by the primary key",
}
"""Flags of tables with a primary key, by which another engine merges rows in another way (Paimon 2)."""


def engine_class(options: Options) -> type[MergeEngine]:
    """The class of a table's merge engine, with the engine's capabilities. Raises InvalidOption."""
    engine: type[MergeEngine] = MERGE_ENGINES.load(options.need(MERGE_ENGINE))
    return engine


def needs_lookup(options: Options) -> bool:
    """True if compactions of a keyed table look up the old values of the keys of level 0 (format sheet 7).

    A row of a level ≥ 1 is then the whole value of its key.
    """
    return (
        options.need(CHANGELOG_PRODUCER) == _LOOKUP_PRODUCER
        or options.need(DELETION_VECTORS)
        or options.need(FORCE_LOOKUP)
        or engine_class(options).oldest_wins
    )


def is_evolving(options: Mapping[str, str]) -> bool:
    """True for a table whose rows may be joined from several files (data evolution)."""
    return _is_set(options, "data-evolution.enabled")


def check_access(options: Mapping[str, str], table: str) -> None:
    """Refuses a table with a reader feature that is unknown here, and one whose rows and columns depend on who asks.

    lakelog does not apply filters and masks of a catalog. Called whenever a table is opened, so that no read, copy or
    statistic shows its rows. Raises UnsupportedFeature.
    """
    TableFeatures.of(options).check_readable(table)
    if _is_set(options, QUERY_AUTH):
        raise UnsupportedFeature(
            f"table {table} has '{QUERY_AUTH}' = '{options[QUERY_AUTH]}': its catalog filters and masks rows per user, "
            "which lakelog cannot do yet; read it with an engine that asks the catalog, such as Apache Paimon's"
        )


def check_mergeable(options: Mapping[str, str]) -> None:
    """Refuses a table with a primary key whose rows lakelog would merge wrongly.

    Called before a plan and before a write. Raises UnsupportedFeature with key and value.
    """
    for key, meaning in _OTHER_ORDERS.items():
        if _is_set(options, key):
            raise UnsupportedFeature(
                f"option '{key}' = '{options[key]}' is not supported: {meaning}, which lakelog cannot merge; read and "
                "write this table with another engine"
            )


def check_kind_column(schema: TableSchema) -> None:
    """Raises InvalidOption if the option ``rowkind.field`` names no column of text."""
    name = schema.options.get(ROWKIND_FIELD.key)
    if name is None:
        return
    kind = schema.field(name).type if name in schema.field_names else None
    if not is_text(kind):
        raise InvalidOption(f"option '{ROWKIND_FIELD.key}' = '{name}' must be a column of type STRING")


def check_writable(table_options: Mapping[str, str]) -> None:
    """Refuses to write a table whose options lakelog would not honour.

    Called before the first file of a write, and for CREATE TABLE. Raises UnsupportedFeature with key and value, before
    any change. Reads may still work. Raises InvalidOption for options that contradict each other.
    """
    options = Options(table_options)
    TableFeatures.of(table_options).check_writable()
    for key in _UNKNOWN_FLAGS:
        if _is_set(table_options, key):
            raise _refused(key, table_options[key], "lakelog writes only tables where it is false")
    if _is_set(table_options, QUERY_AUTH):
        raise _refused(QUERY_AUTH, table_options[QUERY_AUTH], "lakelog does not filter and mask rows per user")
    check_mergeable(table_options)
    if options.need(DELETION_VECTORS) and engine_class(options).oldest_wins:
        raise InvalidOption(
            f"option '{DELETION_VECTORS.key}' = 'true' does not go with '{MERGE_ENGINE.key}' = "
            f"'{options.need(MERGE_ENGINE)}', which replaces no rows: remove the option"
        )
    if options.need(LOG_ENABLED):
        check_log_content(options)


def log_content(options: Options) -> str:
    """The content of a table's log; tables of before ``log.content`` have ``input``."""
    return options.get_typed(LOG_CONTENT) or INPUT


def default_log_content(options: Options) -> str:
    """The content of the log of a new table that does not name one."""
    return engine_class(options).log_contents(options)[0]


def check_log_content(options: Options) -> None:
    """Refuses a content of the log that its readers could not merge, and writes that the content contradicts.

    Called with the options of a table, and with those of one write. Raises InvalidOption.
    """
    content = log_content(options)
    if content not in engine_class(options).log_contents(options):
        cause = (SEQUENCE_FIELD if options.get_typed(SEQUENCE_FIELD) is not None else MERGE_ENGINE).key
        raise InvalidOption(
            f"option '{LOG_CONTENT.key}' = '{content}' does not go with '{cause}' = '{options.get(cause, '')}': its "
            f"readers see rows one by one and cannot merge them so. Make the table with '{LOG_CONTENT.key}' = "
            f"'{CHANGES}'"
        )
    if content != CHANGES:
        return
    for option, is_refused in (
        (EMIT_MODE, options.need(EMIT_MODE) in ("log", "file")),
        (CHANGE_TRACKING, not options.need(CHANGE_TRACKING)),
    ):
        if is_refused:
            raise InvalidOption(
                f"option '{option.key}' = '{options.get(option.key, '')}' does not go with '{LOG_CONTENT.key}' = "
                f"'{CHANGES}': the log follows the files, so a write fills both. Leave it out"
            )


def _is_set(options: Mapping[str, str], key: str) -> bool:
    return options.get(key, "false").strip().lower() != "false"


def _refused(key: str, value: str, what: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"option '{key}' = '{value}' is not supported for writing: {what}; write this table with another engine"
    )
