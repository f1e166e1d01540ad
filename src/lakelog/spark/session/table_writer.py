"""``DataFrame.writeTo`` for a lakelog table: each action is one statement over the frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakelog.errors import UnsupportedStatement
from lakelog.sql.syntax.lexer import quoted_name, quoted_text


@dataclass(frozen=True)
class TableWriterV2:
    """The methods of Spark's DataFrameWriterV2. ``run`` runs a statement with frames for ``{name}`` in it."""

    run: Callable[..., list[Any]] = field(repr=False)
    frame: Any = field(repr=False)
    table: str
    properties: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

    def using(self, provider: str) -> TableWriterV2:
        """Names the format of a new table, which is lakelog. Raises UnsupportedStatement for another one."""
        if provider.lower() != "lakelog":
            raise UnsupportedStatement(f"writeTo('{self.table}') makes a lakelog table, not one of {provider}")
        return self

    def tableProperty(self, property: str, value: str) -> TableWriterV2:  # noqa: N802 - Spark's names
        """Sets an option of a new table."""
        return self.tableProperties({property: value})

    def tableProperties(self, properties: Mapping[str, Any]) -> TableWriterV2:  # noqa: N802
        """Sets options of a new table."""
        texts = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in properties.items()
        }
        return replace(self, properties={**self.properties, **texts})

    def partitionedBy(self, *columns: Any) -> TableWriterV2:  # noqa: N802
        """Partitions a new table by columns, given by name. Raises UnsupportedStatement for an expression."""
        names = [column if isinstance(column, str) else getattr(column, "name", None) for column in columns]
        if not all(isinstance(name, str) for name in names):
            raise UnsupportedStatement(
                "a table is partitioned by columns: give their names, such as partitionedBy('day')"
            )
        return replace(self, keys=(*self.keys, *map(str, names)))

    def append(self) -> None:
        """Appends the rows, columns by name. Raises NotFound."""
        self.run(f"INSERT INTO {self.table} BY NAME SELECT * FROM {{rows}}", rows=self.frame)

    def overwritePartitions(self) -> None:  # noqa: N802
        """Replaces the partitions of the rows, columns by name. Raises NotFound."""
        self.run(f"INSERT OVERWRITE {self.table} BY NAME SELECT * FROM {{rows}}", rows=self.frame)

    def overwrite(self, condition: Any) -> None:
        """Says what to write instead: a condition of columns has no text."""
        raise UnsupportedStatement(
            f'overwrite(column) is not for a lakelog table: write spark.sql("INSERT INTO {self.table} REPLACE WHERE … '
            f'SELECT * FROM {{rows}}", rows=frame)'
        )

    def create(self) -> None:
        """Makes the table with the rows. Raises AlreadyExists."""
        self._create("CREATE")

    def replace(self) -> None:
        """Replaces an existing table. Raises NotFound."""
        self._create("REPLACE")

    def createOrReplace(self) -> None:  # noqa: N802
        self._create("CREATE OR REPLACE")

    def _create(self, verb: str) -> None:
        keys = f" PARTITIONED BY ({', '.join(map(quoted_name, self.keys))})" if self.keys else ""
        pairs = ", ".join(f"{quoted_text(key)} = {quoted_text(value)}" for key, value in self.properties.items())
        properties = f" TBLPROPERTIES ({pairs})" if pairs else ""
        text = f"{verb} TABLE {self.table} USING lakelog{keys}{properties} AS SELECT * FROM {{rows}}"
        self.run(text, rows=self.frame)
