"""Tables of histories, drawn from the product of keys, partitions, buckets, merge engines, logs and formats."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakelog.options.changelog import CHANGELOG_PRODUCER
from lakelog.options.log import (
    CHANGELOG_MODE,
    CHANGES,
    DATA_FORMAT,
    INPUT,
    LOG_CONTENT,
    LOG_ENABLED,
    LOG_TYPE,
    WRITER_TIMEOUT,
)
from lakelog.options.option import Option
from lakelog.options.parts import LOG_FORMATS, LOG_SYSTEMS
from lakelog.options.table import BUCKET, DELETION_VECTORS, FILE_FORMAT, MERGE_ENGINE, SEQUENCE_FIELD
from merge_reference import FOLDS
from merge_reference import Table as Merge
from model.kinds import KINDS, Kind, text

NAME: Final = "db.t"
FUNCTIONS: Final = {
    "int": ("sum", "max", "min", "last_value", "first_value", "last_non_null_value", "first_non_null_value"),
    "string": ("max", "min", "last_value", "first_value", "listagg", "last_non_null_value"),
    "decimal(9,2)": ("sum", "max", "last_value"),
}


@dataclass(frozen=True)
class Column:
    """A column. ``id`` stays when it is renamed."""

    id: str
    name: str
    kind: str
    default: Any = None
    is_nullable: bool = True

    @property
    def of(self) -> Kind:
        return KINDS[self.kind]

    @property
    def code(self) -> str:
        """The column in CREATE TABLE."""
        more = "" if self.is_nullable else " not null"
        return f"{self.name} {self.kind}{more}" + (
            f" default {self.of.code(self.default)}" if self.default is not None else ""
        )


@dataclass(frozen=True)
class Table:
    """A table as CREATE says it."""

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The statement that makes it."""
        parts = [column.code for column in self.columns]
        if self.key:
            parts.append(f"primary key ({', '.join(self.key)})")
        by = f" partitioned by ({', '.join(self.partitions)})" if self.partitions else ""
        options = ", ".join(f"{text(key)} = {text(value)}" for key, value in self.options.items())
        return f"create table {NAME} ({', '.join(parts)}) using lakelog{by}" + (
            f" tblproperties ({options})" if options else ""
        )

    @property
    def has_log(self) -> bool:
        return self.options.get(LOG_ENABLED.key) == "true"

    @property
    def log_follows(self) -> bool:
        """Whether the log has what the files show, and not the rows as they were written."""
        return self.has_log and self.options.get(LOG_CONTENT.key, INPUT if self.is_plain else CHANGES) == CHANGES

    @property
    def drops_files(self) -> bool:
        """Whether rows are replaced with their files; else an epoch of deletes is in the log, too."""
        return not self.key or not self.has_log or self.log_follows

    @property
    def engine(self) -> str:
        return self.options.get(MERGE_ENGINE.key, "deduplicate")

    @property
    def is_plain(self) -> bool:
        """Whether the newest row of a key is its value."""
        return self.engine == "deduplicate" and SEQUENCE_FIELD.key not in self.options

    @property
    def can_delete(self) -> bool:
        """Whether its merge engine takes rows away."""
        return self.engine == "deduplicate" or any(key.endswith("remove-record-on-delete") for key in self.options)

    @property
    def merge(self) -> Merge:
        """The words of its merge engine; columns by id."""
        ids = {column.name: column.id for column in self.columns}
        functions = {
            ids[key.split(".")[1]]: value for key, value in self.options.items() if key.endswith(".aggregate-function")
        }
        flags = {"remove"} if any("remove-record-on-delete" in key for key in self.options) else set()
        sequence = tuple(ids[name] for name in self.options.get(SEQUENCE_FIELD.key, "").split(",") if name)
        columns = {column.id: column.kind.upper() for column in self.columns}
        return FOLDS[self.engine](self.engine, columns, functions, flags=frozenset(flags), sequence=sequence)

    def without(self, key: str) -> Table:
        """The table without an option."""
        return replace(self, options={name: value for name, value in self.options.items() if name != key})


def _pick(rng: random.Random, option: Option[Any], weight: float, among: Sequence[str] | None = None) -> dict[str, str]:
    """One of the option's own values (by default any), or nothing."""
    return {option.key: rng.choice(list(among or option.choices))} if rng.random() < weight else {}


def written_formats() -> list[str]:
    """The formats of logs that lakelog writes."""
    return [name for name in LOG_FORMATS if LOG_FORMATS.load(name).is_written]


def local_logs() -> list[str]:
    """The log systems that need no server."""
    return [name for name in LOG_SYSTEMS if LOG_SYSTEMS.load(name).is_local]


