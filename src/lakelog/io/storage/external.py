"""Storage whose tables may have files outside of their own directories."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.io.storage.delegating import DelegatingFileIO


@dataclass(frozen=True)
class ExternalFileIO(DelegatingFileIO):
    """Another storage, and the directories in which external files may lie."""

    roots: tuple[str, ...]

    @property
    def external_roots(self) -> tuple[str, ...]:
        return self.roots
