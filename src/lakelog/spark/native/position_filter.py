"""Drops rows of a native Parquet scan by their position in the file; the filter costs a few nanoseconds per row.

All bits are stored in one array of 64-bit words that a scalar subquery passes into the generated code. A row finds its
word by ``_metadata``. The file size determines the start of the file's words; it is a constant of the scan's batches
and, unlike a name, needs no text comparison. If two files have the same size, the checksum of the name decides.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cachetools import LRUCache
from pyspark.sql import DataFrame, SparkSession

from lakelog.filestore.read.data_file_reader import DataFileReader
from lakelog.filestore.read.deletion_vectors import read_vector
from lakelog.filestore.read.native_files import ROWS_AT_ONCE, NativeFile
from lakelog.filestore.read.superseded_rows import Mask, hidden_in_split
from lakelog.options.option import Options
from lakelog.options.table import IGNORE_DELETE
from lakelog.spark.compat.arrow import frame_of_rows, from_arrow
from lakelog.spark.compat.kinds import scalar

Words = npt.NDArray[np.int64]
_LEAST_SLOTS: Final = 1 << 10
_MOST_SLOTS: Final = 1 << 16
_MOST_NAME_SLOTS: Final = 1 << 20
_BY_NAME: Final = -1
_WORDS: Final = "_lakelog_words"
_BYTES_AT_ONCE: Final = 8 << 20
"""Maximum bytes of row bits for one scan (64 million rows); further files use another scan."""
_THREADS: Final = 8
_MOST_BYTES: Final = 64 << 20
"""Maximum bytes of cached bits, one per row: half a billion rows."""


@dataclass(frozen=True)
class MaskedFile:
    """A file and the bits of its rows, lowest bit of the first word first: 1 is a dropped row."""

    name: str
    size: int
    words: Words


@dataclass(frozen=True)
class PositionBitmaps:
    """The words of several files, after two tables of their positions: by size, then by name."""

    words: Words
    size_slots: int
    name_slots: int
    files: frozenset[str]


def bits_of(hidden: npt.NDArray[np.bool_]) -> Words:
    """One bit per row, in whole words."""
    padded = np.zeros(-(-len(hidden) // 64) * 64, dtype=np.bool_)
    padded[: len(hidden)] = hidden
    return np.packbits(padded, bitorder="little").view(np.dtype("<i8"))


def pack_bitmaps(files: Sequence[MaskedFile]) -> Iterator[PositionBitmaps]:
    """Packs the words of files into tables, each small enough to be sent with a scan. Pure."""
    start, size = 0, 0
    for at, file in enumerate(files):
        if at > start and size + file.words.nbytes > _BYTES_AT_ONCE:
            yield from _tables(files[start:at])
            start, size = at, 0
        size += file.words.nbytes
    if files:
        yield from _tables(files[start:])


def _tables(files: Sequence[MaskedFile]) -> Iterator[PositionBitmaps]:
    size_slots = min(max(_power_of_two(64 * len(files)), _LEAST_SLOTS), _MOST_SLOTS)
    by_size: dict[int, list[int]] = {}
    for at, file in enumerate(files):
        by_size.setdefault(file.size & (size_slots - 1), []).append(at)
    alike = [at for held in by_size.values() if len(held) > 1 for at in held]
    name_slots = _name_slots([files[at].name for at in alike])
    if name_slots is None:
        half = len(files) // 2
        yield from _tables(files[:half])
        yield from _tables(files[half:])
        return
    lengths = np.array([len(file.words) for file in files], dtype=np.int64)
    begins = size_slots + name_slots + np.cumsum(lengths) - lengths
    table = np.full(size_slots + name_slots, _BY_NAME, dtype=np.int64)
    for slot, held in by_size.items():
        if len(held) == 1:
            table[slot] = begins[held[0]]
    for at in alike:
        table[size_slots + _name_slot(files[at].name, name_slots)] = begins[at]
    words = np.concatenate([table, *(file.words for file in files)])
    yield PositionBitmaps(words, size_slots, name_slots, frozenset(file.name for file in files))


def filter_positions(rows: DataFrame, spark: SparkSession, bits: PositionBitmaps) -> DataFrame:
    """The rows of a Parquet scan whose bit is 0. Every file of the scan must be in the table."""
    # Arrow lists have no 64-bit lengths: one row, one list
    offsets = pa.array([0, len(bits.words)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(bits.words))
    table = pa.table({"words": lists})
    words = scalar(frame_of_rows(spark, table, from_arrow(table.schema)))
    return rows.select("*", words.alias(_WORDS)).where(_is_live(bits)).drop(_WORDS)


def _is_live(bits: PositionBitmaps) -> str:
    """The condition as text, because building it from columns would take fifty JVM calls."""
    begin = f"get({_WORDS}, cast(_metadata.file_size & {bits.size_slots - 1} as int))"
    if bits.name_slots:
        slot = f"(crc32(cast(_metadata.file_name as binary)) & {bits.name_slots - 1}) + {bits.size_slots}"
        begin = f"if({begin} >= 0, {begin}, get({_WORDS}, cast({slot} as int)))"
    word = f"get({_WORDS}, cast({begin} + shiftright(_metadata.row_index, 6) as int))"
    return f"getbit({word}, cast(_metadata.row_index & 63 as int)) = 0"


def _power_of_two(at_least: int) -> int:
    return 1 << max(at_least - 1, 0).bit_length()


def _name_slot(name: str, slots: int) -> int:
    return zlib.crc32(name.encode()) & (slots - 1)


def _name_slots(names: Sequence[str]) -> int | None:
    if not names:
        return 0
    slots = max(_power_of_two(len(names)), 2)
    while len({_name_slot(name, slots) for name in names}) < len(names):
        slots *= 2
        if slots > _MOST_NAME_SLOTS:
            return None
    return slots


class SupersededRowsCache:
    """Finds superseded rows and caches them, up to a byte limit, by recent use; files never change. Thread-safe."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._held: LRUCache[object, dict[str, Words]] = LRUCache(most_bytes, getsizeof=_size)
        self._lock = threading.Lock()

    def of_files(self, reader: DataFileReader, files: Sequence[NativeFile]) -> dict[str, MaskedFile]:
        """The files with dropped rows, by name, with the bits of these rows.

        Called on the driver when a frame is created. Raises NotFound, Corrupt.
        """
        metas = {file.meta.file_name: file.meta for file in files}
        jobs = {identity_of(reader, file): file for file in files if not file.is_whole}
        largest = max((f.merged.row_count for f in jobs.values() if f.merged is not None), default=1)
        with ThreadPoolExecutor(min(_THREADS, max(ROWS_AT_ONCE // max(largest, 1), 1))) as pool:
            parts = pool.map(lambda job: self._bits(reader, *job), jobs.items())
        items = (item for words in parts for item in words.items())
        return {name: MaskedFile(name, metas[name].file_size, words) for name, words in items if words.any()}

    def _bits(self, reader: DataFileReader, identity: object, file: NativeFile) -> dict[str, Words]:
        with self._lock:
            if identity in self._held:
                return self._held[identity]
        if file.merged is not None:
            masks = hidden_in_split(reader, file.merged)
        else:
            masks = {file.meta.file_name: _deleted(reader, file)}
        words = {name: bits_of(mask) for name, mask in masks.items()}
        if _size(words) <= self._held.maxsize:
            with self._lock:
                self._held[identity] = words
        return words


def identity_of(reader: DataFileReader, file: NativeFile) -> object:
    """The input that determines the hidden rows: the file and its vector, or all files merged together."""
    if file.merged is None:
        return (file.path, file.vector)
    split, options = file.merged, reader.paths.schema.options
    names = tuple(f.file_name for f in split.files)
    ignores = Options(options).need(IGNORE_DELETE)
    # the rows themselves would stay cached with the bits
    runs = tuple(hashlib.sha256(run).digest() for run in split.inline_runs)
    return (reader.paths.root, split.partition, split.bucket, names, split.vectors, runs, ignores)


def _deleted(reader: DataFileReader, file: NativeFile) -> Mask:
    hidden = np.zeros(file.meta.row_count, dtype=np.bool_)
    if file.vector is not None:
        hidden[read_vector(reader.io, file.vector)] = True
    return hidden


def _size(held: dict[str, Words]) -> int:
    return sum(words.nbytes for words in held.values())
