"""Reads tables by their Iceberg metadata with pyiceberg and DuckDB, in a Python of its own: a JSON request a line.

A request has ``table`` (its directory), or ``rest`` (a catalog with the table ``db.t``) and ``token``. It may have
``snapshot``, ``tag`` and ``filter``. The rows go to the Arrow file ``out``. With ``duckdb`` DuckDB reads. The answer of
pyiceberg has the snapshots and tags.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable, Table


def connection() -> duckdb.DuckDBPyConnection:
    """DuckDB with the extensions of their packages; nothing is downloaded."""
    made = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
        made.execute(f"load '{file}'")
    made.execute("set timezone = 'UTC'")
    return made


def by_duckdb(request: dict[str, Any]) -> dict[str, Any]:
    where = f" where {request['filter']}" if request.get("filter") else ""
    rows = connection().execute(f"select * from iceberg_scan('{request['table']}'){where}").to_arrow_table()
    write(rows, request["out"])
    return {}


def write(rows: pa.Table, out: str) -> None:
    with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request.get("duckdb"):
        return by_duckdb(request)
    if "rest" in request:
        catalog = load_catalog("lake", type="rest", uri=request["rest"], token=request["token"])
        assert catalog.list_tables("db") == [("db", "t")]
        table: Table = catalog.load_table("db.t")
    else:
        table = StaticTable.from_metadata(request["table"])
    snapshot = request.get("snapshot")
    if "tag" in request:
        snapshot = table.metadata.refs[request["tag"]].snapshot_id
    scan = table.scan(row_filter=request.get("filter") or AlwaysTrue(), snapshot_id=snapshot)
    rows = scan.to_arrow()
    write(rows, request["out"])
    tags = {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"}
    return {
        "current": table.metadata.current_snapshot_id,
        "snapshots": [s.snapshot_id for s in table.metadata.snapshots],
        "tags": tags,
    }


def main() -> None:
    for line in sys.stdin:
        try:
            found: dict[str, Any] = answer(json.loads(line))
        except Exception as why:
            found = {"error": f"{type(why).__name__}: {why}"}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
