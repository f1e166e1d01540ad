"""Reads what points at snapshots from outside: tags, branches, consumers' positions (format sheet 12)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from lakelog.errors import Corrupt, InvalidRequest, NotFound
from lakelog.filestore.paths import TablePaths
from lakelog.io.file_io import FileIO
from lakelog.spec.tag import Tag, tag_from_json


@dataclass(frozen=True)
class Marks:
    """The tags and consumers of one branch of a table, and the branches of the table."""

    io: FileIO
    paths: TablePaths

    def tag(self, name: str) -> Tag:
        """One tag. Raises NotFound naming those that are there."""
        try:
            return tag_from_json(name, self.io.read(self.paths.tag(name)))
        except NotFound:
            raise NotFound(f"table {self.paths.root} has no tag '{name}'{_hint(name, self._tag_names())}") from None

    def has_tag(self, name: str) -> bool:
        """Whether a tag of this name is there."""
        return "/" not in name and self.io.exists(self.paths.tag(name))

    def tags(self) -> list[Tag]:
        """All tags, by name."""
        return [self.tag(name) for name in sorted(self._tag_names())]

    def branches(self) -> list[tuple[str, int]]:
        """(name, ms since 1970 of the directory's last change) of each branch, by name."""
        found = self.io.list(self.paths.branches)
        return sorted((s.name.removeprefix("branch-"), s.mtime_ms) for s in found if s.name.startswith("branch-"))

    def consumers(self) -> dict[str, int]:
        """Consumer → the snapshot that it reads next, by name."""
        names = _names(self.io, self.paths.consumers, "consumer-")
        found = {name: self.consumer(name) for name in sorted(names)}
        return {name: at for name, at in found.items() if at is not None}

    def consumer(self, name: str) -> int | None:
        """The snapshot that a consumer reads next; None when there is no such consumer."""
        try:
            return int(orjson.loads(self.io.read(self.paths.consumer(name)))["nextSnapshot"])
        except NotFound:
            return None
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as why:
            raise Corrupt(f"the position of consumer '{name}' cannot be read: {why!r}") from None

    def move_consumer(self, name: str, next_snapshot: int) -> None:
        """Records how far a consumer is; expiry keeps the snapshots from there on. Raises InvalidRequest."""
        if not name.strip() or "/" in name or "\\" in name:
            raise InvalidRequest(f"'{name}' cannot be a consumer-id: it must not be blank or have '/' or '\\'")
        data = orjson.dumps({"nextSnapshot": next_snapshot}, option=orjson.OPT_INDENT_2)
        self.io.write(self.paths.consumer(name), data)

    def _tag_names(self) -> list[str]:
        return _names(self.io, self.paths.tags, "tag-")


def _names(io: FileIO, directory: str, prefix: str) -> list[str]:
    return [s.name.removeprefix(prefix) for s in io.list(directory) if s.name.startswith(prefix) and not s.is_dir]


def _hint(name: str, there: Iterable[str]) -> str:
    names = sorted(there)
    near = difflib.get_close_matches(name, names, 1)
    return f", did you mean '{near[0]}'?" if near else f"; it has: {', '.join(names) or 'none'}"