def draw_table(rng: random.Random, log: str | None = None) -> Table:
    """A table; CREATE may refuse it. ``log`` is a log system that needs a server."""
    has_key = rng.random() < 0.65
    columns = [
        Column("c0", "id", rng.choice(["int", "bigint", "string", "int", "int", "char(5)"]), is_nullable=not has_key)
    ]
    partitions: tuple[str, ...] = ()
    if rng.random() < 0.4:
        kind = rng.choice(["string", "date", "int", "timestamp", "double", "boolean"])
        columns.append(Column("c1", "p", kind, is_nullable=not has_key))
        partitions = ("p",)
    options: dict[str, str] = {}
    engine = "deduplicate"
    if has_key:
        engine = rng.choice(["deduplicate", "deduplicate", "deduplicate", *MERGE_ENGINE.choices])
        if engine not in FOLDS:
            engine = "deduplicate"
        if engine != "deduplicate":
            options[MERGE_ENGINE.key] = engine
    kinds = list(FUNCTIONS) if engine == "aggregation" else list(KINDS)
    for number in range(2, rng.choice([4, 5, 6])):
        kind = rng.choice(kinds if number > 2 else ["int", "string"])
        column = Column(f"c{number}", "vwxyz"[number - 2], kind)
        if column.of.is_simple and column.kind != "binary" and engine == "deduplicate" and rng.random() < 0.15:
            column = replace(column, default=rng.choice([v for v in column.of.values if "(" not in column.of.code(v)]))
        elif engine == "deduplicate" and rng.random() < 0.1:
            column = replace(column, is_nullable=False)
        columns.append(column)
        if engine == "aggregation":
            options[f"fields.{column.name}.aggregate-function"] = rng.choice(FUNCTIONS[kind])
    if engine in ("partial-update", "aggregation") and rng.random() < 0.5:
        options[f"{engine}.remove-record-on-delete"] = "true"
    numbers = [
        column.name for column in columns[1:] if column.kind in ("int", "bigint", "smallint") and column.name != "p"
    ]
    is_late = has_key and engine in ("deduplicate", "aggregation") and numbers and rng.random() < 0.2
    if is_late and "listagg" not in options.values():  # its texts are in the order of the writes
        options[SEQUENCE_FIELD.key] = numbers[0]
        options.pop(f"fields.{numbers[0]}.aggregate-function", None)
    if has_key:
        options[BUCKET.key] = rng.choice(["1", "1", "2", "4", "-1"])
        if options[BUCKET.key] == "-1":
            options |= {"dynamic-bucket.target-row-num": "5", "dynamic-bucket.initial-buckets": rng.choice(["1", "2"])}
        options |= {DELETION_VECTORS.key: "true"} if rng.random() < 0.2 else {}
        options |= _pick(rng, CHANGELOG_PRODUCER, 0.25)
        options |= {"num-sorted-run.compaction-trigger": "3"} if rng.random() < 0.5 else {}
    elif rng.random() < 0.5:
        options |= {BUCKET.key: rng.choice(["1", "4"]), "bucket-key": "id"} if rng.random() < 0.6 else {BUCKET.key: "2"}
    options |= _pick(rng, FILE_FORMAT, 0.3)
    if log is not None or rng.random() < 0.6:
        options[LOG_ENABLED.key] = "true"
        options[LOG_TYPE.key] = log or rng.choice(local_logs())
        options |= (
            _pick(rng, DATA_FORMAT, 0.5, written_formats())
            | _pick(rng, LOG_CONTENT, 0.3)
            | _pick(rng, CHANGELOG_MODE, 0.3)
        )
        options[WRITER_TIMEOUT.key] = "10 s"
        options["log-store.retention"] = "400 d"  # longer than any clock is wrong
        if "bucket-key" in options and rng.random() < 0.5:
            options["log-store.partitions"] = "3"
    if rng.random() < 0.1:
        options["metadata.iceberg.storage"] = "table-location"
    if options.get(FILE_FORMAT.key) == "orc":  # it refuses times outside of 1677 to 2262, and some fractions
        columns = [replace(c, kind="date") if c.kind.startswith("timestamp") else c for c in columns]
        columns = [replace(c, default=None) if c.kind == "date" else c for c in columns]
    return Table(
        tuple(columns), tuple(c.name for c in columns[: 1 + len(partitions)]) if has_key else (), partitions, options
    )


def may_hide(table: Table) -> bool:
    """Whether readers see rows only once they are compacted."""
    return table.options.get(DELETION_VECTORS.key) == "true" or table.engine == "first-row"
