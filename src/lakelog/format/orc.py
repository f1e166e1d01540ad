"""ORC data files, read only (format sheet 6.4)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from lakelog.errors import Corrupt, Unavailable
from lakelog.format.base import BATCH_ROWS, FileFormat, filter_rows, select_columns, with_types
from lakelog.io.file_io import FileIO
from lakelog.spec.types import DataField


class OrcFormat(FileFormat):
    """Read only: the format's own writers damage some timestamps before 1970."""

    name = "orc"

    def file_columns(self, io: FileIO, path: str) -> list[str]:
        with _opened(io, path) as file:
            return list(file.schema.names)

    def read(
        self,
        io: FileIO,
        path: str,
        columns: Sequence[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        filter: pc.Expression | None = None,
        fields: Sequence[DataField] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        with _opened(io, path) as file:
            known = file.schema.names
            wanted = select_columns(path, known, columns)
            for number in range(file.nstripes):
                # a filter may use columns that are not asked for
                stripe = file.read_stripe(number, columns=wanted if wanted and filter is None else known)
                typed = with_types(_as_batch(stripe), fields, blank_padded=True)
                for start in range(0, stripe.num_rows, batch_rows):
                    batch = typed.slice(start, batch_rows)
                    if filter is not None:
                        batch = filter_rows(batch, filter)
                    if batch.num_rows:
                        yield batch.select(wanted)


@contextlib.contextmanager
def _opened(io: FileIO, path: str) -> Iterator[orc.ORCFile]:
    with io.open_input(path) as source:
        try:
            yield orc.ORCFile(source)
        except pa.ArrowInvalid as why:
            raise Corrupt(f"'{path}' is not a sound ORC file: {why}") from None
        except OSError as why:
            if why.errno is None:
                raise Corrupt(f"'{path}' is not a sound ORC file: {why}") from None
            raise Unavailable(f"'{path}' cannot be read: {why}") from why


def _as_batch(stripe: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    return stripe.combine_chunks().to_batches()[0] if isinstance(stripe, pa.Table) else stripe
