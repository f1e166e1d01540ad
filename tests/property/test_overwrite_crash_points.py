"""Every storage call of an overwrite: the process dies before and after it and starts again; readers see the old state
or the new one, and epochs that waited for their snapshot are replaced with the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from lakelog.io.file_io import FileIO, FileStatus
from lakelog.io.memory import MemoryFileIO
from lakelog.lake.lake import CatalogTables
from lakelog.spec.schema import new_schema
from lakelog.spec.types import parse_type
from lakelog.table.committer import Committer
from lakelog.table.create import create_table
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.open import identifier_of
from lakelog.table.overwrite import drop_partitions, truncate
from lakelog.table.overwrite_target import overwrite_target
from lakelog.table.overwrite_writer import OverwriteWriter
from lakelog.table.scan import Scan
from lakelog.table.task_writer import TaskWriter
from lakelog.table.writer import TableWriter
