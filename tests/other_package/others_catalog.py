"""A catalog of a package outside of lakelog: the directories of a warehouse, with an option of its own."""

from __future__ import annotations

from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.io.storage.file_io import FileIO
from lakelog.options.option import Options


class Shelf(FilesystemCatalog):
    """Directories; ``fields.shelf.place`` is kept."""

    def __init__(self, warehouse: str, io: FileIO, options: Options) -> None:
        super().__init__(warehouse, io)
        self.place = options.get("fields.shelf.place", "")
