"""Every error of lakelog, sorted by what the caller does next.

::

    LakelogError                      what the caller does
      InvalidRequest (ValueError)     correct the call
        InvalidOption                 correct the option (key, value and a suggestion are named)
        InvalidSchema                 correct the columns or the rows
        UnsupportedStatement          write the statement another way
        UnsupportedFeature            the table uses something that lakelog does not write (or read)
        NotAllowed                    ask somebody who has the right, or do what the text says instead
      NotFound                        the name, snapshot or offset does not exist
        OffsetExpired                 start from a snapshot instead
      AlreadyExists                   choose another name, or use what exists
      CommitConflict     (retriable)  take the newest snapshot, do it again
      CommitDecided                   go on: the rows are written, only a later step failed
      CommitUnknown                   ask by commit identifier before doing it again
      Fenced                          somebody newer owns this: stop this writer
      TableReplaced                   the table was renamed, or dropped and created again: open it again
      Unavailable        (retriable)  storage or log cannot be reached: repeat the call later
        NoPermission                  the storage refuses this user: change its rights, or be another user
      Corrupt                         bytes are not what the format says
      NotInstalled                    run the pip command in the text
      InternalError                   a bug: please report

The text of an error may change, its class may not. Every error survives pickle, because Spark
carries errors between machines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import ClassVar


class LakelogError(Exception):
    """Base of all errors that lakelog raises on purpose."""

    retriable: ClassVar[bool] = False


class InvalidRequest(LakelogError, ValueError):
    """The call itself is wrong; correct it."""


class InvalidOption(InvalidRequest):
    """An option has an unknown key or a value that does not fit."""


class InvalidSchema(InvalidRequest):
    """Columns or rows do not fit the table."""


class ConstraintViolation(InvalidSchema):
    """A row violates a CHECK constraint of the table; correct the row, or change the constraint."""

    def __init__(self, message: str, is_rejected: bool = False) -> None:
        super().__init__(message)
        self.is_rejected = is_rejected
        """True if the constraint rejects the row, and does not fail the write."""


class UnsupportedStatement(InvalidRequest):
    """The statement cannot be understood or is not supported."""


class UnsupportedFeature(InvalidRequest):
    """The table uses a feature of the format that lakelog does not know; nothing was changed."""


class NotAllowed(InvalidRequest):
    """This user's role, or the configuration, does not allow the statement; nothing was changed."""


class NotFound(LakelogError, LookupError):
    """A catalog, database, table, snapshot, tag or offset does not exist."""


class OffsetExpired(NotFound):
    """The log no longer holds this offset; the table still has the rows in files."""


class AlreadyExists(LakelogError):
    """Something with this name exists."""


class CommitConflict(LakelogError):
    """A concurrent commit changed the base of this one."""

    retriable = True


class CommitUnknown(LakelogError):
    """The response to a commit was lost. Check by commit user and identifier whether it succeeded."""


class CommitDecided(LakelogError):
    """The rows are decided and readable, a later step failed; the next writer completes it. Do not write them again.

    ``__cause__`` is the failure.
    """


class Fenced(LakelogError):
    """Another writer owns the epoch or table of this one."""


class TableReplaced(LakelogError):
    """The opened table was dropped or renamed, or another table replaced it; nothing was written there."""


class Unavailable(LakelogError):
    """Storage or log cannot be reached now."""

    retriable = True


class NoPermission(Unavailable):
    """The storage refuses this user, and will refuse it again."""

    retriable = False


class Corrupt(LakelogError):
    """Bytes do not match the format."""


class NotInstalled(LakelogError, ImportError):
    """An optional part is missing; the text holds the command that installs it."""


def closest_name(name: str, known: Iterable[str], similarity: float = 0.6) -> str | None:
    """The known name that is most like another one in any case; None if none has this ``similarity`` (0 to 1)."""
    by_fold = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), by_fold, 1, similarity)
    return by_fold[near[0]] if near else None


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str = "", prefix: str = "", similarity: float = 0.6
) -> str:
    """The suffix of an error about an unknown name: the closest known one, or ``otherwise``.

    ``prefix`` stands before a known name in the answer; ``similarity`` is that of ``closest_name``.

    Example: ``did_you_mean("orderz", ["orders"])`` is ``", did you mean 'orders'?"``.
    """
    near = closest_name(name, known, similarity)
    return otherwise if near is None else f", did you mean '{prefix}{near}'?"


@contextlib.contextmanager
def after_decision(table: str) -> Iterator[None]:
    """Turns every failure of the block into CommitDecided; called around the steps that follow a decision."""
    try:
        yield
    except CommitDecided:
        raise
    except Exception as why:
        raise CommitDecided(
            f"rows of table {table} are committed: do not write them again. A later step failed; the next writer or "
            f"lakelog optimize completes it: {why}"
        ) from why


class InternalError(LakelogError):
    """Internal invariant violated; please report a bug."""
