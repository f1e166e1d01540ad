"""The 22 queries of TPC-H on lakelog tables with primary keys and on plain Parquet: answers, time, what was pushed.

usage: tpch.py [--scale 0.1] [--rounds 3] [--state merged,compacted] [--json FILE]

The tables are written so that a read has to merge: first some rows with another value and some rows too many, then the
right rows, then the deletes. ``merged`` reads them so, ``compacted`` after a full compaction. All answers must be
equal. Needs tpchgen-cli, which carries TPC's generator.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakelog import Lake, connect

KEYS = {
    "lineitem": ("l_orderkey", "l_linenumber"),
    "orders": ("o_orderkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "supplier": ("s_suppkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "nation": ("n_nationkey",),
    "region": ("r_regionkey",),
}
"""Table → primary key."""
_BUCKETS = {"lineitem": 4, "orders": 2}
_VECTORS = ("orders", "partsupp")
"""Tables with deletion vectors."""
_WRONG = {
    "lineitem": "l_discount",
    "orders": "o_totalprice",
    "customer": "c_acctbal",
    "part": "p_retailprice",
    "supplier": "s_acctbal",
    "partsupp": "ps_supplycost",
    "nation": "n_comment",
    "region": "r_comment",
}
"""The column that a quarter of the rows, by key, first has another value in."""


def queries() -> dict[str, str]:
    """Name → text of the 22 queries, with TPC's validation values; ties in ORDER BY … LIMIT are broken by a key."""
    found = Path(__file__).with_name("tpch_queries").glob("*.sql")
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(found)}


