"""Changes of the CHECK constraints of a table, which are options of its schema. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakelog.errors import InvalidSchema, did_you_mean
from lakelog.options.constraints import CHECK_PREFIX, Constraint, constraints_of
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema


class ConstraintChange(SchemaChange):
    """A change of one constraint."""

    def apply(self, schema: TableSchema, has_snapshots: bool) -> TableSchema:
        return replace(schema, options=self.options_after(schema.options))

    @abstractmethod
    def options_after(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options of a schema after the change. Raises InvalidSchema."""


@dataclass(frozen=True)
class AddConstraint(ConstraintChange):
    """Adds a constraint; one of the same name is an error."""

    constraint: Constraint

    def options_after(self, options: Mapping[str, str]) -> dict[str, str]:
        name = self.constraint.name
        if f"{CHECK_PREFIX}{name}" in options:
            raise InvalidSchema(f"the table has a constraint '{name}' already: drop it first, or use another name")
        return {**options, **self.constraint.to_options()}


@dataclass(frozen=True)
class DropConstraint(ConstraintChange):
    """Removes a constraint."""

    name: str
    if_exists: bool = False

    def options_after(self, options: Mapping[str, str]) -> dict[str, str]:
        key = f"{CHECK_PREFIX}{self.name}"
        if key not in options and not self.if_exists:
            names = [constraint.name for constraint in constraints_of(options)]
            hint = did_you_mean(self.name, names, ".")
            raise InvalidSchema(
                f"the table has no constraint '{self.name}'{hint} Its constraints: {', '.join(names) or 'none'}"
            )
        return {k: v for k, v in options.items() if k != key and not k.startswith(f"{key}.")}
