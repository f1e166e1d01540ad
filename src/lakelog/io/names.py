"""The only source of randomness: unique names."""

from __future__ import annotations

import random
import secrets
import uuid


def new_uuid() -> str:
    """A random UUID as text, for the names of files, writers and commit users."""
    return str(uuid.uuid4())


def new_attempt() -> str:
    """16 hexadecimal digits that identify one attempt of a task."""
    return uuid.uuid4().hex[:16]


def random_fraction() -> float:
    """A number from 0 up to 1, to spread concurrent retries."""
    return random.random()


def new_secret() -> str:
    """256 bits of randomness as text for addresses and headers: tokens, sessions."""
    return secrets.token_urlsafe(32)