def generate(scale: float, directory: Path) -> None:
    """Writes ``<table>.parquet`` of all tables into the directory. Raises FileNotFoundError without tpchgen-cli."""
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    if program is None:
        raise FileNotFoundError("tpchgen-cli is not installed: pip install tpchgen-cli")
    command = [program, "parquet", "-s", str(scale), "--output-dir", str(directory)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fill(lake: Lake, directory: Path, options: str = "") -> None:
    """Makes the tables in database ``tpch``; rows that are wrong or too many are mended by later ones."""
    lake.sql("create database if not exists tpch")
    for name, keys in KEYS.items():
        rows = _plain(pq.read_table(directory / f"{name}.parquet"))
        columns = ", ".join(f"{field.name} {_sql_type(field.type)}" for field in rows.schema)
        vectors = ", 'deletion-vectors.enabled' = 'true'" if name in _VECTORS else ""
        lake.sql(
            f"create table tpch.{name} ({columns}, primary key ({', '.join(keys)})) using lakelog "
            f"tblproperties ('bucket' = '{_BUCKETS.get(name, 1)}'{vectors}{options})"
        )
        table = lake.table(f"tpch.{name}")
        quarter = pc.equal(pc.bit_wise_and(pc.cast(rows[keys[0]], pa.int64()), 3), 0)
        for given in _steps(rows, quarter, keys[0], _WRONG[name]):
            with table.writer() as writer:
                writer.write(given)


def _steps(rows: pa.Table, quarter: pa.ChunkedArray, key: str, column: str) -> list[pa.Table]:
    place = rows.schema.get_field_index(column)
    value = rows[column]
    if pa.types.is_string(value.type):
        other = pc.binary_join_element_wise(value, pa.scalar("wrong"), "")
    else:
        other = pc.add(value, pa.scalar(Decimal("0.01"), value.type)).cast(value.type)
    first = rows.set_column(place, rows.schema.field(place), pc.if_else(quarter, other, value))
    spare = rows.filter(quarter)
    at = rows.schema.get_field_index(key)
    spare = spare.set_column(at, rows.schema.field(at), pc.negate(pc.add(spare[key], 1)))
    gone = spare.append_column("_row_kind", pa.repeat(pa.scalar("-D"), len(spare)))
    return [pa.concat_tables([first, spare]), rows.filter(quarter), gone]


def _plain(rows: pa.Table) -> pa.Table:
    """Text as plain strings, whatever the generator's file says."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_string_view(field.type) or pa.types.is_large_string(field.type):
            rows = rows.set_column(place, pa.field(field.name, pa.string()), rows.column(place).cast(pa.string()))
    return rows


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return {pa.int32(): "int", pa.int64(): "bigint", pa.date32(): "date"}.get(kind, "string")


def plain(lake: Lake, directory: Path) -> None:
    """Temporary views of the files themselves, ``plain_<table>``."""
    for name in KEYS:
        lake.spark.read.parquet(str(directory / f"{name}.parquet")).createOrReplaceTempView(f"plain_{name}")


def of_plain(text: str) -> str:
    """A query on the files."""
    names = ", ".join(f"{name} as (select * from plain_{name})" for name in KEYS)
    return f"with {names}, {text.removeprefix('with ')}" if text.startswith("with ") else f"with {names} {text}"


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """The answer; floating numbers to 9 digits."""
    return [tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in frame.collect()]


def pushed(lake: Lake, text: str) -> list[dict[str, Any]]:
    """What each read of a query was asked for: table, how many of its columns, and the condition."""
    from lakelog.sql.query.planner import plan_query
    from lakelog.sql.syntax.source_text import SourceText

    plan = plan_query(lake._session, SourceText(text, 0, len(text)))
    return [
        {
            "table": source.table.table,
            "columns": len(source.columns or lake.table(f"tpch.{source.table.table}").schema.names),
            "of": len(lake.table(f"tpch.{source.table.table}").schema.names),
            "filter": source.filter,
        }
        for source in plan.sources
    ]


def measure(lake: Lake, rounds: int) -> dict[str, dict[str, Any]]:
    """Each query on both sides, in turns: seconds (median), whether the answers are equal."""
    lake.sql("use tpch")
    out = {}
    for name, text in queries().items():
        seconds: dict[str, list[float]] = {"lakelog": [], "parquet": []}
        answers: dict[str, Any] = {}
        for _ in range(rounds):
            for side, run in (("lakelog", lake.sql), ("parquet", lake.spark.sql)):
                start = time.perf_counter()
                answers[side] = rows_of(run(text if side == "lakelog" else of_plain(text)))
                seconds[side].append(time.perf_counter() - start)
        medians = {side: statistics.median(values) for side, values in seconds.items()}
        equal = answers["lakelog"] == answers["parquet"]
        ratio = medians["lakelog"] / medians["parquet"]
        out[name] = {"equal": equal, "rows": len(answers["parquet"]), "ratio": ratio, **medians}
        took = f"{medians['lakelog']:8.2f} s{medians['parquet']:8.2f} s{ratio:7.2f}"
        print(f"{name}  {'equal' if equal else 'WRONG':6}{took}", flush=True)
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--state", default="merged,compacted")
    parser.add_argument("--options", default="", help="further table options, as SQL: , 'key' = 'value'")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    measurements: dict[str, Any] = {"scale": given.scale}
    with tempfile.TemporaryDirectory(prefix="lakelog-tpch-") as directory:
        generate(given.scale, Path(directory))
        with connect(warehouse=f"{directory}/warehouse") as lake:
            fill(lake, Path(directory), given.options)
            plain(lake, Path(directory))
            measurements["pushed"] = {}
            lake.sql("use tpch")
            for name, text in queries().items():
                measurements["pushed"][name] = pushed(lake, text)
            for state in given.state.split(","):
                if state == "compacted":
                    for name in KEYS:
                        lake.table(f"tpch.{name}").compact()
                found = measure(lake, given.rounds)
                total = {side: sum(q[side] for q in found.values()) for side in ("lakelog", "parquet")}
                ratio = total["lakelog"] / total["parquet"]
                equal = sum(q["equal"] for q in found.values())
                print(
                    f"{state}: {equal} of {len(found)} equal, {ratio:.2f} times the seconds of plain Parquet",
                    flush=True,
                )
                measurements[state] = {"queries": found, "total": total, "ratio": ratio, "equal": equal}
    if given.json:
        given.json.write_text(json.dumps(measurements, indent=2, default=str) + "\n", encoding="utf-8")
    wrong = [q for state in given.state.split(",") for q in measurements[state]["queries"].values() if not q["equal"]]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
