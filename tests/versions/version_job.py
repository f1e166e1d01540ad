"""What either version does with a table, in a process of its own: it uses only what both of them have.

``python version_job.py < commands``: each line is JSON ``[warehouse, command, arguments, options]`` and gets a line of
JSON as its answer, ``{"ok": result}`` or ``{"error": class, "text": text}``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa

import lakelog


def create(lake: Any, columns: str, options: dict[str, str]) -> None:
    """Makes ``db.t``."""
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    lake.sql("create database if not exists db")
    lake.sql(f"create table db.t {columns} using lakelog tblproperties ({given})")


def write(lake: Any, rows: list[dict[str, Any]]) -> None:
    """Writes rows; ``_row_kind`` makes them changes."""
    table = lake.table("db.t")
    schema = table.schema
    if any("_row_kind" in row for row in rows):
        schema = schema.append(pa.field("_row_kind", pa.string()))
    with table.writer() as writer:
        writer.write(pa.Table.from_pylist(rows, schema=schema))


def read(lake: Any, **options: str) -> list[list[Any]]:
    """The rows of a batch read, sorted."""
    found = lake.table("db.t").scan(options=options).to_arrow().to_pylist()
    return sorted((list(row.values()) for row in found), key=repr)


def fold(lake: Any) -> list[list[Any]]:
    """The rows that a reader of the log ends with, sorted."""
    table = lake.table("db.t")
    keys, by_key, rows = table.primary_keys, {}, []
    for batch in table.tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            kind, values = row.pop("_row_kind"), list(row.values())
            if keys:
                key = repr([row[name] for name in keys])
                by_key.pop(key, None)
                if kind[0] == "+":
                    by_key[key] = values
            elif kind[0] == "+":
                rows.append(values)
            else:
                rows.remove(values)
    return sorted(by_key.values() if keys else rows, key=repr)


def compact(lake: Any) -> None:
    """A full compaction."""
    lake.table("db.t").compact(full=True)


def expire(lake: Any) -> None:
    """Removes all snapshots but the newest, and files of none."""
    lake.table("db.t").expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")


COMMANDS = {f.__name__: f for f in (create, write, read, fold, compact, expire)}


def main() -> None:
    """Answers commands until the end of the input."""
    answer: dict[str, Any] = {"ok": lakelog.__version__}
    while True:
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        warehouse, command, arguments, options = json.loads(line)
        try:
            answer = {"ok": COMMANDS[command](lakelog.connect(warehouse=warehouse), *arguments, **options)}
        except Exception as why:
            answer = {"error": type(why).__name__, "text": str(why)}


if __name__ == "__main__":
    main()
