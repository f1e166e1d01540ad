"""Adapts user input for writes and reads: rows of this process, and the columns of a query.

Also manages temporary views over lakelog tables, which return the current rows on each use. Spark stores the text of a
view, and with the relation of a Python source the rows that its first query has planned. The views for tables in that
text are therefore recreated before each text that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from lakelog.errors import InvalidSchema, LakelogError
from lakelog.io.names import new_uuid
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.runtime.types import can_assign, checks_casts, column_of, columns_of, frame_of, quoted, spark_schema
from lakelog.sql.runtime.query_plan import Source
from lakelog.sql.syntax.struct_casts import FieldMatch, cast_text, has_struct, is_time
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.table_writer import table_of

_WORD: Final = re.compile(r"\w+")
_CREATED_VIEW: Final = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?(?:global\s+)?temp(?:orary)?\s+view\s+(?:if\s+not\s+exists\s+)?"
    r"(?:\w+\s*\.\s*)?`?(\w+)",
    re.IGNORECASE,
)


def align_columns(
    frame: DataFrame, table: DynamicTable, columns: tuple[str, ...] | None, match: FieldMatch = FieldMatch.POSITION
) -> DataFrame:
    """The frame's columns renamed to the table's, in order, and cast to their types.

    Called for INSERT … SELECT; ``columns`` are the table columns of the query, None for all. ``match`` finds the fields
    of structs. A last column ``_row_kind`` stays. Raises InvalidSchema for another number of columns.
    """
    targets = list(columns or table.schema.field_names)
    names = frame.columns
    kind = [ROW_KIND_COLUMN] if names and names[-1] == ROW_KIND_COLUMN and ROW_KIND_COLUMN not in targets else []
    own = names[: len(names) - len(kind)]
    if len(own) != len(targets):
        raise InvalidSchema(
            f"the query has {len(own)} columns ({', '.join(own)}), but table {table.name} "
            f"takes {len(targets)} ({', '.join(targets)})"
        )
    types: StructType = spark_schema(Scan(table).schema)
    named = frame.toDF(*targets, *kind)
    schema: StructType = named.schema
    have_types = {name: schema[name].dataType for name in targets}
    for name in targets:
        by_name = match is not FieldMatch.POSITION and has_struct(table.schema.field(name).type)
        if not by_name and not can_assign(
            have_types[name], types[name].dataType, is_time(table.schema.field(name).type)
        ):
            raise InvalidSchema(
                f"column '{name}' of table {table.name} is {types[name].dataType.simpleString()}, but the query gives "
                f"{have_types[name].simpleString()}: cast it in the query"
            )
    cast = [column_of(name).cast(types[name].dataType) for name in targets]
    checks = not checks_casts(frame.sparkSession)
    texts = [
        name
        for name in targets
        if (have_types[name] != types[name].dataType and (checks or is_time(table.schema.field(name).type)))
        or (match is not FieldMatch.POSITION and has_struct(table.schema.field(name).type))
    ]
    have = dict(columns_of(named.select(*map(column_of, texts)).schema, allow_null=True)) if texts else {}
    for at, name in enumerate(targets):
        if name in have:
            want = table.schema.field(name).type
            text = cast_text(quoted(name), have[name], want, match, name, table.name, checks)
            cast[at] = sf.expr(text).cast(types[name].dataType)
    return named.select(*(c.alias(n) for c, n in zip(cast, targets, strict=True)), *(sf.col(k) for k in kind))


@contextmanager
def checkpointed_rows(frame: DataFrame) -> Iterator[DataFrame]:
    """The current rows of a frame, in the executors' memory and disks until the block ends.

    Unlike those of ``persist`` they are never computed again, perhaps with other results. If they are lost, their
    readers fail. On Connect the server releases them after the client has dropped the frame.
    """
    kept = frame.localCheckpoint()
    try:
        yield kept
    finally:
        if not is_remote():
            kept._jdf.queryExecution().analyzed().rdd().unpersist(False)


@contextmanager
def named_views(spark: SparkSession, frames: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Temporary views of DataFrames and Arrow rows for the duration of the block: name → view."""
    views = {name: f"lakelog_frame_{new_uuid().replace('-', '')}" for name in frames}
    shared = {name for name, rows in frames.items() if _is_of_another_session(spark, rows)}
    for name, rows in frames.items():
        frame = rows if isinstance(rows, DataFrame) else frame_of(spark, table_of(rows))
        if name in shared:  # such as a batch of foreachBatch
            frame.createGlobalTempView(views[name])
        else:
            frame.createOrReplaceTempView(views[name])
    try:
        yield {name: f"global_temp.{view}" if name in shared else view for name, view in views.items()}
    finally:
        for name, view in views.items():
            (spark.catalog.dropGlobalTempView if name in shared else spark.catalog.dropTempView)(view)


def _is_of_another_session(spark: SparkSession, frame: Any) -> bool:
    """True for a DataFrame whose views this session does not see."""
    if is_remote() or not isinstance(frame, DataFrame):
        return False
    return not frame._jdf.sparkSession().equals(spark._jsparkSession)


class TempViews:
    """The temporary views of a session from user texts, and their tables."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._words: dict[str, frozenset[str]] = {}

    def keep(self, sources: Iterable[Source]) -> None:
        """Stores the sources of the views in the text of a user's view."""
        self._sources |= {source.view.lower(): source for source in sources}

    def made(self, text: str) -> None:
        """Called with each text that Spark has run; stores the words of a text that creates a view."""
        match = _CREATED_VIEW.match(text)
        if match is not None:
            self._words[match[1].lower()] = _words(text)

    def query_of(self, spark: SparkSession, name: str) -> tuple[str, Source] | None:
        """The query of a view over one table, as Spark has it now, and its read; None for any other relation."""
        kept = spark._jsparkSession.sessionState().catalog().getRawTempView(name.strip("`"))
        text = kept.get().tableMeta().viewText() if kept.isDefined() else None
        if text is None or not text.isDefined():
            return None
        query = str(text.get())
        reads = [source for view, source in self._sources.items() if view in _words(query)]
        return (query, reads[0]) if len(reads) == 1 else None

    def renew(self, spark: SparkSession, text: str, frame_of: Callable[[Source], DataFrame]) -> None:
        """Refreshes the views that a text may name to the current rows; drops those whose table was dropped.

        Called before Spark runs the text, which may not really name them; therefore it raises nothing.
        """
        for source in self.read_by(text):
            try:
                frame_of(source).createOrReplaceTempView(source.view)
            except LakelogError:
                spark.catalog.dropTempView(source.view)

    def read_by(self, text: str) -> list[Source]:
        """The reads of the views that a text may name, also through other views."""
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
