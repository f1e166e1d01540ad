"""Which corrections make a region of the log equal to what was decided: pure functions (RFC 2, healing)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakelog.errors import Fenced
from lakelog.logstore.format import LogFormat
from lakelog.logstore.header import CORRECTION, DATA, Header, decode_header

CommittedLookup = Callable[[Sequence[bytes]], Mapping[bytes, bytes | None]]
"""Log keys → the value of the committed row of each, None when there is none."""


@dataclass(frozen=True)
class Correction:
    """A record to append: it takes the record at ``ref`` back (sign -1), repeats it (+1), or asserts its key's state
    (0). One that ``is_data`` is a row of an accepted attempt, for transactional readers, too.
    """

    ref: int
    sign: int
    epoch: int
    attempt: str
    key: bytes | None
    value: bytes
    is_data: bool = False


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
    """Whose records are judged, and by what: the decided attempts per epoch, and what kind of log it is.

    ``table`` is the name of the table, for metrics. ``late`` are the keys whose last accepted record may be the old
    half of an update (``table/late_retractions.py``): their state is that of the files.
    """

    writer: str
    accepted: Mapping[int, frozenset[str]]
    mode: str
    keyed: bool
    format: LogFormat
    lookup: CommittedLookup
    table: str = ""
    late: frozenset[bytes] = frozenset()

    def plan(self, region: pa.Table, gone: range = range(0)) -> list[Correction]:
        """The corrections that the region (RECORDS_SCHEMA, from ``since`` to the end) needs, in the order to append.

        Called again after they were appended, until it returns nothing. First the balance: every record of a refused
        attempt must count zero, of an accepted one one. When the balance is right, the last record of each touched key
        must leave the key in its decided state. ``gone`` are offsets that the log no longer holds: corrections that
        name them are not judged. Raises Fenced when the region holds records of an epoch after the newest decided
        one: another process has taken over.
        """
        entries = _entries(region)
        own = {e.offset: e for e in entries if e.header.writer == self.writer}
        self._check_not_overtaken(own)
        if self.mode == "upsert":
            return self._restore_keys(entries)
        corrections = self._balance(own, gone) + self._balance_assertions(own)
        if corrections or not self.keyed:
            return corrections
        return self._assert_keys(entries)

    def _check_not_overtaken(self, own: Mapping[int, _Entry]) -> None:
        """Whoever finds a later epoch of its own writer is a driver of the past: it would take back rows that count by
        now.
        """
        newest, found = max(self.accepted, default=-1), max((e.header.epoch for e in own.values()), default=-1)
        if found > newest:
            raise Fenced(
                f"writer {self.writer} has moved on to epoch {found} in another process while this one heals "
                f"epoch {newest}: "
                f"stop this process, the other one does its work"
            )

    def _accepts(self, entry: _Entry) -> bool:
        return entry.header.attempt in self.accepted.get(entry.header.epoch, frozenset())

    def _balance(self, own: Mapping[int, _Entry], gone: range) -> list[Correction]:
        counts: dict[int, int] = defaultdict(int)
        named: dict[int, _Entry] = {}
        for entry in own.values():
            if entry.is_data:
                named[entry.offset] = entry
                counts[entry.offset] += 1 - self._accepts(entry)
            elif entry.header.sign:
                counts[entry.header.ref] += entry.header.sign
                # a record from before the region was judged already: all that a late healer adds is to be taken back
                named.setdefault(entry.header.ref, self._named_by(entry))
        return [
            self._correct(named[offset], -1 if count > 0 else 1)
            for offset, count in sorted(counts.items(), reverse=True)
            # one a round: three healers that each made up for the whole difference would make it larger each time
            if count and offset not in gone
        ]

    def _named_by(self, correction: _Entry) -> _Entry:
        value = correction.value if correction.header.sign > 0 else self.format.inverse(correction.value)
        return replace(correction, offset=correction.header.ref, value=value)

    def _touched(self, own: Sequence[_Entry]) -> dict[bytes, list[_Entry]]:
        """Keys with a refused record or a correction → this writer's data records of them, in order."""
        touched = {e.key for e in own if not e.is_data or not self._accepts(e)} | self.late
        records: dict[bytes, list[_Entry]] = {key: [] for key in touched if key is not None}
        for entry in own:
            if entry.is_data and entry.key in records:
                records[entry.key].append(entry)
        return records

    def _balance_assertions(self, own: Mapping[int, _Entry]) -> list[Correction]:
        """Assertions (sign 0) must add up to nothing, image by image; a half-written pair does not."""
        net: dict[bytes, int] = defaultdict(int)
        about: dict[bytes, _Entry] = {}
        for entry in own.values():
            if entry.is_data or entry.header.sign:
                continue
            before, after = self.format.images(entry.value)
            for image, change in ((before, -1), (after, 1)):
                if image is not None:
                    net[image] += change
                    about[image] = entry
        out = []
        for image, count in net.items():
            value = self.format.asserting(None, image) if count > 0 else self.format.asserting(image, None)
            entry = about[image]
            out += [self._about(entry, entry.key or b"", 0, value)] if count else []
        return out

    def _assert_keys(self, entries: Sequence[_Entry]) -> list[Correction]:
        out: list[Correction] = []
        for key, newest, wanted in self._wrong_keys(entries):
            state = self.format.images(newest.value)[1]
            # net zero, and the last one leaves the key as it should be
            if wanted is not None:
                values = [self.format.asserting(wanted, wanted)]
            else:
                values = [self.format.asserting(state, None), self.format.asserting(None, state)]
            out += [self._about(newest, key, 0, value) for value in values]
        return out

    def _wrong_keys(self, entries: Sequence[_Entry]) -> Iterator[tuple[bytes, _Entry, bytes | None]]:
        """Touched keys whose last record does not leave them as decided: (key, that record, the image that is
        right)."""
        own_are_right = all(e.is_data and self._accepts(e) for e in entries if e.header.writer == self.writer)
        if own_are_right and not self.late:
            return
        # of records that hold many changes, each change
        entries = [replace(e, key=k, value=v) for e in entries for k, v in self.format.split(e.key, e.value)]
        own = [e for e in entries if e.header.writer == self.writer]
        last = {e.key: e for e in entries}
        lasts = {key for key, entry in last.items() if entry.header.writer == self.writer}
        touched = {k: r for k, r in sorted(self._touched(own).items()) if k in lasts}
        accepted = {k: [e for e in r if self._accepts(e)] for k, r in touched.items() if k not in self.late}
        right = {k: found[-1].value for k, found in accepted.items() if found}
        committed = self.lookup([k for k in touched if k not in right]) if len(right) < len(touched) else {}
        for key in touched:
            value = right.get(key) or committed.get(key)
            wanted = None if value is None else self.format.images(value)[1]
            if self.format.images(last[key].value)[1] != wanted:
                yield key, last[key], wanted

    def _restore_keys(self, entries: Sequence[_Entry]) -> list[Correction]:
        return [
            self._about(
                newest,
                key,
                0,
                self.format.asserting(wanted, None if wanted is not None else self.format.images(newest.value)[1]),
            )
            for key, newest, wanted in self._wrong_keys(entries)
        ]

    def _about(self, entry: _Entry, key: bytes, sign: int, value: bytes) -> Correction:
        """An assertion is of the epoch that is healed: a reader that has this epoch from a snapshot needs it not."""
        ref = entry.offset if entry.is_data else entry.header.ref
        is_data = key in self.late and self._accepts(entry)
        epoch = entry.header.epoch if is_data else max(self.accepted)
        return Correction(ref, sign, epoch, entry.header.attempt, key, value, is_data)

    def _correct(self, entry: _Entry, sign: int) -> Correction:
        value = entry.value if sign > 0 else self.format.inverse(entry.value)
        return Correction(entry.offset, sign, entry.header.epoch, entry.header.attempt, entry.key, value)


def _entries(region: pa.Table) -> list[_Entry]:
    out = []
    columns = (region.column(name).to_pylist() for name in ("offset", "header", "key", "value"))
    for offset, header, key, value in zip(*columns, strict=True):
        parsed = decode_header(header, offset)
        if parsed.kind in (DATA, CORRECTION) and value is not None:
            out.append(_Entry(offset, parsed, key, value))
    return out
