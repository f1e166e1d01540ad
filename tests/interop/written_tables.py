"""Tables of many kinds and types that lakelog writes, for other engines to read and to go on with."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from paimon_tables import KEY_TYPES, VALUE_TYPES

from lakelog import Lake
from lakelog.spec.arrow import arrow_schema
from lakelog.spec.schema import new_schema
from lakelog.spec.types import ArrayType, DataType, MapType, RowType, parse_type
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

    @property
    def java_compacts(self) -> tuple[int, ...]:
        """The buckets that Paimon compacts after it has written."""
        keyed = self.primary_keys and not self.partition_keys
        return tuple(range(max(0, int(self.options["bucket"])))) if keyed else ()

    @property
    def takes_deletes(self) -> bool:
        """Whether rows may be deleted."""
        return bool(self.primary_keys) and self.options.get("merge-engine", "deduplicate") == "deduplicate"


def _options(**given: str) -> Case:
    options = {k.replace("__", ".").replace("_", "-"): v for k, v in given.items()}
    return Case(options={"bucket": "1", **options})


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
}


def make(lake: Lake, name: str, case: Case) -> None:
    """Makes the table ``db.<name>``."""
    fields = [(column, parse_type(kind), None) for column, kind in case.columns.items()]
    schema = new_schema(fields, case.primary_keys, case.partition_keys, case.options)
    create_table(open_catalog(lake.warehouse), identifier_of(f"db.{name}"), schema)


def rows_of(case: Case, chance: random.Random, count: int = 8) -> list[list[Any]]:
    """Random rows; key columns are never NULL."""
    values = {kind_text(t[0]): t[1] for t in VALUE_TYPES.values()}
    rows = []
    for _ in range(count):
        row = []
        for column, kind in case.columns.items():
            value = values[kind_text(kind)](chance) if column not in ("id", "n") else chance.randrange(20)
            null = column not in (*case.primary_keys, "n") and chance.random() < 0.2
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
