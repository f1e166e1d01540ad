"""Runs the statements in one system and writes what came of each; started by ``statements.py`` in its Python.

usage: statements_side.py SYSTEM ASKED.json ANSWERED.json PLACE JARS
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

_COLUMNS = "id int, name string, day date"
_ROWS = ("(1, 'a', date'2024-01-01')", "(2, 'b', date'2024-01-02')")
_NESTED = "id int, info struct<a: int, b: string>"
_NESTED_ROWS = ("(1, named_struct('a', 1, 'b', 'x'))",)
_BOTH = "'id,day'"
_LIKE = {
    "lakelog": "using lakelog",
    "paimon": "using paimon",
    "delta": "using delta",
    "iceberg": "using iceberg",
}
_PLACE = {"lakelog": ("", "db"), "paimon": ("paimon.", "db"), "delta": ("", "default"), "iceberg": ("lake.", "db")}
_KEYED = {"lakelog": ", primary key (id)"}
_OPTIONS = {
    "lakelog": "",
    "paimon": "tblproperties ('primary-key' = 'id', 'bucket' = '1')",
    "delta": "tblproperties ('delta.enableChangeDataFeed' = 'true')",
    "iceberg": "",
}
_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
"""For tables of two rows: the defaults start hundreds of tasks for each statement."""
_ROWS_OPTIONS = {"paimon": ""}


class Tables:
    """The tables that each statement gets, new for each: those that its text names."""

    def __init__(self, system: str, sql: Callable[[str], Any], place: Path) -> None:
        self.system, self.sql, self.place = system, sql, place
        self.catalog, self.database = _PLACE[system]

    def names(self, key: str, text: str) -> dict[str, str]:
        """What the placeholders of a text stand for; makes the tables."""
        front, like = f"{self.catalog}{self.database}.", _LIKE[self.system]
        options, keyed = _OPTIONS[self.system], _KEYED.get(self.system, "")
        plain = _ROWS_OPTIONS.get(self.system, options)
        kinds = {
            "t": (_COLUMNS, keyed, "", options),
            "p": (_COLUMNS, keyed.replace("(id)", "(id, day)"), "partitioned by (day)", options.replace("'id'", _BOTH)),
            "rows": (_COLUMNS, "", "", plain),
            "nested": (_NESTED, keyed, "", options),
            "logged": (_COLUMNS, keyed, "", "tblproperties ('log-store.enabled' = 'true')"),
        }
        shown = {"plain": "t", "plainname": "t", "tick": "t", "tickp": "p", "plainrows": "rows", "plainparts": "p"}
        used = set(re.findall(r"\{(\w+)\}", text))
        wanted = {shown.get(name, "t" if name in ("v1", "v2") else name) for name in used} & set(kinds)
        for kind in sorted(wanted):
            columns, key_clause, parts, tail = kinds[kind]
            self.sql(f"create table {front}{key}_{kind} ({columns}{key_clause}) {like} {parts} {tail}")
            for row in _NESTED_ROWS if kind == "nested" else _ROWS:
                self.fill(f"{front}{key}_{kind}", row)
        first, second = self._versions(f"{front}{key}_t") if used & {"v1", "v2"} else ("", "")
        return {
            **{kind: f"{front}{key}_{kind}" for kind in kinds},
            "tick": f"{front}`{key}_t",
            "tickp": f"{front}`{key}_p",
            "new": f"{front}{key}_new",
            "renamed": f"{self.database}.{key}_new",
            "plain": f"{self.database}.{key}_t",
            "plainname": f"{key}_t",
            "plainrows": f"{key}_rows",
            "plainparts": f"{key}_p",
            "v1": first,
            "v2": second,
            "c": self.catalog,
            "db": self.database,
            "like": like,
            "place": str(self.place),
            "later": datetime.now().isoformat(" "),
        }

    def fill(self, table: str, row: str) -> None:
        """Writes one row, a version of its own."""
        self.sql(f"insert into {table} values {row}")

    def _versions(self, table: str) -> tuple[str, str]:
        if self.system == "iceberg":
            rows = self.sql(f"select snapshot_id from {table}.snapshots order by committed_at").collect()
            return str(rows[0][0]), str(rows[1][0])
        return "1", "2"


def attempt(tables: Tables, key: str, text: str) -> str:
    """What came of one statement: ``yes``, or the first words of its error."""
    try:
        names = tables.names(key, text)
        for statement in text.split(";\n"):
            done = tables.sql(re.sub(r"\{(\w+)\}", lambda found: names[found[1]], statement))
            if getattr(done, "isStreaming", False):
                done.writeStream.format("memory").queryName(key).trigger(availableNow=True).start().awaitTermination()
            elif hasattr(done, "collect"):
                done.collect()
    except Exception as why:
        return _first_words(why)
    return "yes"


def _first_words(why: Exception) -> str:
    told = (line for line in str(why).splitlines() if line.strip() and not line.startswith("An error occurred while"))
    line = next(told, type(why).__name__)
    line = re.sub(r"\bs\d+_\w+", "t", line.replace("|", "/").strip(" :"))
    line = re.sub(r"lakelog_[0-9a-f]+_\d+", "t", re.sub(r"(file:)?/tmp/\S*", "…", line))
    return "no: " + (line if len(line) <= 110 else line[:107].rpartition(" ")[0] + " …")


def main() -> None:
    """Runs all statements of a file."""
    system, asked, answered, place, jars = sys.argv[1:6]
    module = importlib.import_module(f"systems.{system}")
    running = module.SYSTEM(Path(place), [jar for jar in jars.split(",") if jar])
    running.start()
    for key, value in _SETTINGS.items():
        running.spark.conf.set(key, value)
    sql = getattr(running, "sql", None) or running.spark.sql
    tables, found = Tables(system, sql, Path(place)), {}
    with contextlib.suppress(Exception):
        sql(f"create database {tables.catalog}{tables.database}")
    for key, text in json.loads(Path(asked).read_text(encoding="utf-8")).items():
        began = time.monotonic()
        found[key] = "none" if text is None else attempt(tables, key, text)
        with contextlib.suppress(Exception):
            sql(f"use {'spark_catalog.default' if system != 'lakelog' else tables.database}")
        print(f"{key} {time.monotonic() - began:.1f} s {found[key]}", file=sys.stderr, flush=True)
        Path(answered).write_text(json.dumps(found), encoding="utf-8")
    running.stop()


if __name__ == "__main__":
    main()
