"""Planning of the corrections that make a region of the log match the decision: pure functions (RFC 2, healing)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import pyarrow as pa

from lakelog.errors import Fenced
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.protocol.header import CORRECTION, DATA, Header, decode_header

CommittedLookup = Callable[[Sequence[bytes]], Mapping[bytes, bytes | None]]
"""Log keys → the value of each key's committed row; None without one."""


@dataclass(frozen=True)
class LoggedChange:
    """A change in a record, or only its key, and the schema id of its columns (``Header.schema``)."""

    key: bytes | None
    value: bytes | None
    schema: int | None


Translation = Callable[[Sequence[LoggedChange]], tuple[int | None, Sequence[LoggedChange]]]
"""Changes → the schema id that the committed rows have now, and the changes with the columns of that schema."""


def _as_written(changes: Sequence[LoggedChange]) -> tuple[int | None, Sequence[LoggedChange]]:
    return None, changes


@dataclass(frozen=True)
class Correction:
    """A record to append: it reverts the record at ``ref`` (sign -1), repeats it (+1), or asserts its key's state (0).

    If ``is_data``, transactional readers treat it as a row of an accepted attempt. ``schema`` is the id of its columns:
    a reverted record and its correction have the same.
    """

    ref: int
    sign: int
    epoch: int
    attempt: str
    key: bytes | None
    value: bytes
    is_data: bool = False
    schema: int | None = None


@dataclass(frozen=True)
class _Entry:
    """A data record or correction of the region; ``is_translated`` if it was written with other columns."""

    offset: int
    header: Header
    key: bytes | None
    value: bytes
    is_translated: bool = False

    @property
    def is_data(self) -> bool:
        return self.header.kind == DATA


class Later(Enum):
    """Treatment of records of an epoch after the writer's newest decided one."""

    FENCED = "another process has taken over the writer: raise Fenced"
    OPEN = "the writer is active: leave them unchanged"
    REFUSED = "the writer is dead: take them back"


@dataclass(frozen=True)
class Counted:
    """Corrections below offset ``end``, of epochs up to ``epoch``, were balanced with records before the region."""

    end: int
    epoch: int


NONE_COUNTED: Final = Counted(0, -1)


