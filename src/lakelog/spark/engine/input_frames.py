"""What users give to be written or read beside tables, made to fit: rows of this process, the columns of a query.

Temporary views over lakelog tables: they show the rows of now each time that a text names them.

Spark keeps the text of a view, and with the relation of a Python source the rows that its first query has planned. So
the views that stand for the tables in that text are made anew before a text that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from lakelog.errors import CommitConflict, InvalidSchema, LakelogError
from lakelog.io.names import new_uuid
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.runtime.types import column_of, frame_of, spark_schema
from lakelog.sql.runtime.query_plan import Source
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.table_writer import batches_of

_CONFLICT: Final = re.compile(rf"{re.escape(CommitConflict.__module__)}\.{CommitConflict.__name__}: (.*)")
_WORD: Final = re.compile(r"\w+")
_MADE: Final = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?(?:global\s+)?temp(?:orary)?\s+view\s+(?:if\s+not\s+exists\s+)?"
    r"(?:\w+\s*\.\s*)?`?(\w+)",
    re.IGNORECASE,
)


def arrow_rows(rows: Any) -> pa.Table:
    """Rows of this process as one Arrow table. Raises InvalidRequest for what has no columns."""
    found = batches_of(rows)
    if isinstance(found, pa.RecordBatchReader):
        return found.read_all()
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches(found)


def align_columns(frame: DataFrame, table: DynamicTable, columns: tuple[str, ...] | None) -> DataFrame:
    """The frame's columns renamed to the table's, in order, and cast to their types.

    Called for INSERT … SELECT; ``columns`` are those of the table that the query gives, None for all. A last column
    ``_row_kind`` stays. Raises InvalidSchema for another number of columns.
    """
    wanted = list(columns or table.schema.field_names)
    given = frame.columns
    kind = [ROW_KIND_COLUMN] if given and given[-1] == ROW_KIND_COLUMN and ROW_KIND_COLUMN not in wanted else []
    if len(given) - len(kind) != len(wanted):
        raise InvalidSchema(
            f"the query has {len(given) - len(kind)} columns ({', '.join(given)}), but table {table.name} "
            f"takes {len(wanted)} ({', '.join(wanted)})"
        )
    types: StructType = spark_schema(Scan(table).schema)
    named = frame.toDF(*wanted, *kind)
    cast = [column_of(name).cast(types[name].dataType).alias(name) for name in wanted]
    return named.select(*cast, *(sf.col(k) for k in kind))


@contextmanager
def checkpointed_rows(frame: DataFrame) -> Iterator[DataFrame]:
    """The rows of a frame as they are now, in the executors' memory and disks until the block ends.

    Unlike those of ``persist`` they are never computed again, perhaps to others: what reads them fails when they are
    lost. On Connect the server lets them go when the client has forgotten the frame.
    """
    kept = frame.localCheckpoint()
    try:
        yield kept
    finally:
        if not is_remote():
            kept._jdf.queryExecution().analyzed().rdd().unpersist(False)


@contextmanager
def named_views(spark: SparkSession, frames: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Temporary views of DataFrames and Arrow rows while the block runs: name → view."""
    views = {name: f"lakelog_frame_{new_uuid().replace('-', '')}" for name in frames}
    for name, given in frames.items():
        frame = given if isinstance(given, DataFrame) else frame_of(spark, arrow_rows(given))
        frame.createOrReplaceTempView(views[name])
    try:
        yield views
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


def lakelog_error_in(refused: Exception) -> CommitConflict | None:
    """The conflict that an error of Spark tells of; None when it tells of something else.

    Called where Spark commits in a process of its own (Spark Connect): whoever can do it again has to know.
    """
    found = _CONFLICT.search(str(refused))
    return None if found is None else CommitConflict(found[1].strip())


class TempViews:
    """The temporary views of a session that texts have made, and the tables behind them."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._words: dict[str, frozenset[str]] = {}

    def keep(self, sources: Iterable[Source]) -> None:
        """Remembers what the views in the text of a user's view stand for."""
        self._sources |= {source.view.lower(): source for source in sources}

    def made(self, text: str) -> None:
        """Called with each text that Spark has run: one that makes a view is remembered by its words."""
        found = _MADE.match(text)
        if found is not None:
            self._words[found[1].lower()] = _words(text)

    def renew(self, spark: SparkSession, text: str, frame_of: Callable[[Source], DataFrame]) -> None:
        """Lets the views that a text may name read the rows of now; those without their table are no more.

        Called before Spark runs the text, which may only look like it names them: so nothing is raised.
        """
        for source in self.read_by(text):
            try:
                frame_of(source).createOrReplaceTempView(source.view)
            except LakelogError:
                spark.catalog.dropTempView(source.view)

    def read_by(self, text: str) -> list[Source]:
        """The reads behind the views that a text may name, also by way of other views."""
        if not self._sources or not self._words:
            return []
        seen: set[str] = set()
        todo = set(_words(text))
        while todo:
            word = todo.pop()
            if word not in seen:
                seen.add(word)
                todo |= self._words.get(word, frozenset())
        return [source for view, source in self._sources.items() if view in seen]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))
