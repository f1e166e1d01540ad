"""Options of single columns, ``fields.<column>.…``: what merge engines do with them (format sheet 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakelog.options.option import Option, Options

PREFIX: Final = "fields."

AGGREGATE_FUNCTION: Final = Option("aggregate-function", str, None, "Function that aggregates the values of a key.")
IGNORE_RETRACT: Final = Option(
    "ignore-retract", bool, False, "Whether to ignore rows of kind -U and -D for this column."
)
LIST_DELIMITER: Final = Option("list-agg-delimiter", str, ",", "Delimiter between the values of listagg.")
DISTINCT: Final = Option("distinct", bool, False, "Whether collect and listagg keep equal values once.")
NESTED_KEY: Final = Option("nested-key", str, None, "Key fields of nested_update's rows, separated by commas.")
NESTED_SEQUENCE_FIELD: Final = Option(
    "nested-sequence-field", str, None, "Fields that determine the newest of nested_update's rows, separated by commas."
)
COUNT_LIMIT: Final = Option("count-limit", int, 2**31 - 1, "Maximum number of rows that nested_update keeps.")
SEQUENCE_GROUP: Final = Option(
    "sequence-group",
    str,
    None,
    "Columns, separated by commas, that are updated when the columns in the option's key are newer.",
)


@dataclass(frozen=True)
class FieldOptions:
    """The options of the column ``name`` among all options of its table."""

    name: str
    options: Mapping[str, str]

    def get(self, option: Option[Any]) -> Any:
        """The value of an option, else its default. Raises InvalidOption naming the whole key."""
        key = f"{PREFIX}{self.name}.{option.key}"
        if key not in self.options:
            return option.default
        if option is LIST_DELIMITER:
            return self.options[key]
        return Options(self.options).get_typed(Option(key, option.kind, option.default, option.doc))


def sequence_groups(options: Mapping[str, str]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The sequence groups of a table: (columns that decide, columns that are updated)."""
    ending = f".{SEQUENCE_GROUP.key}"
    return [
        (split_names(key[len(PREFIX) : -len(ending)]), split_names(text))
        for key, text in sorted(options.items())
        if key.startswith(PREFIX) and key.endswith(ending)
    ]


def split_names(text: str | None) -> tuple[str, ...]:
    """Column names in an option, with commas."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
