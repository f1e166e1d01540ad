"""The parts of PySpark that lakelog uses and that are younger than its oldest release: one line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.version import __version__ as _VERSION

RELEASE: Final = tuple(int(part) for part in _VERSION.split(".")[:2])
"""Major and minor number of the installed PySpark."""


SCALA: Final = "2.13" if RELEASE >= (4, 0) else "2.12"
"""The Scala of its JARs, which is part of the names of others."""
CONNECTOR: Final = f"spark-sql-kafka-0-10_{SCALA}"
COORDINATES: Final = f"org.apache.spark:{CONNECTOR}:{_VERSION}"
"""The Maven coordinates of Spark's own Kafka connector."""


@dataclass(frozen=True)
class Native:
    """A part of PySpark: its first release (major, minor), and what lakelog does in older ones."""

    since: tuple[int, int]
    otherwise: str

    @property
    def text(self) -> str:
        """The first release, for an error."""
        return ".".join(map(str, self.since))

    def __bool__(self) -> bool:
        """Whether the installed PySpark has it."""
        return self.since <= RELEASE


DATA_SOURCES: Final = Native((4, 0), "tasks of mapInArrow read and write, and foreachBatch writes streams")
ARROW_FRAMES: Final = Native((4, 0), "the JVM's reader and writer of Arrow streams, called as PySpark 4 does")
CLASSIC_PACKAGE: Final = Native((4, 0), "the one class of frames, and the Scala classes of the older package")
CONDITIONS: Final = Native((4, 0), "the class of an error, its older name")
VARIANTS: Final = Native((4, 0), "a table with a VARIANT column cannot be read or written by Spark")
SCALARS: Final = Native((4, 0), "a scalar subquery as text, over a temporary view")
TRY_CASTS: Final = Native((4, 0), "TRY_CAST as text")
FOUND_SOURCES: Final = Native((4, 1), "format('lakelog') is known after lakelog.connect or lakelog.attach only")
STREAM_ARROW_WRITER: Final = Native((4, 1), "the writer of a batch, which gets the Arrow batches of a stream as well")
ARROW_FUNCTIONS: Final = Native((4, 1), "mapInArrow, which appends the column")
PARTITION_IDS: Final = Native((4, 1), "a hash partitioning by numbers whose hashes are those ids")
VARIANT_PATHS: Final = Native((4, 1), "variant_get(v, '$.a', 'int') for v:a::int, as the error says")
TIMES_OF_DAY: Final = Native((4, 1), "numbers; Spark has no literals of this type")
CHECKPOINT_PACKAGE: Final = Native((4, 1), "the same class in the older package")
STREAM_LIMITS: Final = Native((4, 2), "a micro-batch reads all that is there; 'read.max-rows-per-trigger' is refused")
