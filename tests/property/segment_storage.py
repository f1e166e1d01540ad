"""Storage in memory for a log in files: requests take time before and after their effect, and answers are lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

import pyarrow as pa
from segment_clock import Clock
from simulated_process import Killed

from lakelog.errors import CommitUnknown, LakelogError, NotFound, Unavailable
from lakelog.io.storage.file_io import FileIO, FileStatus
from lakelog.logstore.files import chain

T = TypeVar("T")

TRUSTED_MS: Final = 1000 * chain._TRUSTED_S
"""How long readers rely on a floor."""
DELETE_AFTER_MS: Final = chain.DELETE_AFTER_MS
"""How long expired segments stay."""


class Weather:
    """How long the requests and the pauses of a schedule take, and how often something goes wrong.

    ``trouble`` is the share of requests to which something may happen, ``stalls``, ``lost`` and ``refused`` what it is.
    ``zombies`` is the share of creations of a segment before which a writer is suspended until that number is deleted.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.latency_ms = dice.choice((0.5, 5.0, 50.0))
        self.pace_ms = dice.choice((2.0, 50.0, TRUSTED_MS / 3, DELETE_AFTER_MS / 12))
        self.long_pauses = dice.choice((0.0, 0.1, 0.3))
        self.zombies = dice.choice((0.0, 0.05, 0.1, 0.2, 0.4))
        self.trouble = dice.choice((0.0, 0.05, 0.1))
        self.stalls = dice.choice((0.0, 0.1, 0.3, 0.8))
        self.lost = dice.choice((0.0, 0.3, 1.0))
        self.refused = dice.choice((0.0, 0.0, 0.1, 0.4))
        self.kills_left = dice.choice((0, 0, 1, 2))

    def latency(self) -> float:
        """Milliseconds of a request to which nothing happens."""
        return self.latency_ms * (0.1 + self.dice.random())

    def pause(self) -> float:
        """Milliseconds between two operations of a process."""
        return self.stall() if self.dice.random() < self.long_pauses else 2 * self.pace_ms * self.dice.random()

    def stall(self) -> float:
        """Milliseconds on both sides of the constants of the code, or very many."""
        chance, share = self.dice.random(), self.dice.random()
        if chance < 0.3:
            return TRUSTED_MS * (0.2 + 1.5 * share)
        return DELETE_AFTER_MS * (0.5 + share) if chance < 0.8 else DELETE_AFTER_MS * (2 + 6 * share)


