"""Runs the checks one after the other, and yields their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lakelog.errors import LakelogError
from lakelog.io.logs import without_secrets
from lakelog.service.doctor import CHECKS
from lakelog.service.doctor.check import FAIL, CheckContext, Finding


def _ignore_progress(_: str) -> None:
    """Ignores the progress."""


def examine(
    around: CheckContext, only: Iterable[str] = (), progress: Callable[[str], None] = _ignore_progress
) -> Iterator[Finding]:
    """The findings of all checks, or of the named ones; ``progress`` is called with the title of the next check.

    A failed check is a finding too. Raises only InvalidRequest for an unknown name.
    """
    for check in [CHECKS.create(name) for name in only or CHECKS]:
        progress(check.TITLE)
        try:
            yield from check.run(around)
        except LakelogError as why:
            yield Finding(check.NAME, FAIL, _line(type(why).__name__), _line(why))
        except Exception as why:
            yield Finding(
                check.NAME,
                FAIL,
                _line(f"the check itself failed: {type(why).__name__}: {why}"),
                "if the rest works, this is a bug of lakelog: please report it",
            )


def _line(text: object) -> str:
    return without_secrets(" ".join(str(text).split()))
