"""The engine of statements that users send: looks at every text before Spark runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession

from lakelog.spark.engine.engine import OpensTables, SparkEngine
from lakelog.spark.guard.plan_guard import PlanGuard, each
from lakelog.spark.guard.plan_rules import FUNCTIONS
from lakelog.sql.runtime.statement import Privilege

GUARDED_SETTINGS: Final[Mapping[str, str]] = {
    # ${env:AWS_SECRET_ACCESS_KEY} in a text would be the variable's value
    "spark.sql.variable.substitute": "false",
    "spark.sql.scripting.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
"""Settings under which the plan of a text is the whole of it."""
_ON_FILES: Final = "spark.sql.runSQLOnFiles"
_ENDS_S: Final = 5.0
"""How long after a broken connection the end of the JVM is seen."""


class GuardedEngine(SparkEngine):
    """An engine for one user's texts; ``files`` says that an admin may read files of the server by their paths."""

    def __init__(
        self,
        tables: OpensTables,
        catalog: str,
        spark: SparkSession | None,
        settings: Mapping[str, str],
        role: Privilege,
        files: bool = False,
        with_connector: bool = False,
    ) -> None:
        allowed = str(files and role >= Privilege.ADMIN).lower()
        own = {**settings, **GUARDED_SETTINGS, _ON_FILES: allowed}
        super().__init__(tables, catalog, spark, own, with_connector)
        _drop_functions(self.spark)
        self._guard = PlanGuard(self.spark, role, files)
        self.jobs = Jobs(self.spark)

    def _sql(self, text: str, frames: Mapping[str, DataFrame] | None = None) -> DataFrame:
        self._guard.check(text)
        return super()._sql(text, frames)


def _drop_functions(spark: SparkSession) -> None:
    """Takes the refused functions out of the session, so that no plan can have them whatever the guard has seen."""
    state = spark._jsparkSession.sessionState()
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        found = [identifier for identifier in each(registry.listFunction()) if identifier.funcName() in FUNCTIONS]
        for identifier in found:
            registry.dropFunction(identifier)


@dataclass(frozen=True)
class JobProgress:
    """Tasks of the stages that Spark knows of so far; more stages may come."""

    jobs: int
    tasks: int
    running: int
    done: int


class Jobs:
    """Jobs of a classic session, in groups; may be asked from any thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    @property
    def _jvm(self) -> subprocess.Popen[bytes] | None:
        """The process that PySpark has started for the session; None when something else has."""
        return getattr(self._context._gateway, "proc", None)

    @contextmanager
    def group(self, name: str, text: str) -> Iterator[None]:
        """All jobs that this thread starts in the block belong to the group."""
        self._context.setJobGroup(name, text, interruptOnCancel=True)
        try:
            yield
        finally:
            for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                self._context.setLocalProperty(key, None)  # type: ignore[arg-type]

    def progress(self, name: str) -> JobProgress:
        """How far the jobs of a group are."""
        tracker = self._context.statusTracker()
        jobs = tracker.getJobIdsForGroup(name)
        tasks = running = done = 0
        for job in jobs:
            found = tracker.getJobInfo(job)
            for stage in found.stageIds if found is not None else ():
                told = tracker.getStageInfo(stage)
                if told is not None:
                    tasks += told.numTasks
                    running += told.numActiveTasks
                    done += told.numCompletedTasks
        return JobProgress(len(jobs), tasks, running, done)

    def wait_for_jvm(self) -> None:
        """Returns when the JVM that was started for the session has ended; calls that wait for it may never do so."""
        if self._jvm is not None:
            self._jvm.wait()

    def is_over(self, error: Exception) -> bool:
        """Whether the JVM has ended, of which ``error`` may come: a broken connection is seen before that end is."""
        if self._jvm is None:
            return False
        try:
            self._jvm.wait(_ENDS_S if isinstance(error, (Py4JNetworkError, OSError)) else 0)
        except subprocess.TimeoutExpired:
            return False
        return True

    def cancel(self, name: str) -> None:
        """Ends the jobs of a group that run now; called again, those that came since."""
        self._context.cancelJobGroup(name)
