"""What a user of a service may do."""

from __future__ import annotations

from enum import IntEnum

from lakelog.errors import InvalidRequest


class Role(IntEnum):
    """Each role may do what the ones before it may.

    ``read`` sees tables and queries them, ``write`` changes rows and tables, ``admin`` runs procedures and sees the
    audit log and the settings.
    """

    READ = 1
    WRITE = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """The name in files, options and pages."""
        return self.name.lower()

    @staticmethod
    def of(text: str) -> Role:
        """The role of this name. Raises InvalidRequest."""
        try:
            return Role[text.strip().upper()]
        except KeyError:
            known = ", ".join(role.label for role in Role)
            raise InvalidRequest(f"unknown role '{text}'; known: {known}") from None
