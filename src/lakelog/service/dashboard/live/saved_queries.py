"""The saved queries of users: one file for each, in the state directory of the dashboard."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Final

import orjson

from lakelog.errors import InvalidRequest, NotFound
from lakelog.sql.syntax.masking import without_secrets

_MOST: Final = 200
"""Maximum number of queries of a user."""


class SavedQueries:
    """Queries by user and name. Thread-safe."""

    def __init__(self, state: Path) -> None:
        self._root = state.expanduser() / "queries"
        self._lock = threading.Lock()

    def of(self, user: str) -> dict[str, str]:
        """The queries of a user by name, in the order of their names."""
        try:
            read: dict[str, str] = orjson.loads(self._path(user).read_bytes())
        except FileNotFoundError:
            return {}
        return dict(sorted(read.items()))

    def save(self, user: str, name: str, text: str) -> None:
        """Saves a text under a name, in place of an earlier one. Raises InvalidRequest for one with a secret."""
        if without_secrets(text) != text:
            raise InvalidRequest("this text has a secret, and saved queries are no place for one: remove it first")
        with self._lock:
            queries = self.of(user) | {name: text}
            if len(queries) > _MOST:
                raise InvalidRequest(f"{_MOST} queries are saved, and that is the limit: delete one first")
            self._write(user, queries)

    def delete(self, user: str, name: str) -> None:
        """Deletes a query. Raises NotFound."""
        with self._lock:
            queries = self.of(user)
            if queries.pop(name, None) is None:
                raise NotFound(f"no query '{name}' is saved")
            self._write(user, queries)

    def _path(self, user: str) -> Path:
        return self._root / f"{hashlib.sha256(user.encode()).hexdigest()}.json"

    def _write(self, user: str, queries: dict[str, str]) -> None:
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(user)
        new = path.with_suffix(".new")
        new.write_bytes(orjson.dumps(queries))
        new.chmod(0o600)
        os.replace(new, path)
