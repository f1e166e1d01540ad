"""The module in which PySpark looks for the data source ``lakelog`` by itself: no import and no registration needed.

A session that ``lakelog.connect`` or ``lakelog.attach`` has got knows the catalogs, too; here a table is found by the
option ``warehouse``, or by its directory. Every session of an environment imports this module once, so it is small.
"""

from __future__ import annotations

import importlib
from typing import Any

try:
    from pyspark.sql.datasource import DataSource
    from pyspark.version import __version__ as _VERSION
except ImportError:
    importlib.import_module("lakelog.spark")  # says which PySpark it needs
    raise


class DefaultSource(DataSource):
    """``format("lakelog")``. Raises NotInstalled where it is used, if the PySpark is one that lakelog does not know."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "lakelog"

    def __new__(cls, *arguments: Any, **more: Any) -> Any:
        """The source itself, which is not of this class."""
        return importlib.import_module("lakelog.spark.session.data_source").LakelogDataSource(*arguments, **more)


if _VERSION.startswith("4.0."):  # that release lets no session replace a source that it has found by itself
    del DefaultSource

__all__ = ["DefaultSource"]
