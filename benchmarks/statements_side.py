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
_LIKE = {
    "lakelog": "using lakelog",
    "paimon": "using paimon",
    "delta": "using delta",
    "iceberg": "using iceberg",
}
_PLACE = {"lakelog": ("", "db"), "paimon": ("paimon.", "db"), "delta": ("", "default"), "iceberg": ("lake.", "db")}
_KEYED = {"lakelog": ", primary key (id)", "paimon": ""}
_OPTIONS = {
    "lakelog": "",
    "paimon": "tblproperties ('primary-key' = 'id', 'bucket' = '1')",
    "delta": "tblproperties ('delta.enableChangeDataFeed' = 'true')",
    "iceberg": "",
}


class Tables:
    """The tables that each statement gets, new for each."""

    def __init__(self, system: str, sql: Callable[[str], Any]) -> None:
        self.system, self.sql = system, sql
        self.catalog, self.database = _PLACE[system]

    def names(self, key: str) -> dict[str, str]:
        """What the placeholders stand for; makes the tables."""
        front = f"{self.catalog}{self.database}."
        like, options, keyed = _LIKE[self.system], _OPTIONS[self.system], _KEYED.get(self.system, "")
        table, parted, logged = f"{key}_t", f"{key}_p", f"{key}_l"
        self.sql(f"create table {front}{table} ({_COLUMNS}{keyed}) {like} {options}")
        part_options = options.replace("'id'", "'id,day'")
        part_key = keyed.replace("(id)", "(id, day)")
        self.sql(f"create table {front}{parted} ({_COLUMNS}{part_key}) {like} partitioned by (day) {part_options}")
        for row in _ROWS:
            self.sql(f"insert into {front}{table} values {row}")
            self.sql(f"insert into {front}{parted} values {row}")
        if self.system == "lakelog":
            self.sql(
                f"create table {front}{logged} ({_COLUMNS}{keyed}) {like} tblproperties ('log-store.enabled' = 'true')"
            )
            self.sql(f"insert into {front}{logged} values {_ROWS[0]}")
        first, second = self._versions(f"{front}{table}")
        return {
            "t": f"{front}{table}",
            "p": f"{front}{parted}",
            "logged": f"{front}{logged}",
            "new": f"{front}{key}_new",
            "renamed": f"{self.database}.{key}_new",
            "plain": f"{self.database}.{table}",
            "plainname": table,
            "v1": first,
            "v2": second,
            "c": self.catalog,
            "db": self.database,
            "like": like,
            "later": datetime.now().isoformat(" "),
        }

    def _versions(self, table: str) -> tuple[str, str]:
        if self.system == "iceberg":
            rows = self.sql(f"select snapshot_id from {table}.snapshots order by committed_at").collect()
            return str(rows[0][0]), str(rows[1][0])
        return "1", "2"


def attempt(tables: Tables, key: str, text: str) -> str:
    """What came of one statement: ``yes``, or the first words of its error."""
    names = tables.names(key)
    try:
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
    line = next((line for line in str(why).splitlines() if line.strip()), type(why).__name__)
    line = re.sub(r"s\d+_\w+", "t", line.replace("|", "/").strip())
    return "no: " + (line if len(line) <= 110 else line[:107] + "…")


def main() -> None:
    """Runs all statements of a file."""
    system, asked, answered, place, jars = sys.argv[1:6]
    module = importlib.import_module(f"systems.{system}")
    running = module.SYSTEM(Path(place), [jar for jar in jars.split(",") if jar])
    running.start()
    sql = getattr(running, "sql", None) or running.spark.sql
    tables, found = Tables(system, sql), {}
    with contextlib.suppress(Exception):
        sql(f"create database {tables.catalog}{tables.database}")
    for key, text in json.loads(Path(asked).read_text(encoding="utf-8")).items():
        began = time.monotonic()
        found[key] = "has no such statement" if text is None else attempt(tables, key, text)
        with contextlib.suppress(Exception):
            sql(f"use {'spark_catalog.default' if system != 'lakelog' else tables.database}")
        print(f"{key} {time.monotonic() - began:.1f} s {found[key]}", file=sys.stderr, flush=True)
    Path(answered).write_text(json.dumps(found), encoding="utf-8")
    running.stop()


if __name__ == "__main__":
    main()
