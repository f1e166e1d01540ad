"""Does the clock of this machine agree with that of the storage, and with those of the other writers?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io import clock
from lakelog.service.doctor.check import Check, CheckContext, Finding, listed

_WARN_MS: Final = 5_000
_FAIL_MS: Final = 60_000
"""Maximum difference of clocks: a lease lasts a minute, and beyond that two compactors do the same work."""
_TO_DO: Final = "let all machines set their clocks by NTP (timedatectl set-ntp true)"


class ClockCheck(Check):
    """Compares the times of a new file and of the newest snapshots with this clock."""

    NAME = "clock"
    TITLE = "the clocks"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        with around.scratch_directory() as (io, directory):
            before = clock.now_ms()
            io.write(f"{directory}/now", b"now")
            after = clock.now_ms()
            stored = io.list(directory)[0].mtime_ms
        # the difference includes the duration of the call; object stores report whole seconds
        skew = stored - after if stored > after else min(0, stored + 1000 - before)
        yield self._skew_finding(skew, "the storage's clock")
        newest = 0
        lake, names = listed(around)
        for name in names:
            try:
                snapshot = lake.table(name).latest_snapshot()
            except LakelogError:
                continue  # the check of the tables reports it
            newest = max(newest, 0 if snapshot is None else snapshot.time_millis)
        if newest > clock.now_ms() + _WARN_MS:
            yield self._skew_finding(newest - clock.now_ms(), "the clock of the newest snapshot's writer")

    def _skew_finding(self, skew_ms: int, whose: str) -> Finding:
        if abs(skew_ms) <= _WARN_MS:
            return self.passed(f"this machine and {whose} agree")
        text = f"{whose} is {abs(skew_ms) / 1000:.0f} s {'ahead of' if skew_ms > 0 else 'behind'} this machine's"
        if abs(skew_ms) <= _FAIL_MS:
            return self.warned(text, _TO_DO)
        return self.failed(f"{text}: leases and retention depend on these clocks", _TO_DO)
