"""Logs that another system writes in an envelope of its own, as options of the table."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option

KEY_FORMAT: Final = Option(
    "log-store.key-format",
    str,
    None,
    "Encoding of the keys of a log whose log-store.data-format is plain-json: json (an object of the primary key's "
    "columns, or the value of the only one) or text (the value of the only one). A record with a key and without a "
    "value then deletes its row. Default: such a record is no row.",
    choices=("json", "text"),
    scope=("table", "read"),
)
INCLUDE_DATABASE: Final = Option(
    "log-store.include.database",
    str,
    None,
    "Regular expression of the source databases whose records are rows, in a log whose log-store.data-format is "
    "canal-json or maxwell-json. It matches the whole name.",
    scope=("table", "read"),
    aliases=("canal-json.database.include",),
)
INCLUDE_TABLE: Final = Option(
    "log-store.include.table",
    str,
    None,
    "The same for the source tables, if the topic has the records of several.",
    scope=("table", "read"),
    aliases=("canal-json.table.include",),
)
