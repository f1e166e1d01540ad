"""The engine for statements of dashboard users; checks every text before Spark runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession

from lakelog.spark.engine.engine import SparkEngine
from lakelog.spark.guard.plan_guard import PlanGuard, each
from lakelog.spark.guard.plan_rules import FUNCTIONS
from lakelog.sql.runtime.query_plan import Source
from lakelog.sql.runtime.statement import Privilege
from lakelog.sql.runtime.tables import CatalogTables

GUARDED_SETTINGS: Final[Mapping[str, str]] = {
    # otherwise ${env:AWS_SECRET_ACCESS_KEY} in a text is replaced by the variable's value
    "spark.sql.variable.substitute": "false",
    "spark.sql.scripting.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
"""Settings that ensure that the plan of a text is complete."""
_ON_FILES: Final = "spark.sql.runSQLOnFiles"
_ENDS_S: Final = 5.0
"""Maximum delay between a broken connection and the detected end of the JVM."""


class GuardedEngine(SparkEngine):
    """An engine for one user's texts; ``files`` allows an admin to read files of the server by path."""

    def __init__(
        self,
        tables: CatalogTables,
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

    def _sql(
        self, text: str, frames: Mapping[str, DataFrame] | None = None, sources: Sequence[Source] = ()
    ) -> DataFrame:
        self._guard.check(text)
        return super()._sql(text, frames, sources)


def _drop_functions(spark: SparkSession) -> None:
    """Removes the refused functions from the session, in case the guard misses them in a plan."""
    state = spark._jsparkSession.sessionState()
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        identifiers = [identifier for identifier in each(registry.listFunction()) if identifier.funcName() in FUNCTIONS]
        for identifier in identifiers:
            registry.dropFunction(identifier)


@dataclass(frozen=True)
class JobProgress:
    """Tasks of the stages that Spark knows so far; more stages may follow."""

    jobs: int
    tasks: int
    running: int
    done: int


class Jobs:
    """Jobs of a classic session, in groups; thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    @property
    def _jvm(self) -> subprocess.Popen[bytes] | None:
        """The process that PySpark has started for the session; None if it did not start one."""
        return getattr(self._context._gateway, "proc", None)

    @contextmanager
    def group(self, name: str, text: str) -> Iterator[None]:
        """Adds all jobs that this thread starts in the block to the group."""
        self._context.setJobGroup(name, text, interruptOnCancel=True)
        try:
            yield
        finally:
            for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                self._context.setLocalProperty(key, None)  # type: ignore[arg-type]

    def progress(self, name: str) -> JobProgress:
        """The progress of a group's jobs."""
        tracker = self._context.statusTracker()
        jobs = tracker.getJobIdsForGroup(name)
        tasks = running = done = 0
        for job in jobs:
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = tracker.getStageInfo(stage)
                if stage_info is not None:
                    tasks += stage_info.numTasks
                    running += stage_info.numActiveTasks
                    done += stage_info.numCompletedTasks
        return JobProgress(len(jobs), tasks, running, done)

    def wait_for_jvm(self) -> None:
        """Waits for the end of the session's JVM; calls that depend on it may never return."""
        if self._jvm is not None:
            self._jvm.wait()

    def is_over(self, error: Exception) -> bool:
        """True if the JVM has ended, possibly the cause of ``error``; a broken connection precedes the detected end."""
        if self._jvm is None:
            return False
        try:
            self._jvm.wait(_ENDS_S if isinstance(error, (Py4JNetworkError, OSError)) else 0)
        except subprocess.TimeoutExpired:
            return False
        return True

    def cancel(self, name: str) -> None:
        """Cancels the running jobs of a group; called again, those started since."""
        self._context.cancelJobGroup(name)