def _none_open(_: Header) -> bool:
    return False


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True)
class Healing:
    """The input of healing: the writer, its decided attempts per epoch, and the properties of the log.

    ``table`` is the name of the table, for metrics. ``is_open`` is True for a data record of another writer that is
    still responsible for its key: the record is undecided, or only the log orders it. If ``own_first``, the
    writer's newest accepted record is right, because ``lookup`` does not find it (the write fills no files).
    ``late`` are the keys whose last accepted record may be the old half of an update
    (``table/staging/late_retractions.py``). The files determine their state; their columns are those of ``schema``.
    ``translate`` gives changes the columns of the committed rows, since an ALTER TABLE may have renamed them or
    changed their types. If ``was_taken_over``, another process has healed the records before the region, so
    corrections that name them are not judged. ``counted`` are corrections that an earlier healer has judged,
    although they are in the region. ``watch`` is called with the region once it is healed. ``confirm`` is called
    before corrections are appended, and raises if what they follow from is not the state of this table.
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
    schema: int | None = None
    translate: Translation = _as_written
    was_taken_over: bool = False
    counted: Counted = NONE_COUNTED
    watch: Callable[[pa.Table], None] = _ignore
    confirm: Callable[[], None] = _ignore

    def plan(self, region: pa.Table, expired: range = range(0)) -> list[Correction]:
        """The corrections for the region (RECORDS_SCHEMA, from ``since`` to the end), in append order.

        The healer appends them and calls this again until it returns nothing. It first corrects the balance: the count
        is 0 for each record of a rejected attempt and 1 for each record of an accepted one. If the balance is right,
        the last record of each touched key must leave the key in its decided state. ``expired`` are expired offsets;
        corrections that name them are not judged. Raises Fenced if the region contains records of an epoch after the
        newest decided one, because another process has taken over.
        """
        entries = _entries(region)
        own = {e.offset: e for e in entries if self._covers(e)}
        if self.later is Later.FENCED:
            self._check_not_overtaken(own)
        if self.mode == "upsert":
            return self._right_keys(entries)
        uncounted = {o: e for o, e in own.items() if not self._was_counted(e, expired.start)}
        corrections = self._balance(uncounted, expired) + self._balance_assertions(uncounted)
        if corrections or not self.keyed:
            return corrections
        return self._right_keys(entries)

    def _check_not_overtaken(self, own: Mapping[int, _Entry]) -> None:
        """Raises Fenced if a later epoch of this writer exists, because this driver would revert its accepted rows."""
        newest, found = max(self.accepted, default=-1), max((e.header.epoch for e in own.values()), default=-1)
        if found > newest:
            raise Fenced(
                f"writer {self.writer} is at epoch {found} in another process while this one heals epoch {newest}: "
                "stop this process, because the other one replaced it"
            )

    def verified(self, region: pa.Table, end: int) -> int:
        """The offset below which the region is verified: its end, or its first record that was not judged."""
        if self.later is not Later.OPEN:
            return end
        left = (e.offset for e in _entries(region) if e.header.writer == self.writer and not self._covers(e))
        return min(left, default=end)

    def _covers(self, entry: _Entry) -> bool:
        is_left = self.later is Later.OPEN and entry.header.epoch > max(self.accepted, default=-1)
        return entry.header.writer == self.writer and not is_left

    def _was_counted(self, entry: _Entry, since: int) -> bool:
        head = entry.header
        is_before = entry.offset < self.counted.end and head.epoch <= self.counted.epoch
        return is_before and not entry.is_data and (not head.sign or head.ref < since)

    def _accepts(self, entry: _Entry) -> bool:
        return entry.header.attempt in self.accepted.get(entry.header.epoch, frozenset())

    def _balance(self, own: Mapping[int, _Entry], expired: range) -> list[Correction]:
        counts: dict[int, int] = defaultdict(int)
        named: dict[int, _Entry] = {}
        for entry in own.values():
            if entry.is_data:
                named[entry.offset] = entry
                counts[entry.offset] += 1 - self._accepts(entry)
            elif entry.header.sign:
                counts[entry.header.ref] += entry.header.sign
                # records before the region are already judged, so all corrections of them by a late healer are reverted
                named.setdefault(entry.header.ref, self._named_by(entry))
        return [
            self._correct(named[offset], -1 if count > 0 else 1)
            for offset, count in sorted(counts.items(), reverse=True)
            # one per round: three healers that each corrected the whole difference would increase it every time
            if count and offset not in expired
        ]

    def _named_by(self, correction: _Entry) -> _Entry:
        value = correction.value if correction.header.sign > 0 else self.format.inverse(correction.value)
        return replace(correction, offset=correction.header.ref, value=value)

    def _balance_assertions(self, own: Mapping[int, _Entry]) -> list[Correction]:
        """Corrections of assertions (sign 0) that do not sum to zero per image, such as a half-written pair."""
        net: dict[bytes, int] = defaultdict(int)
        about: dict[bytes, _Entry] = {}
        healing, assertions = self._current([e for e in own.values() if not e.is_data and not e.header.sign])
        for entry in assertions:
            before, after = self.format.images(entry.value)
            for image, change in ((before, -1), (after, 1)):
                if image is not None:
                    net[image] += change
                    about[image] = entry
        out = []
        for image, count in net.items():
            value = self.format.asserting(None, image) if count > 0 else self.format.asserting(image, None)
            entry = about[image]
            out += [healing._about(entry, entry.key or b"", 0, value)] if count else []
        return out

    def _current(self, entries: Sequence[_Entry]) -> tuple[Healing, list[_Entry]]:
        """This healing and the entries, both with the columns of the committed rows."""
        if not entries:
            return self, []
        late = [LoggedChange(key, None, self.schema) for key in self.late]
        schema, found = self.translate([*(LoggedChange(e.key, e.value, e.header.schema) for e in entries), *late])
        current = [
            _Entry(e.offset, replace(e.header, schema=schema), c.key, c.value or b"", e.header.schema != schema)
            for e, c in zip(entries, found, strict=False)
        ]
        keys = frozenset(c.key for c in found[len(entries) :] if c.key is not None)
        return replace(self, late=keys, schema=schema), current

    def _right_keys(self, entries: Sequence[_Entry]) -> list[Correction]:
        """Corrections that leave each touched key in its decided state."""
        if not self.late and all(e.is_data and self._covers(e) and self._accepts(e) for e in entries):
            return []
        # packed records are split into their changes
        changes = [replace(e, key=k, value=v) for e in entries for k, v in self.format.split(e.key, e.value)]
        current, changes = self._current(changes)
        return current._restore_keys(changes) if self.mode == "upsert" else current._assert_keys(changes)

    def _assert_keys(self, entries: Sequence[_Entry]) -> list[Correction]:
        out: list[Correction] = []
        for key, newest, image in self._wrong_keys(entries):
            state = self._image(newest)
            # net zero, and the last one leaves the key in the right state
            if image is not None:
                values = [self.format.asserting(image, image)]
            else:
                values = [self.format.asserting(state, None), self.format.asserting(None, state)]
            out += [self._about(newest, key, 0, value) for value in values]
        return out

    def _wrong_keys(self, entries: Sequence[_Entry]) -> Iterator[tuple[bytes, _Entry, bytes | None]]:
        """Keys of this writer whose last record, of any writer, does not leave them in the decided state.

        Yields (key, last record, right image). A last record is right if it is an accepted record of this writer. A
        process with a later decision has appended its record earlier, and checks the records after it.
        """
        last = {e.key: e for e in entries}
        keys = {e.key for e in entries if e.key is not None and self._covers(e)}
        doubtful = sorted(key for key in keys if not self._is_right(last[key], key in self.late))
        right: dict[bytes, bytes | None] = {}
        if self.own_first:
            accepted = (e for e in entries if e.is_data and self._covers(e) and self._accepts(e))
            right = {e.key: e.value for e in accepted if e.key is not None and e.key not in self.late}
        unknown = [key for key in doubtful if key not in right]
        right.update(self.lookup(unknown) if unknown else {})
        for key in doubtful:
            value = right.get(key)
            image = None if value is None else self.format.images(value)[1]
            # a reader from before an ALTER TABLE may see columns in it that the committed row does not have now
            is_unsure = last[key].is_translated or self._is_skipped(last[key])
            if is_unsure or self.format.images(last[key].value)[1] != image:
                yield key, last[key], image

    def _is_skipped(self, last: _Entry) -> bool:
        """True if a reader may return this dead writer's records of a key and not this last one.

        A reader that starts from a snapshot does not return corrections of writers that have ended.
        """
        is_others = not last.is_data and last.header.writer != self.writer
        return self.later is Later.REFUSED and is_others

    def _is_right(self, last: _Entry, is_late: bool) -> bool:
        if not last.is_data:
            return False
        if last.header.writer == self.writer:
            return not self._covers(last) or (self._accepts(last) and not is_late)
        return self.is_open(last.header)

    def _restore_keys(self, entries: Sequence[_Entry]) -> list[Correction]:
        return [
            self._about(
                newest,
                key,
                0,
                self.format.asserting(image, None if image is not None else self._image(newest)),
            )
            for key, newest, image in self._wrong_keys(entries)
        ]

    def _image(self, entry: _Entry) -> bytes | None:
        """The row that a record leaves or, if it deletes its key, the deleted one."""
        before, after = self.format.images(entry.value)
        return before if after is None else after

    def _about(self, entry: _Entry, key: bytes, sign: int, value: bytes) -> Correction:
        """An assertion of the healed epoch; a reader that has this epoch from a snapshot does not need it."""
        ref = entry.offset if entry.is_data or self._is_skipped(entry) else entry.header.ref
        is_data = key in self.late and entry.header.writer == self.writer and self._accepts(entry)
        epoch = entry.header.epoch if is_data else max(self.accepted, default=0)
        return Correction(ref, sign, epoch, entry.header.attempt, key, value, is_data, entry.header.schema)

    def _correct(self, entry: _Entry, sign: int) -> Correction:
        value = entry.value if sign > 0 else self.format.inverse(entry.value)
        head = entry.header
        return Correction(entry.offset, sign, head.epoch, head.attempt, entry.key, value, schema=head.schema)


def _entries(region: pa.Table) -> list[_Entry]:
    out = []
    columns = (region.column(name).to_pylist() for name in ("offset", "header", "key", "value"))
    for offset, header, key, value in zip(*columns, strict=True):
        parsed = decode_header(header, offset)
        if parsed.kind in (DATA, CORRECTION) and value is not None:
            out.append(_Entry(offset, parsed, key, value))
    return out
