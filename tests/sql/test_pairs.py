"""Runs the pairs in the .sql files beside this file: statements, and what they do to the tables and to Spark.

A pair begins with ``--# title``, then come statements, then lines ``--> …`` with everything that happened. So each
file is SQL by itself. To add one: write the statements, run, compare what pytest prints.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.catalog.base import Identifier
from lakelog.errors import AlreadyExists, LakelogError, NotFound, UnsupportedFeature
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.filestore.skipping.predicate_text import predicate_text
from lakelog.options.log import SCAN_DATA_FILES
from lakelog.options.lookup import LOOKUP_ASYNC
from lakelog.options.option import Declared, Option
from lakelog.options.scan import SCAN_OPTIONS
from lakelog.options.table import MERGE_ON_READ
from lakelog.paimon.schema.changes import Position, SchemaChange, apply_changes
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import DataType
from lakelog.sql.parse import QueryPlan, Session
from lakelog.sql.syntax.struct_casts import FieldMatch
from lakelog.sql.syntax.type_parser import parse_type_text, type_text
from lakelog.table.model.row_counts import RowCounts, row_counts
from lakelog.table.write.dml_support import DmlSupport

HERE = Path(__file__).parent

OPTIONS = Declared(
    [
        Option("read.mode", str, "file", "", ("read",), choices=("file", "log"), aliases=("arctic.read.mode",)),
        Option("scan.limit", int, None, "", ("read",)),
        SCAN_DATA_FILES,
        MERGE_ON_READ,
        LOOKUP_ASYNC,
        Option("emit.mode", str, "auto", "", ("write",), aliases=("arctic.emit.mode",)),
        Option("bucket", int, 1, ""),
        Option("log-store.enabled", bool, False, ""),
        Option("log-store.topic", str, None, ""),
        Option("log-store.address", str, None, ""),
        Option("log-store.consistency-guarantee.enabled", bool, False, "", ("table", "read")),
        *SCAN_OPTIONS.options,
    ],
    free_prefixes=("properties.",),
)
TABLES = {
    "db.t": "id int, name string, ts timestamp, tags array<string>, info struct<a:int, id:string>",
    "db.u": "uid bigint, id int, amount decimal(10,2), `order` string, name string",
    "db.t$snapshots": "snapshot_id bigint, total bigint",
    "db.arctic": "id int, name string",
    "default.home": "id int, count int",
    "other.t": "id int, extra string",
    "other.p": "day date, id int, hour int, name string",
}
SECOND = {"db.t": "id int, name string, price int", "default.only": "id int"}
"""The tables of a further catalog with the options {'warehouse': 'second'}."""
SPARK_RELATIONS = ("sourceTable", "spark_t", "home_view", "shadow", "spark_db.x", "kept_rows")


class ScribeOfTables:
    """Tables in memory that write down what is done to them."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.databases = {"": {"db", "default", "other"}}
        self.tables: dict[Identifier, TableSchema] = {}
        self._add({**TABLES, "default.shadow": "id int"})

    def _add(self, tables: Mapping[str, str], catalog: str = "") -> None:
        for name, columns in tables.items():
            row = parse_type_text(f"struct<{columns}>")
            fields = [(f.name, f.type, None) for f in row.fields]
            key = ["id"] if name == "db.t" else []
            parts = ["day", "hour"] if name == "other.p" else []
            options = {"lookup.proctime-columns": "at,seen"} if name == "other.t" else {}
            self.tables[Identifier(*name.split("."), catalog)] = new_schema(fields, key, parts, options, None, 0)

    def list_catalogs(self) -> list[str]:
        return sorted(name for name in self.databases if name)

    def create_catalog(self, name: str, options: Mapping[str, str]) -> None:
        self.events.append(f"create catalog {name}{_options(options)}")
        self.databases[name] = {"db", "default"}
        self._add(SECOND, name)

    def drop_catalog(self, name: str) -> None:
        self.events.append(f"drop catalog {name}")
        del self.databases[name]

    def load_schema(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> TableSchema | None:
        found = self.tables.get(identifier)
        if found is None or (options or {}).get("scan.version") != "before tags":
            return found
        return replace(found, fields=found.fields[:2])

    def open(self, identifier: Identifier) -> Any:
        return SimpleNamespace(store=SimpleNamespace(latest_snapshot=lambda: SimpleNamespace(id=9)))

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        if identifier in self.tables and not if_not_exists:
            raise AlreadyExists(f"table '{identifier}' exists")
        self.events.append(f"create table {identifier}" + " if missing" * if_not_exists)
        for f in schema.fields:
            null = "" if f.type.nullable else " not null"
            comment = f" -- {f.description}" if f.description else ""
            self.events.append(f"  {f.name} {type_text(f.type)}{null}{comment}")
        for what, value in (
            ("primary key", ", ".join(schema.primary_keys)),
            ("partitioned by", ", ".join(schema.partition_keys)),
            ("comment", schema.comment),
        ):
            self.events += [f"  {what} {value}"] if value else []
        self.events += [f"  {key} = {value}" for key, value in schema.options.items()]
        self.tables[identifier] = schema

    def drop_table(self, identifier: Identifier, if_exists: bool, purge: bool) -> None:
        flags = " if exists" * if_exists + " purge" * purge
        self.events.append(f"drop table {identifier}{flags}")

    def truncate(self, identifier: Identifier, partition: Mapping[str, object], options: Mapping[str, str]) -> None:
        self.events.append(f"truncate {identifier} {dict(partition)}{_options(options)}")

    def drop_partitions(
        self, identifier: Identifier, partitions: list, if_exists: bool, options: Mapping[str, str]
    ) -> None:
        flags = " if exists" * if_exists + _options(options)
        self.events.append(f"drop partitions of {identifier} {partitions}{flags}")

    def delete(self, identifier: Identifier, condition: Predicate | None, options: Mapping[str, str]) -> RowCounts:
        where = None if condition is None else predicate_text(condition)
        self.events.append(f"delete from {identifier} {where}{_options(options)}")
        return row_counts()

    def changeable(self, identifier: Identifier, actions: Collection[str], options: Mapping[str, str]) -> DmlSupport:
        if "emit.mode" in options and actions:
            raise UnsupportedFeature(f"{sorted(actions)} with a log")
        return DmlSupport(False, identifier.table == "u2")

    def analyze(self, identifier: Identifier, columns: list[str] | None) -> None:
        self.events.append(f"analyze {identifier} {columns}")

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> None:
        before = self.tables[identifier]
        after = apply_changes(before, changes, has_snapshots=True, time_millis=0)
        self.events.append(f"alter table {identifier}")
        self.events += [f"  {type(c).__name__} {_fields_text(c)}" for c in changes]
        self.tables[identifier] = after

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        self.events.append(f"rename table {identifier} to {new}")

    def list_tables(self, database: str, catalog: str) -> list[str]:
        if database not in self.databases[catalog]:
            raise NotFound(f"database '{database}' does not exist")
        return [i.table for i in self.tables if (i.database, i.catalog) == (database, catalog)]

    def list_databases(self, catalog: str) -> list[str]:
        return sorted(self.databases[catalog])

    def create_database(self, name: str, if_not_exists: bool, catalog: str) -> None:
        self.events.append(f"create database {name}" + _in(catalog) + " if missing" * if_not_exists)
        self.databases[catalog].add(name)

    def drop_database(self, name: str, if_exists: bool, cascade: bool, catalog: str) -> None:
        flags = " if exists" * if_exists + " cascade" * cascade
        self.events.append(f"drop database {name}" + _in(catalog) + flags)

    def describe(self, identifier: Identifier, extended: bool) -> list[tuple[str, str, str | None]]:
        rows: list[tuple[str, str, str | None]] = [
            (f.name, type_text(f.type), None) for f in self.tables[identifier].fields
        ]
        return [*rows, ("# table", "", None)] if extended else rows

    def canonical_options(self, given: Mapping[str, str], scope: str) -> dict[str, str]:
        return OPTIONS.canonical(given, scope)


class SparkRefused(Exception):
    """Stands for Spark's ParseException."""


class ScribeOfSpark:
    """An engine that writes down what it is asked for. It refuses text with the word SPARK_REFUSES."""

    zone = None

    def check_assignments(self) -> None:
        """It has no rule of its own."""

    def checks_casts(self) -> bool:
        return True

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def is_spark_relation(self, name: str) -> bool:
        return name in SPARK_RELATIONS

    def is_view(self, name: str) -> bool:
        return False

    def view_of(self, name: str) -> None:
        return None

    def run_query(self, plan: QueryPlan) -> object:
        if "SPARK_REFUSES" in plan.text:
            raise SparkRefused("[PARSE_SYNTAX_ERROR] Syntax error\n(line 1)")
        self._write_plan("query" + " with persistent views" * plan.persistent, plan)
        return None

    def insert(
        self,
        table: Identifier,
        plan: QueryPlan,
        columns: tuple[str, ...] | None,
        options: dict[str, str],
        partition: Mapping[str, str | None],
        overwrite: bool,
        match: FieldMatch = FieldMatch.POSITION,
    ) -> object:
        listed = "" if columns is None else f" ({', '.join(columns)})"
        chosen = f" partition {dict(partition)}" if partition else ""
        verb = "overwrite" if overwrite else "into"
        self._write_plan(f"insert {verb} {table}{chosen}{listed}{_options(options)}", plan)
        return row_counts()

    def columns_of(self, plan: QueryPlan, allow_null: bool = False) -> Sequence[tuple[str, DataType]]:
        if nested := plan.text.count(" AS _v"):  # values of the struct column
            return [(f"_v{n}", parse_type_text("struct<a:int, id:string>")) for n in range(nested)]
        self._write_plan("columns of", plan)
        row = parse_type_text("struct<id:int, name:string>")
        return [(f.name, f.type) for f in row.fields]

    def millis_of(self, expression: str) -> int:
        self.events.append(f"millis of {expression}")
        return 1000

    def simple_types(self, table: Identifier) -> Mapping[str, str]:
        return {"amount": "decimal(10,2)", "name": "string"}

    def files_of(self, table: Identifier, plan: QueryPlan | None, options: Mapping[str, str]) -> Sequence[str]:
        if plan is None:
            self.events.append(f"all files of {table}{_options(options)}")
        else:
            self._write_plan(f"files of {table}{_options(options)}", plan)
        return ["f1", "f2"]

    def replace_files(
        self, table: Identifier, plan: QueryPlan, files: Sequence[str], options: Mapping[str, str]
    ) -> RowCounts:
        self._write_plan(f"in place of {list(files)} of {table}{_options(options)}", plan)
        return row_counts()

    def update_catalogs(self) -> None:
        self.events.append("catalogs changed")

    @contextlib.contextmanager
    def materialized(self, plan: QueryPlan) -> Iterator[str]:
        self._write_plan("materialized", plan)
        yield "kept_rows"

    def cache_table(self, table: Identifier, level: str, lazy: bool) -> None:
        self.events.append(f"cache{' lazily' * lazy} {table} {level}")

    def uncache_table(self, table: Identifier | None) -> None:
        self.events.append(f"uncache {table or 'all tables'}")

    def pass_through(self, text: str) -> object:
        self.events += ["spark:", *(f"  {line}" for line in text.splitlines())]
        return None

    def _write_plan(self, what: str, plan: QueryPlan) -> None:
        self.events += [f"{what}:", *(f"  {line}" for line in plan.text.splitlines())]
        for s in plan.lookups:
            columns = "*" if s.columns is None else ", ".join(s.columns)
            on = ", ".join(f"{own} = {label}" for own, label in zip(s.on, s.labels, strict=True))
            self.events.append(
                f"  {s.view} = {s.table.database}.{s.table.table} [{columns}] by {on}{_options(s.options)}"
            )
            self.events.append(f"    in {s.text}")
        for s in plan.sources:
            columns = "*" if s.columns is None else ", ".join(s.columns)
            more = " counted" * s.counts + ("" if s.limit is None else f" at most {s.limit}")
            more += "".join(f" where {column} in {view}.{there}" for column, view, there in s.joined)
            self.events.append(f"  {s.view} = {s.table} [{columns}]{_options(s.options)}{more}")


def _in(catalog: str) -> str:
    return f" in {catalog}" if catalog else ""


def _options(options: Mapping[str, str]) -> str:
    """Options as the pairs write them: that a statement reads every row of its target goes without saying."""
    return "".join(f" {key}={value}" for key, value in options.items() if key != MERGE_ON_READ.key)


def _fields_text(change: SchemaChange) -> str:
    """The fields of a change, types as SQL."""
    out = []
    for f in fields(change):
        value = getattr(change, f.name)
        if isinstance(value, DataType):
            value = type_text(value) + ("" if value.nullable else " not null")
        elif isinstance(value, Position):
            value = value.place.value + ("" if value.other is None else f" {value.other}")
        elif isinstance(value, tuple):
            value = ".".join(value)
        out.append(f"{f.name}={value}")
    return " ".join(out)


@dataclass(frozen=True)
class Pair:
    title: str
    text: str
    expected: list[str]


def read_pairs(path: Path) -> Iterator[Pair]:
    for block in path.read_text(encoding="utf-8").split("--# ")[1:]:
        title, _, rest = block.partition("\n")
        lines = rest.splitlines()
        expected = [line.removeprefix("-->").removeprefix(" ").rstrip() for line in lines if line.startswith("-->")]
        text = "\n".join(line for line in lines if not line.startswith("-->"))
        yield Pair(title.strip(), text.strip("\n"), expected)


def run_pair(text: str) -> list[str]:
    """Everything that the statements did, one line each; the last lines are the error if there is one.

    The scribe writes no rows, so the counts of changed rows, all zero, are left out.
    """
    events: list[str] = []
    session = Session(ScribeOfTables(events), ScribeOfSpark(events), view_prefix="v")
    try:
        for result in session.run(text):
            if isinstance(result, pa.Table) and result.num_columns and result.column_names != list(row_counts()):
                events.append(f"answer {', '.join(result.column_names)}:")
                rows: list[dict[str, Any]] = result.to_pylist()
                for row in rows:
                    told = " | ".join("-" if v is None else str(v) for v in row.values())
                    events += [f"  {line}" for line in told.splitlines()]
    except LakelogError as error:
        events += [f"{type(error).__name__}:", *(f"  {line}".rstrip() for line in str(error).splitlines())]
    return [line.rstrip() for line in events]


PAIRS = [
    pytest.param(pair, id=f"{path.stem}: {pair.title}")
    for path in sorted(HERE.glob("*.sql"))
    for pair in read_pairs(path)
]


@pytest.mark.parametrize("pair", PAIRS)
def test_statements_do_what_the_pair_says(pair: Pair) -> None:
    assert run_pair(pair.text) == pair.expected


def test_every_file_of_pairs_has_pairs() -> None:
    assert all(list(read_pairs(path)) for path in HERE.glob("*.sql"))
