"""The engine of statements that users send: looks at every text before Spark runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakelog.spark.engine.engine import OpensTables, SparkEngine
from lakelog.spark.guard.jobs import Jobs
from lakelog.spark.guard.plan_guard import PlanGuard, each
from lakelog.spark.guard.plan_rules import FUNCTIONS
from lakelog.sql.runtime.privilege import Privilege

GUARDED_SETTINGS: Final[Mapping[str, str]] = {
    # ${env:AWS_SECRET_ACCESS_KEY} in a text would be the variable's value
    "spark.sql.variable.substitute": "false",
    "spark.sql.scripting.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
"""Settings under which the plan of a text is the whole of it."""

_ON_FILES: Final = "spark.sql.runSQLOnFiles"


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
