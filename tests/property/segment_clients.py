"""Writers, readers and expirers of one log in files, each a process that may die once and come again."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
from segment_clock import Clock, Process
from segment_history import UNKNOWN, History
from segment_storage import DELETE_AFTER_MS, TRUSTED_MS, SegmentStorage, Weather
from simulated_process import Killed

from lakelog.errors import OffsetExpired, Unavailable
from lakelog.logstore.base import LogLocation, LogReader, Records
from lakelog.logstore.files.appender import FilesAppender
from lakelog.logstore.files.chain import SegmentChain
from lakelog.logstore.files.reader import FilesReader

T = TypeVar("T")
_MONTH_MS = 31 * 24 * 3_600_000
_NULLS = [pa.nulls(count, pa.large_binary()) for count in range(4)]


class LogWorld:
    """What the clients of a schedule share."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.clock, self.weather = dice, Clock(dice), Weather(dice)
        self.storage = SegmentStorage(self.clock, self.weather)
        self.history = History(2)
        self.location = LogLocation("files", "", "t", 2)
        self.told_ends = {0: 0, 1: 0}
        self.wrong: list[str] = []

    def opened(self, kind: Callable[[LogLocation], T], location: LogLocation) -> T:
        """A client; tries again while storage refuses. Raises Unavailable."""
        for _ in range(3):
            try:
                return kind(location)
            except Unavailable:
                self.clock.wait(self.weather.pause())
        return kind(location)


class Client(ABC):
    """One process: its operations until it has done all or has died twice."""

    def __init__(self, world: LogWorld, name: str) -> None:
        self.world, self.name, self.dice, self.clock = world, name, world.dice, world.clock
        self.history, self.weather = world.history, world.weather
        self.process = Process(name, self.dice.choice((0, 0, -400, 1_500, -_MONTH_MS, _MONTH_MS)), self._live)

    @abstractmethod
    def work(self) -> None:
        """Opens the client and uses it. Raises Unavailable, Killed."""

    def now_ms(self) -> int:
        """The time of its clock of the day."""
        return self.clock.time_ns() // 1_000_000

    def pause(self) -> None:
        """Lets time pass between two operations."""
        self.clock.wait(self.weather.pause())

    def _live(self) -> None:
        for _ in range(2):
            try:
                self.work()
                return
            except Unavailable:
                return
            except Killed:
                if self.process.is_ending:
                    return
            except Exception as why:
                self.world.wrong.append(f"{self.name}: {type(why).__name__}: {why}")
                raise


class Writer(Client):
    """Appends records to both buckets. Some of them expire segments, some never flush what they append."""

    def __init__(self, world: LogWorld, name: str) -> None:
        super().__init__(world, name)
        self.appender: FilesAppender | None = None
        self.keeps_ms = self.dice.choice((None, None, -1_000, 1_000, int(DELETE_AFTER_MS)))

    def work(self) -> None:
        world, dice = self.world, self.dice
        location = replace(world.location, retention_ms=self.keeps_ms)
        self.appender = world.opened(FilesAppender, location)
        for _ in range(dice.randint(4, 8)):
            self.pause()
            chance = dice.random()
            if chance < 0.06:
                self.ask_end()
            elif chance < 0.12:
                self.appender = world.opened(FilesAppender, location)
            self.append(is_flushed=dice.random() < 0.95)

    def append(self, is_flushed: bool = True) -> None:
        """One append, which may remain without a known outcome."""
        appender, dice, history = self.appender, self.dice, self.history
        assert appender is not None
        made = []
        for _ in range(dice.choice((1, 1, 2))):
            bucket, count = dice.randrange(2), dice.choice((1, 1, 2))
            values = [history.new_record(bucket, int(self.clock.now)) for _ in range(count)]
            data = pa.array(values, pa.large_binary())
            made.append((bucket, values, appender.append(bucket, Records(_NULLS[count], data, b"h"))))
        if not is_flushed:
            appender.close()
            return
        for _, values, _ in made:
            for value in values:
                history.appended[value].outcome = UNKNOWN
        try:
            appender.flush()
        except Unavailable:
            self.clock.events["appends without a known outcome"] += 1
            self.clock.note("got no answer to its append")
            return
        for bucket, values, pending in made:
            offsets = pending.offsets().to_pylist()
            self.clock.note(f"appended {values} at {bucket}:{offsets}")
            history.acknowledged(self.name, bucket, offsets, values)

    def ask_end(self) -> None:
        """Asks for the end offsets."""
        assert self.appender is not None
        least = list(self.history.ends)
        try:
            self.history.ended(self.name, least, self.appender.end_offsets())
        except Unavailable:
            return


