"""What the simulated table holds, and how it looks in the log: rows, changes and log values of both formats."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.logstore.formats import log_format
from lakelog.spec.row_kind import DELETE, INSERT, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE

ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])

SHARED: Final = (90,)
"""Keys that several writers change: they have no order in the log before they are committed."""

Row = tuple[int, int | None, int | None]
"""A change: key, value before, value after."""

Change = tuple[str, int, int]
"""What an update of a table is to its reader: op (``+`` or ``-``, ``x`` for a delete by key), key, value."""


@dataclass(frozen=True)
class Case:
    """The kind of table that a schedule has: its changelog mode, whether there is a key, and the format of its log."""

    mode: str
    keyed: bool
    format: str = "debezium-json"

    def __str__(self) -> str:
        return f"mode {self.mode}, {'with' if self.keyed else 'without'} a key, {self.format}"


CASES = (
    Case("all", True),
    Case("all", False),
    Case("upsert", True),
    Case("all", True, "arrow"),
    Case("upsert", True, "arrow"),
    Case("all", False, "arrow"),
)


def _batch(rows: Iterable[Row]) -> tuple[pa.RecordBatch, np.ndarray]:
    kinds, ids, values = list[int](), list[int](), list[int]()
    for key, before, after in rows:
        if before is not None:
            kinds.append(DELETE if after is None else UPDATE_BEFORE)
            values.append(before)
        if after is not None:
            kinds.append(INSERT if before is None else UPDATE_AFTER)
            values.append(after)
        ids += [key] * (len(values) - len(ids))
    return pa.RecordBatch.from_pydict({"id": ids, "v": values}, schema=ROWS), np.array(kinds, np.int8)


@cache
def message_of(case: Case, rows: tuple[Row, ...]) -> tuple[bytes | None, bytes]:
    """Key and value of the one record in which a task appends changes: of a format that does not pack, one change."""
    batch, kinds = _batch(rows)
    places, keys = {0: np.arange(batch.num_rows)}, ["id"] if case.keyed else []
    records = log_format(case.format).messages(batch, kinds, case.mode, keys, b"", places)[0].records
    (key,), (value,) = records.keys.to_pylist(), records.values.to_pylist()
    return key, value


@cache
def value_of(case: Case, key: int, value: int) -> bytes:
    """The log value of a row that the files hold."""
    batch, kinds = _batch([(key, None, value)])
    records, _ = log_format(case.format).encode(batch, kinds, "upsert", ["id"], b"")
    (found,) = records.values.to_pylist()
    return bytes(found)


@cache
def changes_of(value: bytes) -> tuple[Change, ...]:
    """A log value as a plain consumer reads it: of JSON, or of Arrow."""
    if value[:1] != b"{":
        found = pa.ipc.open_stream(value).read_all()
        ops = {INSERT: "+", UPDATE_BEFORE: "-", UPDATE_AFTER: "+", DELETE: "x"}
        columns = (found.column(name).to_pylist() for name in (ROW_KIND_COLUMN, "id", "v"))
        return tuple((ops[kind], key, v) for kind, key, v in zip(*columns, strict=True))
    change = json.loads(value)
    before, after = change["before"], change["after"]
    out: list[Change] = [] if before is None else [("x" if change["op"] == "d" else "-", before["id"], before["v"])]
    return (*out, *([] if after is None else [("+", after["id"], after["v"])]))


@dataclass
class Folded:
    """Changes, added up and folded by key."""

    net: Counter[tuple[int, int]] = field(default_factory=Counter)
    rows: dict[int, int] = field(default_factory=dict)

    def add(self, changes: Iterable[Change]) -> Folded:
        for op, key, value in changes:
            self.net[key, value] += 1 if op == "+" else -1
            if op == "+":
                self.rows[key] = value
            elif op == "x":
                self.rows.pop(key, None)
        return self

    def add_values(self, values: Iterable[bytes | None]) -> Folded:
        for value in values:
            if value is not None:
                self.add(changes_of(value))
        return self

    def differs(self, other: Folded, case: Case, leave_out: Iterable[int] = ()) -> list[str]:
        """What is wrong with these rows, if the other ones are right; some keys count in the net rows only."""
        wrong = []
        mine, right = ({k: n for k, n in f.net.items() if n} for f in (self, other))
        if case.mode == "all" and mine != right:
            wrong.append(f"net rows {mine} are not {right}")
        by_key, right_by_key = ({k: v for k, v in f.rows.items() if k not in leave_out} for f in (self, other))
        if case.keyed and by_key != right_by_key:
            wrong.append(f"rows by key {by_key} are not {right_by_key}")
        return wrong


def changes_of_rows(rows: Iterable[Row]) -> Iterator[Change]:
    """Changes of the files, as a reader of their changelog sees them."""
    for key, before, after in rows:
        if before is not None:
            yield "x" if after is None else "-", key, before
        if after is not None:
            yield "+", key, after
