"""Table features: what a table uses of lakelog beyond the format of Apache Paimon, by name.

The option ``lakelog.features`` of a schema lists the features whose tables a version without them would read or write
wrongly: ``reader=<name>,…;writer=<name>,…``. A reader refuses a table with an unknown reader feature, a writer one with
an unknown feature of either kind. Features that an older version cannot misread need no name there: a later version of
a record is an error to it, and what it does not look at changes no row (RFC 28).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import Corrupt, UnsupportedFeature

FEATURES_KEY: Final = "lakelog.features"
"""The key of the features in a schema's options."""
READER: Final = "reader"
WRITER: Final = "writer"


@dataclass(frozen=True)
class Feature:
    """A table feature: its name, whether readers or only writers must know it, and the first version that does."""

    name: str
    kind: str
    since: str
    meaning: str


REPLICA: Final = Feature(
    "replica", WRITER, "0.2.0", "a replica: only `lakelog replicate` writes it, until it is promoted"
)
PADDED: Final = Feature(
    "padded-keys", READER, "0.2.0", "keys of CHAR are padded, so a key has one bucket and one file range"
)
CHECKS: Final = Feature("check-constraints", WRITER, "0.3.0", "CHECK constraints, which a writer checks rows against")
FEATURES: Final[Mapping[str, Feature]] = {feature.name: feature for feature in (REPLICA, PADDED, CHECKS)}
"""Every feature that this version knows, by name."""


@dataclass(frozen=True)
class TableFeatures:
    """The names of the features of one table, as its schema lists them."""

    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()

    @staticmethod
    def of(options: Mapping[str, str]) -> TableFeatures:
        """The features in the options of a schema. Raises Corrupt for a text that is no list of features."""
        names: dict[str, tuple[str, ...]] = {READER: (), WRITER: ()}
        text = options.get(FEATURES_KEY, "")
        for part in filter(None, (part.strip() for part in text.split(";"))):
            kind, equals, listed = part.partition("=")
            if kind.strip() not in names or not equals:
                raise Corrupt(
                    f"option '{FEATURES_KEY}' = '{text[:200]}' is not a list of features, such as "
                    "'reader=a,b;writer=c': restore the schema file"
                )
            names[kind.strip()] = tuple(name.strip() for name in listed.split(",") if name.strip())
        return TableFeatures(names[READER], names[WRITER])

    def with_feature(self, feature: Feature) -> TableFeatures:
        """The same features and another one."""
        if feature.name in (*self.readers, *self.writers):
            return self
        if feature.kind == READER:
            return replace(self, readers=(*self.readers, feature.name))
        return replace(self, writers=(*self.writers, feature.name))

    def without_feature(self, feature: Feature) -> TableFeatures:
        """The same features without one."""
        readers, writers = ([name for name in part if name != feature.name] for part in (self.readers, self.writers))
        return TableFeatures(tuple(readers), tuple(writers))

    def to_text(self) -> str:
        """The value of the option."""
        parts = ((READER, self.readers), (WRITER, self.writers))
        return ";".join(f"{kind}={','.join(names)}" for kind, names in parts if names)

    def check_readable(self, table: str) -> None:
        """Raises UnsupportedFeature for a feature that readers must know and this version does not."""
        for name in self.readers:
            if name not in FEATURES:
                raise UnsupportedFeature(
                    f"table {table} uses the feature '{name}', which this version of lakelog cannot read: upgrade "
                    "lakelog. Nothing was read"
                )

    def check_writable(self) -> None:
        """Raises UnsupportedFeature for a feature that this version does not know, or that forbids writes."""
        for name in (*self.readers, *self.writers):
            if name not in FEATURES:
                raise UnsupportedFeature(
                    f"the table uses the feature '{name}' ('{FEATURES_KEY}'), which this version of lakelog cannot "
                    "write: upgrade lakelog. Nothing was written"
                )
        if REPLICA.name in self.writers:
            raise UnsupportedFeature(
                f"the table is a replica ('{FEATURES_KEY}'), which follows its source: write to the source, or make "
                "the replica a table of its own with 'lakelog promote'. Nothing was written"
            )
