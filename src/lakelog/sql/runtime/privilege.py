"""What a statement does to others, in three steps: who may run it is decided by whoever runs statements for users."""

from __future__ import annotations

import enum

from lakelog.errors import InvalidRequest


class Privilege(enum.IntEnum):
    """Each right has those below it."""

    READ = 1
    """Looks at tables; changes nothing but the session."""
    WRITE = 2
    """Changes tables and their rows."""
    ADMIN = 3
    """Changes what tables live in, or takes away what others may still read."""

    @property
    def word(self) -> str:
        """The name of the role that has it."""
        return self.name.lower()

    @staticmethod
    def of(word: str) -> Privilege:
        """The right that a role has. Raises InvalidRequest."""
        for right in Privilege:
            if right.word == word.strip().lower():
                return right
        raise InvalidRequest(f"unknown role '{word}'; known: {', '.join(right.word for right in Privilege)}")