class Reader(Client):
    """Reads the log from its first offsets, its end or in between, and asks for offsets."""

    reader: FilesReader | None = None
    positions: dict[int, int]

    def work(self) -> None:
        dice = self.dice
        self.reader = self.world.opened(FilesReader, self.world.location)
        if not hasattr(self, "positions"):
            self.positions = dict(dice.choice(({0: 0, 1: 0}, self.world.told_ends)))
        for _ in range(dice.randint(5, 10)):
            if dice.random() < 0.6:
                self.pause()
            try:
                self._one(dice.random())
            except Unavailable:
                if dice.random() < 0.3:
                    self.reader = self.world.opened(FilesReader, self.world.location)

    def _one(self, chance: float) -> None:
        reader, bucket = self.reader, self.dice.randrange(2)
        assert reader is not None
        if chance < 0.12:
            self._ask_ends(reader)
        elif chance < 0.2:
            self._go_on(reader.first_offsets())
        elif chance < 0.25:
            self._ask_times(reader)
        elif chance < 0.3:  # as an executor that is new to the log
            self.reader = self.world.opened(FilesReader, self.world.location)
        elif chance < 0.45:  # up to an end offset that another client got, as an executor
            self.read(bucket, self.world.told_ends[bucket], self.dice.choice((1, 100)))
        else:
            timeout_s = 0.02 if "://" not in self.world.location.address else self.dice.choice((0.02, 2.0))
            reader.wait(self.positions, timeout_s)
            for one in self.positions:
                self.read(one, None, self.dice.choice((1, 2, 100)))

    def read(self, bucket: int, end: int | None, most: int = 100_000) -> int:
        """Reads once from the position of a bucket; returns the number of records. Raises Unavailable."""
        reader, start, least = self.reader, self.positions[bucket], self.history.ends[bucket]
        assert reader is not None
        if end is not None and start >= end:
            return 0
        try:
            found = reader.read(bucket, start, end, most)
        except OffsetExpired:
            self.clock.note(f"got OffsetExpired for {bucket}:{start}")
            self.history.refused(self.name, bucket, start)
            self._go_on(reader.first_offsets())
            return 0
        offsets, values = found.column("offset").to_pylist(), found.column("value").to_pylist()
        self.clock.note(f"read {values} at {bucket}:{offsets}")
        self.history.read(self.name, bucket, start, offsets, values)
        if not offsets and end is not None and end <= least:
            self.history.wrong.append(f"{self.name} read nothing of bucket {bucket} from {start} to {end}")
        self.positions[bucket] = start + len(offsets)
        return len(offsets)

    def _ask_ends(self, reader: LogReader) -> None:
        least = list(self.history.ends)
        found = reader.end_offsets()
        self.clock.note(f"got the end offsets {found}")
        self.history.ended(self.name, least, found)
        self.world.told_ends |= {b: max(end, self.world.told_ends[b]) for b, end in found.items()}

    def _ask_times(self, reader: LogReader) -> None:
        timestamp_ms = self.now_ms() - int(self.weather.pause() * self.dice.random())
        found = reader.offsets_at(timestamp_ms)
        self.history.started(self.name, timestamp_ms, found)

    def _go_on(self, first: Mapping[int, int]) -> None:
        self.positions = {b: max(at, first[b]) for b, at in self.positions.items()}


class Expirer(Client):
    """Expires old segments, all of them or only those below some offsets, and deletes expired ones."""

    def __init__(self, world: LogWorld, name: str) -> None:
        super().__init__(world, name)
        self.process.is_expirer = True

    def work(self) -> None:
        world, dice = self.world, self.dice
        segments = world.opened(SegmentChain, world.location)
        is_patient = dice.random() < 0.7
        for _ in range(dice.randint(3, 6)):
            self.pause()
            if is_patient and dice.random() < 0.7:
                self.clock.wait(DELETE_AFTER_MS * (0.8 + 0.4 * dice.random()))
            if dice.random() < 0.2:
                segments = world.opened(SegmentChain, world.location)
            cutoff_ms = int(self.clock.now) - dice.choice((-60_000, 0, int(TRUSTED_MS), int(DELETE_AFTER_MS)))
            floors = {b: dice.randint(0, end + 1) for b, end in enumerate(self.history.ends)}
            chosen = floors if dice.random() < 0.4 else None
            self.history.expiries.append((cutoff_ms, chosen))
            try:
                segments.expire(cutoff_ms, chosen)
            except Unavailable:
                self.clock.note("has not expired all")
