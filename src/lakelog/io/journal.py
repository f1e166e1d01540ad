"""Numbered files that are created if absent, so that one process decides what a number is (RFC 22).

The oldest are deleted once nobody needs them, and a suspended process may create one of them again. So each user has a
floor, which only grows. It asks for the floor after a creation, and what is not above it does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.errors import NotFound
from lakelog.io.storage.file_io import FileIO, FileStatus


@dataclass(frozen=True)
class Journal:
    """The files ``<prefix><number>`` of a directory; the number is padded to ``digits``."""

    io: FileIO
    directory: str
    prefix: str = ""
    digits: int = 19

    def path(self, number: int) -> str:
        """The file of a number."""
        return f"{self.directory}/{self.prefix}{number:0{self.digits}}"

    def create(self, number: int, data: bytes) -> bool:
        """Creates a number; False if it exists. Raises CommitUnknown."""
        return self.io.create(self.path(number), data)

    def read(self, number: int) -> bytes | None:
        """The content of a number; None if it does not exist."""
        try:
            return self.io.read(self.path(number))
        except NotFound:
            return None

    def has(self, number: int) -> bool:
        """True if the number exists."""
        try:
            self.io.size(self.path(number))  # in an object store, ``exists`` lists a directory of the name, too
        except NotFound:
            return False
        return True

    def files(self) -> dict[int, FileStatus]:
        """Number → file in a listing, ascending."""
        files = {file.name.removeprefix(self.prefix): file for file in self.io.list(self.directory)}
        names = (name for name, file in sorted(files.items()) if file.name == f"{self.prefix}{name}")
        return {int(name): files[name] for name in names if name.isdecimal() and len(name) == self.digits}

    def end(self, number: int) -> int:
        """The newest number without a gap after a known one. Lists nothing."""
        if not self.has(number + 1):
            return number
        number, step = number + 1, 1
        while self.has(number + step):
            number += step
            step *= 2
        while step > 1:
            step //= 2
            number += step if self.has(number + step) else 0
        return number

    def delete_below(self, number: int) -> None:
        """Deletes the numbers below one, by a listing."""
        for old, file in self.files().items():
            if old < number:
                self.io.delete(file.path)
