"""The rows of files that Spark must leave out: deletion vectors, and what a merge of overlapping files would drop."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from lakelog.filestore.read.data_file_reader import DataFileReader
from lakelog.filestore.read.deletion_vectors import read_vector
from lakelog.filestore.read.native_files import ROWS_AT_ONCE, NativeFile
from lakelog.filestore.read.superseded_rows import Mask, hidden_in_split
from lakelog.options.option import Options
from lakelog.options.table import IGNORE_DELETE
from lakelog.spark.native.position_filter import MaskedFile, Words, bits_of

_THREADS: Final = 8
_MOST_BYTES: Final = 64 << 20
"""Bytes of bits that are kept, one a row: half a billion rows."""


class SupersededRowsCache:
    """Finds the rows and keeps what it found, up to some bytes, the last used: files never change. For all threads."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[object, dict[str, Words]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of_files(self, reader: DataFileReader, files: Sequence[NativeFile]) -> dict[str, MaskedFile]:
        """Those of the files of which some rows are left out, by name, with the bits of these rows.

        Called on the driver when a frame is made. Raises NotFound, Corrupt.
        """
        metas = {file.meta.file_name: file.meta for file in files}
        jobs = {identity_of(reader, file): file for file in files if not file.is_whole}
        largest = max((f.merged.row_count for f in jobs.values() if f.merged is not None), default=1)
        with ThreadPoolExecutor(min(_THREADS, max(ROWS_AT_ONCE // max(largest, 1), 1))) as pool:
            made = pool.map(lambda job: self._bits(reader, *job), jobs.items())
        found = (item for words in made for item in words.items())
        return {name: MaskedFile(name, metas[name].file_size, words) for name, words in found if words.any()}

    def _bits(self, reader: DataFileReader, identity: object, file: NativeFile) -> dict[str, Words]:
        with self._lock:
            if identity in self._held:
                self._held.move_to_end(identity)
                return self._held[identity]
        if file.merged is not None:
            masks = hidden_in_split(reader, file.merged)
        else:
            masks = {file.meta.file_name: _deleted(reader, file)}
        words = {name: bits_of(mask) for name, mask in masks.items()}
        with self._lock:
            self._bytes += _size(words) - _size(self._held.pop(identity, {}))
            self._held[identity] = words
            while self._bytes > self._most_bytes:
                self._bytes -= _size(self._held.popitem(last=False)[1])
        return words


def identity_of(reader: DataFileReader, file: NativeFile) -> object:
    """What decides which rows are hidden: the file and its vector, or all that is merged."""
    if file.merged is None:
        return (file.path, file.vector)
    split, options = file.merged, reader.paths.schema.options
    names = tuple(f.file_name for f in split.files)
    ignores = Options(options).need(IGNORE_DELETE)
    # the rows themselves would stay as long as what they hide
    runs = tuple(hashlib.sha256(run).digest() for run in split.inline_runs)
    return (reader.paths.root, split.partition, split.bucket, names, split.vectors, runs, ignores)


def _deleted(reader: DataFileReader, file: NativeFile) -> Mask:
    hidden = np.zeros(file.meta.row_count, dtype=np.bool_)
    if file.vector is not None:
        hidden[read_vector(reader.io, file.vector)] = True
    return hidden


def _size(held: dict[str, Words]) -> int:
    return sum(words.nbytes for words in held.values())
