"""Runs the checks one after the other, and yields their findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakelog.errors import LakelogError
from lakelog.io.logs import without_secrets
from lakelog.io.metrics import METER
from lakelog.service.doctor import CHECKS
from lakelog.service.doctor.check import FAIL, Check, CheckContext, Finding


def examine(around: CheckContext, only: Iterable[str] = ()) -> Iterator[Finding]:
    """The findings of all checks, or of the named ones.

    A failed check is a finding too. Raises only InvalidRequest for an unknown name.
    """
    for check in [CHECKS.create(name) for name in only or CHECKS]:
        with METER.step("check", about=check.TITLE):
            findings = list(_findings(check, around))
        yield from findings


def _findings(check: Check, around: CheckContext) -> Iterator[Finding]:
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
