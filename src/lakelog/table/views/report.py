"""What the process that refreshes a materialized view last said.

It says how the rows are computed and why a refresh failed, which no snapshot says.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.logs import fields
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.service_report import ServiceReport

_LOG: Final = logging.getLogger("lakelog.views")
_EVERY_S: Final = 5.0
"""Seconds between two reports of refreshes without a failure."""


@dataclass(frozen=True)
class ViewReport(ServiceReport):
    """The last refresh that changed the position of a view, and the failure after it.

    ``computed_by`` is ``DuckDB`` or ``Spark``. ``rows`` is the number of changed rows, ``seconds`` the duration of the
    refresh, ``is_whole`` whether it computed all rows. Times are ms since 1970, None if there was none.
    """

    service: ClassVar[str] = "view"

    computed_by: str = ""
    refreshed_ms: int | None = None
    rows: int = 0
    seconds: float = 0.0
    is_whole: bool = False
    failed_ms: int | None = None
    error: str = ""


class ViewReporter:
    """Writes the reports of one process about a view. A report that cannot be written is logged."""

    def __init__(self) -> None:
        self._last: ViewReport | None = None
        self._written_s = float("-inf")
        self._unwritten: ViewReport | None = None

    def refreshed(self, view: DynamicTable, report: ViewReport, is_current: bool) -> None:
        """Reports a refresh; with ``is_current`` one that had nothing to do, which only ends a failure."""
        if is_current:
            last = self._known(view)
            if last.error:
                self._write(view, replace(last, failed_ms=None, error=""))
            return
        before, self._last = self._last, report
        if before is None or before.error or before.computed_by != report.computed_by or self._is_due():
            self._write(view, report)
        else:
            self._unwritten = report

    def failed(self, view: DynamicTable, why: Exception) -> None:
        """Reports a failed refresh, unless the view was dropped."""
        try:
            view.check_identity()
            self._write(view, replace(self._known(view), failed_ms=now_ms(), error=f"{type(why).__name__}: {why}"))
        except LakelogError as other:
            _LOG.debug("the failure of view %s is not reported: %s", view.name, other)

    def end(self, view: DynamicTable) -> None:
        """Reports the last refresh, if its report was put off."""
        if self._unwritten is not None:
            self._write(view, self._unwritten)

    def _known(self, view: DynamicTable) -> ViewReport:
        if self._last is None:
            try:
                self._last = ViewReport.read(view.io, view.path) or ViewReport()
            except LakelogError:
                return ViewReport()
        return self._last

    def _is_due(self) -> bool:
        return monotonic_s() - self._written_s > _EVERY_S

    def _write(self, view: DynamicTable, report: ViewReport) -> None:
        self._last, self._unwritten, self._written_s = report, None, monotonic_s()
        try:
            report.write(view.io, view.path)
        except LakelogError as why:
            _LOG.warning("the report of view %s cannot be written: %s", view.name, why, extra=fields(table=view.name))
