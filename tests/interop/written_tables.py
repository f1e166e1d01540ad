"""Tables of many kinds and types that lakelog writes, for other engines to read and to go on with."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from paimon_tables import KEY_TYPES, VALUE_TYPES

from lakelog import Lake
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import ArrayType, DataType, MapType, RowType, parse_type
from lakelog.table.create import create_table
from lakelog.table.open import identifier_of, open_catalog

PLAIN = {"id": "INT", "v": "STRING", "n": "BIGINT"}


@dataclass(frozen=True)
class Case:
    """Columns (type as in a schema file), keys and options of a table; ``java`` goes on writing unless told not to."""

    columns: Mapping[str, Any] = field(default_factory=lambda: PLAIN)
    primary_keys: tuple[str, ...] = ("id",)
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=lambda: {"bucket": "1"})
    java_writes: bool = True
    compacted: bool = False
    """Whether the table is compacted after each write here, for rows that readers see only then."""

    @property
    def is_dynamic(self) -> bool:
        """Whether the writer chooses the bucket of a new key."""
        return bool(self.primary_keys) and self.options["bucket"] == "-1"

    @property
    def java_compacts(self) -> tuple[int, ...]:
        """The buckets that Paimon compacts after it has written."""
        keyed = self.primary_keys and not self.partition_keys and "write-only" not in self.options
        return tuple(range(max(0, int(self.options["bucket"])))) if keyed else ()

    @property
    def takes_deletes(self) -> bool:
        """Whether rows may be deleted."""
        deduplicates = self.options.get("merge-engine", "deduplicate") == "deduplicate"
        return bool(self.primary_keys) and deduplicates and "rowkind.field" not in self.options


def _options(**given: str) -> Case:
    return Case(options=_given(**given))


def _given(**given: str) -> dict[str, str]:
    """Options of names with `__` for a dot and `_` for a dash."""
    return {"bucket": "1"} | {k.replace("__", ".").replace("_", "-"): v for k, v in given.items()}


def _named(types: Mapping[str, tuple[Any, Any]], without: Sequence[str] = ()) -> dict[str, Any]:
    return {n.replace(" ", "_"): t[0] for n, t in types.items() if n not in without}


# what pypaimon cannot read right is in cases of its own, so that it checks the others
_NANOS = ("timestamp9",)
# ORC files cannot hold a fraction of a second before 1970
_NOT_IN = {"parquet": _NANOS, "orc": (*_NANOS, "timestamp6"), "avro": _NANOS}
_VALUES = {f: {"id": "INT", **_named(VALUE_TYPES, without)} for f, without in _NOT_IN.items()}
_KEYS = {f: tuple(_named(KEY_TYPES, without)) for f, without in _NOT_IN.items()}
_DEEP = {
    "id": "INT",
    "v": {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": {"type": "ROW", "fields": [
        {"id": 2, "name": "m", "type": {"type": "MAP", "key": "INT", "value": "DECIMAL(20, 3)"}},
        {"id": 3, "name": "inner", "type": {"type": "ROW", "fields": [
            {"id": 4, "name": "day", "type": "DATE"}, {"id": 5, "name": "bytes", "type": "BYTES"}]}},
    ]}}},
}  # fmt: skip


def _deep(chance: random.Random) -> Any:
    inner = [(dt.date(2024, 2, 29), b"\x00\xff"), (None, None), None]
    return {
        f"k{i}": [({1: Decimal("-1.125"), 2: None}, chance.choice(inner)), None, (None, None)][: chance.randrange(4)]
        for i in range(chance.randrange(3))
    }


_AGGREGATES = {
    "n": ("BIGINT", "sum"), "p": ("DOUBLE", "product"), "mx": ("STRING", "max"), "mn": ("DATE", "min"),
    "lv": ("STRING", "last_value"), "ln": ("STRING", "last_non_null_value"), "fv": ("STRING", "first_value"),
    "fn": ("STRING", "first_non_null_value"), "la": ("STRING", "listagg"), "an": ("BOOLEAN", "bool_and"),
    "orr": ("BOOLEAN", "bool_or"), "de": ("DECIMAL(9, 2)", "max"), "ti": ("TINYINT", "min"),
}  # fmt: skip
"""Column → type and aggregate function."""
_FUNCTIONS = {f"fields.{n}.aggregate-function": f for n, (_, f) in _AGGREGATES.items()}
_GROUPS = {"id": "INT", "a": "INT", "b": "STRING", "n": "BIGINT", "c": "STRING", "h": "INT", "plain": "STRING"}

CASES: dict[str, Case] = {
    **{f"key {n}": Case({"k": t[0], "v": "STRING"}, ("k",), (), {"bucket": "2"}) for n, t in KEY_TYPES.items()},
    **{
        f"partition {n}": Case({"id": "INT", "p": t[0], "v": "STRING"}, (), ("p",), {"bucket": "-1"})
        for n, t in KEY_TYPES.items()
        if n != "binary"
    },
    **{f"value {n}": Case({"id": "INT", "v": t[0]}) for n, t in VALUE_TYPES.items()},
    **{f"compression {c}": _options(file__compression=c) for c in ("none", "snappy", "gzip", "lz4")},
    **{f"statistics {m}": _options(metadata__stats_mode=m) for m in ("none", "counts", "full", "truncate(3)")},
    "keyed and partitioned": Case(
        {"d": "DATE", "id": "INT", "v": "STRING", "r": "STRING"}, ("r", "d", "id"), ("r", "d"), {"bucket": "2"}
    ),
    "partitions as text": Case(
        {"d": "DATE", "id": "INT", "v": "STRING"}, (), ("d",), {"bucket": "-1", "partition.legacy-name": "false"}
    ),
    "three keys": Case(
        {"a": "STRING", "v": "DOUBLE", "b": "BIGINT", "c": "DATE"}, ("c", "a", "b"), (), {"bucket": "3"}
    ),
    "append": Case(primary_keys=(), options={"bucket": "-1"}),
    "append with buckets": Case(primary_keys=(), options={"bucket": "2", "bucket-key": "n"}),
    "append by mod": Case(primary_keys=(), options={"bucket": "2", "bucket-key": "n", "bucket-function.type": "mod"}),
    "rolled": _options(target_file_size="1 kb"),
    "many manifests": _options(manifest__merge_min_count="2"),
    "with a log": _options(log_store__enabled="true"),
    "whole rows with a log": Case(primary_keys=(), options=_given(log_store__enabled="true", bucket="3")),
    "dynamic with a log": Case(
        options=_given(log_store__enabled="true", bucket="-1", log_store__partitions="2"), java_writes=False
    ),
    "changes with a log": _options(log_store__enabled="true", log__content="changes", changelog_producer="lookup"),
    "aggregation with a log": _options(
        log_store__enabled="true", merge_engine="aggregation", fields__default_aggregate_function="max"
    ),
    "partial update with a log": _options(log_store__enabled="true", merge_engine="partial-update"),
    "sequence with a log": _options(log_store__enabled="true", sequence__field="n"),
    **{f"{f} all types": Case(_VALUES[f], options={"bucket": "1", "file.format": f}) for f in _VALUES},
    "orc nanoseconds": Case({"id": "INT", "v": "TIMESTAMP(9)"}, options={"bucket": "1", "file.format": "orc"}),
    **{f"{f} deep": Case(_DEEP, options={"bucket": "1", "file.format": f}) for f in ("parquet", "orc", "avro")},
    **{f"append {f}": Case(_VALUES[f], (), (), {"bucket": "-1", "file.format": f}) for f in _VALUES},
    **{
        f"thin {f}": Case(
            {**_named(KEY_TYPES, _NOT_IN[f]), "v": "STRING"},
            _KEYS[f],
            (),
            {"bucket": "2", "file.format": f, "data-file.thin-mode": "true"},
        )
        for f in ("parquet", "orc", "avro")
    },
    "thin and partitioned": Case(
        {"id": "INT", "p": "STRING", "v": "STRING", "n": "BIGINT"},
        ("p", "id"),
        ("p",),
        {"bucket": "1", "data-file.thin-mode": "true"},
    ),
    "two formats": _options(file__format__per__level="0:avro,5:orc"),
    "three formats": _options(
        file__format="orc", file__format__per__level="0:avro,5:parquet", file__compression__per__level="0:null,5:lz4"
    ),
    "statistics per level": _options(metadata__stats_mode__per__level="0:none"),
    "statistics of a column": _options(metadata__stats_mode="none", fields__v__stats_mode="full"),
    "statistics of first columns": _options(metadata__stats_keep_first_n_columns="1"),
    "statistics sparse": _options(metadata__stats_mode="none", metadata__stats_dense_store="false"),
    "statistics sparse of a column": _options(
        metadata__stats_mode="none", metadata__stats_dense_store="false", fields__v__stats_mode="truncate(2)"
    ),
    **{f"orc {c}": _options(file__format="orc", file__compression=c) for c in ("none", "snappy", "lz4", "zlib")},
    "avro null": _options(file__format="avro", file__compression="null"),
    **{
        f"suffix {f}": _options(file__format=f, file__suffix__include__compression="true")
        for f in ("parquet", "orc", "avro")
    },
    "directory": _options(data_file__path_directory="inside/here"),
    "directory with partitions": Case(
        {"id": "INT", "p": "STRING", "v": "STRING"},
        (),
        ("p",),
        {"bucket": "-1", "data-file.path-directory": "inside"},
    ),
    "keyed by mod": Case(options=_given(bucket="3", bucket_function__type="mod")),
    "keyed by hive": Case(
        {"id": "INT", "k": "STRING", "v": "STRING"}, ("id", "k"), (), _given(bucket="3", bucket_function__type="hive")
    ),
    "default partition name": Case(
        {"id": "INT", "p": "STRING", "v": "STRING"}, (), ("p",), {"bucket": "-1", "partition.default-name": "nothing"}
    ),
    "partitions of two": Case(
        {"a": "STRING", "id": "INT", "b": "TIMESTAMP(3)", "v": "STRING"}, (), ("b", "a"), {"bucket": "-1"}
    ),
    "partition binary-like text": Case(
        {"id": "INT", "p": "CHAR(4)", "q": "BOOLEAN"}, ("p", "q", "id"), ("q", "p"), {"bucket": "1"}
    ),
    "dynamic": Case(options=_given(bucket="-1", dynamic_bucket__target_row_num="5")),
    "dynamic with partitions": Case(
        {"id": "INT", "p": "STRING", "v": "STRING"},
        ("p", "id"),
        ("p",),
        _given(bucket="-1", dynamic_bucket__target_row_num="3"),
    ),
    "dynamic orc": Case(options=_given(bucket="-1", dynamic_bucket__initial_buckets="3", file__format="orc")),
    "aggregation": Case(
        {"id": "INT", **{n: t for n, (t, _) in _AGGREGATES.items()}},
        options={"bucket": "1", "merge-engine": "aggregation", **_FUNCTIONS},
    ),
    "aggregation by default": _options(merge_engine="aggregation", fields__default_aggregate_function="max"),
    "aggregation in order": _options(
        merge_engine="aggregation", sequence__field="n", fields__v__aggregate_function="first_value"
    ),
    "partial update": _options(merge_engine="partial-update"),
    "partial update in groups": Case(
        _GROUPS,
        options=_given(
            merge_engine="partial-update",
            fields__n__sequence_group="a,b",
            fields__h__sequence_group="c",
            fields__c__aggregate_function="last_non_null_value",
        ),
    ),
    "first row": Case(options=_given(merge_engine="first-row"), compacted=True),
    "sequence": _options(sequence__field="n"),
    "sequence of two": _options(sequence__field="n,v"),
    "sequence descending": _options(sequence__field="n", sequence__field__sort_order="descending"),
    "sequence by mod": Case(options=_given(bucket="2", sequence__field="n", bucket_function__type="mod")),
    "deletes ignored": _options(ignore_delete="true"),
    "kinds in a column": Case(
        {"id": "INT", "kind": "STRING NOT NULL", "v": "STRING"}, options=_given(rowkind__field="kind")
    ),
    "plain manifests": _options(manifest__compression="null", manifest__merge_min_count="2"),
    "write only": _options(write_only="true"),
}


def make(lake: Lake, name: str, case: Case) -> None:
    """Makes the table ``db.<name>``."""
    fields = [(column, parse_type(kind), None) for column, kind in case.columns.items()]
    schema = new_schema(fields, case.primary_keys, case.partition_keys, case.options)
    create_table(open_catalog(lake.warehouse), identifier_of(f"db.{name}"), schema)


def rows_of(case: Case, chance: random.Random, count: int = 8) -> list[list[Any]]:
    """Random rows; key columns are never NULL."""
    values = {kind_text(t[0]): t[1] for t in VALUE_TYPES.values()} | {kind_text(_DEEP["v"]): _deep}
    rows = []
    for _ in range(count):
        row = []
        for column, kind in case.columns.items():
            if column in ("id", "n"):
                value: Any = chance.randrange(20)
            else:
                value = chance.choice(["+I", "+U", "-D"]) if column == "kind" else values[kind_text(kind)](chance)
            null = column not in (*case.primary_keys, "n", "kind") and chance.random() < 0.2
            row.append(None if null else value)
        rows.append(row)
    return rows


def kind_text(kind: Any) -> str:
    """A type as text that can be a key."""
    return repr(kind)


def to_arrow(case: Case, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows as an Arrow table with the table's types."""
    kinds = [parse_type(kind) for kind in case.columns.values()]
    target = arrow_schema(new_schema([(n, t, None) for n, t in zip(case.columns, kinds, strict=True)]).fields)
    columns = []
    for at, (field_, kind) in enumerate(zip(target, kinds, strict=True)):
        stamps = pa.types.is_timestamp(field_.type)
        values = pa.array([_value(row[at], kind) for row in rows], pa.timestamp("ns") if stamps else field_.type)
        columns.append(values.cast(field_.type))
    return pa.Table.from_arrays(columns, schema=target)


def _value(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, RowType):
        return {f.name: _value(part, f.type) for f, part in zip(kind.fields, value, strict=True)}
    if isinstance(kind, ArrayType):
        return [_value(part, kind.element) for part in value]
    if isinstance(kind, MapType):
        return [(_value(k, kind.key), _value(v, kind.value)) for k, v in value.items()]
    return np.datetime64(value, "ns") if isinstance(value, str) and "TIMESTAMP" in str(kind.to_json()) else value
