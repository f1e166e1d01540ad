"""A catalog that consists only of the directories of a warehouse, like Paimon's filesystem catalog."""

from __future__ import annotations

from lakelog.catalog.directories import Directories
from lakelog.errors import InvalidOption
from lakelog.io.storage.file_io import FileIO
from lakelog.options.catalog import CATALOG_TYPE
from lakelog.options.option import Options


class FilesystemCatalog(Directories):
    """Existing directories are the only state; the catalog takes no options."""

    def __init__(self, warehouse: str, io: FileIO, options: Options | None = None) -> None:
        if options:
            raise InvalidOption(
                f"option '{min(options)}' does not apply to a filesystem catalog: also set '{CATALOG_TYPE.key}' = 'sql'"
            )
        super().__init__(warehouse, io)
