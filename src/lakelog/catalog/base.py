"""What every catalog answers: databases, tables, and where they lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.io.storage.confined import confined
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema

DEFAULT_DATABASE: Final = "default"
"""The one database that need not be created."""


@dataclass(frozen=True)
class Identifier:
    """A table's name: database and table, and the catalog that knows it ("": the first one of a session)."""

    database: str
    table: str
    catalog: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """``(database, table)``, with the catalog before it where it is not the first one."""
        return (*((self.catalog,) if self.catalog else ()), self.database, self.table)

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class TableLocation:
    """A table as it was when it was loaded; frozen and picklable, so that it travels to Spark executors.

    Its ``io`` reaches what is below ``path`` only.
    """

    identifier: Identifier
    path: str
    schema: TableSchema
    io: FileIO

    def __post_init__(self) -> None:
        object.__setattr__(self, "io", confined(self.io, self.path))


CheckChange = Callable[[TableSchema, TableSchema], None]
"""Looks at (the schema before, the schema after) a change and raises when it must not be."""


class Catalog(ABC):
    """Databases and tables of one warehouse. Every change is atomic: it happened, or it did not."""

    @abstractmethod
    def list_databases(self) -> list[str]:
        """Names of the databases, sorted."""

    @abstractmethod
    def create_database(self, name: str, if_not_exists: bool = False) -> None:
        """Makes a database. Raises AlreadyExists, InvalidRequest for a name that cannot be one."""

    @abstractmethod
    def drop_database(self, name: str, if_exists: bool = False, cascade: bool = False) -> None:
        """Removes a database, with its tables only when ``cascade``. Raises NotFound, InvalidRequest (not empty)."""

    @abstractmethod
    def list_tables(self, database: str) -> list[str]:
        """Names of the tables of a database, sorted. Raises NotFound."""

    @abstractmethod
    def table_path(self, identifier: Identifier) -> str:
        """The directory that a table of this name has or would have. Raises InvalidRequest for a bad name."""

    @abstractmethod
    def table_io(self, identifier: Identifier) -> FileIO:
        """The storage of the table that has or would have this name: it reaches the table's directory only."""

    @abstractmethod
    def load_table(self, identifier: Identifier) -> TableLocation:
        """The table with its newest schema. Raises NotFound with the nearest name."""

    @abstractmethod
    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool = False) -> TableLocation:
        """Makes a table with this first schema; of several who try at once one wins.

        Raises AlreadyExists (unless ``if_not_exists``, which answers with the table that is there), NotFound when
        the database is missing (``default`` is made), InvalidRequest for a bad name, CommitUnknown.
        """

    @abstractmethod
    def drop_table(self, identifier: Identifier, if_exists: bool = False) -> None:
        """Removes a table with all its files. Raises NotFound."""

    @abstractmethod
    def alter_table(
        self, identifier: Identifier, changes: Sequence[SchemaChange], check: CheckChange | None = None
    ) -> TableLocation:
        """Gives a table one new schema with all these changes; answers with the table as it is then.

        The changes are tried on the newest schema, and again on a newer one when another ALTER was faster, so that what
        is not possible any more is refused. ``check`` may refuse, too. Changes that change nothing make no schema.
        Raises NotFound, InvalidSchema, InvalidOption, UnsupportedFeature, CommitConflict (others were faster again and
        again), CommitUnknown.
        """

    @abstractmethod
    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Gives a table another name, perhaps in another database; of several who try at once one wins.

        Raises NotFound (the table, or the database of the new name), AlreadyExists, InvalidRequest for a bad name,
        UnsupportedFeature where the storage cannot do it at once.
        """
