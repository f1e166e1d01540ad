"""The one source of randomness: names that nobody else has."""

from __future__ import annotations

import random
import uuid


def new_uuid() -> str:
    """A random UUID as text, for the names of files, writers and commit users."""
    return str(uuid.uuid4())


def new_attempt() -> str:
    """16 hexadecimal digits that tell one attempt of a task from every other."""
    return uuid.uuid4().hex[:16]


def random_fraction() -> float:
    """A number from 0 up to 1, to spread the retries of rivals."""
    return random.random()
