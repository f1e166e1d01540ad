"""Which corrections make a region of the log equal to what was decided: pure functions (RFC 2, healing)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from lakelog.errors import Fenced
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.protocol.header import CORRECTION, DATA, Header, decode_header

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


class Later(Enum):
    """What healing makes of records of an epoch after the newest decided one of the writer."""

    FENCED = "another process has taken over the writer: raise Fenced"
    OPEN = "the writer is at work: leave them alone"
    REFUSED = "the writer is dead: take them back"


def _none_open(_: Header) -> bool:
    return False


@dataclass(frozen=True)
class Healing:
    """Whose records are judged, and by what: the decided attempts per epoch, and what kind of log it is.

    ``table`` is the name of the table, for metrics. ``is_open`` says of a data record of another writer whether that
    writer still answers for its key: it is undecided, or its order is that of the log alone. ``own_first``: the newest
    accepted record of the writer itself is right, because ``lookup`` does not know it (the write fills no files).
    ``late`` are the keys whose last accepted record may be the old half of an update
    (``table/staging/late_retractions.py``): their state is that of the files. ``was_taken_over``: another process has
    healed the records before the region meanwhile, so corrections that name them are not judged.
    """

    writer: str
    accepted: Mapping[int, frozenset[str]]
    mode: str
    keyed: bool
    format: LogFormat
    lookup: CommittedLookup
    table: str = ""
    is_open: Callable[[Header], bool] = _none_open
    later: Later = Later.FENCED
    own_first: bool = False
    late: frozenset[bytes] = frozenset()
    was_taken_over: bool = False

    def plan(self, region: pa.Table, gone: range = range(0)) -> list[Correction]:
        """The corrections that the region (RECORDS_SCHEMA, from ``since`` to the end) needs, in the order to append.

        Called again after they were appended, until it returns nothing. First the balance: every record of a refused
        attempt must count zero, of an accepted one one. When the balance is right, the last record of each touched key
        must leave the key in its decided state. ``gone`` are offsets that the log no longer holds: corrections that
        name them are not judged. Raises Fenced when the region holds records of an epoch after the newest decided
        one: another process has taken over.
        """
        entries = _entries(region)
        own = {e.offset: e for e in entries if self._judges(e)}
        if self.later is Later.FENCED:
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

    def verified(self, region: pa.Table, end: int) -> int:
        """The offset below which the region is right: its end, or its first record that was left alone."""
        if self.later is not Later.OPEN:
            return end
        left = (e.offset for e in _entries(region) if e.header.writer == self.writer and not self._judges(e))
        return min(left, default=end)

    def _judges(self, entry: _Entry) -> bool:
        is_left = self.later is Later.OPEN and entry.header.epoch > max(self.accepted, default=-1)
        return entry.header.writer == self.writer and not is_left

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
        """Keys of this writer whose last record, of whatever writer, does not leave them as decided: (key, that
        record, the image that is right).

        An accepted record of this writer that is the last one is right: whoever has decided a later one appended it
        before, and looks behind it.
        """
        if not self.late and all(e.is_data and self._judges(e) and self._accepts(e) for e in entries):
            return
        # of records that hold many changes, each change
        entries = [replace(e, key=k, value=v) for e in entries for k, v in self.format.split(e.key, e.value)]
        last = {e.key: e for e in entries}
        keys = {e.key for e in entries if e.key is not None and self._judges(e)}
        doubtful = sorted(key for key in keys if not self._is_right(last[key], key in self.late))
        right: dict[bytes, bytes | None] = {}
        if self.own_first:
            accepted = (e for e in entries if e.is_data and self._judges(e) and self._accepts(e))
            right = {e.key: e.value for e in accepted if e.key is not None and e.key not in self.late}
        unknown = [key for key in doubtful if key not in right]
        right.update(self.lookup(unknown) if unknown else {})
        for key in doubtful:
            value = right.get(key)
            wanted = None if value is None else self.format.images(value)[1]
            if self.format.images(last[key].value)[1] != wanted:
                yield key, last[key], wanted

    def _is_right(self, last: _Entry, is_late: bool) -> bool:
        if not last.is_data:
            return False
        if last.header.writer == self.writer:
            return not self._judges(last) or (self._accepts(last) and not is_late)
        return self.is_open(last.header)

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
        is_data = key in self.late and entry.header.writer == self.writer and self._accepts(entry)
        epoch = entry.header.epoch if is_data else max(self.accepted, default=0)
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
