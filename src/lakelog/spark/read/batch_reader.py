"""Batch read in Spark: one input partition per split, columns by the requested schema, ``scan.filter`` applied.

Spark's own filter pushdown is not used, because filters pushed by one action on a DataFrame stay for the next (RFC 5).
"""

from __future__ import annotations

import base64
import io
import pickle
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lakelog.errors import InvalidRequest
from lakelog.filestore.read.deletion_vectors import DeletionVectorRef
from lakelog.filestore.read.plan import Split
from lakelog.options.log import SCAN_FILTER
from lakelog.paimon.metadata.data_file import DataFileMeta, SimpleStats
from lakelog.spark.compat.sources import DataSourceReader, InputPartition
from lakelog.spark.runtime.types import arrow_for_spark, conform
from lakelog.spark.runtime.worker import OwnErrors, prepare_worker
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.open import scan_of

SPLITS_OPTION: Final = "splits"
"""Option with already planned splits; set by the driver, not by users."""
RELATION_OPTION: Final = "relation"
"""Option with the name of a frame in Spark's plan; set by the driver, not by users."""
_CLASSES: Final = {(c.__module__, c.__qualname__): c for c in (Split, DataFileMeta, SimpleStats, DeletionVectorRef)}


def splits_text(splits: Sequence[Split]) -> str:
    """Splits as the value of ``SPLITS_OPTION``."""
    return base64.b85encode(zlib.compress(pickle.dumps(tuple(splits)), 1)).decode()


def splits_of(text: str) -> tuple[Split, ...]:
    """The splits of a value of ``SPLITS_OPTION``. Raises InvalidRequest for anything else."""
    try:
        splits: tuple[Split, ...] = _SplitUnpickler(io.BytesIO(zlib.decompress(base64.b85decode(text)))).load()
    except (ValueError, zlib.error, pickle.UnpicklingError, EOFError) as why:
        raise InvalidRequest(
            f"the option '{SPLITS_OPTION}' is not a plan of lakelog ({why}): remove the option; only lakelog sets it"
        ) from None
    return splits


class _SplitUnpickler(pickle.Unpickler):
    """Unpickles splits and their parts only, because a pickle of other classes can run any code.

    Any user who may write a Spark option, in SQL too, may write this one."""

    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in _CLASSES:
            raise pickle.UnpicklingError(f"it contains {module}.{name}")
        return _CLASSES[module, name]


class SplitPartition(InputPartition):
    """One split of the plan."""

    def __init__(self, split: Any) -> None:
        super().__init__(0)
        self.split = split


class LakelogReader(OwnErrors, DataSourceReader):
    """Plans on the driver, unless the options contain splits, and reads splits on executors."""

    def __init__(self, table: DynamicTable, schema: StructType, splits: str | None = None) -> None:
        text = table.options.get_typed(SCAN_FILTER)
        scan = scan_of(table)
        predicate = None if text is None else parse_filter(text, scan.row_schema)
        self._scan = scan.where(predicate).select(schema.fieldNames())
        self._target = arrow_for_spark(schema)
        self._splits = splits

    def partitions(self) -> Sequence[InputPartition]:
        splits = self._scan.plan() if self._splits is None else splits_of(self._splits)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        if isinstance(partition, SplitPartition):
            for batch in self._scan.read(partition.split):
                yield conform(batch, self._target)
