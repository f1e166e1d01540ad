"""Makes the rows of workload W once and keeps them: Parquet files, and the exact answer to every query.

A table (id bigint key, grp int, amount double, name string, payload string, ts timestamp): a base, then upsert batches
of 70 % keys that are there, 25 % new ones and 5 % deletes. Amounts are multiples of 0.25, so their sums are exact in
any order. Base and batches come in random order of ids.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20260101
_BASE_FILES = 4
_WORDS = 2_000
_WORDS_OF_PAYLOAD = 8
_POINTS = 5
_FIRST_TS = 1_767_225_600_000_000


@dataclass(frozen=True)
class Shape:
    """How large: rows of the base, rows of a batch, number of batches, shares of a batch that are new and deletes."""

    base: int = 5_000_000
    batch: int = 200_000
    batches: int = 10
    new: float = 0.25
    deleted: float = 0.05

    @classmethod
    def at_scale(cls, scale: float) -> Shape:
        """Workload W's own shape, times ``scale``."""
        return cls(round(5_000_000 * scale), round(200_000 * scale))

    @property
    def name(self) -> str:
        """A directory name."""
        return f"w-{self.base}-{self.batches}x{self.batch}-{self.new}-{self.deleted}-{SEED}"


def make_input(shape: Shape, directory: Path) -> Path:
    """The directory of the input: ``base/``, ``batch-NN.parquet`` (with ``deleted``) and ``truth.json``.

    Made by the first call (half a minute at five million rows), found by later ones.
    """
    made = directory / shape.name
    if made.exists():
        return made
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as place:
        part = Path(place) / "input"
        (part / "base").mkdir(parents=True)
        truth = _Rows(shape).write(part)
        (part / "truth.json").write_text(json.dumps(truth, indent=1), encoding="utf-8")
        shutil.move(part, made)
    return made


class _Rows:
    """The state of the table while its history is made up: numbers only, texts follow from ids and versions."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.random = np.random.default_rng(SEED)
        most = shape.base + shape.batch * shape.batches
        self.amounts = np.zeros(most, np.float64)
        self.groups = np.zeros(most, np.int32)
        self.payloads = np.zeros(most, np.int16)
        self.stamps = np.zeros(most, np.int64)
        self.is_there = np.zeros(most, bool)
        self.was_deleted = np.zeros(most, bool)
        self.next_id = shape.base
        letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", "S1")
        words = self.random.choice(letters, (_WORDS, 9))
        lengths = self.random.integers(3, 10, _WORDS)
        self.words = pa.array(
            [b"".join(word[:n]).decode() for word, n in zip(words, lengths, strict=True)], pa.string()
        )

    def write(self, place: Path) -> dict[str, Any]:
        """Writes all files; returns the truth."""
        appended = _Sums()
        ids = self.random.permutation(self.shape.base)
        for number, part in enumerate(np.array_split(ids, _BASE_FILES)):
            appended.add(self._write_rows(place / "base" / f"part-{number}.parquet", part, None))
        base = self._truth()
        for number in range(self.shape.batches):
            ids, deleted = self._next_batch()
            appended.add(self._write_rows(place / f"batch-{number:02d}.parquet", ids, deleted))
        low = self.next_id // 2
        keys = np.flatnonzero(self.is_there)
        points = [int(k) for k in self.random.choice(keys, _POINTS)]
        between = [low, low + self.next_id // 100]
        return {
            "rows": self.shape.base + self.shape.batch * self.shape.batches,
            "base": base,
            "live": self._truth(),
            "undeleted": self._truth(self.is_there | self.was_deleted),
            "appended": appended.as_truth(),
            "points": [{"id": k, "amount": float(self.amounts[k])} for k in points],
            "range": between,
            "in_range": self._truth(self._live_between(*between)),
        }

    def _next_batch(self) -> tuple[np.ndarray, np.ndarray]:
        size = self.shape.batch
        there = np.flatnonzero(self.is_there)
        chosen = self.random.choice(there, size - round(size * self.shape.new), replace=False)
        new = np.arange(self.next_id, self.next_id + size - len(chosen))
        self.next_id += len(new)
        deleted = np.zeros(size, bool)
        deleted[: round(size * self.shape.deleted)] = True
        order = self.random.permutation(size)
        return np.concatenate([chosen, new])[order], deleted[order]

    def _write_rows(self, path: Path, ids: np.ndarray, deleted: np.ndarray | None) -> _Sums:
        n = len(ids)
        kept = ids if deleted is None else ids[~deleted]
        amounts = self.random.integers(0, 4_000_000, n) * 0.25
        groups = self.random.integers(0, 1000, n).astype(np.int32)
        stamps = _FIRST_TS + self.random.integers(0, 86_400 * 30, n) * 1_000_000
        words = self.random.integers(0, _WORDS, (_WORDS_OF_PAYLOAD, n))
        payload = pa.compute.binary_join_element_wise(*(self.words.take(pa.array(w)) for w in words), " ")
        name = pa.array(np.char.add("customer-", np.char.zfill((ids % 1_000_003 * 7919).astype(str), 11)))
        columns = {
            "id": pa.array(ids, pa.int64()),
            "grp": groups,
            "amount": amounts,
            "name": name,
            "payload": payload,
            "ts": pa.array(stamps, pa.timestamp("us", "UTC")),
        }
        if deleted is not None:
            columns["deleted"] = pa.array(deleted)
        pq.write_table(pa.table(columns), path, compression="zstd", row_group_size=250_000)
        lengths = pa.compute.binary_length(payload).to_numpy()
        live = slice(None) if deleted is None else ~deleted
        self.amounts[kept], self.groups[kept] = amounts[live], groups[live]
        self.payloads[kept], self.stamps[kept] = lengths[live], stamps[live]
        self.is_there[kept] = True
        self.was_deleted[kept] = False
        if deleted is not None:
            self.is_there[ids[deleted]] = False
            self.was_deleted[ids[deleted]] = True
        return _Sums(n, int(ids.sum()), int(groups.sum()), float(amounts.sum()), 20 * n, int(lengths.sum()))

    def _live_between(self, low: int, high: int) -> np.ndarray:
        numbers = np.arange(len(self.is_there))
        return self.is_there & (numbers >= low) & (numbers <= high)

    def _truth(self, mask: np.ndarray | None = None) -> dict[str, Any]:
        """Sums over the live rows, or over those of ``mask``."""
        rows = np.flatnonzero(self.is_there if mask is None else mask)
        return _Sums(
            len(rows),
            int(rows.sum()),
            int(self.groups[rows].sum()),
            float(self.amounts[rows].sum()),
            20 * len(rows),
            int(self.payloads[rows].sum(dtype=np.int64)),
        ).as_truth()


@dataclass
class _Sums:
    """What the query over all columns answers, but for the newest time stamp."""

    count: int = 0
    ids: int = 0
    groups: int = 0
    amounts: float = 0.0
    names: int = 0
    payloads: int = 0

    def add(self, other: _Sums) -> None:
        """Takes other rows in."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def as_truth(self) -> dict[str, Any]:
        """As it is compared."""
        return dict(vars(self))
