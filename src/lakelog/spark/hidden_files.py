"""The rows of files that Spark must leave out: deletion vectors, and what a merge of overlapping files would drop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from lakelog.filestore.data_file_reader import DataFileReader
from lakelog.filestore.deletion_vectors import VectorPlace, read_vector
from lakelog.filestore.hidden_rows import hidden_in_split
from lakelog.filestore.native_files import NativeFile
from lakelog.filestore.scan import Split
from lakelog.spark.live_rows import HiddenFile, Words, bits_of

_THREADS: Final = 4


def hidden_files(reader: DataFileReader, files: Sequence[NativeFile]) -> dict[str, HiddenFile]:
    """Those of the files of which some rows are left out, by name, with the bits of these rows.

    Called on the driver when a frame is made. Raises NotFound, Corrupt.
    """
    metas = {file.meta.file_name: file.meta for file in files}
    jobs: dict[object, NativeFile] = {}
    for file in files:
        if not file.is_whole:
            jobs.setdefault(file.meta.file_name if file.merged is None else id(file.merged), file)
    with ThreadPoolExecutor(_THREADS) as pool:
        made = pool.map(lambda file: list(_bits(reader, file)), jobs.values())
    out = {}
    for name, words in (item for found in made for item in found):
        if words.any():
            out[name] = HiddenFile(name, metas[name].file_size, words)
    return out


def _bits(reader: DataFileReader, file: NativeFile) -> Iterator[tuple[str, Words]]:
    if file.merged is not None:
        yield from _of_split(reader, file.merged)
    elif file.vector is not None:
        yield file.meta.file_name, _of_vector(reader, file, file.vector)


def _of_split(reader: DataFileReader, split: Split) -> Iterator[tuple[str, Words]]:
    for name, hidden in hidden_in_split(reader, split).items():
        yield name, bits_of(hidden)


def _of_vector(reader: DataFileReader, file: NativeFile, vector: VectorPlace) -> Words:
    hidden = np.zeros(file.meta.row_count, dtype=np.bool_)
    hidden[read_vector(reader.io, vector)] = True
    return bits_of(hidden)
