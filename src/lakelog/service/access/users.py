"""The users of a dashboard: a file with one line per user, or one token."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from lakelog.errors import InvalidRequest, NotFound
from lakelog.sql.runtime.statement import Privilege

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SHORTEST: Final = 12
TOKEN_USER: Final = "token"


@dataclass(frozen=True)
class User:
    """A name with a role and a password hash (Argon2id with the library's defaults)."""

    name: str
    role: Privilege
    hash: str

    @property
    def stamp(self) -> str:
        """A digest that changes with the password and the role."""
        return hashlib.sha256(f"{self.role.word} {self.hash}".encode()).hexdigest()


class Users:
    """The users file: lines ``name:role:hash``, readable by its owner only (mode 0600).

    It is read for each request, so that changes of users take effect at once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hasher = PasswordHasher()
        self._dummy_hash = self._hasher.hash("no user has this password")

    def check(self, name: str, password: str) -> User | None:
        """The user with this password; None for any other, after the same work."""
        user = self.read().get(name)
        try:
            self._hasher.verify(user.hash if user else self._dummy_hash, password)
        except (VerificationError, InvalidHashError):
            return None
        return user

    def read(self) -> dict[str, User]:
        """Users by name. Raises InvalidRequest for a file that other users can read, or for an invalid line."""
        try:
            mode = self.path.stat().st_mode
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            raise NotFound(
                f"no users file {self.path}; create one: lakelog users add NAME --file {self.path}"
            ) from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InvalidRequest(f"other users can read {self.path}: chmod 600 {self.path}")
        return {user.name: user for user in map(_user_of, enumerate(lines, 1)) if user is not None}

    def put(self, name: str, role: Privilege, password: str) -> None:
        """Adds a user, or changes password and role of one. Raises InvalidRequest for an invalid name or password."""
        if not _NAME.fullmatch(name) or name == TOKEN_USER:
            raise InvalidRequest(f"'{name}' is not a valid user name: use letters, digits and . _ @ -, at most 64")
        if len(password) < _SHORTEST:
            raise InvalidRequest(f"a password needs at least {_SHORTEST} characters")
        users = self.read() if self.path.exists() else {}
        self._write({**users, name: User(name, role, self._hasher.hash(password))})

    def remove(self, name: str) -> None:
        """Removes a user. Raises NotFound."""
        users = self.read()
        if users.pop(name, None) is None:
            raise NotFound(f"no user '{name}' in {self.path}; known: {', '.join(users) or 'none'}")
        self._write(users)

    def _write(self, users: dict[str, User]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{user.name}:{user.role.word}:{user.hash}\n" for user in users.values())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)


def _user_of(numbered: tuple[int, str]) -> User | None:
    number, line = numbered
    if not line.strip() or line.startswith("#"):
        return None
    parts = line.strip().split(":", 2)
    if len(parts) != 3:
        raise InvalidRequest(f"line {number} of the users file is not name:role:hash")
    return User(parts[0], Privilege.of(parts[1]), parts[2])


def is_token(text: str, token: str | None) -> bool:
    """Checks a token in constant time."""
    return token is not None and hmac.compare_digest(text.encode(), token.encode())
