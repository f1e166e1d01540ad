"""Which corrections make a region of the log equal to what was decided: pure functions (RFC 2, healing)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.logstore.format import LogFormat
from lakelog.logstore.header import CORRECTION, DATA, Header, decode_header

CommittedLookup = Callable[[Sequence[bytes]], Mapping[bytes, bytes | None]]
"""Log keys → the value of the committed row of each, None when there is none."""


@dataclass(frozen=True)
class Correction:
    """A record to append: it takes the record at ``ref`` back (sign -1), repeats it (+1), or restores a key (0)."""

    ref: int
    sign: int
    epoch: int
    attempt: str
    key: bytes | None
    value: bytes


@dataclass(frozen=True)
class _Entry:
    """A data record or correction of the region."""

    offset: int
    header: Header
    key: bytes | None
    value: bytes

    @property
    def is_data(self) -> bool:
        return self.header.kind == DATA


@dataclass(frozen=True)
class Healing:
    """Whose records are judged, and by what: the decided attempts per epoch, and what kind of log it is."""

    writer: str
    accepted: Mapping[int, frozenset[str]]
    mode: str
    keyed: bool
    format: LogFormat
    lookup: CommittedLookup

    def plan(self, region: pa.Table) -> list[Correction]:
        """The corrections that the region (RECORDS_SCHEMA, from ``since`` to the end) needs, in the order to append.

        Called again after they were appended, until it returns nothing. First the balance: every record of a refused attempt must count zero, of an
        accepted one one. When the balance is right, the last record of each touched key must leave the key in its decided state.
        """
        entries = _entries(region)
        own = {e.offset: e for e in entries if e.header.writer == self.writer}
        if self.mode == "upsert":
            return self._restore_keys(entries, own)
        corrections = self._balance(own)
        if corrections or not self.keyed:
            return corrections
        return self._assert_keys(entries, own)

    def _accepts(self, entry: _Entry) -> bool:
        return entry.header.attempt in self.accepted.get(entry.header.epoch, frozenset())

    def _balance(self, own: Mapping[int, _Entry]) -> list[Correction]:
        counts: dict[int, int] = defaultdict(int)
        for entry in own.values():
            if entry.is_data:
                counts[entry.offset] += 1 - self._accepts(entry)
            elif entry.header.ref in own:  # an older record was judged before this region began
                counts[entry.header.ref] += entry.header.sign
        return [
            self._correct(own[offset], -1 if count > 0 else 1)
            for offset, count in sorted(counts.items(), reverse=True)
            for _ in range(abs(count))
        ]

    def _touched(self, own: Mapping[int, _Entry]) -> dict[bytes, list[_Entry]]:
        """Keys with a refused record or a correction → this writer's data records of them, in order."""
        touched = {e.key for e in own.values() if not e.is_data or not self._accepts(e)}
        records: dict[bytes, list[_Entry]] = {key: [] for key in touched if key is not None}
        for offset in sorted(own):
            entry = own[offset]
            if entry.is_data and entry.key in records:
                records[entry.key].append(entry)
        return records

    def _assert_keys(self, entries: Sequence[_Entry], own: Mapping[int, _Entry]) -> list[Correction]:
        last = {e.key: e for e in entries}
        out: list[Correction] = []
        for key, records in sorted(self._touched(own).items()):
            newest = last[key]
            if newest.header.writer != self.writer or not records:
                continue
            state = self.format.images(newest.value)[1]
            accepted = [r for r in records if self._accepts(r)]
            if accepted:
                if state != self.format.images(accepted[-1].value)[1]:
                    out += [self._correct(accepted[-1], -1), self._correct(accepted[-1], 1)]
            elif state != self.format.images(records[0].value)[0]:
                out += [self._correct(records[0], 1), self._correct(records[0], -1)]
        return out

    def _restore_keys(self, entries: Sequence[_Entry], own: Mapping[int, _Entry]) -> list[Correction]:
        last = {e.key: e for e in entries}
        touched = {k: r for k, r in self._touched(own).items() if last[k].header.writer == self.writer}
        unknown = [k for k, records in touched.items() if not any(self._accepts(r) for r in records)]
        committed = self.lookup(unknown) if unknown else {}
        out: list[Correction] = []
        for key, records in sorted(touched.items()):
            accepted = [r for r in records if self._accepts(r)]
            right = accepted[-1].value if accepted else committed.get(key)
            state = self.format.images(last[key].value)[1]
            wanted = None if right is None else self.format.images(right)[1]
            if state == wanted:
                continue
            named = accepted[-1] if accepted else (records[0] if records else last[key])
            value = self.format.asserting(wanted, state)
            out.append(Correction(named.offset, 0, named.header.epoch, named.header.attempt, key, value))
        return out

    def _correct(self, entry: _Entry, sign: int) -> Correction:
        value = entry.value if sign > 0 else self.format.inverse(entry.value)
        return Correction(entry.offset, sign, entry.header.epoch, entry.header.attempt, entry.key, value)


def _entries(region: pa.Table) -> list[_Entry]:
    out = []
    columns = (region.column(name).to_pylist() for name in ("offset", "header", "key", "value"))
    for offset, header, key, value in zip(*columns, strict=True):
        parsed = decode_header(header or b"", offset)
        if parsed.kind in (DATA, CORRECTION):
            out.append(_Entry(offset, parsed, key, value))
    return out