class SegmentStorage(FileIO):
    """Files by path. Outside of all processes a request takes no time and succeeds.

    A writer that is about to create a segment may be suspended until that number was created by another and deleted.
    Readers that ask for this segment then may wait until it is created again.
    """

    def __init__(self, clock: Clock, weather: Weather) -> None:
        self._clock, self._weather, self._dice = clock, weather, clock.dice
        self._files: dict[str, tuple[bytes, int]] = {}
        self._deleted: set[str] = set()

    def within(self, root: str) -> SegmentStorage:
        return self

    def read(self, path: str) -> bytes:
        return self._request("read", path, lambda: self._data(path))

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._request("open", path, lambda: self._data(path)))

    def size(self, path: str) -> int:
        return self._request("size", path, lambda: len(self._data(path)))

    def exists(self, path: str) -> bool:
        return self._request("exists", path, lambda: path in self._files)

    def write(self, path: str, data: bytes) -> None:
        self._request("write", path, lambda: self._put(path, data), Unavailable)

    def create(self, path: str, data: bytes) -> bool:
        return self._request("create", path, lambda: self._put_if_absent(path, data), CommitUnknown)

    def list(self, path: str) -> list[FileStatus]:
        return self._request("list", path, lambda: self._inside(f"{path}/"))

    def delete(self, path: str) -> None:
        self._request("delete", path, lambda: self._remove(path), Unavailable)

    def open_output(self, path: str) -> NoReturn:
        raise AssertionError(f"a log writes no such files: {path}")

    def delete_dir(self, path: str) -> NoReturn:
        raise AssertionError(f"no log is dropped here: {path}")

    def makedirs(self, path: str) -> NoReturn:
        raise AssertionError(f"a log makes no directories: {path}")

    # -- the way there and back

    def _request(self, kind: str, path: str, effect: Callable[[], T], lost: type[LakelogError] | None = None) -> T:
        clock, weather = self._clock, self._weather
        if clock.here() is None:
            return effect()
        self._arrive(kind, path)
        if clock.dice.random() < weather.trouble:
            self._may_fail(kind, path, effect, lost)
        try:
            found: T | NotFound = effect()
        except NotFound as why:
            found = why
        if clock.trace is not None:
            clock.note(f"{kind} {path}" + (f": {found}" if isinstance(found, bool | NotFound) else ""))
        if clock.dice.random() < weather.trouble:
            self._may_be_late(kind, path)
        if isinstance(found, NotFound):
            raise found
        return found

    def _arrive(self, kind: str, path: str) -> None:
        """Takes the time until the effect of a request."""
        clock, weather, dice = self._clock, self._weather, self._dice
        most, process = 10 * DELETE_AFTER_MS, clock.here()
        is_free = "/segments/" in path and process is not None and not process.is_expirer  # others wait for that one
        is_awaited = is_free and clock.is_awaited(f"deleted {path}")
        if is_free and kind == "create" and not is_awaited and dice.random() < weather.zombies:
            clock.note(f"is suspended before it creates {path}")
            if clock.wait_for(f"deleted {path}", most):
                clock.events["resumed zombies"] += 1
        elif is_awaited and kind != "create" and dice.random() < 0.4:
            clock.note(f"is suspended before it reads {path}")
            if clock.wait_for(f"again {path}", most):
                clock.events["reads of a zombie's segment"] += 1
        elif weather.stalls and dice.random() < weather.trouble * weather.stalls:
            clock.events["stalls"] += 1
            clock.note(f"stalls before {kind} {path}")
            clock.wait(weather.stall())
        else:
            clock.wait(weather.latency())

    def _may_fail(self, kind: str, path: str, effect: Callable[[], object], lost: type[LakelogError] | None) -> None:
        """Raises what the client of a request learns that failed, or Killed."""
        clock, weather = self._clock, self._weather
        self._may_die(kind, path)
        if clock.dice.random() < weather.refused:
            clock.events["refused requests"] += 1
            clock.note(f"REFUSED {kind} {path}")
            raise Unavailable(f"'{path}': storage is too busy")
        if lost is not None and clock.dice.random() < weather.lost:
            self._lose(kind, path, effect)
            raise lost(f"'{path}': the answer was lost")

    def _may_be_late(self, kind: str, path: str) -> None:
        self._may_die(kind, path)
        if self._clock.dice.random() < self._weather.stalls:
            self._clock.events["late answers"] += 1
            self._clock.note("the answer is late")
            self._clock.wait(self._weather.stall())

    def _may_die(self, kind: str, path: str) -> None:
        if self._weather.kills_left and self._clock.dice.random() < 0.1:
            self._weather.kills_left -= 1
            self._clock.events["kills"] += 1
            self._clock.note(f"DIES at {kind} {path}")
            raise Killed

    def _lose(self, kind: str, path: str, effect: Callable[[], object]) -> None:
        """Has the effect now, never, or later."""
        self._clock.events["lost answers"] += 1
        chance = self._dice.random()
        self._clock.note(f"LOST {kind} {path}")
        if chance < 0.5:
            effect()
        elif chance < 0.75:
            self._clock.events["late effects"] += 1
            self._clock.later(self._weather.stall() if chance < 0.7 else 20.0, effect)

    # -- the files

    def _data(self, path: str) -> bytes:
        found = self._files.get(path)
        if found is None:
            raise NotFound(f"file '{path}' does not exist")
        return found[0]

    def _put(self, path: str, data: bytes) -> None:
        self._files[path] = data, int(self._clock.now)

    def _put_if_absent(self, path: str, data: bytes) -> bool:
        if path in self._files:
            return False
        self._put(path, data)
        if path in self._deleted:
            self._clock.events["re-created numbers"] += 1
            self._clock.happened(f"again {path}")
        if "/floors/" in path:
            self._clock.events["expiries"] += 1
        return True

    def _remove(self, path: str) -> None:
        if self._files.pop(path, None) is not None:
            self._clock.events["deleted segments"] += 1
            self._deleted.add(path)
            self._clock.happened(f"deleted {path}")

    def _inside(self, root: str) -> list[FileStatus]:
        return [FileStatus(p, len(data), ms, False) for p, (data, ms) in sorted(self._files.items()) if root in p]
