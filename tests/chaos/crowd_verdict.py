"""What is wrong at the end of a run of many writers: one order of all answers, all readings alike, nothing left."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any, Final

import debezium_consumer
from chaos.crowd_spark import query_id, written
from chaos.journal import BEGIN, DECIDE, FOLDED, SCAN, TAIL, UNION, lines
from chaos.registers import Folded, found, rows_of
from lakelog import Lake
from register_history import FAILED, OK, UNKNOWN, History, Read, Write

_SHOWN: Final = 10
"""So many keys of a difference are named."""


class Verdict:
    """``judge`` fills ``wrong``; ``plain`` are the values of the log, by a client of its own."""

    def __init__(
        self, lake: Lake, directory: Path, keys: int, plain: Iterable[bytes | None], spark: bool = False
    ) -> None:
        self._table, self._directory, self._plain = lake.table("db.t"), directory, plain
        self._keyed = bool(self._table.primary_keys)
        self._keys = range(keys)
        self._spark = directory / "streams" / "stream1" if spark else None
        self.history = History()
        self.unions: list[tuple[str, int, int, dict[int, int]]] = []
        self.scans: list[tuple[str, int, int, dict[int, int]]] = []
        self.readings: dict[str, dict[int, int]] = {}
        self.wrong: list[str] = []

    def judge(self) -> None:
        """Reads the table in all ways and compares."""
        self._read_journals()
        self._read_table()
        self._compare()
        if self._keyed:
            self.history.reads += [
                Read(who, key, rows.get(key), began, ended)
                for who, began, ended, rows in self.scans
                for key in self._keys
            ]
            self.wrong += self.history.wrong()
        else:
            self.wrong += wrong_rows(self.history, self.scans)
        self.wrong += stale_unions(self.history, self.unions)
        self._look_for_leftovers()
        if self.wrong:
            self._keep_evidence()

    def _read_journals(self) -> None:
        writes: dict[str, Write] = {}
        deciding: set[str] = set()
        for journal, (what, at, who, more) in lines(self._directory / "journals"):
            if what == BEGIN:
                write = writes.setdefault(who, Write(who, at, [dict(more)]))
                write.invoked = min(write.invoked, at)
            elif what == DECIDE:
                deciding.add(who)
            elif what in (OK, FAILED):
                if who not in writes:
                    continue  # its store was away before it began
                if what == OK or writes[who].outcome != OK:
                    writes[who].outcome = what
                    writes[who].responded = min(writes[who].responded, at)
            elif what in (SCAN, UNION):
                held = self.scans if what == SCAN else self.unions
                held.append((journal, at, more[0], dict(more[1])))
            elif what == FOLDED:
                self.readings[f"{who}, through it all"] = dict(more)
            elif what == TAIL and isinstance(more, list):
                for kind, key, value in more:
                    if kind[0] == "+":
                        self.history.sight(key, value, at)
        for write in writes.values():
            if write.outcome == UNKNOWN and write.who not in deciding:
                write.outcome = FAILED  # it was killed before it asked for the commit
        queried = [] if self._spark is None else written(self._spark, len(self._keys) if self._keyed else 0)
        self.history.writes = sorted([*writes.values(), *queried], key=lambda write: write.invoked)

    def _read_table(self) -> None:
        table, began = self._table, time.monotonic_ns()
        files = found(table.scan().to_arrow(), self._keyed)
        self.scans.append(("the last batch read", began, time.monotonic_ns(), files))
        plain = Folded(self._keyed)
        for value in self._plain:
            plain.add((kind, row["id"], row["v"]) for kind, row in debezium_consumer.changes(value))
        self.readings |= {
            "batch read": files,
            "union": found(table.scan(options={"read.mode": "union"}).to_arrow(), self._keyed),
            "log, by a plain consumer": plain.table(),
        }
        for consistency in ("eventual", "transactional"):
            tail = Folded(self._keyed)
            for batch in table.tail("earliest", stop="latest", options={"log.consistency": consistency}):
                tail.add(rows_of(batch))
            self.readings[f"log, {consistency}"] = tail.table()

    def _compare(self) -> None:
        files = self.readings["batch read"]
        for name, rows in self.readings.items():
            keys = sorted(key for key in files.keys() | rows.keys() if files.get(key) != rows.get(key))
            told = ", ".join(f"{key}: {rows.get(key)} and not {files.get(key)}" for key in keys[:_SHOWN])
            if keys:
                self.wrong.append(f"{name} is not the batch read in {len(keys)} rows: {told}")

    def _look_for_leftovers(self) -> None:
        table = self._table.logical
        ids = set() if self._spark is None else {query_id(self._spark)}
        open_epochs = [f"{r.writer}/{r.epoch}" for r in table.decided.all()]
        if open_epochs:
            self.wrong.append(f"decided epochs are not in a snapshot after the last writer: {open_epochs[:_SHOWN]}")
        self._table.seal()
        left = [f"{r.number} {r.writer}/{r.epoch}" for r in table.decided.all()]
        if left:
            self.wrong.append(f"epochs are not forgotten after a seal: {left[:_SHOWN]}")
        left = [
            writer for writer in table.registered.writers() if not writer.startswith("stream") and writer not in ids
        ]
        if left:
            self.wrong.append(f"{len(left)} batch writers have left something in lakelog/staged: {left[:_SHOWN]}")

    def _keep_evidence(self) -> None:
        """Writes down what explains it: all writes, the records of the log, and the state of the snapshots."""
        with (self._directory / "evidence.jsonl").open("w", encoding="utf-8") as file:
            for write in self.history.writes:
                told = (write.invoked, write.responded if write.responded < inf else None)
                print(json.dumps(["write", write.who, write.outcome, *told, write.tries]), file=file)
            for line in self._records():
                print(json.dumps(line), file=file)

    def _records(self) -> Iterator[list[Any]]:
        for records in self._table.log_records():
            columns = ("offset", "timestamp_ms", "key", "header", "value")
            for row in zip(*(records.column(name).to_pylist() for name in columns), strict=True):
                yield ["record", *(cell.decode(errors="replace") if isinstance(cell, bytes) else cell for cell in row)]


Found = tuple[str, int, int, Mapping[int, int]]
"""Who has read, from when to when, and the rows."""


def wrong_rows(history: History, reads: Iterable[Found]) -> Iterator[str]:
    """Of a table without a key: rows that a read lacks, or should not have, or that are not there once."""
    writes = {value: write for write in history.writes for value in write.tries[0]}
    acked = sorted((w.responded, value) for value, w in writes.items() if w.outcome == OK)
    must: dict[int, str] = {}
    shown = sorted((by, value) for (value, _), by in history.sights.items())
    ended: list[Found] = sorted(reads, key=lambda read: read[2])
    rows: Mapping[int, int] = {}
    acks, sights, done = 0, 0, 0
    for who, began, _, rows in sorted(ended, key=lambda read: read[1]):
        while acks < len(acked) and acked[acks][0] < began:
            must[acked[acks][1]] = "was acknowledged"
            acks += 1
        while sights < len(shown) and shown[sights][0] < began:
            must.setdefault(shown[sights][1], "was in a transactional tail")
            sights += 1
        while done < len(ended) and ended[done][2] < began:
            must |= {value: "was read before" for value in ended[done][3] if value not in must}
            done += 1
        for value in must.keys() - rows.keys():
            yield f"{who} lacks row {value} of {writes[value].who}, which {must[value]}"
        for value, count in rows.items():
            if value not in writes or value != count or writes[value].outcome == FAILED:
                about = writes[value].who if value in writes else "nobody"
                yield f"{who} found row {value} of {about}" + (
                    f" {-count} times" if count < 0 else ", which was refused"
                )
    for write in history.writes:
        there = write.tries[0].keys() & rows.keys()
        if there and there != write.tries[0].keys():
            yield f"the last read has {sorted(there)} of {write.who}, but not all of it"


def stale_unions(history: History, unions: Iterable[Found]) -> Iterator[str]:
    """Rows of union reads that had been overwritten for certain, or were missing.

    Rows of open epochs may be among them; without a key one is there as often as it was tried.
    """
    by_key: dict[int, list[Write]] = {}
    for write in history.writes:
        for key in write.tries[0]:
            by_key.setdefault(key, []).append(write)
    for who, began, _, rows in unions:
        for key, writes in by_key.items():
            value = rows.get(key)
            newest = max((w.invoked for w in writes if w.outcome == OK and w.responded < began), default=-1)
            # the row may be of a write that was still open when the newest acknowledged one began
            excused = [w for w in writes if w.tries[0][key] == value and (w.outcome != OK or w.responded >= newest)]
            if newest >= 0 and not excused:
                yield f"{who} found {value} of key {key} in a union read, which was overwritten before it began"
            elif newest < 0 and (value or 0) > 0 and all(w.tries[0][key] != value for w in writes):
                yield f"{who} found {value} of key {key} in a union read, which nobody wrote"
