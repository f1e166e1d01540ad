"""Arrow batches ⇄ bytes of data files, and records ⇄ bytes of metadata files."""

from __future__ import annotations

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.base import FileFormat
from lakelog.options import parts
from lakelog.options.registry import Registry

FILE_FORMATS: Registry[FileFormat] = parts.FILE_FORMATS
"""File name extension → format of a data file."""


def format_of(file_name: str) -> FileFormat:
    """The format of a data file, by its extension alone, because one table may contain files of several formats.

    Raises UnsupportedFeature for an unknown extension.
    """
    extension = file_name.rpartition(".")[2]
    if extension not in FILE_FORMATS:
        raise UnsupportedFeature(f"data file '{file_name}' has an unknown format; known: {', '.join(FILE_FORMATS)}")
    return FILE_FORMATS.create(extension)
